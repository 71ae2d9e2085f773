"""Limits that containers and systemd slices put on this program (Linux control groups, v1 and v2)."""

import math
from collections.abc import Iterator

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


def limited_ram(root: KernelPath, machine: Ram) -> Ram:
    """The machine's memory as this program may use it: cut by every memory limit of its groups.

    What is available under a limit is the limit less what the group holds, the file pages aside,
    which the kernel drops before it refuses memory: the same sense as the machine's own figure.
    """
    total, available = machine.total_bytes, machine.available_bytes
    for names, version in ((_MEMORY_V2, 2), (_MEMORY_V1, 1)):
        limit_names, use_name, reclaimable_names = names
        for group in _groups(root, "memory", version):
            limits = [read_int(group / name) for name in limit_names]
            limit = min((each for each in limits if each is not None), default=machine.total_bytes)
            if limit >= machine.total_bytes:
                continue  # version 1 writes "no limit" as a number near 2^63
            statistics = read_fields(group / "memory.stat")
            held = (read_int(group / use_name) or 0) - sum(statistics.get(name, 0) for name in reclaimable_names)
            total = min(total, limit)
            available = min(available, max(0, limit - max(0, held)))
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


def _groups(root: KernelPath, controller: str, version: int) -> Iterator[KernelPath]:
    """Folders of this program's group and of those above it: a limit on any of them binds.

    Inside a container the path may name folders that only the host sees; the mounted top is then the
    container's own group.
    """
    mount = root / "sys/fs/cgroup"
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if version == 2 and number == "0" and not controllers:
            # Beside version 1 hierarchies, version 2 has a mount of its own.
            top = mount / "unified" if (mount / "unified").is_dir() else mount
        elif version == 1 and controller in controllers.split(","):
            top = mount / controller
        else:
            continue
        group = top / path.strip("/")
        while group != top:
            yield group
            group = group.parent
        yield top
