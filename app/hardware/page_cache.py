"""How much of a file the operating system holds in memory, asked without touching a byte of it (Linux: mincore)."""

import ctypes
import mmap
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from app.hardware.sources import NotSeenError

EXACT_PAGES = 16_384
"""A file of at most so many pages is looked at whole."""
PLACES = 1_024
"""Pages looked at of a larger one, evenly spread: a share is right to ±3 % in 19 of 20 readings at worst."""
_GOLDEN = 0.618034  # Consecutive readings look at other pages, and never at the same in a short cycle.
_NO_ACCESS = 0  # PROT_NONE: whatever happens, this program cannot bring a page in through its mapping.
_FAILED = ctypes.c_void_p(-1).value


class FileShare(Protocol):
    """Tells the share of some files that is in memory.

    Attributes:
        leaves_out: What the figure does not tell, as a sentence; else empty.
    """

    leaves_out: str

    def share(self) -> float:
        """The share now, 0 to 1; raises `NotSeenError`."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


def tells_of(path: Path) -> bool:
    """Whether the system tells this user which pages of a file are in memory: Linux calls all of another owner's there.

    Raises:
        OSError: the file cannot be looked at.
    """
    if not sys.platform.startswith("linux"):
        return True
    return os.geteuid() in (0, path.stat().st_uid) or os.access(path, os.W_OK)


def places(pages: int, phase: float) -> Sequence[int]:
    """The pages of so many that are looked at: all, or some that `phase`, 0 to 1, chooses."""
    if pages <= EXACT_PAGES:
        return range(pages)
    step = pages / PLACES
    return [int((place + phase) * step) for place in range(PLACES)]


def next_phase(phase: float) -> float:
    """The `phase` of the next reading."""
    return (phase + _GOLDEN) % 1.0


class FileCache:
    """The share of some files that is in memory: a `FileShare` for Linux. Used by one thread."""

    leaves_out = ""

    def __init__(self, paths: Sequence[str], *, system: str = sys.platform) -> None:
        """Map the files.

        Raises:
            NotSeenError: this system does not tell, or does not tell this user.
        """
        self._files: list[_MappedFile] = []
        self._phase = 0.0
        if not system.startswith("linux"):
            raise NotSeenError(f"How much of the model file is in memory is not measured on {system}.")
        try:
            for path in paths:
                self._files.append(_MappedFile(Path(path)))
        except NotSeenError:
            self.close()
            raise

    def share(self) -> float:
        """The share in memory now, 0 to 1, over all files by their pages.

        Raises:
            NotSeenError: the kernel does not answer.
        """
        self._phase = next_phase(self._phase)
        pages = sum(file.pages for file in self._files)
        if not pages:
            raise NotSeenError("The model file is empty.")
        return sum(file.share(self._phase) * file.pages for file in self._files) / pages

    def close(self) -> None:
        """Take the mappings back."""
        for file in self._files:
            file.close()
        self._files = []


class _MappedFile:
    def __init__(self, path: Path) -> None:
        # PyDLL keeps the interpreter's lock: giving it back 1,024 times would cost more than the calls.
        self._libc = ctypes.PyDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = [
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_long,
        ]
        self._libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self._libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise NotSeenError(f"The model file {path} cannot be looked at: {why}.") from error
        try:
            facts = os.fstat(file)
            if not stat.S_ISREG(facts.st_mode):
                raise NotSeenError("How much of it is in memory is told of plain files only.")
            # To others the kernel answers "all of it" since Linux 5.2, which would be a lie here.
            if not tells_of(path):
                raise NotSeenError("The kernel tells only a file's owner how much of it is in memory.")
            self._size = facts.st_size
            self.pages = -(-self._size // mmap.PAGESIZE)
            self._address = 0
            if self._size:
                address = self._libc.mmap(None, self._size, _NO_ACCESS, mmap.MAP_SHARED, file, 0)
                if address in (None, _FAILED):
                    raise NotSeenError(f"The model file cannot be mapped: {os.strerror(ctypes.get_errno())}.")
                self._address = address
        finally:
            os.close(file)
        self._found = ctypes.create_string_buffer(min(self.pages, EXACT_PAGES) or 1)

    def share(self, phase: float) -> float:
        """The share in memory; of a large file by pages that `phase`, 0 to 1, chooses."""
        if not self.pages:
            return 0.0
        if self.pages <= EXACT_PAGES:
            self._look(self._address, self._size)
            return sum(byte & 1 for byte in self._found.raw[: self.pages]) / self.pages
        inside = 0
        for page in places(self.pages, phase):
            self._look(self._address + page * mmap.PAGESIZE, mmap.PAGESIZE)
            inside += ord(self._found[0]) & 1
        return inside / PLACES

    def close(self) -> None:
        """Take the mapping back."""
        if self._address:
            self._libc.munmap(self._address, self._size)
            self._address = 0

    def _look(self, address: int, size: int) -> None:
        if self._libc.mincore(address, size, self._found):
            why = os.strerror(ctypes.get_errno())
            raise NotSeenError(f"The kernel does not tell how much of the model file is in memory: {why}.")
