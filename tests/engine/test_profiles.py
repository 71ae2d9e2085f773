"""Routing profiles: heat survives the program, damage does not hurt."""

import logging
import os
import threading

import msgspec
import pytest

from app.engine import profiles
from app.engine.profiles import Profile, ProfileStore

HEAT = {0: (0.0, 1.25, 3.0), 4: (0.5, 0.0, 0.0)}
EXPERTS = {0: 3, 4: 3}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "profiles of 模型"


def file_of(folder):
    return folder / "3f1a.json"


def test_saved_heat_is_loaded_again(folder):
    ProfileStore(folder, "3f1a").save(HEAT)
    assert ProfileStore(folder, "3f1a").load(EXPERTS) == HEAT
    assert [path.name for path in folder.iterdir()] == ["3f1a.json"]


def test_other_models_have_files_of_their_own(folder):
    ProfileStore(folder, "3f1a").save(HEAT)
    assert ProfileStore(folder, "beef").load(EXPERTS) == {}


def test_layers_that_have_another_number_of_experts_are_left_out(folder):
    ProfileStore(folder, "3f1a").save(HEAT)
    assert ProfileStore(folder, "3f1a").load({0: 3, 4: 8, 9: 3}) == {0: HEAT[0]}


def test_heat_of_nothing_does_not_replace_what_was_learned(folder):
    ProfileStore(folder, "3f1a").save(HEAT)
    ProfileStore(folder, "3f1a").save({0: (0.0, 0.0, 0.0)})
    assert ProfileStore(folder, "3f1a").load(EXPERTS) == HEAT


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"fingerprint": "3f1a"}',
        b'{"more": ' + b"[" * 100_000,
        msgspec.json.encode(Profile(version=2, fingerprint="3f1a", heat=HEAT)),
        msgspec.json.encode(Profile(fingerprint="beef", heat=HEAT)),
        b'{"version": 1, "fingerprint": "3f1a", "heat": {"0": ["hot", 1, 2]}}',
    ],
)
def test_a_damaged_or_foreign_file_is_passed_over_with_a_warning_and_replaced_by_the_next(folder, data, caplog):
    folder.mkdir()
    file_of(folder).write_bytes(data)
    store = ProfileStore(folder, "3f1a")
    with caplog.at_level(logging.WARNING):
        assert store.load(EXPERTS) == {}
    assert "passed over" in caplog.text
    store.save(HEAT)
    assert ProfileStore(folder, "3f1a").load(EXPERTS) == HEAT


def test_impossible_heat_is_left_out(folder):
    folder.mkdir()
    file_of(folder).write_bytes(msgspec.json.encode(Profile(fingerprint="3f1a", heat={**HEAT, 0: (-1.0, 0.0, 0.0)})))
    assert ProfileStore(folder, "3f1a").load(EXPERTS) == {4: HEAT[4]}


def test_a_folder_that_cannot_be_made_is_a_warning_and_no_failure(tmp_path, caplog):
    (tmp_path / "file").write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        ProfileStore(tmp_path / "file" / "profiles", "3f1a").save(HEAT)
    assert "could not be saved" in caplog.text


def test_readers_see_the_old_profile_or_the_new_and_never_a_part(folder):
    store = ProfileStore(folder, "3f1a")
    hot = {0: tuple(float(number) for number in range(2000))}
    cold = {0: (1.0,) * 2000}
    store.save(cold)
    ended = threading.Event()

    def write():
        for index in range(40):
            store.save(hot if index % 2 else cold)
        ended.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = set()
    while not ended.is_set():
        seen.add(ProfileStore(folder, "3f1a").load({0: 2000})[0])
    thread.join()
    assert seen <= {hot[0], cold[0]}


def test_a_save_is_due_only_after_a_while(folder, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(profiles.time, "monotonic", lambda: now[0])
    store = ProfileStore(folder, "3f1a")
    assert not store.is_due()
    now[0] += profiles.SAVE_SECONDS
    assert store.is_due()
    store.save(HEAT)
    assert not store.is_due()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="everything may be written here")
def test_a_folder_without_permission_is_a_warning(folder, caplog):
    folder.mkdir(mode=0o500)
    with caplog.at_level(logging.WARNING):
        ProfileStore(folder, "3f1a").save(HEAT)
    assert "could not be saved" in caplog.text
