"""Records in files: what is read back, and what is refused and stays as it is."""

import msgspec
import pytest

from app.errors import AppError, ErrorCode
from app.library import record_file
from app.library.calibrations import CalibrationRecord
from app.library.record_file import RecordFile
from app.library.speed_records import SpeedRecord
from app.placement.memory_learning import MemoryRecord
from app.placement.plan import Plan
from app.placement.speed.calibration import Calibration, ComputeRate, DiskRate, LayerCost
from app.placement.speed.learning import Observation


class Note(msgspec.Struct):
    text: str
    version: int = 3


@pytest.fixture
def file(tmp_path):
    return RecordFile(tmp_path / "folder" / "note é.json", Note, 3)


def refused(file, data):
    file.path.parent.mkdir(exist_ok=True)
    file.path.write_bytes(data)
    with pytest.raises(AppError) as caught:
        file.read()
    with pytest.raises(AppError):
        file.change(lambda before: before)
    assert caught.value.code is ErrorCode.FILE_UNREADABLE
    assert file.path.read_bytes() == data
    return caught.value.message


def test_what_is_kept_is_read_back(file):
    assert file.read() is None
    file.change(lambda before: Note(text=f"{before} and on"))
    assert file.read() == Note(text="None and on")


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"null", b"[]", b"\0" * 99, b"\xff\xfe", b'{"version": 3}', b'{"version": 3, "text": 1}',
     b'{"text": "a"}', b'{"version": "3", "text": "a"}', b'{"version": 3, "more": ' + b"[" * 100_000,
     b'{"version": 3, "text": NaN}'],
)  # fmt: skip
def test_a_damaged_record_is_refused_and_stays(file, data):
    assert refused(file, data).startswith(f"{file.path} is damaged; once it is moved away")


def test_a_file_larger_than_any_record_is_refused_unread(file, monkeypatch):
    file.change(lambda before: Note(text="kept"))
    monkeypatch.setattr(record_file, "LARGEST_BYTES", 100)
    assert "larger than 100 B" in refused(file, b'{"version": 3, "text": "' + b"a" * 100 + b'"}')


def test_a_record_that_could_not_be_read_again_is_not_written(file, monkeypatch):
    file.change(lambda before: Note(text="kept"))
    monkeypatch.setattr(record_file, "LARGEST_BYTES", 100)
    with pytest.raises(AppError, match="larger than 100 B"):
        file.change(lambda before: Note(text="a" * 100))
    assert file.read() == Note(text="kept")


def test_a_file_that_another_program_does_not_let_go_is_given_up(file, monkeypatch):
    file.change(lambda before: Note(text="kept"))
    monkeypatch.setattr(record_file, "WAIT_SECONDS", 0.0)

    def meanwhile(before):
        with pytest.raises(AppError, match="is being changed by another program") as caught:
            file.change(lambda before: Note(text="lost"))
        assert caught.value.code is ErrorCode.FOLDER_NOT_WRITABLE
        return Note(text="and on")

    file.change(meanwhile)
    assert file.read() == Note(text="and on")


def test_another_version_is_named_whatever_its_fields_are(file):
    assert "version 99; this app reads version 3" in refused(file, b'{"version": 99, "words": ["a"]}')


# ---- numbers that nothing can have -------------------------------------------------------------

CALIBRATION = Calibration(
    machine="m",
    engine="e",
    measured_at="2026-01-01",
    seconds=20.0,
    compute=(ComputeRate(device="CPU", type="q4_K", threads=4, bytes_per_second=1e10, flops_per_second=1e11),),
    layer_costs=(LayerCost(device="CPU", seconds=1e-5),),
    disk=(DiskRate(path="/", slice_bytes=4096, parallel=1, bytes_per_second=1e9),),
)
OBSERVATION = Observation(
    plan=Plan(model_files=(), gpu=None, expert_lanes={0: "CPU"}, n_ctx=512),
    hit_rate=0.5,
    decode_tokens_per_second=10.0,
    prompt_tokens_per_second=0.0,
    prompt_tokens=10,
    context_tokens=100,
    spare_ram_bytes=-5,
    at="2026-01-01T00:00:00+00:00",
)
OVERHEAD = {"machine": "m", "device": "CPU", "backend": "CPU", "samples": [1024]}


@pytest.mark.parametrize("value", [0, -5, 1e300, 1e-300])
@pytest.mark.parametrize("place", [("compute", "bytes_per_second"), ("compute", "flops_per_second"),
                                   ("disk", "bytes_per_second")])  # fmt: skip
def test_a_rate_that_nothing_has_is_damage(tmp_path, place, value):
    fields = msgspec.to_builtins(CALIBRATION)
    fields[place[0]][0][place[1]] = value
    refused(RecordFile(tmp_path / "c.json", CalibrationRecord, 1), record(machine="m", calibrations=[fields]))


@pytest.mark.parametrize(("name", "value"), [("threads", -1), ("tokens", 0), ("spread", -1), ("threads", 2**62)])
def test_a_count_that_nothing_has_is_damage(tmp_path, name, value):
    fields = msgspec.to_builtins(CALIBRATION)
    fields["compute"][0][name] = value
    refused(RecordFile(tmp_path / "c.json", CalibrationRecord, 1), record(machine="m", calibrations=[fields]))


@pytest.mark.parametrize(
    ("name", "value"),
    [("hit_rate", 5), ("hit_rate", -1), ("decode_tokens_per_second", -1), ("decode_tokens_per_second", 1e300),
     ("prompt_tokens_per_second", -1), ("context_tokens", 2**62), ("context_tokens", -1), ("prompt_tokens", -1),
     ("spare_ram_bytes", -(2**62))],
)  # fmt: skip
def test_an_answer_that_nobody_had_is_damage(tmp_path, name, value):
    fields = {**msgspec.to_builtins(OBSERVATION, str_keys=True), name: value}
    data = record(model="m", machine="m", engine="e", observations=[fields])
    refused(RecordFile(tmp_path / "s.json", SpeedRecord, 1), data)


@pytest.mark.parametrize("samples", [[], [-1], [1024, 2**45]])
def test_memory_that_no_driver_takes_is_damage(tmp_path, samples):
    data = record(overheads=[{**OVERHEAD, "samples": samples}])
    refused(RecordFile(tmp_path / "m.json", MemoryRecord, 1), data)


def test_records_without_damage_are_read(tmp_path):
    whole = {
        CalibrationRecord: record(machine="m", calibrations=[msgspec.to_builtins(CALIBRATION)]),
        SpeedRecord: record(
            model="m", machine="m", engine="e", observations=[msgspec.to_builtins(OBSERVATION, str_keys=True)]
        ),
        MemoryRecord: record(overheads=[OVERHEAD]),
    }
    for kind, data in whole.items():
        path = tmp_path / f"{kind.__name__}.json"
        path.write_bytes(data)
        assert RecordFile(path, kind, 1).read() is not None


def record(**fields):
    return msgspec.json.encode({"version": 1, **fields})
