"""Records of watched models: written as they are read, and refused in words where they are damaged or lie."""

import json
import re
from pathlib import Path, PureWindowsPath

import msgspec
import pytest
from doctor_factories import SNAPSHOTS, machine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rule_cases import MACHINES, RECORDS, seen_in

from app.doctor.diagnosis import RULES, examine
from app.doctor.observation import Observation, SilentFile
from app.doctor.record import (
    FilesLine,
    ModelLine,
    SampleLine,
    SilentLine,
    folders_of,
    observed,
    read_record,
    write_record,
)
from app.errors import AppError, ErrorCode
from app.hardware.engine_files import EngineFiles
from app.hardware.samples import Sample
from app.hardware.snapshot import read_snapshot, write_snapshot

THRASH = (SNAPSHOTS / "experts_thrash.jsonl").read_bytes()


def beside(folder, data, name="run.jsonl"):
    """A record in a folder of its own, with the machines that records name."""
    for snapshot in MACHINES:
        if snapshot.encode() in data:
            (folder / snapshot).write_bytes((SNAPSHOTS / snapshot).read_bytes())
    path = folder / name
    path.write_bytes(data)
    return path


def edited(data, number, edit):
    """The record with one line's JSON changed."""
    lines = data.splitlines()
    its = json.loads(lines[number])
    edit(its)
    lines[number] = json.dumps(its).encode()
    return b"\n".join(lines) + b"\n"


def refused(path):
    with pytest.raises(AppError) as caught:
        read_record(path)
    assert caught.value.code is ErrorCode.BAD_USAGE
    assert path.name in caught.value.message or "snapshot" in caught.value.message
    return caught.value.message


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_that_is_written_again_is_judged_alike(name, tmp_path):
    record = read_record(SNAPSHOTS / name)
    snapshot = record.head.snapshot
    snapshot = read_snapshot(SNAPSHOTS / snapshot) if isinstance(snapshot, str) else snapshot
    write_record(tmp_path / "again.jsonl", snapshot, record.lines)
    again = read_record(tmp_path / "again.jsonl")
    assert again.lines == record.lines
    assert again.observation() == record.observation()
    assert again.head.origin == "recorded"


def test_paths_of_models_and_home_are_taken_out(tmp_path):
    record = read_record(SNAPSHOTS / "experts_thrash.jsonl")
    snapshot = read_snapshot(SNAPSHOTS / record.head.snapshot)
    write_record(tmp_path / "run.jsonl", snapshot, record.lines, [Path("/home/user/models"), Path("/")])
    lines = (tmp_path / "run.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    assert not any("/home/user" in line for line in lines)
    assert read_record(tmp_path / "run.jsonl").observation().facts.files == ("(scrubbed)/Qwen3-30B-A3B-Q4_K_M.gguf",)


def test_the_folders_of_a_models_files_are_found_as_lines_name_them():
    record = read_record(SNAPSHOTS / "experts_thrash.jsonl")
    assert set(folders_of(record.lines)) == {Path("/home/user/models")}
    silent = SilentLine(file=SilentFile(path="/mnt/stick/m.gguf", seconds=15.0, step="load"))
    assert list(folders_of([silent])) == [Path("/mnt/stick")]


def test_a_windows_folder_is_taken_out_in_whatever_case_it_is_written(tmp_path):
    snapshot = read_snapshot(SNAPSHOTS / MACHINES[0])
    silent = SilentLine(file=SilentFile(path=r"c:\users\Ann\models\m.gguf", seconds=15.0, step="load"))
    write_record(tmp_path / "run.jsonl", snapshot, [silent], [PureWindowsPath(r"C:\Users\ann\Models")])
    assert read_record(tmp_path / "run.jsonl").observation().silent_file.path == r"(scrubbed)\m.gguf"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no file here is always full")
def test_a_full_disk_is_told_as_that():
    snapshot = read_snapshot(SNAPSHOTS / MACHINES[0])
    full = Path("/dev/full")
    for write in (lambda: write_record(full, snapshot, ()), lambda: write_snapshot(full, snapshot)):
        with pytest.raises(AppError) as caught:
            write()
        assert caught.value.code is ErrorCode.DISK_FULL


def test_a_record_that_cannot_be_written_or_is_not_there_is_told(tmp_path):
    snapshot = read_snapshot(SNAPSHOTS / MACHINES[0])
    with pytest.raises(AppError) as caught:
        write_record(tmp_path / "none" / "run.jsonl", snapshot, ())
    assert caught.value.code is ErrorCode.FOLDER_NOT_WRITABLE
    with pytest.raises(AppError) as caught:
        read_record(tmp_path / "none.jsonl")
    assert caught.value.code is ErrorCode.FILE_MISSING


@pytest.mark.parametrize("coding", ["utf-16", "utf-8-sig"])
def test_a_record_that_a_shell_or_an_editor_wrote_again_is_the_same(coding, tmp_path):
    """PowerShell's `>` writes UTF-16 with Windows' ends of lines, and editors mark UTF-8."""
    text = THRASH.decode().replace("\n", "\r\n")
    once = read_record(beside(tmp_path, THRASH))
    (tmp_path / "again.jsonl").write_bytes(text.encode(coding))
    assert read_record(tmp_path / "again.jsonl") == once


# ---- damaged and lying -------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.77, 0.999])
def test_a_record_that_was_cut_off_is_refused(share, tmp_path):
    assert "cut off" in refused(beside(tmp_path, THRASH[: int(len(THRASH) * share)]))


def test_a_record_that_ends_early_is_judged_by_what_is_there(tmp_path):
    """Cut between two lines: what is missing is not judged, and nothing is advised from it."""
    lines = THRASH.splitlines(keepends=True)
    for count in range(1, len(lines)):
        seen = read_record(beside(tmp_path, b"".join(lines[:count]))).observation()
        told = examine(seen)
        assert "thrashing" not in told.fine or seen.cache is not None
        assert len({*told.fine, *(its.rule for its in told.not_judged), *(its.rule for its in told.hints)}) == len(
            RULES
        )


@pytest.mark.parametrize(
    ("number", "place", "value", "words"),
    [
        (0, ("version",), 2, "version 2"),
        (0, ("origin",), "dreamt", "dreamt"),
        (0, ("snapshot",), "../secret.json", "beside it"),
        (0, ("snapshot",), "C:\\x.json", "beside it"),
        (0, ("extra",), 1, "unknown field"),
        (1, ("facts", "file_bytes"), -5, "file_bytes is -5"),
        (1, ("facts", "file_bytes"), "much", "line 2"),
        (1, ("facts", "file_bytes"), 2**70, "line 2"),
        (1, ("facts", "moe_layers"), [0, 1], "expert layers are not"),
        (1, ("plan", "threads"), 0, "thread"),
        (1, ("plan", "kv_type"), "f8", "no plan has"),
        (1, ("facts", "kv_layers", 3, "ratio"), 0, "no model has such layers"),
        (2, ("seconds",), None, "line 3"),
        (3, ("sample", "ram_available_bytes"), -1, "ram_available_bytes is -1"),
        (3, ("sample", "time_seconds"), "now", "line 4"),
        (4, ("decode", "cold_bytes"), -7, "cold_bytes is -7"),
        (4, ("memory", "resident_bytes"), 2**50, "more of the experts is in memory than there is"),
        (4, ("memory", "trusted_bytes"), 2**50, "trusted than there is"),
    ],
)
def test_a_figure_that_cannot_be_is_refused_with_its_place(number, place, value, words, tmp_path):
    def edit(line):
        for name in place[:-1]:
            line = line[name]
        line[place[-1]] = value

    assert words in refused(beside(tmp_path, edited(THRASH, number, edit)))


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"[]\n",
        b"\xff\n",
        b'{"type": "token", "text": "x", "count": 1}\n',
        THRASH.splitlines(keepends=True)[1],
        THRASH.splitlines(keepends=True)[0] * 2,
        re.sub(rb'"time_seconds":[\d.]+', b'"time_seconds":NaN', THRASH),
        re.sub(rb'"time_seconds":[\d.]+', b'"time_seconds":1e999', THRASH),
        b"[" * 100_000 + b"\n",
    ],
    ids=["blank", "list", "bytes", "other event", "no head", "two heads", "NaN", "endless", "deep"],
)
def test_what_is_no_record_is_refused(data, tmp_path):
    refused(beside(tmp_path, data))


def test_a_load_without_its_model_is_refused(tmp_path):
    lines = THRASH.splitlines(keepends=True)
    assert "no model" in refused(beside(tmp_path, b"".join((lines[0], *lines[2:]))))


def test_a_missing_or_damaged_machine_is_refused(tmp_path):
    path = beside(tmp_path, THRASH)
    (snapshot,) = tmp_path.glob("*.json")
    snapshot.write_text("{}")
    refused(path)
    snapshot.unlink()
    with pytest.raises(AppError) as caught:
        read_record(path)
    assert caught.value.code is ErrorCode.FILE_MISSING


def places_of_numbers(data, place=()):
    """Where the numbers of a line are."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from places_of_numbers(value, (*place, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from places_of_numbers(value, (*place, index))
    elif isinstance(data, (int, float)) and not isinstance(data, bool):
        yield place


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_records_with_any_numbers_are_refused_in_words_or_judged(data, tmp_path):
    name = data.draw(st.sampled_from([name for name in RECORDS if "recorded" not in name]))
    lines = (SNAPSHOTS / name).read_bytes().splitlines()
    number = data.draw(st.integers(1, len(lines) - 1))
    line = json.loads(lines[number])
    every = sorted(places_of_numbers(line), key=str)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.sampled_from(every)) if every else ()
        its = line
        for step in place[:-1]:
            its = its[step]
        if place:
            its[place[-1]] = data.draw(
                st.sampled_from([0, -1, 1, 2, 2**31, 2**62, 0.5, 1e300, None, "1", True]) | st.integers(0, 2**40)
            )
    lines[number] = json.dumps(line).encode()
    path = beside(tmp_path, b"\n".join(lines) + b"\n")
    try:
        seen = read_record(path).observation()
    except AppError:
        return
    assert len(examine(seen).hints) <= 3 * len(RULES)


# ---- sources that are missing ------------------------------------------------------------------


@pytest.mark.parametrize("name", RECORDS)
def test_without_samples_or_facts_of_the_cache_nothing_is_advised_from_them(name):
    seen = msgspec.structs.replace(seen_in(name), cache=None, earlier=(), decoding=(), latest=None, answers=None)
    told = {hint.rule for hint in examine(seen).hints}
    assert not told & {"spill", "thrashing", "warm-up", "gpu-throttled", "hot-experts", "context"}


def test_each_load_and_each_answer_begins_anew():
    record = read_record(SNAPSHOTS / "experts_thrash.jsonl")
    once, twice = (
        record.observation(),
        observed(Observation(machine=record.machine), (*record.lines, *record.lines[1:])),
    )
    assert twice == once
    longer = observed(once, (SampleLine(sample=Sample(time_seconds=9.0), decoding=False),))
    assert longer.latest == Sample(time_seconds=9.0)


def test_lines_of_a_machine_alone_are_a_record_too(tmp_path):
    snapshot = read_snapshot(SNAPSHOTS / "laptop_ryzen_uma.json")
    write_record(tmp_path / "run.jsonl", snapshot, [FilesLine(files=EngineFiles(checked=3))])
    seen = read_record(tmp_path / "run.jsonl").observation()
    assert seen == Observation(machine=machine("laptop_ryzen_uma"), engine_files=EngineFiles(checked=3))
    assert not any(isinstance(line, ModelLine) for line in read_record(tmp_path / "run.jsonl").lines)


def test_a_later_version_is_named_also_where_it_has_fields_that_this_one_does_not_know(tmp_path):
    later = edited(THRASH, 0, lambda head: head.update(version=2, colour="red"))
    assert "of version 2, and this app reads 1" in refused(beside(tmp_path, later))


def test_a_snapshot_is_told_to_be_one(tmp_path):
    path = tmp_path / "machine.jsonl"
    path.write_bytes((SNAPSHOTS / MACHINES[0]).read_bytes())
    assert "`doctor --snapshot` reads" in refused(path)
