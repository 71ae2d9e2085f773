"""The routing of answers as the engine keeps it, read as evidence."""

import os

import numpy as np
import pytest
from factories import demo, make_gpu, make_machine, qwen3_30b
from made_traces import header, skewed_trace, write_trace

from app.errors import AppError, ErrorCode
from app.library import folders
from app.library.routing_records import recorded_hits, routing_folder
from app.library.speed_evidence import evidence_of
from app.placement.cache.trace import ENTRY, KEPT_BYTES, Trace, kept_name

FACTS = demo()
MACHINE = make_machine(make_gpu())


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv(folders.HOME_VARIABLE, str(tmp_path))


def path_of(facts=FACTS):
    return routing_folder() / kept_name(facts.fingerprint)


def record(facts=FACTS, **fields):
    given = {
        "tokens": 300,
        "layers": facts.moe_layers,
        "experts": facts.expert_count,
        "used": facts.experts_used,
        "fingerprint": facts.fingerprint,
    }
    path_of(facts).parent.mkdir(parents=True, exist_ok=True)
    write_trace(path_of(facts), skewed_trace(**{**given, **fields}))


def test_without_a_file_there_is_nothing():
    assert recorded_hits(FACTS) is None
    assert evidence_of(FACTS, MACHINE).recorded is None


def test_what_was_recorded_is_evidence_of_every_machine():
    record()
    found = recorded_hits(FACTS)
    assert (found.tokens, found.enough) == (300, True)
    assert set(found.layers) == set(FACTS.moe_layers)
    assert evidence_of(FACTS, MACHINE).recorded == found == evidence_of(FACTS, make_machine(cores=2)).recorded
    assert recorded_hits(qwen3_30b(fingerprint="another")) is None


def test_a_recording_that_goes_on_in_another_run_is_still_one(tmp_path):
    record(layers=FACTS.moe_layers[:3])
    assert set(recorded_hits(FACTS).layers) == set(FACTS.moe_layers[:3])


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:10]),
        lambda path: path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":9')),
        lambda path: write_trace(path, skewed_trace(layers=(0, 99), experts=8, fingerprint=FACTS.fingerprint)),
        lambda path: write_trace(path, skewed_trace(layers=(0,), experts=16, fingerprint=FACTS.fingerprint)),
        lambda path: write_trace(path, skewed_trace(layers=(0,), experts=8, fingerprint="beef")),
        lambda path: write_trace(
            path,
            Trace(
                header=header({0: 8}, fingerprint=FACTS.fingerprint),
                entries=np.array([(token, 0, 3, 0.5) for token in range(70) for _ in range(2)], dtype=ENTRY),
                lost=0,
            ),
        ),
    ],
    ids=["empty", "cut", "version", "layers", "experts", "model", "twice the same expert"],
)
def test_a_damaged_record_is_told_in_a_note_and_nothing_rests_on_it(damage):
    record()
    damage(path_of())
    with pytest.raises(AppError) as told:
        recorded_hits(FACTS)
    assert told.value.code in (ErrorCode.FILE_UNREADABLE, ErrorCode.BAD_USAGE)
    evidence = evidence_of(FACTS, MACHINE)
    assert evidence.recorded is None
    assert any(note.startswith("The recorded routing is not used:") for note in evidence.notes)


def test_a_record_larger_than_any_that_is_kept_is_not_read():
    record()
    os.truncate(path_of(), KEPT_BYTES + 1)
    with pytest.raises(AppError, match=r"is larger than 32\.0 MiB"):
        recorded_hits(FACTS)


def test_a_recording_with_another_top_k_is_not_the_models_routing():
    record(used=3)
    assert recorded_hits(FACTS) is None


def test_a_recording_of_no_token_is_none():
    path_of().parent.mkdir(parents=True)
    write_trace(
        path_of(),
        Trace(header=header({0: 8}, fingerprint=FACTS.fingerprint), entries=np.array([], dtype=ENTRY), lost=0),
    )
    assert recorded_hits(FACTS) is None
