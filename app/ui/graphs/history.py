"""The last hour of every measured figure: rows of one ring, read without copying and thinned with their peaks kept."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]
Values = NDArray[np.float32]
Places = NDArray[np.intp]


class History:
    """Times and named figures of the newest `capacity` rows, oldest first; NaN is a gap.

    Every row is written twice, `capacity` apart, into arrays of twice the size; so the newest rows always lie in
    one piece somewhere and what is handed out are plain views. A figure takes 8 bytes a row, and nothing until it
    is first measured.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("a history needs room for a row")
        self._capacity = capacity
        self._times = np.empty(2 * capacity)
        self._columns: dict[str, Values] = {}
        self._nothing = np.full(2 * capacity, np.nan, np.float32)
        self._stretches = np.empty(0, np.intp)
        self._stretches_of: tuple[int, int, float] | None = None
        self._next = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def keys(self) -> tuple[str, ...]:
        """Every figure that was ever measured."""
        return tuple(self._columns)

    def append(self, time_seconds: float, figures: Mapping[str, float | None]) -> None:
        """Add a row; figures that are None or not named are gaps in it. Times must grow."""
        for key, value in figures.items():
            if value is not None and key not in self._columns:
                self._columns[key] = self._nothing.copy()
        for place in (self._next, self._next + self._capacity):
            self._times[place] = time_seconds
        for key, column in self._columns.items():
            value = figures.get(key)
            column[self._next] = column[self._next + self._capacity] = np.nan if value is None else value
        self._stretches_of = None
        self._next = (self._next + 1) % self._capacity
        self._count = min(self._count + 1, self._capacity)

    @property
    def times(self) -> Times:
        """Times in seconds; a view that the next `append` may change."""
        return self._times[self._start : self._start + self._count]

    def column(self, key: str) -> Values:
        """A figure beside `times`; a view that the next `append` may change, all NaN for what was never measured."""
        return self._columns.get(key, self._nothing)[self._start : self._start + self._count]

    def holds(self, key: str) -> bool:
        """Whether any row still has a figure."""
        return key in self._columns and not bool(np.isnan(self.column(key)).all())

    def latest(self, key: str) -> float | None:
        """The newest row's figure, or None in a gap and before the first row."""
        return self.at(key, self._count - 1) if self._count else None

    def at(self, key: str, place: int) -> float | None:
        """A figure of the row at `place`, counted from the oldest; None in a gap."""
        value = self._columns.get(key, self._nothing)[self._start + place]
        return None if np.isnan(value) else float(value)

    def nearest(self, time_seconds: float) -> int | None:
        """Place of the row closest to a time, counted from the oldest; None while there is none."""
        if not self._count:
            return None
        times = self.times
        right = int(np.clip(np.searchsorted(times, time_seconds), 0, self._count - 1))
        left = max(right - 1, 0)
        return left if time_seconds - times[left] <= times[right] - time_seconds else right

    def stretches(self, rows: slice, width_seconds: float) -> Places:
        """`bins` of these rows, counted from the first of them; kept until a row is added, for graphs share them."""
        key = (rows.start, rows.stop, width_seconds)
        if key != self._stretches_of:
            self._stretches_of, self._stretches = key, bins(self.times[rows], width_seconds)
        return self._stretches

    def between(self, first_seconds: float, last_seconds: float) -> slice:
        """The rows of a stretch of time, with one more at each end so that lines run out of the picture."""
        first, last = np.searchsorted(self.times, (first_seconds, last_seconds))
        return slice(max(int(first) - 1, 0), min(int(last) + 1, self._count))

    @property
    def _start(self) -> int:
        return (self._next - self._count) % self._capacity


def bins(times: Times, width_seconds: float) -> Places:
    """Where stretches of `width_seconds` begin in `times`; empty stretches are left out.

    The stretches begin at whole multiples of the width, not at the first time: a peak stays in its stretch while
    the picture moves on.
    """
    if not times.size:
        return np.empty(0, np.intp)
    edges = np.arange(np.floor(times[0] / width_seconds), times[-1] / width_seconds + 2) * width_seconds
    starts = np.searchsorted(times, edges)
    return starts[:-1][np.diff(starts) > 0]


def peaks(values: Values, starts: Places) -> Values:
    """Least and greatest value of every stretch, in turns: twice as many as `starts`; a gap where all are gaps."""
    found = np.empty(2 * len(starts), np.float32)
    if len(starts):
        np.fmin.reduceat(values, starts, out=found[::2])
        np.fmax.reduceat(values, starts, out=found[1::2])
    return found


def tops(values: Values, starts: Places) -> Values:
    """The greatest value of every stretch; a gap where all are gaps."""
    return np.fmax.reduceat(values, starts) if len(starts) else np.empty(0, np.float32)
