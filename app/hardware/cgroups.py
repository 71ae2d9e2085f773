"""Limits that containers and systemd slices put on this program (Linux control groups, v1 and v2)."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from app.hardware.facts import Ram
from app.hardware.files import read_fields, read_int, read_text
from app.hardware.tree import KernelPath

# File names by version: limits, use now, and the statistics that name what the kernel can take back.
_MEMORY_V2 = (
    ("memory.max", "memory.high"),
    "memory.current",
    ("inactive_file", "active_file", "slab_reclaimable"),
)
_MEMORY_V1 = (
    ("memory.limit_in_bytes",),
    "memory.usage_in_bytes",
    ("total_inactive_file", "total_active_file"),
)


@dataclass(frozen=True)
class MemoryLimit:
    """A group's limit that is lower than the machine's memory, in bytes, and where it tells what the group holds."""

    limit: int
    use: KernelPath
    statistics: KernelPath
    reclaimable: tuple[str, ...]


def memory_limits(root: KernelPath, total_bytes: int, process: str = "self") -> tuple[MemoryLimit, ...]:
    """Every limit that a process is under, of a machine with so much memory.

    Args:
        root: What stands for "/".
        total_bytes: The machine's main memory.
        process: Its number, or "self" for this program.
    """
    found = []
    for names, version in ((_MEMORY_V2, 2), (_MEMORY_V1, 1)):
        limit_names, use_name, reclaimable = names
        for group in _groups(root, "memory", version, process):
            limits = [read_int(group / name) for name in limit_names]
            limit = min((each for each in limits if each is not None), default=total_bytes)
            if limit < total_bytes:  # version 1 writes "no limit" as a number near 2^63
                found.append(MemoryLimit(limit, group / use_name, group / "memory.stat", reclaimable))
    return tuple(found)


def limited_ram(root: KernelPath, machine: Ram) -> Ram:
    """The machine's memory as this program may use it: cut by every memory limit of its groups."""
    return ram_under(memory_limits(root, machine.total_bytes), machine)


def ram_under(limits: Iterable[MemoryLimit], machine: Ram) -> Ram:
    """The machine's memory cut by these limits.

    What is available under a limit is the limit less what the group holds, the file pages aside,
    which the kernel drops before it refuses memory: the same sense as the machine's own figure.
    """
    total, available = machine.total_bytes, machine.available_bytes
    for each in limits:
        statistics = read_fields(each.statistics)
        held = (read_int(each.use) or 0) - sum(statistics.get(name, 0) for name in each.reclaimable)
        total = min(total, each.limit)
        available = min(available, max(0, each.limit - max(0, held)))
    return Ram(total_bytes=total, available_bytes=available)


def allowed_cpus(root: KernelPath) -> int | None:
    """Whole CPUs' worth of time that quotas leave this program, rounded up; None where none is set."""
    quotas = []
    for group in _groups(root, "cpu", 2):
        quota, _, period = (read_text(group / "cpu.max") or "").partition(" ")
        if quota.isdecimal() and period.isdecimal() and int(period):
            quotas.append(int(quota) / int(period))
    for group in _groups(root, "cpu", 1):
        microseconds, period_microseconds = (read_int(group / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        if microseconds and period_microseconds and microseconds > 0:
            quotas.append(microseconds / period_microseconds)
    return max(1, math.ceil(min(quotas))) if quotas else None


def _is_folder(path: KernelPath) -> bool:
    try:
        return path.is_dir()
    except OSError:  # without the limits main memory is still told
        return False


def _groups(root: KernelPath, controller: str, version: int, process: str = "self") -> Iterator[KernelPath]:
    """Folders of a process's group and of those above it: a limit on any of them binds.

    Inside a container the path may name folders that only the host sees; the mounted top is then the
    container's own group.
    """
    mount = root / "sys/fs/cgroup"
    for line in (read_text(root / f"proc/{process}/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if version == 2 and number == "0" and not controllers:
            # Beside version 1 hierarchies, version 2 has a mount of its own.
            top = mount / "unified" if _is_folder(mount / "unified") else mount
        elif version == 1 and controller in controllers.split(","):
            top = mount / controller
        else:
            continue
        group = top / path.strip("/")
        while group != top:
            yield group
            group = group.parent
        yield top
