"""Docks whose contents are made when they are first seen: their end with the window."""

import shiboken6
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMainWindow

from app.ui.lazy_dock import DockContent, LazyDock


class Content(DockContent):
    def set_active(self, active):
        self.setEnabled(True)  # fails where the widget is gone
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


def test_contents_that_went_before_their_dock_are_told_nothing(qtbot, qapp):
    window, dock = QMainWindow(), Dock("a", "a")
    qtbot.addWidget(window)
    window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, dock)
    window.show()
    qtbot.waitUntil(lambda: dock.content.isVisible() and dock.content.active)
    with qtbot.captureExceptions() as raised:
        shiboken6.delete(dock.content)
        dock.hide()
        dock.show()
        window.showMinimized()
        qapp.processEvents()
    assert raised == []


def test_a_dock_that_is_gone_takes_a_late_signal_without_a_word(qtbot):
    dock = Dock("a", "a")
    shiboken6.delete(dock)
    dock._seen(False)
