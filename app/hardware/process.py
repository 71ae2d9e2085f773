"""What the engine's process holds of main memory, and how often it had to wait for the disk."""

import mmap
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from app.hardware.files import read_text
from app.hardware.sources import NotSeenError

_GONE = "The engine's process has ended."
# Fields of /proc/PID/stat, counted from the one after the name, which proc(5) numbers 3.
_STATE, _MAJOR_FAULTS, _START_TIME, _RSS_PAGES = 0, 9, 19, 21


@dataclass(frozen=True)
class ProcessUse:
    """A process now.

    Attributes:
        rss_bytes: Resident memory, pages of the mapped model file included.
        major_faults: Page faults since its start that waited for the disk; None where not counted.
    """

    rss_bytes: int
    major_faults: int | None


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
        return _LinuxProcess(root / f"proc/{pid}/stat")
    return _OtherProcess(pid)


def own_peak_bytes() -> int:
    """Most main memory that this process had in RAM since it was started; what is in use now where nobody keeps it."""
    for line in (read_text(Path("/proc/self/status")) or "").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    memory = psutil.Process().memory_info()
    return int(getattr(memory, "peak_wset", memory.rss))


class _LinuxProcess:
    def __init__(self, stat: Path) -> None:
        self._stat = stat
        self._page_bytes = mmap.PAGESIZE
        fields = self._fields()
        self._started = fields[_START_TIME] if fields else None

    def read(self) -> ProcessUse:
        fields = self._fields()
        # A process that ended but was not waited for yet (Z) still has its line, with no memory.
        if fields is None or fields[_STATE] in "ZX" or fields[_START_TIME] != self._started:
            raise NotSeenError(_GONE)
        return ProcessUse(rss_bytes=int(fields[_RSS_PAGES]) * self._page_bytes, major_faults=int(fields[_MAJOR_FAULTS]))

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
            return ProcessUse(rss_bytes=self._process.memory_info().rss, major_faults=None)
        except psutil.NoSuchProcess as error:
            raise NotSeenError(_GONE) from error
        except psutil.AccessDenied as error:
            raise NotSeenError("The system does not let this program look at the engine's memory.") from error
