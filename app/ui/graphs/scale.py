"""Round numbers for the scales of a graph: its top, the steps of its lines, the words below them. No drawing."""

import math
import time
from collections.abc import Callable

from PySide6.QtCore import QCoreApplication

from app.ui.words import number

HEADROOM = 1.1
LINE_PIXELS, LABEL_PIXELS = 20, 66
"""Least distance between two lines of the value scale, and between two labels of the time scale."""
_TOPS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TIME_STEPS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600)


def round_top(highest: float, smallest: float) -> float:
    """The scale's top for a highest value: a round number with some room, so that it seldom changes."""
    return _rounded(max(highest * HEADROOM, smallest), _TOPS)


def value_step(top: float, pixels: float) -> float:
    """Distance between two lines of a value scale that is `pixels` high."""
    return _rounded(top / max(1.0, pixels / LINE_PIXELS), _STEPS)


def value_words(value: float, step: float) -> str:
    """A value of the scale: as many decimals as its steps need."""
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    plain = abs(round(step, decimals) - step) < step * 1e-6  # 2.5 needs one more than 2
    return number(value, decimals if plain else decimals + 1)


def time_step(span_seconds: float, pixels: float) -> int:
    """Seconds between two labels of a time scale that is `pixels` wide."""
    most = max(1.0, pixels / LABEL_PIXELS)
    return next((step for step in _TIME_STEPS if span_seconds / step <= most), _TIME_STEPS[-1])


def ago_words(seconds: float, step: int) -> str:
    """A time before now below a live graph: "now", "40 s", "5 min"."""
    if seconds < 0.5:
        return QCoreApplication.translate("graphs", "now")
    if step >= 60:
        return f"{number(seconds / 60)} min"
    return f"{number(seconds)} s"


def time_labels(span_seconds: float, pixels: float, clock_of_end: float | None) -> list[tuple[float, str]]:
    """Labels of the time scale as (seconds before the right edge, words).

    Args:
        span_seconds: How much is shown.
        pixels: On so many pixels.
        clock_of_end: Wall clock at the right edge of a picture that stands still (seconds since the epoch): its
            labels are times of the day. None for a live one, whose labels are times before now.
    """
    step = time_step(span_seconds, pixels)
    if clock_of_end is None:
        words: Callable[[float], str] = lambda ago: ago_words(ago, step)  # noqa: E731
        first = 0.0
    else:
        words = lambda ago: clock_words(clock_of_end - ago)  # noqa: E731
        first = clock_of_end % step
    return [(ago, words(ago)) for ago in _every(first, step, span_seconds)]


def clock_words(epoch_seconds: float) -> str:
    """A time of the day: "14:03:20"."""
    return time.strftime("%H:%M:%S", time.localtime(round(epoch_seconds)))


def span_words(seconds: float) -> str:
    """How much is shown: "Last minute", "Last 42 s", "Last hour"."""
    translate = QCoreApplication.translate
    if round(seconds) == 60:
        return translate("graphs", "Last minute")
    if round(seconds) == 3600:
        return translate("graphs", "Last hour")
    if seconds >= 120 and seconds % 60 == 0:
        return translate("graphs", "Last {minutes} minutes").format(minutes=number(seconds / 60))
    if seconds >= 120:
        return translate("graphs", "Last {minutes} minutes").format(minutes=number(seconds / 60, 1))
    return translate("graphs", "Last {seconds} s").format(seconds=number(seconds))


def _every(first: float, step: int, span: float) -> list[float]:
    return [first + place * step for place in range(int((span - first) / step + 1e-6) + 1)]


def _rounded(value: float, choices: tuple[float, ...]) -> float:
    """The least of `choices`, times a power of ten, that is not below `value`."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(choice * power for choice in choices if choice * power >= value * (1 - 1e-9))
