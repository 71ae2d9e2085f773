"""Which programs hold memory of graphics cards, by the kernel's or by Windows' count."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from app.hardware.drm_clients import DrmClients
from app.hardware.dxgi import Adapter
from app.hardware.facts import GpuProgram
from app.hardware.sources import NotSeenError
from app.hardware.windows_gpu import PROGRAM_DEDICATED, GpuCounters, program_bytes

# Names of a card's own memory, by driver: amdgpu, xe and i915.
_HEAPS = ("vram", "vram0", "local0")
# Main memory that a GPU in the processor uses.
_SHARED_HEAPS = ("gtt", "system", "system0")
_PID = re.compile(r"pid_(\d+)_")
_MOST_PROGRAMS = 32


@dataclass(frozen=True)
class CardUse:
    """A program's memory on one card of the kernel: its own, and main memory for it."""

    pci_id: str
    pid: int
    name: str
    own_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class CountedCards:
    """What Windows counts: its cards, and bytes by card (LUID) and program."""

    adapters: tuple[Adapter, ...]
    programs: tuple[tuple[int, GpuProgram], ...]


def read_kernel_programs(proc: Path, pci_ids: Sequence[str]) -> tuple[CardUse, ...]:
    """Every program that this user may look at, on the cards at `pci_ids`."""
    found = []
    for folder in proc.glob("[0-9]*"):
        if not folder.name.isdecimal() or not _draws(folder):
            continue
        pid = int(folder.name)
        clients = DrmClients(proc.parent, pid)
        for pci_id in pci_ids:
            own, shared = _held(clients, pci_id, _HEAPS), _held(clients, pci_id, _SHARED_HEAPS)
            if own or shared:
                found.append(CardUse(pci_id, pid, program_name(pid), own, shared))
    return tuple(sorted(found, key=lambda use: -use.own_bytes - use.shared_bytes))[:_MOST_PROGRAMS]


def read_counted(open_counters: Callable[[], GpuCounters]) -> CountedCards:
    """What Windows' performance counters say.

    Raises:
        NotSeenError: this is not Windows, or it has no such counters.
    """
    counters = open_counters()
    try:
        instances = counters.read().get(PROGRAM_DEDICATED, {})
        found = []
        for pid in sorted({int(match[1]) for name in instances if (match := _PID.match(name))}):
            for luid, size in program_bytes(instances, pid).items():
                if size:
                    found.append((luid, GpuProgram(name=program_name(pid), pid=pid, used_bytes=size)))
        found.sort(key=lambda entry: -(entry[1].used_bytes or 0))
        return CountedCards(tuple(counters.adapters), tuple(found[:_MOST_PROGRAMS]))
    finally:
        counters.close()


def program_name(pid: int) -> str:
    """A program's name without its folder and arguments."""
    try:
        return psutil.Process(pid).name() or f"process {pid}"
    except (psutil.Error, OSError, ValueError):
        return f"process {pid}"


def _draws(folder: Path) -> bool:
    """Whether a process has a card open; quick, for most have none."""
    try:
        return any(os.readlink(file).startswith("/dev/dri/") for file in (folder / "fd").iterdir())  # noqa: PTH115 - quick
    except OSError:
        return False  # another user's, or closed meanwhile


def _held(clients: DrmClients, pci_id: str, heaps: tuple[str, ...]) -> int:
    try:
        return clients.bytes_on(pci_id, heaps)
    except NotSeenError:
        return 0
