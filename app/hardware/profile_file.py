"""Hardware profiles: a machine from a file, as `probe --json` prints it, and the same machine with other memory."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from app.errors import AppError, ErrorCode
from app.hardware.facts import Cpu, Gpu, Machine, Ram
from app.hardware.json_file import read_json
from app.units import format_bytes

_MOST_FILE_BYTES = 1024**2
"""A hundred times what a large workstation's profile takes."""
_MOST_MEMORY = 64 * 1024**4
"""Bytes; the largest servers sold have 32 TiB of main memory."""
_MOST_CORES = 65536
_MOST_SLOTS = 1024
_MOST_TRANSFERS = 100_000
"""Megatransfers a second; modules sold reach about 10,000."""
_MOST_LANES = 64
_MOST_GENERATION = 16
_NOT_DEVICES = ("cpu", "disk", "none", "auto")
"""Words that mean something else where a device can be named."""


def read_profile(path: Path) -> Machine:
    """The machine that the file describes.

    Raises:
        AppError: file_missing, file_unreadable; bad_usage, the file is no profile, has a field that a profile
            does not have, or a value that no machine has.
    """
    data = read_json(path, _MOST_FILE_BYTES, _no_profile)
    try:
        given = msgspec.json.decode(data)
        machine = msgspec.convert(given, Machine)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _no_profile(path, str(error)) from error
    for unknown in _unknown_fields(given, msgspec.to_builtins(machine), ""):
        raise _no_profile(path, f"'{unknown}' is no field of a profile")
    for doubt in doubts(machine):
        raise _no_profile(path, doubt)
    return machine


def with_memory(machine: Machine, *, vram_bytes: int | None = None, ram_bytes: int | None = None) -> Machine:
    """`machine` with other free memory: what a plan would be if so much were free.

    Args:
        machine: The machine.
        vram_bytes: Free bytes of every GPU; more than it has makes it larger. None leaves them as they are.
        ram_bytes: Available bytes of main memory, alike.

    Raises:
        AppError: bad_usage, no machine has so much, or there is no GPU.
    """
    for option, size in (("--vram", vram_bytes), ("--ram", ram_bytes)):
        if size is not None and not 0 <= size <= _MOST_MEMORY:
            shown = f"{size:,} bytes" if size < 0 else format_bytes(size)
            raise AppError(
                ErrorCode.BAD_USAGE,
                f"{option} {shown} is impossible: no machine has more than {format_bytes(_MOST_MEMORY)}.",
            )
    if vram_bytes is not None:
        if not machine.gpus:
            raise AppError(
                ErrorCode.BAD_USAGE,
                "--vram is impossible: this machine has no GPU whose memory could be another. "
                "A profile of one that has is read with --hardware.",
            )
        gpus = tuple(
            msgspec.structs.replace(gpu, free_bytes=vram_bytes, total_bytes=max(gpu.total_bytes, vram_bytes))
            for gpu in machine.gpus
        )
        machine = msgspec.structs.replace(machine, gpus=gpus)
    if ram_bytes is not None:
        total = max(machine.ram.total_bytes, ram_bytes)
        ram = msgspec.structs.replace(machine.ram, available_bytes=ram_bytes, total_bytes=total)
        machine = msgspec.structs.replace(machine, ram=ram)
    return machine


def _unknown_fields(given: Any, known: Any, place: str) -> Iterator[str]:
    """Places in `given` that did not become part of `known`."""
    if isinstance(given, Mapping) and isinstance(known, Mapping):
        for name, value in given.items():
            inside = f"{place}.{name}" if place else str(name)
            if name in known:
                yield from _unknown_fields(value, known[name], inside)
            else:
                yield inside
    elif isinstance(given, list) and isinstance(known, (list, tuple)):
        for index, (value, its) in enumerate(zip(given, known, strict=True)):
            yield from _unknown_fields(value, its, f"{place}[{index}]")


def doubts(machine: Machine) -> Iterator[str]:
    """Why the values cannot be those of a machine, each as the end of a sentence."""
    if not machine.os.strip():
        yield "os is empty"
    yield from _doubted_cpu(machine.cpu)
    ram = machine.ram
    yield from _doubted_memory("ram", ram.total_bytes, "available_bytes", ram.available_bytes)
    if not ram.total_bytes:
        yield "ram.total_bytes is 0"
    yield from _doubted_ram(ram)
    yield from _doubted_count("engine_bytes", machine.engine_bytes, 0, _MOST_MEMORY)
    if machine.power is not None:
        yield from _doubted_count("power.battery_percent", machine.power.battery_percent, 0, 100)
    for index, gpu in enumerate(machine.gpus):
        yield from _doubted_gpu(f"gpus[{index}]", gpu)
    yield from _repeated(gpu.device for gpu in machine.gpus)
    disk = machine.disk
    if disk.total_bytes is not None and disk.free_bytes is not None and not 0 <= disk.free_bytes <= disk.total_bytes:
        yield f"disk.free_bytes is {disk.free_bytes:,}, which is not from 0 to disk.total_bytes"


def _doubted_cpu(cpu: Cpu) -> Iterator[str]:
    bounds = (
        ("physical_cores", cpu.physical_cores, _MOST_CORES),
        ("logical_cores", cpu.logical_cores, _MOST_CORES),
        ("performance_cores", cpu.performance_cores, cpu.physical_cores),
        ("allowed_threads", cpu.allowed_threads, _MOST_CORES),
    )
    for name, count, most in bounds:
        yield from _doubted_count(f"cpu.{name}", count, 1, most)
    for index, number in enumerate(cpu.performance_cpus):
        yield from _doubted_count(f"cpu.performance_cpus[{index}]", number, 0, _MOST_CORES)
    yield from _doubted_count("cpu.numa_nodes", cpu.numa_nodes, 1, _MOST_CORES)
    for index, kind in enumerate(cpu.core_classes):
        yield from _doubted_count(f"cpu.core_classes[{index}].cores", kind.cores, 1, cpu.physical_cores)
    for index, cache in enumerate(cpu.caches):
        yield from _doubted_count(f"cpu.caches[{index}].total_bytes", cache.total_bytes, 1, _MOST_MEMORY)
        yield from _doubted_count(f"cpu.caches[{index}].size_bytes", cache.size_bytes, 1, cache.total_bytes)
    if cpu.logical_cores < cpu.physical_cores:
        yield f"cpu.logical_cores is {cpu.logical_cores:,}, less than cpu.physical_cores"


def _doubted_ram(ram: Ram) -> Iterator[str]:
    counts = (
        ("channels", ram.channels, 1, _MOST_SLOTS),
        ("free_slots", ram.free_slots, 0, _MOST_SLOTS),
        ("speed_mts", ram.speed_mts, 1, _MOST_TRANSFERS),
        ("swap_total_bytes", ram.swap_total_bytes, 0, _MOST_MEMORY),
        ("swap_free_bytes", ram.swap_free_bytes, 0, ram.swap_total_bytes or 0),
    )
    for name, count, least, most in counts:
        yield from _doubted_count(f"ram.{name}", count, least, most)
    for index, module in enumerate(ram.modules):
        yield from _doubted_count(f"ram.modules[{index}].size_bytes", module.size_bytes, 0, _MOST_MEMORY)
        for name in ("rated_mts", "speed_mts"):
            yield from _doubted_count(f"ram.modules[{index}].{name}", getattr(module, name), 1, _MOST_TRANSFERS)


def _doubted_gpu(place: str, gpu: Gpu) -> Iterator[str]:
    yield from _doubted_memory(place, gpu.total_bytes, "free_bytes", gpu.free_bytes)
    if not gpu.device.isprintable() or not gpu.device.strip() or gpu.device.strip().lower() in _NOT_DEVICES:
        yield f"{place}.device is {gpu.device!r}, which is no name of a GPU"
    yield from _doubted_count(f"{place}.context_bytes", gpu.context_bytes, 0, _MOST_MEMORY)
    yield from _doubted_count(f"{place}.dedicated_bytes", gpu.dedicated_bytes, 0, _MOST_MEMORY)
    yield from _doubted_count(f"{place}.shared_bytes", gpu.shared_bytes, 0, _MOST_MEMORY)
    for index, program in enumerate(gpu.programs):
        yield from _doubted_count(f"{place}.programs[{index}].used_bytes", program.used_bytes, 0, _MOST_MEMORY)
    if gpu.pcie is not None:
        for name, value in msgspec.structs.asdict(gpu.pcie).items():
            most = _MOST_LANES if name.endswith("lanes") else _MOST_GENERATION
            yield from _doubted_count(f"{place}.pcie.{name}", value, 0, most)


def _doubted_count(place: str, count: int | None, least: int, most: int) -> Iterator[str]:
    if count is not None and not least <= count <= most:
        yield f"{place} is {count:,}, which is not from {least:,} to {most:,}"


def _doubted_memory(place: str, total: int, name: str, free: int) -> Iterator[str]:
    if not 0 <= total <= _MOST_MEMORY:
        yield f"{place}.total_bytes is {total:,}, which is not from 0 to {format_bytes(_MOST_MEMORY)}"
    if not 0 <= free <= total:
        yield f"{place}.{name} is {free:,}, which is not from 0 to {place}.total_bytes ({total:,})"


def _repeated(devices: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for device in devices:
        if device in seen:
            yield f"there are two GPUs '{device}'"
        seen.add(device)


def _no_profile(path: Path, why: str) -> AppError:
    return AppError(
        ErrorCode.BAD_USAGE, f"{path} is no hardware profile as `expert-lanes probe --json` prints one: {why}."
    )
