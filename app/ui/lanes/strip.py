"""The heat strip of one layer: one cell per expert, as geometry and as an image."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QPoint
from PySide6.QtGui import QImage

from app.ui.lanes.heat import Fractions

SMALLEST_CELL = 4
"""Pixels, the gap of one included: narrower cells could not be told apart or pointed at."""
GAP = 1
SCALE_STEPS = 256
_CELL_HEIGHTS = {1: 17, 2: 11}
_SMALL_CELL_HEIGHT = 8
_THIN_BELOW = 10
"""Cells lower than this many pixels get marks of 1 pixel and lines of 2; taller ones of 2 and 3."""

Palette = NDArray[np.uint32]
"""Colours of the scale, SCALE_STEPS of them, as 0xAARRGGBB."""


@dataclass(frozen=True)
class Marks:
    """What is drawn into the cells besides their heat, told by shape as much as by colour.

    An expert in the GPU pool is underlined, one that is being copied there half underlined. One that is
    kept on the GPU is overlined, one that is kept on the CPU half overlined.

    Attributes:
        lanes, pins: One letter per expert, as `LayerExperts` has them.
        line: Colour of the lines below. over: colour of the lines above; both as 0xAARRGGBB.
    """

    lanes: str
    pins: str
    line: int
    over: int

    @property
    def any(self) -> bool:
        """False where there is nothing to draw."""
        return any(letter in self.lanes for letter in "gm") or any(letter in self.pins for letter in "gc")


@dataclass(frozen=True)
class StripGrid:
    """How a layer's experts are laid out: left to right, then down.

    Attributes:
        experts: Number of cells.
        columns: Cells in a full row.
        rows: Rows; the last one may be shorter.
        width: Pixels of a full row, all of them used: neighbours differ by a pixel where it does not
            divide evenly.
        cell_height: Pixels from one row to the next.
    """

    experts: int
    columns: int
    rows: int
    width: int
    cell_height: int

    @property
    def height(self) -> int:
        """Pixels of all rows."""
        return self.rows * self.cell_height - GAP

    def left_of(self, column: int) -> int:
        """Where a column begins, in pixels."""
        return column * self.width // self.columns

    def expert_at(self, point: QPoint) -> int | None:
        """The expert at a point relative to the strip's corner, gaps counted to the cell before."""
        if not (0 <= point.x() < self.width and 0 <= point.y() < self.rows * self.cell_height):
            return None
        column = ((point.x() + 1) * self.columns - 1) // self.width  # the last that begins at x or before
        expert = point.y() // self.cell_height * self.columns + column
        return expert if expert < self.experts else None


def strip_grid(experts: int, width: int) -> StripGrid:
    """The flattest grid whose cells are wide enough to read within `width` pixels.

    Rows are a power of two, so that the usual expert counts fill them all.
    """
    experts = max(experts, 1)
    width = max(width, SMALLEST_CELL)
    rows = 1
    while -(-experts // rows) * SMALLEST_CELL > width:
        rows *= 2
    columns = -(-experts // rows)
    return StripGrid(
        experts=experts,
        columns=columns,
        rows=-(-experts // columns),
        width=width,
        cell_height=_CELL_HEIGHTS.get(rows, _SMALL_CELL_HEIGHT),
    )


def strip_image(fractions: Fractions, grid: StripGrid, palette: Palette, marks: Marks | None = None) -> QImage:
    """Paint every cell in the colour of its fraction, and its marks; gaps and missing cells are transparent.

    A few numpy expressions per layer instead of painter calls per cell: 48 layers of 128 experts are
    repainted several times a second while the model answers.
    """
    cells = np.zeros(grid.rows * grid.columns, dtype=np.uint32)
    shown = fractions[: grid.experts]
    cells[: len(shown)] = palette[(shown * (SCALE_STEPS - 1)).astype(np.intp)]
    edges = np.arange(grid.columns + 1) * grid.width // grid.columns
    pixels = np.repeat(_spread(cells, grid, edges), grid.cell_height, axis=0)
    if marks is not None and marks.any:
        _draw_marks(pixels, grid, edges, marks)
    pixels[:, edges[1:] - GAP] = 0
    pixels[grid.cell_height - GAP :: grid.cell_height] = 0
    image = QImage(pixels.data, grid.width, grid.height, grid.width * 4, QImage.Format.Format_ARGB32)
    return image.copy()  # the copy owns its pixels; the array goes at return


def _spread(cells: NDArray[np.uint32], grid: StripGrid, edges: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Values per cell as values per pixel of each row's width, shape (rows, width)."""
    return np.repeat(cells.reshape(grid.rows, grid.columns), np.diff(edges), axis=1)


def _draw_marks(pixels: NDArray[np.uint32], grid: StripGrid, edges: NDArray[np.int64], marks: Marks) -> None:
    thin = grid.cell_height < _THIN_BELOW
    under, over = (2, 1) if thin else (3, 2)
    # The first pixels of each cell, half of it without its gap.
    halves = np.concatenate([np.arange(width) < (width - GAP) // 2 for width in np.diff(edges)])
    bottom = grid.cell_height - GAP
    for letters, whole, half, color, first, past in (
        (marks.lanes, "g", "m", marks.line, bottom - under, bottom),
        (marks.pins, "g", "c", marks.over, 0, over),
    ):
        kinds = _spread(_letters(letters, grid), grid, edges)
        drawn = (kinds == ord(whole)) | ((kinds == ord(half)) & halves)
        shown = np.where(drawn, np.uint32(color), np.uint32(0))
        for row in range(grid.rows):
            top = row * grid.cell_height
            band = pixels[top + first : top + past]
            band[:, drawn[row]] = shown[row][drawn[row]]
            # A hair of the ground keeps the line apart from a cell of its own colour.
            hair = top + (first - 1 if first else past)
            pixels[hair, drawn[row]] = 0


def _letters(letters: str, grid: StripGrid) -> NDArray[np.uint32]:
    cells = np.zeros(grid.rows * grid.columns, dtype=np.uint32)
    codes = np.frombuffer(letters[: grid.experts].encode("ascii"), dtype=np.uint8)
    cells[: len(codes)] = codes
    return cells
