"""How much of a file the operating system holds in memory, asked without touching a byte of it (Linux: mincore)."""

import ctypes
import mmap
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from app.hardware.sources import NotSeenError

EXACT_PAGES = 16_384
"""A file of at most so many pages is looked at whole."""
PLACES = 1_024
"""Pages looked at of a larger one, evenly spread: a share is right to ±3 % in 19 of 20 readings at worst."""
_GOLDEN = 0.618034  # Consecutive readings look at other pages, and never at the same in a short cycle.
_NO_ACCESS = 0  # PROT_NONE: whatever happens, this program cannot bring a page in through its mapping.
_FAILED = ctypes.c_void_p(-1).value


class FileCache:
    """The share of some files that is in memory. Used by one thread."""

    def __init__(self, paths: Sequence[str], *, system: str = sys.platform) -> None:
        """Map the files.

        Raises:
            NotSeenError: this system does not tell, or does not tell this user.
        """
        self._files: list[_MappedFile] = []
        self._phase = 0.0
        if not system.startswith("linux"):
            raise NotSeenError("How much of the model file is in memory is not measured on this system yet.")
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
        self._phase = (self._phase + _GOLDEN) % 1.0
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
            if facts.st_uid != os.geteuid() and os.geteuid() != 0 and not os.access(path, os.W_OK):
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
        step = self.pages / PLACES
        inside = 0
        for place in range(PLACES):
            self._look(self._address + int((place + phase) * step) * mmap.PAGESIZE, mmap.PAGESIZE)
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
