"""Keeps the engine's threads on some of the logical processors, as a plan asks."""

import contextlib
import os
import sys
from pathlib import Path

import psutil

from app.errors import AppError, ErrorCode

_THREADS = Path("/proc/self/task")


class Cores:
    """The processors this process may use; as it was started until `keep_to` says otherwise."""

    def __init__(self) -> None:
        self._at_start = self._allowed()
        self._kept: tuple[int, ...] = ()

    def keep_to(self, cores: tuple[int, ...]) -> None:
        """Let every thread of this process, and those it starts later, run on `cores` only; () for all as at start.

        Raises:
            AppError: bad_usage, this process may not use one of them, or the system cannot do it.
        """
        if cores == self._kept:
            return
        if self._at_start is None:
            raise AppError(ErrorCode.BAD_USAGE, f"Programs cannot be kept to some processors on {sys.platform}.")
        wrong = [core for core in cores if core not in self._at_start]
        if wrong:
            usable = ", ".join(map(str, sorted(self._at_start)))
            raise AppError(ErrorCode.BAD_USAGE, f"The engine may not use processor {wrong[0]}; it may use: {usable}.")
        self._keep(cores or tuple(self._at_start))
        self._kept = cores

    @staticmethod
    def _allowed() -> frozenset[int] | None:
        if sys.platform == "linux":
            return frozenset(os.sched_getaffinity(0))
        if sys.platform == "win32":
            return frozenset(psutil.Process().cpu_affinity() or ())
        return None

    @staticmethod
    def _keep(cores: tuple[int, ...]) -> None:
        try:
            if sys.platform == "linux":
                # A thread's alone: those that a backend's pool started before must follow too.
                for thread in _THREADS.iterdir():
                    with contextlib.suppress(ProcessLookupError):  # it has just ended
                        os.sched_setaffinity(int(thread.name), cores)
            else:
                psutil.Process().cpu_affinity(list(cores))
        except (OSError, psutil.Error) as error:
            raise AppError(
                ErrorCode.BAD_USAGE, "The system does not let these processors be chosen.", str(error)
            ) from error
