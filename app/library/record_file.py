"""A small record kept in one JSON file: read whole, replaced whole, changed by one process at a time."""

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from app.errors import AppError, ErrorCode, writing_error
from app.library.file_lock import FileLock
from app.library.folders import ensure_folder
from app.units import format_bytes

LARGEST_BYTES = 128 << 20
"""Fifty profiles with every expert of 48 layers of 512 pinned are 47 MB; nothing else that is kept is near that."""

WAIT_SECONDS = 5.0
"""Longest that a change waits for another program's, which takes milliseconds: what holds longer hangs."""

_T = TypeVar("_T")


class _Versioned(msgspec.Struct):
    """What is read of a record of any version."""

    version: int


class RecordFile(Generic[_T]):
    """The record of type `record_type` (a msgspec struct with a `version`) in the file `path`.

    Args:
        path: The file; its folder is made at the first change.
        record_type: What it holds.
        version: The `version` that can be read; a file of another is an error and stays as it is.
    """

    def __init__(self, path: Path, record_type: type[_T], version: int) -> None:
        self.path = path
        self._type = record_type
        self._version = version

    def read(self) -> _T | None:
        """The record, None where there is no file.

        Raises:
            AppError: file_unreadable, also for a damaged file or one of another version; it stays as it is.
        """
        try:
            with self.path.open("rb") as file:
                data = file.read(LARGEST_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise AppError(ErrorCode.FILE_UNREADABLE, f"{self.path} cannot be read.", str(error)) from error
        if len(data) > LARGEST_BYTES:
            message = (
                f"{self.path} is larger than {format_bytes(LARGEST_BYTES)}; once it is moved away, a new one is made."
            )
            raise AppError(ErrorCode.FILE_UNREADABLE, message)
        try:
            version = msgspec.json.decode(data, type=_Versioned).version
            # Fields of another version need not be known here: the version is told, not that they are wrong.
            record = msgspec.json.decode(data, type=self._type) if version == self._version else None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            message = f"{self.path} is damaged; once it is moved away, a new one is made."
            raise AppError(ErrorCode.FILE_UNREADABLE, message, str(error)) from error
        if record is None:
            raise AppError(
                ErrorCode.FILE_UNREADABLE,
                f"{self.path} is of version {version}; this app reads version {self._version}. "
                "Once it is moved away, a new one is made.",
            )
        return record

    def check(self) -> None:
        """Find out what would keep `change` from succeeding, before what is to be kept is measured.

        Raises:
            AppError: as `read`; folder_not_writable.
        """
        ensure_folder(self.path.parent)
        self.read()

    def change(self, make: Callable[[_T | None], _T]) -> _T:
        """Replace the record by what `make` makes of it, with no other process in between; returns the new one.

        Raises:
            AppError: as `read`; bad_usage, the new one is too large to be read again; folder_not_writable or disk_full.
        """
        ensure_folder(self.path.parent)
        with FileLock(self.path, on_wait=self._patience()):
            record = make(self.read())
            self._replace(record)
        return record

    def _patience(self) -> Callable[[], None]:
        """What gives a wait for the file up when it has lasted too long."""
        end = time.monotonic() + WAIT_SECONDS

        def wait() -> None:
            if time.monotonic() >= end:
                message = f"{self.path} is being changed by another program, which does not end it."
                raise AppError(ErrorCode.FOLDER_NOT_WRITABLE, message)

        return wait

    def _replace(self, record: _T) -> None:
        data = msgspec.json.encode(record)
        if len(data) > LARGEST_BYTES:
            message = f"{self.path} would be larger than {format_bytes(LARGEST_BYTES)}, and stays as it is."
            raise AppError(ErrorCode.BAD_USAGE, message)
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        try:
            with draft.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise writing_error(error, self.path) from error
