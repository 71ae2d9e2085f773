"""What the engine's process holds of main memory, what it read from disks, and how often it had to wait for them."""

import mmap
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psutil

from app.hardware.files import read_fields, read_text
from app.hardware.sources import NotSeenError

_GONE = "The engine's process has ended."
# Fields of /proc/PID/stat, counted from the one after the name, which proc(5) numbers 3.
_STATE, _MAJOR_FAULTS, _START_TIME, _RSS_PAGES = 0, 9, 19, 21
_PEAK = "\nVmHWM:"


@dataclass(frozen=True)
class ProcessUse:
    """A process now.

    Attributes:
        rss_bytes: Resident memory, pages of the mapped model file included.
        major_faults: Page faults since its start that waited for the disk; None where not counted.
        peak_bytes: The most resident memory since its start; None where nobody keeps it.
        read_bytes: Bytes fetched from disks for it since its start; None where not counted.
        reasons: Name of a figure above to why it is None, or what it leaves out.
    """

    rss_bytes: int
    major_faults: int | None = None
    peak_bytes: int | None = None
    read_bytes: int | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)


class ProcessReader(Protocol):
    """One process, told apart from a later one that got the same number."""

    def read(self) -> ProcessUse:
        """The process now.

        Raises:
            NotSeenError: it has ended, or may not be looked at.
        """
        ...


def process_reader(pid: int, root: Path = Path("/"), system: str = sys.platform) -> ProcessReader:
    """The reader for this system; `root` is what stands for "/" on Linux."""
    if system.startswith("linux"):
        return _LinuxProcess(root / f"proc/{pid}")
    return _OtherProcess(pid)


def own_peak_bytes() -> int:
    """Most main memory that this process had in RAM since it was started; what is in use now where nobody keeps it."""
    peak = _peak_bytes(Path("/proc/self/status")) if sys.platform.startswith("linux") else None
    if peak is not None:
        return peak
    memory = psutil.Process().memory_info()
    return int(getattr(memory, "peak_wset", memory.rss))


def _peak_bytes(status: Path) -> int | None:
    _, found, rest = (read_text(status) or "").partition(_PEAK)
    return int(rest.split(None, 1)[0]) * 1024 if found else None


class _LinuxProcess:
    def __init__(self, folder: Path) -> None:
        self._stat, self._status, self._io = folder / "stat", folder / "status", folder / "io"
        self._page_bytes = mmap.PAGESIZE
        fields = self._fields()
        self._started = fields[_START_TIME] if fields else None

    def read(self) -> ProcessUse:
        fields = self._fields()
        # A process that ended but was not waited for yet (Z) still has its line, with no memory.
        if fields is None or fields[_STATE] in "ZX" or fields[_START_TIME] != self._started:
            raise NotSeenError(_GONE)
        reasons = {}
        peak_bytes = _peak_bytes(self._status)
        if peak_bytes is None:
            reasons["peak_bytes"] = "The kernel does not keep the peak of the engine's memory."
        # Pages of a mapped file count here too, in whose name ever the kernel fetched them.
        read_bytes = read_fields(self._io).get("read_bytes:")
        if read_bytes is None:
            reasons["read_bytes"] = "The kernel does not let this program see what is read for the engine."
        return ProcessUse(
            rss_bytes=int(fields[_RSS_PAGES]) * self._page_bytes,
            major_faults=int(fields[_MAJOR_FAULTS]),
            peak_bytes=peak_bytes,
            read_bytes=read_bytes,
            reasons=reasons,
        )

    def _fields(self) -> list[str] | None:
        # The name may hold blanks and brackets: what follows its last bracket is plain.
        fields = (read_text(self._stat) or "").rpartition(")")[2].split()
        return fields if len(fields) > _RSS_PAGES else None


class _OtherProcess:
    def __init__(self, pid: int) -> None:
        try:
            self._process: psutil.Process | None = psutil.Process(pid)
        except psutil.NoSuchProcess:
            self._process = None

    def read(self) -> ProcessUse:
        try:
            # is_running compares start times, so that another process with this number is not taken for it.
            if self._process is None or not self._process.is_running():
                raise NotSeenError(_GONE)
            memory = self._process.memory_info()
            ask = getattr(self._process, "io_counters", None)
            counters = ask() if ask else None
        except psutil.NoSuchProcess as error:
            raise NotSeenError(_GONE) from error
        except psutil.AccessDenied as error:
            raise NotSeenError("The system does not let this program look at the engine's memory.") from error
        reasons = {"major_faults": "This system does not count the page faults that wait for the disk."}
        peak = getattr(memory, "peak_wset", None)
        if peak is None:
            reasons["peak_bytes"] = "This system does not keep the peak of the engine's memory."
        # No program got as far as this without one access: such counters are not kept.
        read_bytes = counters.read_bytes if counters and any(counters) else None
        reasons["read_bytes"] = (
            "This system does not count what the engine reads."
            if read_bytes is None
            else "What the engine asked to read; pages of a mapped model file are not among it on this system."
        )
        return ProcessUse(rss_bytes=int(memory.rss), peak_bytes=peak, read_bytes=read_bytes, reasons=reasons)
