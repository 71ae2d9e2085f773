"""The cells of a lane as pixels: colours by number, spread over the screen by numpy alone. No Qt.

Whatever is drawn for thousands of small cells is drawn here, a few array expressions for all of them: fills, hatching,
outlines and small marks. A *shade* is a place in a table of SHADES colours.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.ui.lanes.lane_layout import LaneLayout

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


class Canvas:
    """Pixels of the part of a lane that is on screen, and which cell each belongs to.

    Attributes:
        pixels: Shape (height, width); undefined before `fill`.
    """

    def __init__(self, layout: LaneLayout, window: Window) -> None:
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
        self.pixels: Pixels = np.empty((window.height, window.width), np.uint32)

    def fill(self, colors: Pixels, ground: int) -> None:
        """Paint every cell.

        Args:
            colors: Of each place, shape (lines, columns); `ground` where no cell lies.
            ground: The colour between the cells.
        """
        np.take(self._spread(colors, np.uint32(ground)), self._down, axis=0, out=self.pixels, mode="clip")

    def hatch(self, cells: Grid, color: int, distance: int) -> None:
        """Draw diagonals over cells, a pixel or more wide and `distance` pixels from one to the next."""
        spread = self._spread(cells, np.bool_(False))
        rows = self._rows[spread.any(axis=1)[self._down[self._rows]]]
        thick = max(distance // 6, 1)
        # The pattern repeats: a line of it serves each row that begins at the same place in it.
        for shift in range(distance):
            its = rows[self._ys[rows] % distance == shift]
            columns = np.flatnonzero((self._xs + shift) % distance < thick)
            part = self.pixels[its[:, None], columns]
            part[spread[self._down[its]][:, columns]] = color
            self.pixels[its[:, None], columns] = part

    def outline(self, cells: Grid, color: int, *, inset: int, thick: int, dash: int = 0) -> None:
        """Draw a frame inside of cells, `inset` pixels from their edge; `dash` pixels drawn and left out in turn."""
        along = np.arange(self._layout.cell)
        from_edge = np.minimum(along, along[::-1])
        near = np.minimum(from_edge[:, None], from_edge[None, :])
        shape = (near >= inset) & (near < inset + thick)
        if dash:
            shape &= (along[:, None] + along[None, :]) // dash % 2 == 0
        self.stamp(cells, color, shape, (0, 0))

    def stamp(self, cells: Grid, color: int, shape: Grid, corner: tuple[int, int]) -> None:
        """Draw a shape into cells, its left and top `corner` pixels from theirs."""
        window, layout = self._window, self._layout
        lines, columns = np.nonzero(cells)
        lefts, tops = layout.corners(lines, columns)
        lefts, tops = lefts - window.left, tops - window.top
        seen = (lefts > window.header - layout.cell) & (lefts < window.width)
        seen &= (tops > -layout.cell) & (tops < window.height)
        down, across = np.nonzero(shape)
        ys = tops[seen, None] + (down + corner[1])
        xs = lefts[seen, None] + (across + corner[0])
        inside = (xs >= window.header) & (xs < window.width) & (ys >= 0) & (ys < window.height)
        self.pixels.reshape(-1)[(ys * window.width + xs)[inside]] = color

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


def mixed(colors: Pixels, others: Pixels | int, fraction: float) -> Pixels:
    """Colours `fraction` of the way to others, opaque."""
    others = np.asarray(others, np.uint32)
    share = np.uint32(round(min(max(fraction, 0.0), 1.0) * 256))
    result = np.full(np.broadcast_shapes(colors.shape, others.shape), 0xFF000000, np.uint32)
    for shift in (0, 8, 16):
        first, second = (colors >> shift) & 0xFF, (others >> shift) & 0xFF
        result |= ((first * (256 - share) + second * share) >> 8) << shift
    return result


def triangle(size: int) -> Grid:
    """An upward triangle as wide as high."""
    across = np.abs(np.arange(size) * 2 - (size - 1))
    return across[None, :] <= np.arange(size)[:, None]


def square(size: int) -> Grid:
    """A full square."""
    return np.ones((size, size), bool)
