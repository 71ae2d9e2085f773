"""The docks beside the chat: shown with it, hidden with the wizard, their layout kept, and a sensible one at first."""

import itertools
from collections.abc import Sequence

from PySide6.QtCore import QByteArray, QObject, Qt, QTimer
from PySide6.QtWidgets import QDockWidget, QMainWindow

from app.ui.lazy_dock import LazyDock

LAYOUT_VERSION = 2
"""Of the saved layout: one with other docks is not restored."""
DOCK_WIDTH = 500
MOST_OF_WINDOW = 0.42
"""Share of the window's width that docks take at first, at most."""
BELOW_HEIGHT = 300
ROOM_FOR_TWO = 960
"""Pixels of the window's height from which the last dock stands below the others; with less it is one more tab."""


class DockArea(QObject):
    """Docks at the right of a main window.

    Their first layout: all are tabs of one place, so that each has room; in a high window the last one stands below.
    Later the user's own layout counts.
    """

    def __init__(self, window: QMainWindow, docks: Sequence[QDockWidget]) -> None:
        """`docks` in the order of their tabs."""
        super().__init__(window)
        self._window = window
        self._docks = tuple(docks)
        self._wanted = True
        self._to_show: list[QDockWidget] = []
        self._open = (True,) * len(self._docks)
        self._fresh = False
        # Not animated: an animation that ends late would undo the sizes that were given meanwhile.
        window.setDockOptions(QMainWindow.DockOption.AllowTabbedDocks | QMainWindow.DockOption.AllowNestedDocks)
        for dock in self._docks:
            window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, dock)
            dock.hide()

    @property
    def docks(self) -> tuple[QDockWidget, ...]:
        """All of them."""
        return self._docks

    def restore(self, layout: QByteArray) -> None:
        """Lay them out as they were left, or for the first time; they stay hidden until they are shown."""
        self._fresh = layout.isEmpty() or not self._window.restoreState(layout, LAYOUT_VERSION)
        if self._fresh:
            for dock in self._docks:
                dock.show()
        self.show(False)

    def kept(self) -> QByteArray | None:
        """The layout to keep; None while they are not as the user left them."""
        if not self._wanted or self._to_show:
            return None
        return self._window.saveState(LAYOUT_VERSION)

    def show(self, show: bool) -> None:
        """Show those that were open, or hide all."""
        if show == self._wanted:
            return
        if show:
            self._to_show = [dock for dock, is_open in zip(self._docks, self._open, strict=True) if is_open]
            if self._fresh:
                self._place()
            QTimer.singleShot(0, self, self._show_next)
        else:
            self._open = tuple(not dock.isHidden() or dock in self._to_show for dock in self._docks)
            self._to_show.clear()
            for dock in self._docks:
                dock.hide()
        self._wanted = show

    def shutdown(self) -> None:
        """End what still runs in them."""
        for dock in self._docks:
            if isinstance(dock, LazyDock):
                dock.shutdown()

    def _place(self) -> None:
        """The first layout, by the window's size now."""
        tabs = self._docks if self._window.height() < ROOM_FOR_TWO else self._docks[:-1]
        for before, dock in itertools.pairwise(tabs):
            self._window.tabifyDockWidget(before, dock)

    def _show_next(self) -> None:
        """One in each turn of the event loop, after the chat: each makes its contents when it is first seen."""
        if self._to_show:
            self._to_show.pop(0).show()
            QTimer.singleShot(0, self, self._show_next)
        elif self._wanted and self._fresh:
            self._fresh = False
            width = min(DOCK_WIDTH, round(self._window.width() * MOST_OF_WINDOW))
            docks = [self._docks[0], self._docks[-1]] if self._docks else []
            heights = [self._window.height() - BELOW_HEIGHT, BELOW_HEIGHT]
            self._window.resizeDocks(docks, heights[: len(docks)], Qt.Orientation.Vertical)
            self._window.resizeDocks(docks, [width] * len(docks), Qt.Orientation.Horizontal)
