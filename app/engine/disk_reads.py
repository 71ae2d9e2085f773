"""How fast slices of experts are read from a disk, past the system's cache: the rate of the disk lane."""

import contextlib
import mmap
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from app.placement.speed.calibration import DiskRate

SLICES = (1 << 20, 4 << 20)
"""Bytes of one read: a tensor's share of a small expert and of a large one."""
PARALLEL = (1, 8)

_BLOCK = 4096  # what unbuffered reads must be aligned to, on any disk met so far
_LEAST_FILE = 64 << 20
_OWN_FILE = 128 << 20  # written where there is no model file to read
_OWN_BLOCK = 4 << 20
_ROOM_FACTOR = 4
_REPETITIONS = 3
_MOST_SECONDS = 0.4  # of a repetition, so that it can be stopped


class NotReadError(Exception):
    """Why the disk's rate could not be measured, as a sentence."""


def measure(folder: Path, seconds: float, check: Callable[[], None]) -> tuple[DiskRate, ...]:
    """Random reads of every size in `SLICES`, alone and several at once.

    Args:
        folder: Whose disk is read: its largest model file, or a file made for it that is gone afterwards.
        seconds: About how long it may take.
        check: Called between two reads' repetitions; what it raises ends the measurement.

    Raises:
        NotReadError: there is nothing to read, or not past the system's cache.
    """
    if not sys.platform.startswith("linux"):
        raise NotReadError("The disk was not measured: on this system the app cannot read past the system's cache.")
    each = min(seconds / (len(SLICES) * len(PARALLEL) * _REPETITIONS), _MOST_SECONDS)
    rates = []
    try:
        with _opened(folder) as (file, size):
            for slice_bytes in SLICES:
                for parallel in PARALLEL:
                    found = []
                    for _ in range(_REPETITIONS):
                        check()
                        found.append(_read(file, size, slice_bytes, parallel, each))
                    middle = statistics.median(found)
                    rates.append(
                        DiskRate(
                            path=str(folder),
                            slice_bytes=slice_bytes,
                            parallel=parallel,
                            bytes_per_second=middle,
                            spread=(max(found) - min(found)) / middle,
                        )
                    )
    except OSError as error:
        raise NotReadError(f"The disk at {folder} was not measured: {error.strerror or error}.") from error
    return tuple(rates)


def _read(file: int, size: int, slice_bytes: int, parallel: int, seconds: float) -> float:
    """Bytes a second over about `seconds` of reads at random places, `parallel` of them in flight."""
    started = time.perf_counter()
    end = started + seconds

    def reads(seed: int) -> int:
        chooser, done = np.random.default_rng(seed), 0
        with mmap.mmap(-1, slice_bytes) as memory:  # aligned, as unbuffered reads need
            while True:
                place = int(chooser.integers((size - slice_bytes) // _BLOCK)) * _BLOCK
                done += os.preadv(file, [memory], place)
                if time.perf_counter() >= end:
                    return done

    with ThreadPoolExecutor(parallel) as pool:
        total = sum(pool.map(reads, np.random.SeedSequence().generate_state(parallel).tolist()))
    return total / (time.perf_counter() - started)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[tuple[int, int]]:
    """A file to read past the cache, with its size."""
    model = _largest_model(folder)
    file = os.open(model, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT) if model else _own_file(folder)
    try:
        yield file, os.fstat(file).st_size
    finally:
        os.close(file)


def _own_file(folder: Path) -> int:
    """A file of random bytes without a name, so that it is gone when it is closed, however this process ends."""
    space = os.statvfs(folder)
    if space.f_bavail * space.f_frsize < _ROOM_FACTOR * _OWN_FILE:
        raise NotReadError(f"The disk at {folder} was not measured: it has no model file and too little room.")
    chooser = np.random.default_rng()  # nothing that a file system could store in less room
    writing, name = tempfile.mkstemp(dir=folder, prefix=".expert-lanes-")
    try:
        try:
            reading = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
        finally:
            Path(name).unlink()
        try:
            with os.fdopen(writing, "wb", closefd=False) as file:
                for _ in range(_OWN_FILE // _OWN_BLOCK):
                    file.write(chooser.bytes(_OWN_BLOCK))
            os.fsync(writing)
        except BaseException:
            os.close(reading)
            raise
        return reading
    finally:
        os.close(writing)


def _largest_model(folder: Path) -> Path | None:
    """The largest model file below `folder` whose bytes are really on the disk."""
    found = []
    for path in folder.rglob("*.gguf"):
        with contextlib.suppress(OSError):
            facts = path.stat()
            holes = facts.st_blocks * 512 < facts.st_size
            if facts.st_size >= _LEAST_FILE and not holes:
                found.append((facts.st_size, path))
    return max(found)[1] if found else None
