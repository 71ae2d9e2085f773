"""Main memory: what the machine has, and what the engine may have of it."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import psutil

from app.hardware import cgroups
from app.hardware.facts import Ram
from app.hardware.files import read_text
from app.hardware.sources import NotSeenError
from app.hardware.tree import KernelPath
from app.units import format_bytes

MachineMemory = Callable[[], Ram]
_MEMINFO = Path("/proc/meminfo")


def machine_memory() -> Ram:
    """Main memory as the operating system reports it, limits aside."""
    if sys.platform.startswith("linux") and (told := parse_meminfo(read_text(_MEMINFO) or "")):
        return told
    memory = psutil.virtual_memory()
    return Ram(total_bytes=memory.total, available_bytes=memory.available)


def parse_meminfo(text: str) -> Ram | None:
    """What /proc/meminfo tells, a quarter of psutil's time; None before Linux 3.14, which does not tell it all."""
    told = {}
    for name in ("MemTotal:", "MemAvailable:"):
        words = text.partition(name)[2].split(None, 1)
        if not words or not words[0].isdecimal():
            return None
        told[name] = int(words[0]) * 1024
    total, available = told.values()
    return Ram(total_bytes=total, available_bytes=min(available, total))


def read_ram(
    root: KernelPath, machine: MachineMemory = machine_memory, system: str = sys.platform, groups: str = ""
) -> tuple[Ram, tuple[str, ...]]:
    """Memory as the engine may use it, and a note where a limit is lower than the machine's.

    Args:
        root: What stands for "/".
        machine: Asks the system.
        system: As in `sys.platform`.
        groups: The engine's control groups, as `cgroups.groups_of` gives them; this program's where that is empty.
    """
    whole = machine()
    if not system.startswith("linux"):
        return whole, ()
    ram = cgroups.limited_ram(root, whole, groups or cgroups.groups_of(root))
    if ram.total_bytes == whole.total_bytes:
        return ram, ()
    whose = "the engine's" if groups else "this program's"
    return ram, (
        f"A limit of {format_bytes(ram.total_bytes)} is set on {whose} memory (control group); "
        f"the machine has {format_bytes(whole.total_bytes)}.",
    )


def kernel_memory() -> Ram:
    """Main memory by the C library's count of pages: the last resort.

    `available_bytes` is then what is free, without the file cache that the kernel would give up.

    Raises:
        NotSeenError: this system has no such count.
    """
    if sys.platform == "win32":
        raise NotSeenError("The size of main memory cannot be read.")
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        return Ram(
            total_bytes=os.sysconf("SC_PHYS_PAGES") * page,
            available_bytes=os.sysconf("SC_AVPHYS_PAGES") * page,
        )
    except (ValueError, OSError) as error:
        raise NotSeenError(f"The size of main memory cannot be read: {error}.") from error
