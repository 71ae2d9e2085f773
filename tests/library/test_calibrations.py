"""Calibrations between runs: which one is found, and what is said of its age."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from factories import demo, make_machine

from app.errors import AppError, ErrorCode
from app.hardware.fingerprint import engine_name, fingerprint
from app.library import calibrations
from app.library.speed_evidence import evidence_of
from app.placement.speed.calibration import Calibration, ComputeRate

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("EXPERT_LANES_HOME", str(tmp_path))
    return tmp_path


def calibration(*, machine="mine", engine="1", days=0, types=("q4_K",)):
    """One that was measured `days` before NOW."""
    rates = tuple(ComputeRate(device="CPU", type=kind, bytes_per_second=1e9, flops_per_second=1e9) for kind in types)
    at = (NOW - timedelta(days=days)).isoformat()
    return Calibration(machine=machine, engine=engine, measured_at=at, seconds=20.0, compute=rates)


def find(*args, **options):
    return calibrations.find(*args, now=NOW, **options)


def test_nothing_is_found_on_a_machine_that_was_not_measured():
    assert find("mine", "1") is None


def test_the_newest_is_found():
    for days in (3, 1, 2):
        calibrations.keep(calibration(days=days))
    assert find("mine", "1").age_days == 1


def test_another_machine_s_or_engine_s_is_never_found():
    calibrations.keep(calibration())
    assert find("mine", "2") is None
    assert find("other", "1") is None


def test_the_newest_that_measured_the_types_is_preferred():
    calibrations.keep(calibration(days=5, types=("q4_K", "mxfp4")))
    calibrations.keep(calibration(days=1))
    assert find("mine", "1", frozenset({"mxfp4"})).age_days == 5
    assert find("mine", "1", frozenset({"q4_K"})).age_days == 1
    assert find("mine", "1", frozenset({"q8_0"})).age_days == 1, "a type that none measured: the newest"


@pytest.mark.parametrize(
    ("days", "aged", "words"),
    [
        (0, False, "This machine was measured today."),
        (1, False, "This machine was measured yesterday."),
        (90, False, "This machine was measured 90 days ago."),
        (91, True, "This machine was measured 91 days ago; that is long ago: measure it again."),
        (-3, False, "This machine was measured today."),
    ],
)
def test_an_old_one_is_still_used_and_said_to_be_old(days, aged, words):
    calibrations.keep(calibration(days=days))
    found = find("mine", "1")
    assert (found.aged, found.sentence) == (aged, words)


def test_only_so_many_are_kept():
    for days in range(calibrations.KEPT + 3, 0, -1):
        calibrations.keep(calibration(days=days, engine=str(days)))
    assert find("mine", str(calibrations.KEPT + 1)) is None
    assert find("mine", str(calibrations.KEPT)) is not None


def test_a_damaged_file_is_an_error_and_stays(home):
    calibrations.keep(calibration())
    path = next(home.rglob("calibration-mine.json"))
    path.write_text("{")
    with pytest.raises(AppError) as damaged:
        find("mine", "1")
    assert damaged.value.code is ErrorCode.FILE_UNREADABLE
    assert path.read_text() == "{"


def test_one_made_while_other_programs_were_busy_is_found_only_where_there_is_no_other():
    busy = msgspec.structs.replace(calibration(days=1), busy_share=0.6)
    calibrations.keep(busy)
    found = find("mine", "1")
    assert found.calibration == busy
    assert "measured while other programs were busy (with 60 % of the processor): measure again" in found.sentence
    calibrations.keep(calibration(days=5))
    assert find("mine", "1").age_days == 5


def test_what_is_gathered_for_predictions_leaves_a_misleading_one_out_with_a_note():
    machine = make_machine()
    mine = calibration(machine=fingerprint(machine), engine=engine_name(machine.engine))
    calibrations.keep(msgspec.structs.replace(mine, busy_share=0.6))
    evidence = evidence_of(demo(), machine)
    assert evidence.calibration is None
    (note,) = evidence.notes
    assert "measure again" in note
