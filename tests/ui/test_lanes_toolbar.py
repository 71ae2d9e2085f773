"""The tools over the lanes say whole words, in a wide dock and in a narrow one, at every size of letters."""

import pytest
from PySide6.QtGui import QUndoStack
from PySide6.QtWidgets import QMenu, QStyle, QStyleOptionFrame, QWidget

from app.ui.lanes.toolbar import LanesToolbar


@pytest.mark.parametrize("points", [9, 13, 20])
@pytest.mark.parametrize("compact", [False, True])
def test_the_example_of_a_search_is_not_cut_off(theme, qtbot, points, compact):
    outer = QWidget()
    qtbot.addWidget(outer)
    outer.setStyleSheet(f"QWidget {{ font-size: {points}pt; }}")
    toolbar = LanesToolbar(QUndoStack(outer), QMenu(outer), outer)
    toolbar.set_compact(compact)
    outer.resize(420 if compact else 1100, 400)
    toolbar.resize(outer.size())
    outer.show()
    search, option = toolbar.search, QStyleOptionFrame()
    search.initStyleOption(option)
    room = search.style().subElementRect(QStyle.SubElement.SE_LineEditContents, option, search)
    assert search.fontMetrics().horizontalAdvance(search.placeholderText()) <= room.width()
    assert search.width() <= outer.width()
