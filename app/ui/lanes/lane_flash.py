"""Cells that flash in a lane after a change: what came here, and what left, for a third of a second."""

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtGui import QColor

from app.ui.lanes.board import Board, Change
from app.ui.lanes.lane_info import CPU, DISK, GPU
from app.ui.lanes.lane_paint import Tint
from app.ui.lanes.motion import FRAME_MILLISECONDS, MILLISECONDS, motion_wanted
from app.ui.theme import Colors

if TYPE_CHECKING:
    from app.ui.lanes.lane_area import LaneArea

_STRENGTH = 0.9

AWAY, TO_MEMORY, TO_GPU = range(3)
"""Where an expert goes: out of a lane that is quicker, from the disk into main memory, or to a GPU."""


@dataclass(frozen=True, eq=False)
class _Flash:
    """Cells of one colour: by row and expert where they came here, by line and column where they left."""

    began: float
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    came: bool
    going: int


class LaneFlash(QObject):
    """The flashes of one lane; its timer runs only while there are any."""

    def __init__(self, view: "LaneArea") -> None:
        super().__init__(view)
        self._view = view
        self._flashes: list[_Flash] = []
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(2 * FRAME_MILLISECONDS)  # a fade needs no more
        self._timer.timeout.connect(self._step)

    @property
    def active(self) -> bool:
        """True while something flashes."""
        return bool(self._flashes)

    def begin(self, change: Change) -> None:
        """Flash what a change brought here and took away."""
        view = self._view
        if not change.moved or not motion_wanted(view):
            return
        ways = ways_of(view.state.board, change)
        here = view.state.board.lanes.index(view.lane.key) if view.lane.key in view.state.board.lanes else -1
        lines, columns = view.places_before(change)
        for going in (TO_GPU, TO_MEMORY, AWAY):
            came = (change.after == here) & (ways == going)
            left = (change.before == here) & (ways == going) & (columns >= 0)
            if came.any():
                self._add(change.rows[came], change.experts[came], came=True, going=going)
            if left.any():
                self._add(lines[left], columns[left].astype(np.intp), came=False, going=going)

    def end(self) -> None:
        """Flash no more."""
        self._flashes.clear()
        self._timer.stop()

    def tints(self) -> tuple[Tint, ...]:
        """The colours over the cells now; a place that was left shows in what lies there now."""
        now, colors, packing = monotonic(), self._view.theme.colors, self._view.packing
        made = []
        for flash in self._flashes:
            left = 1 - (now - flash.began) * 1000 / MILLISECONDS
            if left <= 0:
                continue
            lines, columns = flash.first, flash.second
            if flash.came:
                lines, columns = packing.places_of(flash.first, flash.second)
                here = columns >= 0
                lines, columns = lines[here], columns[here].astype(np.intp)
            color = change_color(colors, flash.going).rgba()
            made.append(Tint(lines, columns, color, left * _STRENGTH))
        return tuple(made)

    def _add(self, first: NDArray[np.intp], second: NDArray[np.intp], *, came: bool, going: int) -> None:
        self._flashes.append(_Flash(monotonic(), first, second, came, going))
        if not self._timer.isActive():
            self._timer.start()

    def _step(self) -> None:
        end = monotonic() - MILLISECONDS / 1000
        self._flashes = [flash for flash in self._flashes if flash.began > end]
        if not self._flashes:
            self._timer.stop()
        self._view.repaint_cells()


def ways_of(board: Board, change: Change) -> NDArray[np.intp]:
    """Where each of the moved cells goes: TO_GPU, TO_MEMORY, or AWAY for one that was evicted."""
    kinds = [board_kind(lane) for lane in board.lanes]
    gpu, cpu, disk = (np.array([its == kind for its in kinds], bool) for kind in (GPU, CPU, DISK))
    read = disk[change.before] & cpu[change.after]
    return np.where(gpu[change.after], TO_GPU, np.where(read, TO_MEMORY, AWAY))


def board_kind(lane: str) -> str:
    """What kind of lane a plan's word means: "gpu", "cpu" or "disk"."""
    return lane.casefold() if lane.casefold() in ("cpu", "disk") else GPU


def change_color(colors: Colors, going: int) -> QColor:
    """The colour of the lane that an expert comes to, and another of what is evicted."""
    return {TO_GPU: colors.gpu, TO_MEMORY: colors.cpu, AWAY: colors.warning}[going]
