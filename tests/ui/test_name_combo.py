"""Long names in a list of choices can be read whole."""

import pytest
from PySide6.QtCore import QEvent, QPoint
from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QApplication, QToolTip

from app.ui.name_combo import NameCombo

LONG = "Vulkan0 · NVIDIA GeForce RTX 4070 Ti SUPER Laptop GPU with a long name (7.9 GiB free)"


@pytest.fixture
def combo(qtbot, theme, qapp):
    theme.apply(qapp)
    made = NameCombo()
    qtbot.addWidget(made)
    made.addItems(["Automatic", LONG])
    made.setToolTip("Where attention is.")
    made.show()
    yield made
    made.hidePopup()


def test_a_name_that_does_not_fit_loses_its_middle_and_the_tip_tells_it(combo):
    combo.setCurrentIndex(1)
    combo.resize(240, combo.height())
    shown = combo.shown_text
    assert shown.startswith("Vulkan0")
    assert shown.endswith("free)")
    assert "…" in shown
    assert combo.tip == f"{LONG}\nWhere attention is."
    combo.grab()
    event = QHelpEvent(QEvent.Type.ToolTip, QPoint(5, 5), combo.mapToGlobal(QPoint(5, 5)))
    QApplication.sendEvent(combo, event)
    assert QToolTip.text() == combo.tip


def test_where_there_is_room_the_whole_name_is_shown_and_not_told_twice(combo):
    combo.setCurrentIndex(1)
    combo.resize(combo.sizeHint())
    assert combo.shown_text == LONG
    assert combo.tip == "Where attention is."


def test_a_long_name_makes_no_page_wider_and_the_open_list_shows_all_of_it(combo):
    assert combo.minimumSizeHint().width() < 200
    combo.resize(160, combo.height())
    combo.showPopup()
    screen = combo.screen().availableGeometry().width()
    assert combo.view().width() >= min(combo.fontMetrics().horizontalAdvance(LONG), screen - 40)
