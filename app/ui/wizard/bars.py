"""The parts of the memory as segments of a bar: each has one colour on every page."""

from functools import partial

from PySide6.QtGui import QColor

from app.ui.theme import Colors, mix
from app.ui.widgets import ColorOf, Segment

_PART_LINES = {"weights": 0, "experts": 1, "kv": 2, "compute": 3, "pool": 4, "context": 5}


def part_color(part: str) -> ColorOf:
    """The colour of a part of the memory; what is kept free or used by others has none of its own."""
    return partial(_part_color, part)


def part_segment(part: str, count: int) -> Segment:
    """`count` bytes of a part."""
    return Segment(part_color(part), count)


def _part_color(part: str, colors: Colors) -> QColor:
    line = _PART_LINES.get(part)
    return mix(colors.raised, colors.muted_text, 0.35) if line is None else colors.graph[line]
