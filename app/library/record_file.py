"""A small record kept in one JSON file: read whole, replaced whole, changed by one process at a time."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from app.errors import AppError, ErrorCode
from app.library.file_lock import FileLock
from app.library.folders import ensure_folder, writing_error

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
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise AppError(ErrorCode.FILE_UNREADABLE, f"{self.path} cannot be read.", str(error)) from error
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
            AppError: as `read`; folder_not_writable or disk_full.
        """
        ensure_folder(self.path.parent)
        with FileLock(self.path, on_wait=lambda: None):
            record = make(self.read())
            self._replace(record)
        return record

    def _replace(self, record: _T) -> None:
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        try:
            with draft.open("wb") as file:
                file.write(msgspec.json.encode(record))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise writing_error(error, self.path) from error
