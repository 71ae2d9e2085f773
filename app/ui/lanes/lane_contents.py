"""What of the board is in one lane, as grids that are made once for each change and painted often. No Qt."""

from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from app.ui.lanes.board import ON_CPU, ON_GPU, Board, Mask
from app.ui.lanes.lane_pixels import COPYING, FLAT, FLAT_FADED, GROUND, HEAT_STEPS, Grid
from app.ui.lanes.packing import EMPTY, Packing
from app.ui.lanes.words import percent
from app.ui.words import in_bytes, number


@dataclass(frozen=True, eq=False)
class LaneContents:
    """The cells of a lane; every grid has the shape of the packing's table.

    Attributes:
        board: Every expert.
        packing: Which of them are here.
        selected: The selection, shape (rows, experts).
        hatched: Whether layers that nobody counts are told apart by hatching: something is loaded.
    """

    board: Board
    packing: Packing
    selected: Mask
    hatched: bool
    _shares: dict[tuple[int, int], str] = field(default_factory=dict)

    def of(self, mask: Mask) -> Grid:
        """A mask of the board at the places of the table."""
        return np.take(mask, self._cells) & self.here

    @cached_property
    def here(self) -> Grid:
        """Places with a cell."""
        return self.packing.table != EMPTY

    @cached_property
    def chosen(self) -> Grid:
        """Selected ones."""
        return self.of(self.selected)

    @cached_property
    def chosen_counts(self) -> NDArray[np.intp]:
        """How many of each line are selected, shape (lines,)."""
        return self.chosen.sum(axis=1)

    @cached_property
    def copying(self) -> Grid:
        """Those on their way into the pool."""
        return self.of(self.board.copying)

    @cached_property
    def on_gpu(self) -> Grid:
        """Those that are to be kept on the GPU."""
        return (self._pins == ON_GPU) & self.here

    @cached_property
    def on_cpu(self) -> Grid:
        """Those that are to be kept on the CPU."""
        return (self._pins == ON_CPU) & self.here

    @cached_property
    def uncounted(self) -> Grid:
        """Those whose routings nobody counts."""
        return self.here & ~self.board.counted[self.packing.rows][:, None]

    @cached_property
    def shades(self) -> NDArray[np.intp]:
        """The shade of each place of the packing's table, for cells that can be told apart."""
        shades = (np.take(self.board.fraction, self._cells) * (HEAT_STEPS - 1)).astype(np.intp)
        shades[self.uncounted] = FLAT
        shades[~self.here] = GROUND
        return shades

    @cached_property
    def tiny_shades(self) -> NDArray[np.intp]:
        """The same for tiny cells, which have no room for outlines."""
        shades = self.shades.copy()
        if self.selected.any():
            faded = self.here & ~self.chosen
            shades[faded] = np.where(self.uncounted, FLAT_FADED, shades + HEAT_STEPS)[faded]
        shades[self.copying] = COPYING
        return shades

    @cached_property
    def _cells(self) -> NDArray[np.intp]:
        """The cell in each place, counted over the whole board; any one where there is none."""
        return self.packing.rows[:, None] * self.board.experts + np.maximum(self.packing.table, 0)

    @cached_property
    def _pins(self) -> NDArray[np.uint8]:
        return np.take(self.board.pin, self._cells)

    # ---- words on cards -----------------------------------------------------------------------

    def share_text(self, row: int, expert: int) -> str:
        """The expert's part of its layer's routings: "2.1 %"; a dash where it is not known."""
        text = self._shares.get((row, expert))
        if text is None:
            total = int(self.totals[row])
            text = f"{percent(int(self.board.routed[row, expert]) / total)} %" if total else "–"
            self._shares[row, expert] = text
        return text

    @cached_property
    def size_texts(self) -> tuple[str, ...]:
        """What an expert of each row weighs."""
        return _sizes(tuple(self.board.expert_bytes.tolist()))

    @property
    def names(self) -> tuple[str, ...]:
        """The experts' numbers."""
        return _names(self.board.experts)

    @cached_property
    def totals(self) -> NDArray[np.int64]:
        """Routings of each row, 0 where nobody counts them."""
        return self.board.routed.sum(axis=1) * self.board.counted

    def share_codes(self, rows: NDArray[np.intp], experts: NDArray[np.int32]) -> NDArray[np.int64]:
        """Numbers that are the same where `share_text` is."""
        totals = self.totals[rows]
        percents = 100 * self.board.routed[rows, experts] / np.maximum(totals, 1)
        finest = np.where(percents >= 10, 1, np.where(percents >= 1, 10, 100))
        codes = np.floor(percents * finest + 0.5) * (100 // finest)
        # Less than a hundredth is not nothing, and nothing is not the same as not known.
        codes[(percents > 0) & (percents < 0.01)] = -1
        codes[totals == 0] = -2
        return codes.astype(np.int64)


@lru_cache(maxsize=4)
def _sizes(expert_bytes: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(in_bytes(size) for size in expert_bytes)


@lru_cache(maxsize=4)
def _names(experts: int) -> tuple[str, ...]:
    return tuple(number(expert) for expert in range(experts))
