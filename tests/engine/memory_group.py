"""A limit on the main memory of an engine child: a control group of Linux, version 1, which takes an administrator."""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from app.engine.client import engine_command

_CONTROLLER = Path("/sys/fs/cgroup/memory")
_PREFIX = "expert-lanes-test-"
_ENTER = 'echo $$ > "$0/cgroup.procs" || exit 3; exec "$@"'


class MemoryGroup:
    """A group of this test alone, which ends with the processes in it; a context manager.

    Skips the test, with the reason, where such a group cannot be made.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.folder = _CONTROLLER / f"{_PREFIX}{os.getpid()}"
        if not sys.platform.startswith("linux") or not (_CONTROLLER / "memory.limit_in_bytes").exists():
            pytest.skip("no memory controller of version 1: the test cannot limit a process's memory")
        _drop_left_behind()
        try:
            self.folder.mkdir()
            (self.folder / "memory.limit_in_bytes").write_text(str(limit_bytes))
        except PermissionError:
            self._remove()
            pytest.skip("only an administrator may limit a process's memory")

    @property
    def command(self) -> list[str]:
        """Starts the engine child within the group."""
        return ["/bin/sh", "-c", _ENTER, str(self.folder), *engine_command()]

    @property
    def most_bytes(self) -> int:
        """The most memory that was taken so far, pages of files included."""
        return int((self.folder / "memory.max_usage_in_bytes").read_text())

    def limit(self, limit_bytes: int) -> None:
        """Another limit; the kernel takes back what it can."""
        (self.folder / "memory.limit_in_bytes").write_text(str(limit_bytes))

    def __enter__(self) -> "MemoryGroup":
        return self

    def __exit__(self, *_: object) -> None:
        deadline = time.monotonic() + 10
        while (left := (self.folder / "cgroup.procs").read_text().split()) and time.monotonic() < deadline:
            for pid in map(int, left):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._remove()

    def _remove(self) -> None:
        # An ended process may be counted for a moment more.
        deadline = time.monotonic() + 10
        while self.folder.exists():
            try:
                self.folder.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise


def _drop_left_behind() -> None:
    """Groups of tests that were killed: empty by now, for an engine child ends with who started it."""
    for folder in _CONTROLLER.glob(f"{_PREFIX}*"):
        if not Path(f"/proc/{folder.name.removeprefix(_PREFIX)}").exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


def drop_pages(path: Path) -> None:
    """Take a file's pages out of the system's cache: those that are in it are charged to nobody else."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(file)
