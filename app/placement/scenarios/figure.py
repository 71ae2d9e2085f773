"""A figure that was measured several times, as plain data."""

import msgspec


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """Median, least and most of `samples` measurements."""

    median: float
    least: float
    most: float
    samples: int
