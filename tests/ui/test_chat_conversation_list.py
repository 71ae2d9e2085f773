"""The list of conversations beside the chat."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton

from app.errors import AppError, ErrorCode
from app.ui.chat.conversation_list import ConversationList, ConversationListModel


def fill(store, *titles):
    return [store.new_conversation(title) for title in titles]


def test_the_model_keeps_qts_rules(make_controller, store, qtmodeltester):
    fill(store, "one", "two", "three")
    model = ConversationListModel(make_controller().conversation)
    assert model.rowCount() == 3
    qtmodeltester.check(model)


def test_the_last_used_conversation_is_first(make_controller, store):
    first, second = fill(store, "one", "")
    model = ConversationListModel(make_controller().conversation)
    assert [model.conversation_at(row) for row in range(2)] == [second, first]
    assert [model.index(row).data() for row in range(2)] == ["Untitled", "one"]
    assert model.index(1).data(Qt.ItemDataRole.AccessibleTextRole) == "one"
    store.rename(first, "1 <b>2")
    model.refresh()
    assert model.index(1).data(Qt.ItemDataRole.ToolTipRole) == "<span>1 &lt;b&gt;2</span>"
    assert (model.row_of(first), model.row_of(None), model.row_of(99)) == (1, -1, -1)


def test_the_list_is_wide_enough_for_its_button_in_a_large_font(make_controller, qtbot):
    made = ConversationList(make_controller().conversation)
    qtbot.addWidget(made)
    made.show()
    usual = made.width()
    button = made.findChild(QPushButton)
    button.setText("A new conversation in a language of very long words")
    qtbot.waitUntil(lambda: button.width() >= button.sizeHint().width())
    assert made.width() > usual


def test_a_list_that_cannot_be_read_is_told(make_controller, store, monkeypatch, qtbot):
    conversation = make_controller().conversation
    model = ConversationListModel(conversation)

    def broken():
        raise AppError(ErrorCode.STORE_UNREADABLE, "It is broken.")

    monkeypatch.setattr(store, "conversations", broken)
    with qtbot.waitSignal(conversation.failed) as told:
        model.refresh()
    assert told.args[0].code is ErrorCode.STORE_UNREADABLE


@pytest.mark.parametrize("way", ["click", "return"])
def test_a_conversation_is_opened_by_mouse_and_by_keyboard(make_controller, store, qtbot, way):
    first, _second = fill(store, "one", "two")
    controller = make_controller()
    sidebar = ConversationList(controller.conversation)
    qtbot.addWidget(sidebar)
    sidebar.resize(240, 400)
    sidebar.show()
    qtbot.waitExposed(sidebar)
    view = sidebar.view
    with qtbot.waitSignal(controller.conversation.changed):
        if way == "click":
            qtbot.mouseClick(
                view.viewport(), Qt.MouseButton.LeftButton, pos=view.visualRect(view.model().index(1)).center()
            )
        else:
            view.setFocus()
            qtbot.keyClick(view, Qt.Key.Key_Down)
            qtbot.keyClick(view, Qt.Key.Key_Return)
    assert controller.conversation.id == first
    assert view.currentIndex().row() == 1
