"""The whole window with every dock open: each control has a name for screen readers and a way there by keyboard."""

import pytest
from controller_driver import PATIENCE, answer
from lanes_driver import load_on_cpu
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDockWidget,
    QLineEdit,
    QPlainTextEdit,
    QScrollBar,
    QTabBar,
    QTextEdit,
    QWidget,
)
from ui_factories import MIB

from app.ui.main_window import build_window

CONTROLS = (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QTabBar,
    QTextEdit,
)
INNER = (QAbstractItemView, QAbstractSpinBox, QComboBox, QTabBar)
"""Controls whose parts are theirs: the keyboard goes to the whole."""


@pytest.fixture
def window(loaded_controller, theme, settings, qtbot):
    """A loaded model that has answered, the chat, and the three docks with the lanes' selection."""
    controller = loaded_controller("--tokens", 20)
    load_on_cpu(controller, qtbot, pool=8 * MIB)
    made = build_window(controller, theme, settings)
    made.resize(1700, 1000)
    made.show()
    qtbot.waitExposed(made)
    made.show_chat()
    answer(qtbot, controller)
    yield made
    made.close()
    made.deleteLater()


def controls(window):
    """What a user can operate now."""
    found = []
    for widget in window.findChildren(QWidget):
        if not isinstance(widget, CONTROLS) or isinstance(widget, QScrollBar) or widget.objectName().startswith("qt_"):
            continue
        parent = widget.parentWidget()
        inner = isinstance(parent, INNER) or isinstance(parent.parentWidget(), INNER)
        if not inner and widget.window() is window and widget.isVisible() and widget.isEnabled():
            found.append(widget)
    return found


def chain_of(window):
    """Every widget that the Tab key can come to."""
    found, widget = [window], window.nextInFocusChain()
    while widget is not window:
        found.append(widget)
        widget = widget.nextInFocusChain()
    return found


def name_of(widget):
    return QAccessible.queryAccessibleInterface(widget).text(QAccessible.Text.Name).strip(" ▲■↶↷×…")


def parts_of(dock):
    """Show each page of a dock in turn."""
    yield
    tabs = getattr(dock.content, "tabs", None)
    for page in range(1, tabs.count() if tabs is not None else 0):
        tabs.setCurrentIndex(page)
        yield


def test_every_control_of_every_dock_has_a_name_and_a_way_there_by_keyboard(window, qtbot):
    docks = window.findChildren(QDockWidget)
    assert len(docks) == 3
    seen, unnamed, unreached = {}, [], []
    for dock in docks:
        dock.show()
        dock.raise_()
        qtbot.waitUntil(lambda dock=dock: dock.widget() is not None and dock.widget().isVisible(), timeout=PATIENCE)
        for _ in parts_of(dock):
            QApplication.processEvents()
            chain = set(chain_of(window))
            for widget in controls(window):
                seen[widget] = name_of(widget)
                if not seen[widget]:
                    unnamed.append((type(widget).__name__, widget.parentWidget()))
                if not (widget.focusPolicy() & Qt.FocusPolicy.TabFocus and widget in chain):
                    unreached.append((type(widget).__name__, seen[widget], widget.parentWidget()))
    assert {"Your question", "Pause", "Search a layer or an expert", "Size of the expert pool"} <= set(seen.values())
    assert len(seen) > 40
    assert unnamed == []
    assert unreached == []
