"""Fits of a time to two known terms, robust against answers that were disturbed; and the line of hit rate.

With hit rate h the time of a token is T = a − b·h (seconds): what is missed is computed where it is slower.
"""

import itertools
from collections.abc import Sequence

import msgspec

from app.errors import AppError, ErrorCode

# Tukey's constant: residuals beyond so many standard deviations have no weight.
_CUT = 4.685
_MAD_TO_SIGMA = 1.4826
_LEAST_SIGMA = 0.005
_ROUNDS = 8
_LEAST_TO_REWEIGH = 5


class TwoTerms(msgspec.Struct, frozen=True, kw_only=True):
    """T = first·x + second·y; `spread` is the standard deviation of T's relative error, without outliers."""

    first: float
    second: float
    spread: float


class HitLine(msgspec.Struct, frozen=True, kw_only=True):
    """T = a − b·h in seconds a token.

    Attributes:
        a: Time without hits. b: time saved by a hit rate of 1.
        largest_error: Largest relative difference in tokens a second from the points it was fitted to.
    """

    a: float
    b: float
    largest_error: float

    def tokens_per_second(self, hit_rate: float) -> float:
        """Speed at a hit rate from 0 to 1; a line that was extended too far ends at a tenth of its time."""
        return 1 / max(self.a - self.b * hit_rate, self.a / 10)

    def break_even(self, tokens_per_second: float) -> float | None:
        """The hit rate from which on this is faster than an alternative of that speed.

        0 where it always is, None where it is not at any hit rate.
        """
        if self.tokens_per_second(0.0) >= tokens_per_second:
            return 0.0
        if self.tokens_per_second(1.0) < tokens_per_second:
            return None
        return (self.a - 1 / tokens_per_second) / self.b


def fit_hit_line(points: Sequence[tuple[float, float]]) -> HitLine:
    """The line through (hit rate from 0 to 1, tokens a second) points, least in relative error.

    Raises:
        AppError: bad_usage, there are not two different hit rates, or one is no share or speed.
    """
    if any(not 0 <= hit <= 1 or not speed > 0 for hit, speed in points):
        raise AppError(ErrorCode.BAD_USAGE, "A line needs hit rates from 0 to 1 and speeds above 0.")
    if len({hit for hit, _ in points}) < 2:
        raise AppError(ErrorCode.BAD_USAGE, "A line needs speeds at two different hit rates at least.")
    found = fit_two_terms([(1.0, hit, 1 / speed) for hit, speed in points])
    assert found is not None, "two different hit rates make a line"
    line = HitLine(a=found.first, b=-found.second, largest_error=0.0)
    worst = max(abs(line.tokens_per_second(hit) / speed - 1) for hit, speed in points)
    return msgspec.structs.replace(line, largest_error=worst)


def fit_two_terms(
    rows: Sequence[tuple[float, float, float]], weights: Sequence[float] | None = None
) -> TwoTerms | None:
    """T = first·x + second·y by least squares of the relative error; bounded weights against outliers.

    It begins at the least sum of absolute errors, which goes exactly through two of the rows and does not
    heed how far off the others are.

    Args:
        rows: (x, y, T), T above 0.
        weights: How much each row counts; alike unless told.

    Returns:
        None where the rows do not tell the terms apart.
    """
    weights = weights or [1.0] * len(rows)
    scaled = [(x / t, y / t) for x, y, t in rows]
    start = _least_absolute(scaled, weights)
    if start is None:
        return None
    solution = start
    if len(rows) < _LEAST_TO_REWEIGH:
        solution = _least_squares(scaled, weights) or start
    else:
        for _ in range(_ROUNDS):
            residuals = [abs(_residual(row, solution)) for row in scaled]
            cut = _CUT * max(_MAD_TO_SIGMA * weighted_median(residuals, weights), _LEAST_SIGMA)
            bounded = [
                weight * max(1 - (residual / cut) ** 2, 0.0) ** 2
                for weight, residual in zip(weights, residuals, strict=True)
            ]
            solution = _least_squares(scaled, bounded) or solution
    residuals = [abs(_residual(row, solution)) for row in scaled]
    spread = _MAD_TO_SIGMA * weighted_median(residuals, weights)
    return TwoTerms(first=solution[0], second=solution[1], spread=spread)


def weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    """The value in the middle of the weights; 0 of no values."""
    ordered = sorted(zip(values, weights, strict=True))
    half = sum(weight for _, weight in ordered) / 2
    reached = 0.0
    for index, (value, weight) in enumerate(ordered):
        reached += weight
        if reached > half:
            return value
        if reached == half and index + 1 < len(ordered):
            return (value + ordered[index + 1][0]) / 2
    return ordered[-1][0] if ordered else 0.0


def _residual(row: tuple[float, float], solution: tuple[float, float]) -> float:
    return row[0] * solution[0] + row[1] * solution[1] - 1


def _least_absolute(rows: Sequence[tuple[float, float]], weights: Sequence[float]) -> tuple[float, float] | None:
    best: tuple[float, tuple[float, float]] | None = None
    for (x1, y1), (x2, y2) in itertools.combinations(rows, 2):
        found = _solve(x1, y1, x2, y2, 1.0, 1.0)
        if found is not None:
            error = sum(weight * abs(_residual(row, found)) for row, weight in zip(rows, weights, strict=True))
            if best is None or error < best[0]:
                best = (error, found)
    return best[1] if best else None


def _least_squares(rows: Sequence[tuple[float, float]], weights: Sequence[float]) -> tuple[float, float] | None:
    xx = sum(w * x * x for (x, _), w in zip(rows, weights, strict=True))
    xy = sum(w * x * y for (x, y), w in zip(rows, weights, strict=True))
    yy = sum(w * y * y for (_, y), w in zip(rows, weights, strict=True))
    xt = sum(w * x for (x, _), w in zip(rows, weights, strict=True))
    yt = sum(w * y for (_, y), w in zip(rows, weights, strict=True))
    return _solve(xx, xy, xy, yy, xt, yt)


def _solve(a: float, b: float, c: float, d: float, p: float, q: float) -> tuple[float, float] | None:
    """The x and y of a·x + b·y = p and c·x + d·y = q; None where the rows are all but parallel."""
    determinant = a * d - b * c
    if abs(determinant) <= 1e-9 * max(abs(a * d), abs(b * c), 1e-300):
        return None
    return (p * d - b * q) / determinant, (a * q - p * c) / determinant
