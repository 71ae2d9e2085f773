"""Fetching a release's file: whole and genuine or not at all, and going on where it stopped."""

import shutil
from collections import namedtuple
from pathlib import Path

import pytest
from played_releases import CONTENT, PlayedTransport, make_file, make_release

from app.errors import AppError, ErrorCode
from app.library.file_lock import FileLock
from app.updates.download import download, drop_older, folder_of, sha256_of, updates_folder, verify

URL = "https://releases.test/package"
HALF = len(CONTENT) // 2


@pytest.fixture
def transport():
    return PlayedTransport({URL: CONTENT})


def fetch(transport, file=None, stopped=lambda: False, progress=None):
    report = progress.append if progress is not None else lambda _step: None
    return download(
        file or make_file(),
        URL,
        folder_of(make_release()),
        transport,
        lambda have, whole: report((have, whole)),
        stopped,
    )


def failure(transport, **keywords):
    with pytest.raises(AppError) as refused:
        fetch(transport, **keywords)
    return refused.value


def left():
    """What lies in the folder beside the lock's file."""
    return sorted(path.name for path in folder_of(make_release()).iterdir() if not path.name.startswith("."))


def cut(transport, after=HALF):
    """Have a download end in the middle."""
    transport.fails_after = after
    error = failure(transport)
    transport.fails_after = None
    return error


def test_a_file_is_fetched_into_the_folder_of_its_version(transport):
    path = fetch(transport)
    assert path == updates_folder() / "0.2.0" / "expert-lanes_0.2.0_amd64.deb"
    assert path.read_bytes() == CONTENT
    assert left() == [path.name], "no part of it is left"


def test_progress_goes_from_nothing_to_all_of_it(transport):
    progress = []
    fetch(transport, progress=progress)
    assert progress[0] == (0, len(CONTENT))
    assert progress[-1] == (len(CONTENT), len(CONTENT))
    assert progress == sorted(progress)


def test_what_is_there_already_is_not_fetched_again(transport):
    path = fetch(transport)
    transport.asked.clear()
    assert fetch(transport) == path
    assert transport.asked == []


def test_what_is_there_but_changed_is_fetched_again(transport):
    path = fetch(transport)
    path.write_bytes(b"changed")
    assert fetch(transport).read_bytes() == CONTENT


def test_after_a_break_only_the_rest_is_fetched(transport):
    assert cut(transport).code is ErrorCode.NO_NETWORK
    assert len(left()) == 1
    assert left()[0].endswith(".part")
    progress = []
    assert fetch(transport, progress=progress).read_bytes() == CONTENT
    assert transport.asked[-1] == (URL, HALF)
    assert progress[0] == (HALF, len(CONTENT))


def test_a_server_that_sends_all_of_it_again_is_taken_too(transport):
    cut(transport)
    transport.ranges = False
    assert fetch(transport).read_bytes() == CONTENT


def test_a_file_that_ends_early_is_told_and_gone_on_with(transport):
    transport.pages[URL], transport.says = CONTENT[:1000], len(CONTENT)
    error = failure(transport)
    assert error.code is ErrorCode.NO_NETWORK
    assert "1000 B" in error.message
    transport.pages[URL] = CONTENT
    assert fetch(transport).read_bytes() == CONTENT
    assert transport.asked[-1] == (URL, 1000)


def test_a_stop_keeps_what_is_there_and_gives_nothing_out(transport):
    asked = []

    def stopped():
        asked.append(True)
        return len(asked) > 2

    assert failure(transport, stopped=stopped).code is ErrorCode.CANCELLED
    assert left()[0].endswith(".part")
    assert fetch(transport).read_bytes() == CONTENT


def test_another_content_of_the_same_size_is_deleted_and_never_given_out(transport):
    transport.pages[URL] = bytes(len(CONTENT))
    assert failure(transport).code is ErrorCode.UPDATE_UNTRUSTED
    assert left() == []


def test_a_wrong_part_from_before_is_found_out_by_the_whole(transport):
    cut(transport)
    part = folder_of(make_release()) / left()[0]
    part.write_bytes(bytes(HALF))
    assert failure(transport).code is ErrorCode.UPDATE_UNTRUSTED
    assert left() == [], "the next try begins anew"
    assert fetch(transport).read_bytes() == CONTENT


def test_a_part_longer_than_the_file_is_begun_anew(transport):
    cut(transport)
    part = folder_of(make_release()) / left()[0]
    part.write_bytes(CONTENT + b"more")
    assert fetch(transport).read_bytes() == CONTENT
    assert transport.asked[-1] == (URL, 0)


def test_a_part_that_is_whole_needs_no_network(transport):
    cut(transport)
    (folder_of(make_release()) / left()[0]).write_bytes(CONTENT)
    transport.pages.clear()
    assert fetch(transport).read_bytes() == CONTENT


def test_a_server_whose_file_is_shorter_than_the_part_is_asked_from_the_beginning(transport):
    cut(transport)
    transport.pages[URL] = CONTENT[:100]
    assert failure(transport).code is ErrorCode.UPDATE_UNTRUSTED
    assert [start for _, start in transport.asked[-2:]] == [HALF, 0]


def test_a_server_that_says_another_size_is_not_listened_to(transport):
    transport.says = len(CONTENT) + 1
    assert failure(transport).code is ErrorCode.UPDATE_UNTRUSTED


def test_a_server_that_goes_on_and_on_is_stopped_after_the_size(transport):
    transport.pages[URL] = CONTENT + CONTENT
    transport.says = len(CONTENT)
    assert failure(transport).code is ErrorCode.UPDATE_UNTRUSTED
    assert not (folder_of(make_release()) / make_file().name).exists()


def test_a_disk_without_room_is_told_before_anything_is_fetched(transport, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(10, 10, 1000))
    assert failure(transport).code is ErrorCode.DISK_FULL
    assert transport.asked == []


def test_a_disk_that_does_not_say_what_is_free_is_told(transport, monkeypatch):
    def refuse(_path):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(shutil, "disk_usage", refuse)
    assert failure(transport).code is ErrorCode.FOLDER_NOT_WRITABLE


def test_two_windows_do_not_fetch_the_same_file(transport):
    folder = folder_of(make_release())
    folder.mkdir(parents=True)
    with FileLock(folder / make_file().name, on_wait=lambda: None):
        assert failure(transport).code is ErrorCode.BAD_USAGE


def test_an_appimage_can_be_started_at_once(transport):
    path = fetch(transport, file=make_file(kind="appimage", name="expert-lanes.AppImage"))
    assert path.stat().st_mode & 0o111 == 0o111


def test_a_file_that_was_changed_after_it_came_is_deleted_before_it_is_opened(transport):
    path = fetch(transport)
    verify(make_file(), path)
    path.write_bytes(bytes(len(CONTENT)))
    with pytest.raises(AppError) as refused:
        verify(make_file(), path)
    assert refused.value.code is ErrorCode.UPDATE_UNTRUSTED
    assert not path.exists()


def test_a_file_that_is_gone_is_told(tmp_path):
    with pytest.raises(AppError) as refused:
        verify(make_file(), tmp_path / "gone")
    assert refused.value.code is ErrorCode.FILE_MISSING


def test_the_hash_is_that_of_the_feed(tmp_path):
    (tmp_path / "file").write_bytes(CONTENT)
    assert sha256_of(tmp_path / "file") == make_file().sha256


def test_downloads_before_the_installed_version_go_and_its_own_stays_as_the_way_back():
    for name in ("0.0.9", "0.1.0", "0.2.0", "0.1", "notes", "0.0.8.part"):
        (updates_folder() / name).mkdir(parents=True)
        (updates_folder() / name / "file").write_text("x")
    (updates_folder() / "0.0.1").write_text("a file")
    drop_older("0.1.0")
    assert sorted(path.name for path in updates_folder().iterdir()) == [
        "0.0.1", "0.0.8.part", "0.1", "0.1.0", "0.2.0", "notes",
    ]  # fmt: skip


def test_downloads_that_cannot_be_listed_stay(monkeypatch):
    (updates_folder() / "0.0.9").mkdir(parents=True)

    def refuse(_path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    drop_older("0.1.0")
    assert (updates_folder() / "0.0.9").is_dir()


def test_without_downloads_there_is_nothing_to_drop():
    drop_older("0.1.0")
    assert not updates_folder().exists()
