"""Reads a file forwards in windows, and never past its end: the ground under the GGUF parser.

Plain reads rather than a memory map: a file that shrinks, or a network drive that fails, is then an
error that can be told, where a mapped page would end the process.
"""

import struct
from pathlib import Path
from typing import BinaryIO

from app.errors import AppError
from app.model.failures import damaged

_WINDOW_BYTES = 1 << 20
_unpack_length = struct.Struct("<Q").unpack_from
_LENGTH_BYTES = 8


class BoundedFile:
    """A forward reader over the first `size` bytes of an open binary file.

    Attributes:
        path: The file's path, for messages.
        size: Bytes of the file when it was opened.
    """

    def __init__(self, file: BinaryIO, size: int, path: Path) -> None:
        self.path = path
        self.size = size
        self._file = file
        self._window = b""
        self._window_start = 0
        self._next = 0  # index in the window of the next byte

    @property
    def position(self) -> int:
        """Offset in the file of the next byte."""
        return self._window_start + self._next

    @property
    def remaining(self) -> int:
        """Bytes from the next one to the end of the file."""
        return self.size - self.position

    def take(self, count: int) -> bytes:
        """The next `count` bytes.

        Raises:
            AppError: MODEL_DAMAGED when the file ends before.
            OSError: the file could not be read.
        """
        if self._next + count > len(self._window):
            self._load(count)
        start = self._next
        self._next += count
        return self._window[start : self._next]

    def skip(self, count: int) -> None:
        """Step over `count` bytes without reading them.

        Raises:
            AppError: MODEL_DAMAGED when the file ends before.
        """
        if count > self.remaining:
            raise self.damaged("it ends inside its table")
        self._next += count

    def skip_texts(self, count: int) -> None:
        """Step over `count` texts, each stored as its length in 8 bytes and its bytes.

        The one hot loop of reading a model: vocabularies hold some hundred thousand texts.

        Raises:
            AppError: MODEL_DAMAGED when the file ends before.
            OSError: the file could not be read.
        """
        while count:
            if self._next + _LENGTH_BYTES > len(self._window):
                self._load(_LENGTH_BYTES)
            window, at = self._window, self._next
            last = len(window) - _LENGTH_BYTES
            while count and at <= last:
                at += _LENGTH_BYTES + _unpack_length(window, at)[0]
                count -= 1
            self.skip(at - self._next)

    def damaged(self, what: str) -> AppError:
        """The error that says `what` is wrong with this file's bytes."""
        return damaged(self.path, what)

    def _load(self, count: int) -> None:
        """Move the window so that it starts at the next byte and holds at least `count` bytes."""
        if count > self.remaining:
            raise self.damaged("it ends inside its table")
        self._window_start, self._next = self.position, 0
        self._file.seek(self._window_start)
        self._window = self._file.read(min(max(count, _WINDOW_BYTES), self.remaining))
        if len(self._window) < count:
            raise self.damaged("it became shorter while it was read")
