"""The last minutes of one measured value: a ring buffer that hands out its contents without copying."""

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


class RingSeries:
    """Times and values of the newest `capacity` samples, oldest first.

    Every sample is written twice, `capacity` apart, into buffers of twice the size; so the newest
    samples always lie in one piece somewhere and `times` and `values` are plain views.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("a series needs room for a sample")
        self._capacity = capacity
        self._times = np.empty(2 * capacity)
        self._values = np.empty(2 * capacity)
        self._next = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, time_seconds: float, value: float | None) -> None:
        """Add a sample; None is a gap: nothing was measured then."""
        for place in (self._next, self._next + self._capacity):
            self._times[place] = time_seconds
            self._values[place] = np.nan if value is None else value
        self._next = (self._next + 1) % self._capacity
        self._count = min(self._count + 1, self._capacity)

    @property
    def times(self) -> Values:
        """Times in seconds; a view that the next `append` may change."""
        return self._times[self._start : self._start + self._count]

    @property
    def values(self) -> Values:
        """Values, NaN in gaps; a view that the next `append` may change."""
        return self._values[self._start : self._start + self._count]

    @property
    def latest(self) -> float | None:
        """The newest value, or None in a gap and before the first sample."""
        if not self._count:
            return None
        value = self.values[-1]
        return None if np.isnan(value) else float(value)

    def highest(self, since_seconds: float) -> float | None:
        """The largest value at or after a time, or None if nothing was measured since."""
        values = self.values[np.searchsorted(self.times, since_seconds) :]
        values = values[~np.isnan(values)]
        return float(values.max()) if values.size else None

    def nearest(self, time_seconds: float) -> tuple[float, float | None] | None:
        """The sample closest to a time as (time, value), or None while there is none."""
        if not self._count:
            return None
        times = self.times
        right = int(np.clip(np.searchsorted(times, time_seconds), 0, self._count - 1))
        left = max(right - 1, 0)
        place = left if time_seconds - times[left] <= times[right] - time_seconds else right
        value = self.values[place]
        return float(times[place]), None if np.isnan(value) else float(value)

    @property
    def _start(self) -> int:
        return (self._next - self._count) % self._capacity
