"""One writer at a time for a file, across processes: a lock the system drops when its holder dies."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO

from app.errors import writing_error

_POLL_SECONDS = 0.05


class FileLock:
    """Holds the lock of `path` inside a `with` block.

    The lock lives in a hidden empty file beside `path`, which stays: removing it would let a third
    process lock a file that a second one still waits for.

    Args:
        path: The file to be written.
        on_wait: Called again and again while another process holds the lock; may raise to give up.

    Raises:
        AppError: on entering, folder_not_writable or disk_full where the lock file cannot be made.
    """

    def __init__(self, path: Path, on_wait: Callable[[], None]) -> None:
        self._path = path.with_name(f".{path.name}.lock")
        self._on_wait = on_wait
        self._file: IO[bytes] | None = None

    def __enter__(self) -> "FileLock":
        try:
            file = self._path.open("ab")
        except OSError as error:
            raise writing_error(error, self._path) from error
        try:
            while not self._try(file):
                self._on_wait()
                time.sleep(_POLL_SECONDS)
        except BaseException:
            file.close()
            raise
        self._file = file
        return self

    def _try(self, file: IO[bytes]) -> bool:
        try:
            return _try_lock(file)
        except OSError as error:
            raise writing_error(error, self._path) from error

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[bytes]) -> bool:
        file.seek(0)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

else:
    import fcntl

    def _try_lock(file: IO[bytes]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
