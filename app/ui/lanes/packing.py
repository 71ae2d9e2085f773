"""Where the cells of one lane lie: a line for each layer with experts there, packed from left to right by index."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

EMPTY = -1
"""In `Packing.table`: no expert lies in this place."""


class Packing:
    """The lines and columns of a lane's cells.

    A *line* counts the shown layers from 0, a *row* is a layer's place on the board, shown here or not.

    Attributes:
        shape: (rows, experts) of the board.
        rows: The board's row of each line, rising, shape (lines,).
        counts: Cells of each line, shape (lines,); never 0.
        table: The expert in each place, EMPTY behind a line's last one, shape (lines, columns), int32.
    """

    def __init__(self, mask: NDArray[np.bool_]) -> None:
        """`mask` says which cells of the board are in the lane, shape (rows, experts)."""
        self.shape = mask.shape
        amounts = mask.sum(axis=1)
        self.rows = np.flatnonzero(amounts)
        self.counts = amounts[self.rows]
        experts = np.nonzero(mask)[1]
        starts = np.cumsum(self.counts) - self.counts
        # Masks are filled row by row, as cells are found: quicker than by the indices of each.
        taken = np.arange(int(self.counts.max(initial=0))) < self.counts[:, None]
        self.table = np.full(taken.shape, EMPTY, np.int32)
        self.table[taken] = experts
        self._line_of = np.full(self.shape[0], EMPTY, np.intp)
        self._line_of[self.rows] = np.arange(len(self.rows))
        self._column_of = np.full(self.shape, EMPTY, np.int32)
        self._column_of[mask] = np.arange(len(experts)) - np.repeat(starts, self.counts)

    @cached_property
    def order(self) -> dict[int, NDArray[np.int32]]:
        """The experts of each shown row from left to right, by row."""
        return {
            row: line[:count]
            for row, line, count in zip(self.rows.tolist(), self.table, self.counts.tolist(), strict=True)
        }

    @property
    def lines(self) -> int:
        """Layers with cells here."""
        return len(self.rows)

    @property
    def columns(self) -> int:
        """Cells of the longest line."""
        return self.table.shape[1]

    @property
    def cells(self) -> int:
        """Cells in all lines."""
        return int(self.counts.sum())

    def part(self, first: int, last: int) -> "Packing":
        """The lines from `first` to before `last`, which are counted from 0 again."""
        mask = np.zeros(self.shape, bool)
        rows = self.rows[first:last]
        mask[rows] = self._column_of[rows] != EMPTY
        return Packing(mask)

    def line_of(self, row: int) -> int | None:
        """The line of a board's row; None where it has no cell here."""
        line = int(self._line_of[row]) if 0 <= row < self.shape[0] else EMPTY
        return None if line == EMPTY else line

    def place_of(self, row: int, expert: int) -> tuple[int, int] | None:
        """Line and column of a cell; None where it is in another lane or not on the board."""
        if not (0 <= row < self.shape[0] and 0 <= expert < self.shape[1]):
            return None
        column = int(self._column_of[row, expert])
        return None if column == EMPTY else (int(self._line_of[row]), column)

    def places_of(
        self, rows: NDArray[np.intp], experts: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
        """Lines and columns of many cells of the board; the column is EMPTY where one is in another lane."""
        return self._line_of[rows], self._column_of[rows, experts]

    def cell_at(self, line: int, column: int) -> tuple[int, int] | None:
        """Row and expert of the cell in a place; None where there is none."""
        if not (0 <= line < self.lines and 0 <= column < self.columns):
            return None
        expert = int(self.table[line, column])
        return None if expert == EMPTY else (int(self.rows[line]), expert)
