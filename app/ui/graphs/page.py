"""The sheet that the graphs lie on: their order in rows and columns, and the keyboard's way through time."""

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QGridLayout, QWidget

from app.ui.graphs.time_window import TimeWindow
from app.ui.theme import GRID, set_role

PLOT_WIDTH = 300
"""Pixels a graph needs beside others."""
_ZOOM = 1.25
_STEPS = 10
"""Presses of a key from one edge of the picture to the other."""


class GraphsPage(QWidget):
    """Arranges graphs; keys: ← → move the time, with Shift the marked moment, + − zoom, Space pauses.

    Signals:
        pause_wanted: Hold the picture, or let it go.
        pan_wanted: Move the time by so many seconds.
    """

    pause_wanted = Signal()
    pan_wanted = Signal(float)

    def __init__(self, window: TimeWindow, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._window = window
        self._plots: list[QWidget] = []
        self._columns = 0
        set_role(self, "page")
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(GRID)

    def arrange(self, plots: Sequence[QWidget], width: int) -> None:
        """Lay these out in as many columns as `width` has room for; others are hidden."""
        columns = max(1, min(width // (PLOT_WIDTH + GRID), len(plots)))
        if list(plots) == self._plots and columns == self._columns:
            return
        for plot in self._plots:
            self._grid.removeWidget(plot)
            if plot not in plots:
                plot.hide()
        for row in range(self._grid.rowCount()):
            self._grid.setRowStretch(row, 0)
        for column in range(self._grid.columnCount()):
            self._grid.setColumnStretch(column, 0)
        self._plots, self._columns = list(plots), columns
        before: QWidget | None = None
        for place, plot in enumerate(plots):
            self._grid.addWidget(plot, place // columns, place % columns)
            self._grid.setRowStretch(place // columns, 1)
            self._grid.setColumnStretch(place % columns, 1)
            plot.show()
            if before is not None:
                QWidget.setTabOrder(before, plot)
            before = plot

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Move through time."""
        window = self._window
        shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        step = window.span / _STEPS
        match event.key():
            case Qt.Key.Key_Left | Qt.Key.Key_Right if shift:
                left = event.key() == Qt.Key.Key_Left
                window.point_at((window.cursor or 0.0) + (step if left else -step) / 5)
            case Qt.Key.Key_Left:
                self.pan_wanted.emit(-step)
            case Qt.Key.Key_Right:
                self.pan_wanted.emit(step)
            case Qt.Key.Key_Plus | Qt.Key.Key_Equal:
                window.zoom(1 / _ZOOM)
            case Qt.Key.Key_Minus:
                window.zoom(_ZOOM)
            case Qt.Key.Key_Space:
                self.pause_wanted.emit()
            case Qt.Key.Key_Home:
                self.pan_wanted.emit(-1e9)
            case Qt.Key.Key_End:
                window.go_live()
            case Qt.Key.Key_Escape if window.cursor is not None:
                window.point_at(None)
            case _:
                super().keyPressEvent(event)
