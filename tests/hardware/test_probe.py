"""The probe answers in time with what could be seen, and notes for the rest."""

import threading
import time
from pathlib import Path

import msgspec
import psutil
import pytest
from hardware_trees import (
    GEFORCE,
    GIB,
    LLVMPIPE,
    PlayedNvml,
    amd_card,
    hybrid_intel,
    machine_of_32_gib,
    no_nvml,
    taken_by,
    write,
)

from app.hardware.facts import EngineBuild, Machine, Ram
from app.hardware.probe import Sources, probe

BUILD = EngineBuild(
    llama_cpp_python="0.3.36", ggml="0.25.3", build="CPU + Vulkan", backends=("CPU", "Vulkan"), expert_device=True
)


@pytest.fixture
def recorded(tmp_path):
    """A recorded laptop below tmp_path, without an NVIDIA driver."""
    hybrid_intel(tmp_path)
    write(tmp_path, "etc/os-release", 'NAME="Fedora Linux"\nPRETTY_NAME="Fedora Linux 41 (Workstation)"')
    write(tmp_path, "proc/sys/kernel/osrelease", "6.11.4")
    return tmp_path


def look(root, **fields):
    return Sources(**({"root": root, "nvml": no_nvml, "memory": machine_of_32_gib, "system": "linux"} | fields))


def test_a_recorded_laptop_is_described_without_notes(recorded):
    machine = probe(recorded, (LLVMPIPE,), BUILD, look(recorded))
    assert machine.os.startswith("Fedora Linux 41 (Workstation), Linux 6.11.4")
    assert machine.cpu.performance_cores == 6
    assert machine.ram == machine_of_32_gib()
    assert machine.gpus == (msgspec.structs.replace(LLVMPIPE, unified=True),)
    assert machine.engine is BUILD
    assert machine.notes == ()


def test_a_missing_nvidia_driver_is_noted_only_where_there_is_an_nvidia_card(recorded):
    machine = probe(recorded, (GEFORCE,), BUILD, look(recorded))
    assert any("NVML" in note for note in machine.notes)
    assert machine.gpus == (msgspec.structs.replace(GEFORCE, unified=False),)


def test_a_card_the_engine_does_not_offer_is_noted(recorded):
    amd_card(recorded)
    assert any("no device" in note for note in probe(recorded, (), BUILD, look(recorded)).notes)
    (note,) = probe(recorded, (), None, look(recorded)).notes
    assert "the engine did not tell" in note


def test_a_raising_driver_is_a_note(recorded, caplog):
    def broken():
        raise RuntimeError("driver exploded")

    machine = probe(recorded, (GEFORCE,), BUILD, look(recorded, nvml=broken))
    assert machine.gpus == (msgspec.structs.replace(GEFORCE, unified=False),)
    assert any("driver exploded" in note for note in machine.notes)
    assert "driver exploded" in caplog.text


def test_a_hanging_driver_costs_only_the_time_given(recorded):
    played = PlayedNvml(hang=True)
    try:
        # Time enough for the sources that answer.
        begin = time.monotonic()
        machine = probe(recorded, (GEFORCE,), BUILD, look(recorded, nvml=lambda: played, seconds=1.5))
        assert 1.5 <= time.monotonic() - begin < 15
        assert played.entered.is_set()
    finally:
        played.released.set()
    assert machine.cpu.physical_cores == 14
    assert machine.gpus == (msgspec.structs.replace(GEFORCE, unified=False),)
    assert "The NVIDIA driver did not answer in time." in machine.notes
    assert played.closed.wait(5)


def test_every_source_hanging_at_once_still_costs_the_time_only_once(recorded):
    release = threading.Event()

    def hang():
        release.wait()
        return machine_of_32_gib()

    try:
        machine, taken = taken_by(
            lambda: probe(recorded, (GEFORCE,), BUILD, look(recorded, nvml=hang, memory=hang, seconds=1.5)), 2.9
        )
        assert taken < 2.9
    finally:
        release.set()
    assert machine.ram.total_bytes > 0
    assert len([note for note in machine.notes if "did not answer in time" in note]) == 2


def test_a_machine_without_kernel_files_gives_notes_not_errors(tmp_path):
    machine = probe(tmp_path, (), None, look(tmp_path))
    assert machine.cpu.logical_cores >= 1
    assert any("processor" in note for note in machine.notes)


def test_a_memory_limit_is_reported_and_explained(recorded):
    write(recorded, "proc/self/cgroup", "0::/")
    write(recorded, "sys/fs/cgroup/memory.max", 4 * GIB)
    write(recorded, "sys/fs/cgroup/memory.current", 1 * GIB)
    machine = probe(recorded, (), BUILD, look(recorded))
    assert machine.ram == Ram(total_bytes=4 * GIB, available_bytes=3 * GIB)
    assert any("4.0 GiB" in note for note in machine.notes)


def test_this_machine_is_described_truthfully_and_in_time(tmp_path):
    machine, taken = taken_by(lambda: probe(tmp_path / "models", (LLVMPIPE,), BUILD), 2)
    assert taken < 2
    cpu, ram, disk = machine.cpu, machine.ram, machine.disk
    assert cpu.logical_cores == psutil.cpu_count()
    assert 1 <= cpu.performance_cores <= cpu.physical_cores <= cpu.logical_cores
    assert cpu.name
    assert cpu.isa
    assert 0 < ram.available_bytes <= ram.total_bytes <= psutil.virtual_memory().total
    assert Path(disk.path) == tmp_path
    assert 0 <= disk.free_bytes <= disk.total_bytes
    assert disk.filesystem
    assert all(note.endswith(".") for note in machine.notes)
    assert msgspec.json.decode(msgspec.json.encode(machine), type=Machine) == machine
