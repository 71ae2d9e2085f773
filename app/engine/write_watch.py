"""Which of some files were written to: Linux tells that apart from a new time, by inotify; others do not tell."""

import ctypes
import os
import struct
import sys
import weakref
from collections.abc import Iterable
from pathlib import Path

_MODIFIED = 0x2  # IN_MODIFY: bytes written, or cut off; not by programs that have the file mapped
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC if sys.platform == "linux" else 0
_EVENT = struct.Struct("iIII")  # watch, what happened, cookie, bytes of a name that follows
_BYTES_AT_ONCE = 64 << 10


class WriteWatch:
    """Watches files from now on, until it is no longer used.

    Where the system cannot watch (another system, its limit of watches, a file that another computer writes) nothing
    is told of: no file that is told of was left alone, but one that is not may have been written to.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._written: set[Path] = set()
        self._paths: dict[int, Path] = {}
        self._queue = -1
        if sys.platform != "linux":
            return
        library = ctypes.CDLL(None)
        self._queue = int(library.inotify_init1(_FLAGS))
        if self._queue < 0:
            return
        weakref.finalize(self, os.close, self._queue)
        for path in paths:
            number = int(library.inotify_add_watch(self._queue, os.fsencode(path), _MODIFIED))
            if number >= 0:
                self._paths[number] = path

    def written(self) -> set[Path]:
        """The files that were written to since, as far as the system tells."""
        while self._queue >= 0 and (told := self._next()):
            at = 0
            while at < len(told):
                number, what, _cookie, name_bytes = _EVENT.unpack_from(told, at)
                at += _EVENT.size + name_bytes
                if what & _MODIFIED and number in self._paths:
                    self._written.add(self._paths[number])
        return self._written

    def _next(self) -> bytes:
        try:
            return os.read(self._queue, _BYTES_AT_ONCE)
        except BlockingIOError:
            return b""
