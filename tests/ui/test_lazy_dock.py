"""Docks whose contents are made when they are first seen: their end with the window."""

import shiboken6
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMainWindow

from app.ui.lazy_dock import DockContent, LazyDock


class Content(DockContent):
    def set_active(self, active):
        self.active = active


class Dock(LazyDock):
    def make_content(self):
        return Content()


def test_a_window_that_is_deleted_while_its_docks_are_seen_raises_nothing(qtbot, qapp):
    window, dock = QMainWindow(), Dock("a", "a")
    window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, dock)
    window.show()
    qtbot.waitUntil(lambda: dock.content.isVisible() and dock.content.active)
    with qtbot.captureExceptions() as raised:
        shiboken6.delete(window)
        qapp.processEvents()
    assert raised == []
