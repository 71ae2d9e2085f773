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
_CELL_HEIGHTS = {1: 15, 2: 9}
_SMALL_CELL_HEIGHT = 6

Palette = NDArray[np.uint32]
"""Colours of the scale, SCALE_STEPS of them, as 0xAARRGGBB."""


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


def strip_image(fractions: Fractions, grid: StripGrid, palette: Palette) -> QImage:
    """Paint every cell in the colour of its fraction; gaps and missing cells are transparent.

    One numpy expression per layer instead of a painter call per cell: 48 layers of 128 experts are
    repainted several times a second while the model answers.
    """
    cells = np.zeros(grid.rows * grid.columns, dtype=np.uint32)
    shown = fractions[: grid.experts]
    cells[: len(shown)] = palette[(shown * (SCALE_STEPS - 1)).astype(np.intp)]
    edges = np.arange(grid.columns + 1) * grid.width // grid.columns
    pixels = np.repeat(cells.reshape(grid.rows, grid.columns), np.diff(edges), axis=1)
    pixels[:, edges[1:] - GAP] = 0
    pixels = np.repeat(pixels, grid.cell_height, axis=0)
    pixels[grid.cell_height - GAP :: grid.cell_height] = 0
    image = QImage(pixels.data, grid.width, grid.height, grid.width * 4, QImage.Format.Format_ARGB32)
    return image.copy()  # the copy owns its pixels; the array goes at return
