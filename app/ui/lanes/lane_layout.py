"""Where the cells of a lane lie in pixels: how lines are folded, how large a cell is, what is at a point. No Qt.

All lengths are device pixels, so that cells are sharp at every scale of the screen. A *line* is a shown layer and a
*column* a place in it, as in `Packing`. A line with more columns than fit is folded into *strips*, one below the other.
How lines are folded depends on the room alone and not on the zoom: zooming is a change of size and nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

SMALLEST, LARGEST = 2.0, 120.0
"""Logical pixels from one cell to the next: the smallest overview, and the largest card."""
LARGEST_OVERVIEW = 26.0
"""Logical pixels: a lane with few cells does not blow them up by itself."""
CARD = 56.0
"""Logical pixels from which on a cell is a card with words on it."""
_CLOSE = 5.0
"""Logical pixels: smaller cells touch, for a gap would take half of their colour."""
FOLDING_PAYS = 1.25
"""Lines are folded once more only where cells become larger by this factor."""
_WIDEST_GAP = 12.0

Places = NDArray[np.intp]


@dataclass(frozen=True)
class LaneLayout:
    """The cells of one lane in device pixels, from the corner of the first one.

    Attributes:
        counts: Cells of each line.
        fold: Most cells of a strip.
        pitch: From one cell to the next, across and down.
        spacing: The part of `pitch` that is left free.
        gap: Between two lines.
    """

    counts: tuple[int, ...]
    fold: int
    pitch: int
    spacing: int
    gap: int

    @cached_property
    def strips(self) -> Places:
        """Strips of each line, shape (lines,)."""
        return -(-np.array(self.counts, np.intp) // self.fold)

    @cached_property
    def starts(self) -> Places:
        """Strips before each line, and before the end; shape (lines + 1,)."""
        return np.concatenate([np.zeros(1, np.intp), np.cumsum(self.strips)])

    @cached_property
    def line_of_strip(self) -> Places:
        """The line of each strip, shape (strips,)."""
        return np.repeat(np.arange(self.lines), self.strips)

    @cached_property
    def strip_tops(self) -> Places:
        """Where each strip begins, shape (strips,)."""
        return np.arange(len(self.line_of_strip)) * self.pitch + self.line_of_strip * self.gap

    @property
    def lines(self) -> int:
        """Layers shown."""
        return len(self.counts)

    @property
    def cell(self) -> int:
        """Width and height of a cell."""
        return self.pitch - self.spacing

    @property
    def width(self) -> int:
        """Of the longest strip."""
        return min(self.fold, max(self.counts, default=0)) * self.pitch

    @property
    def height(self) -> int:
        """Of all lines."""
        return int(self.starts[-1]) * self.pitch + self.lines * self.gap

    def line_top(self, line: int) -> int:
        """Where a line begins."""
        return int(self.starts[line]) * self.pitch + line * self.gap

    def line_height(self, line: int) -> int:
        """Of all strips of a line, without the gap below it."""
        return int(self.strips[line]) * self.pitch

    def corner(self, line: int, column: int) -> tuple[int, int]:
        """Left and top of a cell."""
        fold, across = divmod(column, self.fold)
        return across * self.pitch, self.line_top(line) + fold * self.pitch

    def corners(self, lines: Places, columns: NDArray[np.integer]) -> tuple[Places, Places]:
        """Left and top of many cells."""
        folds, across = np.divmod(columns.astype(np.intp), self.fold)
        return across * self.pitch, (self.starts[lines] + folds) * self.pitch + lines * self.gap

    def line_at(self, y: int) -> int | None:
        """The line at a height; the gap below a line belongs to it."""
        return int(self.line_of_strip[self._strip_at(y)]) if 0 <= y < self.height else None

    def place_at(self, x: int, y: int) -> tuple[int, int] | None:
        """Line and column at a point, whether or not a cell lies there; None outside of all strips."""
        across = x // self.pitch
        if not (0 <= y < self.height and 0 <= across < self.fold):
            return None
        strip = self._strip_at(y)
        line = int(self.line_of_strip[strip])
        return line, (strip - int(self.starts[line])) * self.fold + across

    def lines_between(self, top: int, bottom: int) -> tuple[int, int]:
        """First line that reaches below `top`, and the first after it that begins below `bottom`."""
        if not self.lines:
            return 0, 0
        first = self.line_at(min(max(top, 0), self.height - 1)) or 0
        last = self.line_at(min(max(bottom, 0), self.height - 1)) or 0
        return first, last + 1

    def _strip_at(self, y: int) -> int:
        return int(np.searchsorted(self.strip_tops, y, side="right")) - 1


def lane_layout(
    counts: Sequence[int], room: tuple[int, int], ratio: float = 1.0, zoom: float = 0.0, step: int = 1
) -> LaneLayout:
    """Lay out a lane.

    Args:
        counts: Cells of each line.
        room: Width and height there is, in device pixels.
        ratio: Device pixels per logical one.
        zoom: Logical pixels from one cell to the next; 0 for the overview, in which the whole lane is seen as
            large as it fits.
        step: Counts are rounded up to a multiple of this before lines are folded, so that a cell more or less
            does not fold them anew.
    """
    counts = tuple(counts)
    fold, fitting = _overview(tuple(-(-count // step) * step for count in counts), room, ratio)
    return sheet_of(counts, fold, fitting, ratio, zoom)


def sheet_of(counts: tuple[int, ...], fold: int, fitting: int, ratio: float, zoom: float = 0.0) -> LaneLayout:
    """The layout with strips of `fold` cells at a zoom, no smaller than the pitch `fitting` of the overview."""
    wanted = fitting if zoom <= 0 else round(zoom * ratio)
    pitch = min(max(wanted, fitting), max(round(LARGEST * ratio), fitting))
    return LaneLayout(counts, fold, pitch, _spacing(pitch, ratio), gap_below(pitch, ratio))


@lru_cache(maxsize=64)
def _overview(counts: tuple[int, ...], room: tuple[int, int], ratio: float) -> tuple[int, int]:
    """Cells of a strip, and the pitch at which the whole lane is seen or is the smallest."""
    width, height = max(room[0], 1), max(room[1], 1)
    smallest = max(round(SMALLEST * ratio), 1)
    amounts, columns = np.array(counts, np.intp), max(counts, default=1)
    best = (0, 0)
    for folds in range(1, columns + 1):
        fold = -(-columns // folds)
        strips = int((-(-amounts // fold)).sum())

        def tall(pitch: int, strips: int = strips) -> bool:
            return strips * pitch + len(counts) * gap_below(pitch, ratio) > height

        pitch = min(width // fold, round(LARGEST_OVERVIEW * ratio))
        while pitch >= smallest and tall(pitch):
            pitch -= 1
        if pitch >= smallest and pitch >= best[1] * FOLDING_PAYS:
            best = (fold, pitch)
        if tall(smallest):
            break
    if best[1]:
        return best
    # Not even the smallest cells fit: as wide as there is room, and the rest below.
    folds = -(-columns // max(width // smallest, 1))
    return -(-columns // folds), smallest


def gap_below(pitch: int, ratio: float) -> int:
    """Device pixels between two lines."""
    return max(round(ratio), min(round(pitch / 4), round(_WIDEST_GAP * ratio)))


def _spacing(pitch: int, ratio: float) -> int:
    logical = pitch / ratio
    if logical < _CLOSE:
        return 0
    return max(round(ratio * (1 if logical < 16 else 2 if logical < CARD else 4)), 1)
