"""Main memory: what the machine has, and what this program may have of it."""

import os
import sys
from collections.abc import Callable

import psutil

from app.hardware import cgroups
from app.hardware.facts import Ram
from app.hardware.sources import NotSeenError
from app.hardware.tree import KernelPath
from app.units import format_bytes

MachineMemory = Callable[[], Ram]


def machine_memory() -> Ram:
    """Main memory as the operating system reports it, limits aside."""
    memory = psutil.virtual_memory()
    return Ram(total_bytes=memory.total, available_bytes=memory.available)


def read_ram(root: KernelPath, machine: MachineMemory = machine_memory) -> tuple[Ram, tuple[str, ...]]:
    """Memory as this program may use it, and a note where a limit is lower than the machine's."""
    whole = machine()
    ram = cgroups.limited_ram(root, whole)
    if ram.total_bytes == whole.total_bytes:
        return ram, ()
    return ram, (
        f"A limit of {format_bytes(ram.total_bytes)} is set on this program's memory (control group); "
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
