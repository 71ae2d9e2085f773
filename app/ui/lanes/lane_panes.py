"""Cuts the lines of a lane into panes side by side, where a wide and low lane has room beside its cells. No Qt.

All panes together are one *sheet*, the layout of the whole lane, cut between lines: the first pane is its top, what is
below it begins again at the top of the pane to the right. Every pane has its own layers' names. Only the overview is
cut: nothing is scrolled there, so that no name can be scrolled away from its cells. Larger cells are one sheet again,
with lines folded as they are in the overview.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from app.ui.lanes.lane_layout import (
    FOLDING_PAYS,
    LARGEST_OVERVIEW,
    SMALLEST,
    LaneLayout,
    Places,
    gap_below,
    lane_layout,
    sheet_of,
)

_CUTTING_PAYS = 1.1
"""A lane is cut only where cells become larger by this factor, or where not all would be seen otherwise."""
_BETWEEN = 12.0
"""Logical pixels between the cells of a pane and the names of the next."""


@dataclass(frozen=True)
class LanePanes:
    """The cells of one lane in device pixels from the corner of the first one, as they are on screen.

    Attributes:
        sheet: All lines, one below the other.
        firsts: The first line of each pane.
        header: Width of the layers' names on the left of each pane.
        stride: From the first cell of a pane to that of the next.
    """

    sheet: LaneLayout
    firsts: tuple[int, ...] = (0,)
    header: int = 0
    stride: int = 0

    @property
    def count(self) -> int:
        """Panes, at least one."""
        return len(self.firsts)

    @property
    def pitch(self) -> int:
        """From one cell to the next, across and down."""
        return self.sheet.pitch

    @property
    def width(self) -> int:
        """From the first cell of the first pane to the end of the longest strip in the last one."""
        return (self.count - 1) * self.stride + self.sheet.width

    @property
    def height(self) -> int:
        """Of the highest pane."""
        return int(np.diff(self._tops).max())

    @cached_property
    def parts(self) -> tuple[LaneLayout, ...]:
        """The layout of each pane by itself."""
        whole = self.sheet
        ends = (*self.firsts[1:], whole.lines)
        return tuple(
            LaneLayout(whole.counts[first:end], whole.fold, whole.pitch, whole.spacing, whole.gap)
            for first, end in zip(self.firsts, ends, strict=True)
        )

    def names_left(self, line: int) -> int:
        """Where the names beside a line begin, from where those of the first pane do."""
        return self._pane_of(line) * self.stride

    def in_names(self, x: int) -> bool:
        """Whether the names of a pane are there, or those of the first on its right."""
        return x < self._pane_at(x) * self.stride

    def corner(self, line: int, column: int) -> tuple[int, int]:
        """Left and top of a cell."""
        pane = self._pane_of(line)
        left, top = self.sheet.corner(line, column)
        return left + pane * self.stride, top - int(self._tops[pane])

    def corners(self, lines: Places, columns: NDArray[np.integer]) -> tuple[Places, Places]:
        """Left and top of many cells."""
        panes = np.searchsorted(np.array(self.firsts), lines, side="right") - 1
        lefts, tops = self.sheet.corners(lines, columns)
        return lefts + panes * self.stride, tops - self._tops[panes]

    def line_at(self, x: int, y: int) -> int | None:
        """The line at a height in the pane that is at `x`; the gap below a line belongs to it."""
        down = self._down(self._pane_at(x), y)
        return self.sheet.line_at(down) if down is not None else None

    def place_at(self, x: int, y: int) -> tuple[int, int] | None:
        """Line and column at a point, whether or not a cell lies there; None outside of all strips."""
        pane = self._pane_at(x)
        down = self._down(pane, y)
        return self.sheet.place_at(x - pane * self.stride, down) if down is not None else None

    def point_in(self, other: "LanePanes", point: tuple[int, int]) -> tuple[float, float]:
        """Where what is at a point lies in another layout of the same lines, also where no line is there."""
        x, y = point
        larger = other.pitch / self.pitch
        line = self.line_at(x, y)
        if line is None:
            return x * larger, y / max(self.height, 1) * other.height
        (left, top), (to_left, to_top) = self.corner(line, 0), other.corner(line, 0)
        return to_left + (x - left) * larger, to_top + min((y - top) * larger, other.sheet.line_height(line))

    @cached_property
    def _tops(self) -> Places:
        """Where each pane begins on the sheet, and where the last one ends; shape (panes + 1,)."""
        return np.array([self.sheet.line_top(line) for line in (*self.firsts, self.sheet.lines)], np.intp)

    def _pane_of(self, line: int) -> int:
        return bisect_right(self.firsts, line) - 1

    def _pane_at(self, x: int) -> int:
        """The pane with names or cells at `x`; the room behind its cells belongs to it."""
        return min(max((x + self.header) // self.stride, 0), self.count - 1) if self.stride else 0

    def _down(self, pane: int, y: int) -> int | None:
        """A height in a pane as one on the sheet; None above and below the pane."""
        down = y + int(self._tops[pane])
        return down if y >= 0 and down < self._tops[pane + 1] else None


def lane_panes(
    counts: Sequence[int], room: tuple[int, int], header: int, ratio: float = 1.0, zoom: float = 0.0, step: int = 1
) -> LanePanes:
    """Lay out a lane.

    Args:
        counts: Cells of each line.
        room: Width and height there is for cells, in device pixels: without the names of the first pane.
        header: Width of the layers' names, in device pixels.
        ratio: Device pixels per logical one.
        zoom: Logical pixels from one cell to the next; 0 for the overview.
        step: Counts are rounded up to a multiple of this before lines are folded and cut, so that a cell more or
            less does neither anew.
    """
    counts = tuple(counts)
    rounded = tuple(-(-count // step) * step for count in counts)
    fold, fitting, firsts = _best(rounded, room, header, ratio)
    sheet = sheet_of(counts, fold, fitting, ratio, zoom)
    if len(firsts) == 1 or sheet.pitch > fitting:
        return LanePanes(sheet, header=header)
    return LanePanes(sheet, firsts, header, fold * fitting + _between(ratio) + header)


def _between(ratio: float) -> int:
    return round(_BETWEEN * ratio)


@lru_cache(maxsize=64)
def _best(
    counts: tuple[int, ...], room: tuple[int, int], header: int, ratio: float
) -> tuple[int, int, tuple[int, ...]]:
    """Cells of a strip, the pitch of the overview and the first line of each pane, so that cells are large."""
    whole = lane_layout(counts, room, ratio)
    smallest = max(round(SMALLEST * ratio), 1)
    cut = _best_cut(counts, room, header + _between(ratio), ratio)
    if cut is None or cut[1] < (whole.pitch * _CUTTING_PAYS if whole.height <= room[1] else smallest):
        return whole.fold, whole.pitch, (0,)
    fold, pitch = cut
    ends = _ends(counts, fold, pitch, ratio)
    firsts = _cut(ends, room[1])
    # As many panes as are needed, and these equally high.
    low, high = 0, room[1]
    while low < high:
        middle = (low + high) // 2
        if 0 < len(_cut(ends, middle)) <= len(firsts):
            high = middle
        else:
            low = middle + 1
    return fold, pitch, _cut(ends, high)


def _best_cut(counts: tuple[int, ...], room: tuple[int, int], beside: int, ratio: float) -> tuple[int, int] | None:
    """Cells of a strip and the pitch where a lane is cut as often as there is room; None where it does not fit."""
    largest = round(LARGEST_OVERVIEW * ratio)
    columns = max(counts, default=0)
    found: tuple[int, int] | None = None
    for fold in dict.fromkeys(-(-columns // folds) for folds in range(1, columns + 1)):

        def fits(pitch: int, fold: int = fold) -> bool:
            panes = len(_cut(_ends(counts, fold, pitch, ratio), room[1]))
            return panes > 0 and panes * fold * pitch + (panes - 1) * beside <= room[0]

        pitch = max(round(SMALLEST * ratio), 1)
        if found is not None:
            pitch = max(int(np.ceil(found[1] * FOLDING_PAYS)), pitch)
        if pitch > largest or not fits(pitch):
            continue
        while pitch < largest and fits(pitch + 1):
            pitch += 1
        found = (fold, pitch)
    return found


def _ends(counts: tuple[int, ...], fold: int, pitch: int, ratio: float) -> list[int]:
    """Where each line ends and the next begins on the sheet; one more than there are lines."""
    heights = -(-np.array(counts, np.intp) // fold) * pitch + gap_below(pitch, ratio)
    return [0, *np.cumsum(heights).tolist()]


def _cut(ends: list[int], height: int) -> tuple[int, ...]:
    """The first line of each pane where none is higher than `height`; empty where a line alone is."""
    firsts = [0]
    while True:
        after = bisect_right(ends, ends[firsts[-1]] + height) - 1
        if after == len(ends) - 1:
            return tuple(firsts)
        if after == firsts[-1]:
            return ()
        firsts.append(after)
