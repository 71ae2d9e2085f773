"""The disk's measured speed is shown where what was measured is the models' folder or below it."""

import msgspec
import pytest
from factories import make_machine

from app.hardware.facts import EngineBuild
from app.hardware.fingerprint import engine_name, fingerprint
from app.library import calibrations
from app.library.disk_speed import with_disk_speed
from app.placement.speed.calibration import Calibration, DiskRate

BUILD = EngineBuild(llama_cpp_python="1", ggml="1", build="CPU", backends=("CPU",), expert_device=True)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    monkeypatch.setenv("EXPERT_LANES_HOME", str(tmp_path))
    made = msgspec.structs.replace(make_machine(), engine=BUILD)
    return msgspec.structs.replace(made, disk=msgspec.structs.replace(made.disk, path=str(tmp_path)))


def measured(machine, *rates):
    disk = tuple(
        DiskRate(path=str(path), slice_bytes=4096, parallel=parallel, bytes_per_second=rate)
        for path, parallel, rate in rates
    )
    made = Calibration(
        machine=fingerprint(machine),
        engine=engine_name(BUILD),
        measured_at="2026-06-01T00:00:00+00:00",
        seconds=1.0,
        disk=disk,
    )
    calibrations.keep(made)


def test_the_best_rate_below_the_models_folder_is_shown(machine, tmp_path):
    measured(machine, (tmp_path / "models", 1, 1e9), (tmp_path / "models", 8, 3e9), ("/elsewhere", 8, 9e9))
    assert with_disk_speed(machine).disk.read_bytes_per_second == 3e9


def test_another_folder_s_rate_is_not_this_disk_s(machine):
    measured(machine, ("/elsewhere", 8, 9e9))
    assert with_disk_speed(machine) == machine


def test_a_machine_that_was_not_measured_stays_as_it_is(machine):
    assert with_disk_speed(machine) == machine
    assert with_disk_speed(msgspec.structs.replace(machine, engine=None)).disk.read_bytes_per_second is None


def test_a_damaged_record_is_no_speed_and_is_logged(machine, caplog, tmp_path):
    measured(machine, (tmp_path, 1, 1e9))
    (record,) = [path for path in tmp_path.rglob("*.json") if path.is_file()]
    record.write_text("{")
    assert with_disk_speed(machine) == machine
    assert "not shown" in caplog.text
