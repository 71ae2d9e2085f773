"""Whether a process does anything: where its disk or a driver never answers, it soon neither computes nor reads."""

import contextlib
import time
from collections.abc import Callable

import psutil


class Stillness:
    """Looks at one process from time to time.

    A slow disk lets it read a little now and then. While one thread waits in the system for what does not come, the
    others may wait for it busily: time on processors alone is no sign of life for ever.

    Attributes:
        idle_seconds: How long it has neither computed nor read, as far as was looked.
        unread_seconds: How long nothing was read for it from a disk.
    """

    def __init__(self, pid: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` gives seconds."""
        self._pid = pid
        self._clock = clock
        self._computed, self._read = _work_of(pid)
        self._idle_since = self._unread_since = clock()
        self.idle_seconds = self.unread_seconds = 0.0

    def look(self) -> None:
        """Look now; a process that cannot be seen does nothing."""
        now, (computed, read) = self._clock(), _work_of(self._pid)
        if read != self._read:
            self._unread_since = now
        if (computed, read) != (self._computed, self._read):
            self._idle_since = now
        self._computed, self._read = computed, read
        self.idle_seconds, self.unread_seconds = now - self._idle_since, now - self._unread_since


def _work_of(pid: int) -> tuple[float, int]:
    """Seconds on processors and bytes read so far; 0 for what cannot be seen."""
    computed, read = 0.0, 0
    with contextlib.suppress(psutil.Error, AttributeError):  # not every system counts reads, nor of every process
        process = psutil.Process(pid)
        times = process.cpu_times()
        computed = times.user + times.system
        read = process.io_counters().read_bytes
    return computed, read
