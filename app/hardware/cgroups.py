"""Limits that containers and systemd slices put on the engine (Linux control groups, v1 and v2)."""

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

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


def groups_of(root: KernelPath, process: str = "self") -> str:
    """The kernel's list of a process's groups, empty where it cannot be read; `process` is its number, or "self"."""
    return read_text(root / f"proc/{process}/cgroup") or ""


def groups_apart(root: KernelPath = Path("/")) -> str:
    """This process's groups where they are not those of the process that started it; else empty.

    A process begins in its parent's groups. Desktops move a program into a group of its own a moment after its start,
    without what it has started by then, and administrators move whichever they like.
    """
    own, parents = groups_of(root), groups_of(root, str(os.getppid()))
    return own if parents and own != parents else ""


def memory_limits(root: KernelPath, total_bytes: int, groups: str) -> tuple[MemoryLimit, ...]:
    """Every limit that a process in these groups is under, of a machine with so much memory.

    Args:
        root: What stands for "/".
        total_bytes: The machine's main memory.
        groups: As `groups_of` gives them.
    """
    found = []
    for names, version in ((_MEMORY_V2, 2), (_MEMORY_V1, 1)):
        limit_names, use_name, reclaimable = names
        for group in _folders(root, "memory", version, groups):
            limits = [read_int(group / name) for name in limit_names]
            limit = min((each for each in limits if each is not None), default=total_bytes)
            if limit < total_bytes:  # version 1 writes "no limit" as a number near 2^63
                found.append(MemoryLimit(limit, group / use_name, group / "memory.stat", reclaimable))
    return tuple(found)


def limited_ram(root: KernelPath, machine: Ram, groups: str) -> Ram:
    """The machine's memory as a process in these groups may use it: cut by every memory limit of theirs."""
    return ram_under(memory_limits(root, machine.total_bytes, groups), machine)


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


def allowed_cpus(root: KernelPath, groups: str) -> int | None:
    """Whole CPUs' worth of time that quotas leave a process in these groups, rounded up; None where none is set."""
    quotas = []
    for group in _folders(root, "cpu", 2, groups):
        quota, _, period = (read_text(group / "cpu.max") or "").partition(" ")
        if quota.isdecimal() and period.isdecimal() and int(period):
            quotas.append(int(quota) / int(period))
    for group in _folders(root, "cpu", 1, groups):
        microseconds, period_microseconds = (read_int(group / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        if microseconds and period_microseconds and microseconds > 0:
            quotas.append(microseconds / period_microseconds)
    return max(1, math.ceil(min(quotas))) if quotas else None


def _is_folder(path: KernelPath) -> bool:
    try:
        return path.is_dir()
    except OSError:  # without the limits main memory is still told
        return False


def _folders(root: KernelPath, controller: str, version: int, groups: str) -> Iterator[KernelPath]:
    """Folders of a process's groups and of those above them: a limit on any of them binds.

    Inside a container the path may name folders that only the host sees; the mounted top is then the
    container's own group.
    """
    mount = root / "sys/fs/cgroup"
    for line in groups.splitlines():
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
