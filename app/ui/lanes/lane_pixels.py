"""The cells of a lane as pixels: colours by number, spread over the screen by numpy alone. No Qt.

Whatever is drawn for thousands of small cells is drawn here, a few array expressions for all of them: fills, hatching,
outlines and small marks. A *shade* is a place in a table of SHADES colours. Pixels are made a part of the rows at a
time: what fits into the processor's cache is on the screen before it has to go to main memory.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.ui.lanes.lane_layout import LaneLayout, Places

Pixels = NDArray[np.uint32]
"""Colours as 0xAARRGGBB."""
Grid = NDArray[np.bool_]
"""One value for each place of a packing's table, shape (lines, columns)."""

HEAT_STEPS = 256
GROUND = 2 * HEAT_STEPS
"""The shade of where no cell is; below it are the heat colours, first in full and then faded."""
FLAT, FLAT_FADED = GROUND + 1, GROUND + 2
"""The shades of cells whose routings nobody counts."""
COPYING = GROUND + 3
SHADES = GROUND + 4
_TWO = np.uint32(0x00FF00FF)


@dataclass(frozen=True)
class Window:
    """The part of a lane that is on screen, in device pixels from the lane's first cell.

    Attributes:
        left, top, width, height: What is seen, the layers' names included: `left` is negative by their width
            where nothing is scrolled.
        header: The width that the names hide.
    """

    left: int
    top: int
    width: int
    height: int
    header: int = 0


@dataclass(frozen=True, eq=False)
class _Stamp:
    """A shape in many cells: its pixels in the whole window, part by part, and where each part's begin."""

    places: Places
    starts: Places
    color: int


@dataclass(frozen=True, eq=False)
class _Hatching:
    """Diagonals over the cells of some rows; `spread` is which pixels of each strip are in such a cell."""

    rows: Places
    spread: Grid
    color: int
    distance: int


class Canvas:
    """Pixels of the part of a lane that is on screen, and which cell each belongs to.

    First everything is said that is to be drawn, in its order; `pixels` makes those of a part. Filled again, it draws
    the same over other colours.

    Attributes:
        parts: First row of the window and the one after the last of each part; none ends inside of a cell.
    """

    def __init__(self, layout: LaneLayout, window: Window, rows: int) -> None:
        """A part has about so many `rows`, and as many more as the last cells reach below."""
        self._layout, self._window = layout, window
        xs = np.arange(window.left, window.left + window.width)
        ys = np.arange(window.top, window.top + window.height)
        across, self._in_x = np.divmod(xs, layout.pitch)
        in_strip = (across >= 0) & (across < layout.fold) & (self._in_x < layout.cell)
        in_strip[: window.header] = False
        strips = len(layout.strip_tops)
        if strips:
            down = np.searchsorted(layout.strip_tops, ys, side="right") - 1
            self._in_y = ys - layout.strip_tops[down]
            in_line = (down >= 0) & (self._in_y < layout.cell)
        else:
            down, self._in_y, in_line = np.zeros_like(ys), np.zeros_like(ys), np.zeros(len(ys), bool)
        # One strip and one place more than there are: what lies between the cells.
        self._across = np.where(in_strip, across, layout.fold)
        self._down = np.where(in_line, down, strips)
        self._xs, self._ys = xs, ys
        self._rows = np.flatnonzero(in_line)
        seen = self._down[self._rows]
        # Only strips on screen are spread over the width.
        self._first, self._last = (int(seen[0]), int(seen[-1]) + 1) if len(seen) else (0, 0)
        self._down = np.where(in_line, self._down - self._first, self._last - self._first)
        edges = [0]
        for top in (layout.strip_tops[self._first : self._last] - window.top).tolist():
            if top - edges[-1] >= rows:
                edges.append(top)
        self.parts: tuple[tuple[int, int], ...] = tuple(pairwise([*edges, window.height]))
        self._filled: Pixels = np.zeros((self._last - self._first + 1, window.width), np.uint32)
        self._marks: list[_Stamp | _Hatching] = []
        self._places: tuple[Grid, Places, Places] | None = None

    def fill(self, colors: Pixels, ground: int) -> None:
        """Paint every cell.

        Args:
            colors: Of each place, shape (lines, columns); `ground` where no cell lies.
            ground: The colour between the cells.
        """
        self._filled = self._spread(colors, np.uint32(ground))

    def pixels(self, part: int, into: Pixels) -> None:
        """Make the pixels of a part; `into` has its shape (rows, width)."""
        first, last = self.parts[part]
        np.take(self._filled, self._down[first:last], axis=0, out=into, mode="clip")
        for mark in self._marks:
            if isinstance(mark, _Stamp):
                its = mark.places[mark.starts[part] : mark.starts[part + 1]]
                into.reshape(-1)[its] = mark.color
            else:
                self._hatch(mark, into, first)

    def hatch(self, cells: Grid, color: int, distance: int) -> None:
        """Draw diagonals over cells, a pixel or more wide and `distance` pixels from one to the next."""
        spread = self._spread(cells, np.bool_(False))
        rows = self._rows[spread.any(axis=1)[self._down[self._rows]]]
        self._marks.append(_Hatching(rows, spread, color, distance))

    def outline(self, cells: Grid, color: int, *, inset: int, thick: int, dash: int = 0) -> None:
        """Draw a frame inside of cells, `inset` pixels from their edge; `dash` pixels drawn and left out in turn."""
        if len(self._seen(cells)[0]):
            self.stamp(cells, color, _frame(self._layout.cell, inset, thick, dash), (0, 0))

    def stamp(self, cells: Grid, color: int, shape: Grid, corner: tuple[int, int]) -> None:
        """Draw a shape into cells, its left and top `corner` pixels from theirs."""
        window = self._window
        lefts, tops = self._seen(cells)
        if not len(lefts):
            return
        down, across = np.nonzero(shape)
        ys = tops[:, None] + (down + corner[1])
        xs = lefts[:, None] + (across + corner[0])
        inside = (xs >= window.header) & (xs < window.width) & (ys >= 0) & (ys < window.height)
        firsts = np.array([first for first, _last in self.parts], np.intp)
        part = np.maximum(np.searchsorted(firsts, tops, side="right") - 1, 0)
        places = ((ys - firsts[part, None]) * window.width + xs)[inside]
        before = np.concatenate([np.zeros(1, np.intp), np.cumsum(inside.sum(axis=1))])
        starts = before[np.searchsorted(part, np.arange(len(firsts) + 1))]  # cells come from the top downwards
        self._marks.append(_Stamp(places, starts, color))

    def _seen(self, cells: Grid) -> tuple[Places, Places]:
        """Lefts and tops in the window of cells on screen; kept, for a mark is often of several shapes."""
        if self._places is None or self._places[0] is not cells:
            window, layout = self._window, self._layout
            lefts, tops = layout.corners(*np.nonzero(cells))
            lefts, tops = lefts - window.left, tops - window.top
            seen = (lefts > window.header - layout.cell) & (lefts < window.width)
            seen &= (tops > -layout.cell) & (tops < window.height)
            self._places = (cells, lefts[seen], tops[seen])
        return self._places[1:]

    def _hatch(self, mark: _Hatching, pixels: Pixels, first: int) -> None:
        distance, thick = mark.distance, max(mark.distance // 6, 1)
        begin, end = np.searchsorted(mark.rows, (first, first + len(pixels)))
        rows = mark.rows[begin:end]
        # The pattern repeats: a line of it serves each row that begins at the same place in it.
        for shift in range(distance):
            its = rows[self._ys[rows] % distance == shift]
            if not len(its):
                continue
            columns = np.flatnonzero((self._xs + shift) % distance < thick)
            part = pixels[its[:, None] - first, columns]
            part[mark.spread[self._down[its]][:, columns]] = mark.color
            pixels[its[:, None] - first, columns] = part

    def _spread(self, values: NDArray[Any], empty: np.generic) -> NDArray[Any]:
        """Values of cells as values of each pixel of every strip on screen, shape (strips + 1, width)."""
        layout, first, last = self._layout, self._first, self._last
        strips = np.full((last - first + 1, layout.fold + 1), empty, values.dtype)
        if last > first:
            most = int(layout.strips.max())
            room = np.full((layout.lines, most * layout.fold), empty, values.dtype)
            room[:, : values.shape[1]] = values
            lines = layout.line_of_strip[first:last]
            folds = np.arange(first, last) - layout.starts[lines]
            strips[:-1, :-1] = room.reshape(layout.lines, most, layout.fold)[lines, folds]
        return np.take(strips, self._across, axis=1, mode="clip")


def mixed(colors: Pixels, others: Pixels | int, fraction: float | NDArray[np.float64]) -> Pixels:
    """Colours `fraction` of the way to others, opaque."""
    others = np.asarray(others, np.uint32)
    share = np.round(np.clip(fraction, 0.0, 1.0) * 256).astype(np.uint32)
    rest = 256 - share
    # Red and blue at once: neither product reaches the other's bits.
    two = ((colors & _TWO) * rest + (others & _TWO) * share >> 8) & _TWO
    green = (((colors >> 8) & 0xFF) * rest + ((others >> 8) & 0xFF) * share) & 0xFF00
    return two | green | np.uint32(0xFF000000)


@lru_cache(maxsize=32)
def _frame(cell: int, inset: int, thick: int, dash: int) -> Grid:
    """A frame in a cell of so many pixels, as `Canvas.outline` draws it."""
    along = np.arange(cell)
    from_edge = np.minimum(along, along[::-1])
    near = np.minimum(from_edge[:, None], from_edge[None, :])
    shape = (near >= inset) & (near < inset + thick)
    if dash:
        shape &= (along[:, None] + along[None, :]) // dash % 2 == 0
    return shape


def triangle(size: int) -> Grid:
    """An upward triangle as wide as high."""
    across = np.abs(np.arange(size) * 2 - (size - 1))
    return across[None, :] <= np.arange(size)[:, None]


def square(size: int) -> Grid:
    """A full square."""
    return np.ones((size, size), bool)
