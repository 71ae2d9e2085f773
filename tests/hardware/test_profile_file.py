"""Machines from files: what `probe` prints is read back, and what no machine can be is refused with its place."""

import json
import sys
from pathlib import Path

import msgspec
import pytest

from app.errors import AppError, ErrorCode
from app.hardware.facts import Cpu, Disk, EngineBuild, Gpu, GpuKind, Machine, Pcie, Ram
from app.hardware.profile_file import read_profile, with_memory

GIB = 1024**3
MACHINE = Machine(
    os="Windows 11",
    cpu=Cpu(name="处理器", physical_cores=8, performance_cores=6, logical_cores=16, isa=("avx2",)),
    ram=Ram(total_bytes=32 * GIB, available_bytes=20 * GIB),
    gpus=(
        Gpu(
            name="Card",
            backend="CUDA",
            device="CUDA0",
            kind=GpuKind.DISCRETE,
            total_bytes=8 * GIB,
            free_bytes=7 * GIB,
            pcie=Pcie(generation=1, lanes=16, max_generation=4, max_lanes=16),
        ),
    ),
    disk=Disk(path="C:\\models", total_bytes=None, free_bytes=None),
    engine=EngineBuild(llama_cpp_python="0.3.36", ggml="0.25.3", build="CUDA", backends=("CPU",), expert_device=True),
    notes=("A note.",),
)


@pytest.fixture
def write(tmp_path):
    def write_profile(data):
        path = tmp_path / "profil é.json"
        path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
        return path

    return write_profile


def changed(*place, to):
    """MACHINE as `probe --json` prints it, with the value at `place` changed."""
    data = msgspec.to_builtins(MACHINE)
    inner = data
    for key in place[:-1]:
        inner[key] = list(inner[key]) if isinstance(inner[key], tuple) else inner[key]
        inner = inner[key]
    inner[place[-1]] = to
    return data


def refused(path):
    with pytest.raises(AppError) as caught:
        read_profile(path)
    assert str(path) in caught.value.message
    return caught.value


def test_what_probe_prints_is_read_back(write):
    assert read_profile(write(msgspec.to_builtins(MACHINE))) == MACHINE


def test_fields_that_have_a_default_may_be_left_out(write):
    data = msgspec.to_builtins(MACHINE)
    del data["notes"], data["gpus"][0]["pcie"]
    data["engine"] = None
    assert read_profile(write(data)).engine is None


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("cpu", "cores"), 8, "'cpu.cores' is no field"),
        (("gpus", 0, "free_byte"), 8, "'gpus[0].free_byte' is no field"),
        (("vram",), 8, "'vram' is no field"),
        (("ram", "available_bytes"), -1, "ram.available_bytes is -1"),
        (("ram", "available_bytes"), 33 * GIB, "not from 0 to ram.total_bytes"),
        (("ram", "total_bytes"), 2**62, "64.0 TiB"),
        (("cpu", "physical_cores"), 0, "cpu.physical_cores is 0"),
        (("cpu", "performance_cores"), 9, "not from 1 to 8"),
        (("cpu", "logical_cores"), 4, "less than cpu.physical_cores"),
        (("cpu", "logical_cores"), 10**9, "cpu.logical_cores is 1,000,000,000"),
        (("cpu", "allowed_threads"), 0, "cpu.allowed_threads is 0"),
        (("gpus", 0, "free_bytes"), 9 * GIB, "gpus[0].free_bytes is"),
        (("gpus", 0, "total_bytes"), 2**60, "gpus[0].total_bytes is"),
        (("gpus", 0, "device"), "CPU", "no name of a GPU"),
        (("gpus", 0, "device"), "", "no name of a GPU"),
        (("gpus", 0, "device"), "None", "no name of a GPU"),
        (("gpus", 0, "device"), "auto", "no name of a GPU"),
        (("gpus", 0, "device"), "cpu ", "no name of a GPU"),
        (("gpus", 0, "device"), "\x1b]0;title\x07", "no name of a GPU"),
        (("gpus", 0, "context_bytes"), -1, "gpus[0].context_bytes is -1"),
        (("gpus", 0, "context_bytes"), 2**60, "gpus[0].context_bytes is"),
        (("gpus", 0, "pcie", "lanes"), -1, "gpus[0].pcie.lanes is -1"),
        (("gpus", 0, "pcie", "max_generation"), 900, "gpus[0].pcie.max_generation is 900"),
        (("engine_bytes",), -(2**40), "engine_bytes is"),
        (("engine_bytes",), 2**60, "engine_bytes is"),
        (("ram", "channels"), 0, "ram.channels is 0"),
        (("ram", "speed_mts"), 10**9, "ram.speed_mts is"),
        (("ram", "swap_free_bytes"), 1, "ram.swap_free_bytes is 1"),
        (("ram", "modules"), [{"slot": "A", "size_bytes": -1}], "ram.modules[0].size_bytes is -1"),
        (("cpu", "numa_nodes"), 0, "cpu.numa_nodes is 0"),
        (
            ("cpu", "caches"),
            [{"level": 1, "kind": "data", "size_bytes": 2, "total_bytes": 1}],
            "caches[0].size_bytes is 2",
        ),
        (("gpus", 0, "dedicated_bytes"), -1, "gpus[0].dedicated_bytes is -1"),
        (("gpus", 0, "programs"), [{"name": "x", "pid": 1, "used_bytes": -1}], "programs[0].used_bytes is -1"),
        (("power",), {"battery_percent": 101}, "power.battery_percent is 101"),
        (("cpu", "performance_cpus"), [0, -1], "cpu.performance_cpus[1] is -1"),
        (("gpus", 0, "kind"), "external", "external"),
        (("gpus",), msgspec.to_builtins(MACHINE)["gpus"] * 2, "two GPUs 'CUDA0'"),
        (("ram", "total_bytes"), "much", "ram.total_bytes"),
        (("cpu",), None, "cpu"),
        (("os",), " ", "os is empty"),
    ],
)
def test_what_no_machine_can_be_is_refused_with_its_place(write, place, value, words):
    error = refused(write(changed(*place, to=value)))
    assert error.code is ErrorCode.BAD_USAGE
    assert words in error.message


def test_a_disk_with_more_free_than_it_has_is_refused(write):
    data = changed("disk", "free_bytes", to=5)
    data["disk"]["total_bytes"] = 4
    assert "disk.free_bytes is 5" in refused(write(data)).message


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff\xfe{}", b'{"os": 1}', b"[" * 100_000])
def test_a_file_that_is_no_profile_is_refused(write, data):
    error = refused(write(data))
    assert error.code is ErrorCode.BAD_USAGE
    assert "probe --json" in error.message


def test_a_file_that_is_far_too_large_is_not_read_whole(write):
    assert "larger than 1.0 MiB" in refused(write(b" " * (1024**2 + 1))).message


def test_a_file_that_is_not_there_or_cannot_be_read_is_told(tmp_path):
    assert refused(tmp_path / "none.json").code is ErrorCode.FILE_MISSING
    assert refused(tmp_path).code is ErrorCode.FILE_UNREADABLE


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such file")
def test_an_endless_file_ends():
    assert refused(Path("/dev/zero")).code is ErrorCode.BAD_USAGE


# ---- what if ---------------------------------------------------------------------------------


def test_other_memory_is_free_and_makes_the_machine_larger_where_it_must():
    other = with_memory(MACHINE, vram_bytes=12 * GIB, ram_bytes=4 * GIB)
    assert (other.gpus[0].free_bytes, other.gpus[0].total_bytes) == (12 * GIB, 12 * GIB)
    assert (other.ram.available_bytes, other.ram.total_bytes) == (4 * GIB, 32 * GIB)
    none = with_memory(MACHINE, vram_bytes=0)
    assert (none.gpus[0].free_bytes, none.gpus[0].total_bytes) == (0, 8 * GIB)
    assert with_memory(MACHINE) == MACHINE


@pytest.mark.parametrize("name", ["vram_bytes", "ram_bytes"])
@pytest.mark.parametrize("size", [-1, 2**60])
def test_memory_that_no_machine_has_is_refused(name, size):
    with pytest.raises(AppError, match=r"64\.0 TiB") as caught:
        with_memory(MACHINE, **{name: size})
    assert caught.value.code is ErrorCode.BAD_USAGE


def test_graphics_memory_of_a_machine_without_a_gpu_is_refused():
    with pytest.raises(AppError, match="no GPU") as caught:
        with_memory(msgspec.structs.replace(MACHINE, gpus=()), vram_bytes=GIB)
    assert caught.value.code is ErrorCode.BAD_USAGE


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_a_profile_that_a_shell_or_an_editor_wrote_again_is_the_same(write, coding):
    text = json.dumps(msgspec.to_builtins(MACHINE), ensure_ascii=False)
    text = f"\ufeff{text}" if coding == "utf-16-be" else text
    assert read_profile(write(text.encode(coding))) == MACHINE
