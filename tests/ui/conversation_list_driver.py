"""Renames and deletes in the list of conversations as a user does, for the tests of both."""

from controller_driver import until
from PySide6.QtCore import Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QApplication, QLineEdit, QMessageBox

from app.ui.chat.page import ChatPage


def show_page(qtbot, theme, controller):
    """A chat page, shown, with the keyboard in its list."""
    page = ChatPage(controller, theme)
    qtbot.addWidget(page)
    page.resize(1000, 700)
    page.show()
    qtbot.waitExposed(page)
    to_list(qtbot, page)
    return page


def fill(store):
    """Ids of three conversations with a question and an answer each, as the list has them: the newest first."""
    made = []
    for title in ("First topic", "Second topic", "Third topic"):
        conversation = store.new_conversation()
        question = store.add_message(conversation, None, "user", title)
        store.add_message(conversation, question, "assistant", f"About the {title}")
        made.insert(0, conversation)
    return made


def to_list(qtbot, page):
    """Put the keyboard into the list."""
    page.activateWindow()
    page.sidebar.view.setFocus()
    until(qtbot, page.sidebar.view.hasFocus)


def choose(page, row):
    """Make a row the current one, as the arrow keys do."""
    view = page.sidebar.view
    view.setCurrentIndex(view.model().index(row))


def titles(page):
    """What the list shows."""
    model = page.sidebar.view.model()
    return [model.index(row).data() for row in range(model.rowCount())]


def ids(page):
    """Whose conversations the list shows."""
    model = page.sidebar.view.model()
    return [model.conversation_at(row) for row in range(model.rowCount())]


def texts(page):
    """What the transcript shows."""
    return [message.text for message in page.transcript.messages]


def editor(qtbot, page):
    """The editor of a title, once it has the keyboard."""
    until(qtbot, lambda: isinstance(QApplication.focusWidget(), QLineEdit))
    made = QApplication.focusWidget()
    assert page.sidebar.view.isAncestorOf(made)
    return made


def rename(qtbot, page, text, key=Qt.Key.Key_Return):
    """Write another title over the current one and end with `key`."""
    qtbot.keyClick(page.sidebar.view, Qt.Key.Key_F2)
    made = editor(qtbot, page)
    made.selectAll()
    if text:
        qtbot.keyClicks(made, text)
    else:
        qtbot.keyClick(made, Qt.Key.Key_Delete)
    qtbot.keyClick(made, key)
    until(qtbot, page.sidebar.view.hasFocus)


def ask_delete(qtbot, page):
    """Press Delete; the question that comes, or None."""
    qtbot.keyClick(page.sidebar.view, Qt.Key.Key_Delete)
    return page.sidebar.orders.question


def agree(qtbot, page):
    """Answer the question with Delete."""
    box = page.sidebar.orders.question
    (yes,) = (button for button in box.buttons() if box.buttonRole(button) is QMessageBox.ButtonRole.DestructiveRole)
    qtbot.mouseClick(yes, Qt.MouseButton.LeftButton)
    assert page.sidebar.orders.question is None


def delete(qtbot, page):
    """Delete the current conversation."""
    ask_delete(qtbot, page)
    agree(qtbot, page)


def right_click(qtbot, page, row):
    """Press the right button on a row."""
    view = page.sidebar.view
    place = view.visualRect(view.model().index(row)).center()
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.RightButton, pos=place)
    mouse = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, place, view.viewport().mapToGlobal(place))
    QApplication.sendEvent(view.viewport(), mouse)
