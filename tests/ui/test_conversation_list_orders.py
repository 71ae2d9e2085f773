"""Conversations in the list: renaming in the row, the menu and its keys, names for screen readers."""

import pytest
from controller_driver import seen, until
from conversation_list_driver import (
    agree,
    choose,
    delete,
    editor,
    ids,
    rename,
    right_click,
    texts,
    titles,
    to_list,
)
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QApplication, QLineEdit

from app.chat.store import StoreBusyError
from app.ui.controller import ANSWERING
from app.ui.stylesheet import style_sheet
from app.ui.theme import mix

# ---- renaming --------------------------------------------------------------------------------------


def test_f2_renames_in_the_list_and_opens_nothing(make_controller, make_list_page, store, three_stored, qtbot):
    controller = make_controller()
    page = make_list_page(controller)
    choose(page, 1)
    rename(qtbot, page, "A <b>better</b> name")
    assert titles(page) == ["Third topic", "A <b>better</b> name", "First topic"]
    assert [stored.title for stored in store.conversations()] == titles(page)
    assert page.sidebar.view.currentIndex().row() == 1
    assert controller.conversation.id == three_stored[0]


def test_escape_leaves_the_title_as_it_was(make_controller, make_list_page, store, three_stored, qtbot):
    page = make_list_page(make_controller())
    rename(qtbot, page, "Something else", Qt.Key.Key_Escape)
    assert titles(page)[0] == store.conversations()[0].title == "Third topic"


def test_escape_in_the_editor_does_not_stop_the_answer(loaded_controller, make_list_page, qtbot):
    controller = loaded_controller("--tokens", 50, "--hold-after", 3)
    page = make_list_page(controller)
    page.ask("Hello?")
    until(qtbot, lambda: texts(page)[-1] == "Word 1 2")
    to_list(qtbot, page)
    stopped = seen(controller.finished)
    rename(qtbot, page, "Something else", Qt.Key.Key_Escape)
    assert controller.state == ANSWERING
    with qtbot.waitSignal(controller.finished):
        controller.stop()
    assert len(stopped) == 1


def test_an_empty_name_brings_back_the_first_question(make_controller, make_list_page, store, three_stored, qtbot):
    store.rename(three_stored[0], "My name for it")
    page = make_list_page(make_controller())
    assert titles(page)[0] == "My name for it"
    rename(qtbot, page, "")
    assert titles(page)[0] == "Third topic"


def test_the_title_that_another_window_gave_is_shown_once_the_list_is_read(
    make_controller, make_list_page, other_window, three_stored, qtbot
):
    page = make_list_page(make_controller())
    other_window.rename(three_stored[2], "Renamed elsewhere")
    choose(page, 1)
    rename(qtbot, page, "Renamed here")
    assert titles(page) == ["Third topic", "Renamed here", "Renamed elsewhere"]


def test_renaming_one_that_another_window_deleted_is_told_and_the_list_is_read_again(
    make_controller, make_list_page, other_window, three_stored, qtbot
):
    controller = make_controller()
    page = make_list_page(controller)
    choose(page, 1)
    other_window.delete(three_stored[1])
    rename(qtbot, page, "Too late")
    assert ids(page) == [three_stored[0], three_stored[2]]
    assert "Another window deleted this conversation." in page.banner.text
    assert page.banner.isVisible()
    assert controller.conversation.id == three_stored[0]


@pytest.mark.parametrize("order", ["rename", "delete"])
def test_a_store_that_is_kept_by_another_program_is_told_and_changes_nothing(
    make_controller, make_list_page, store, home, three_stored, qtbot, monkeypatch, order
):
    page = make_list_page(make_controller())

    def busy(*_arguments):
        raise StoreBusyError(home / "conversations.db", "database is locked")

    monkeypatch.setattr(store, order, busy)
    if order == "rename":
        rename(qtbot, page, "Not now")
    else:
        delete(qtbot, page)
    assert titles(page) == ["Third topic", "Second topic", "First topic"]
    assert texts(page)[0] == "Third topic"
    assert "Another program is writing" in page.banner.text


def test_no_click_begins_to_edit(make_controller, make_list_page, three_stored, qtbot):
    controller = make_controller()
    page = make_list_page(controller)
    view = page.sidebar.view
    place = view.visualRect(view.model().index(1)).center()
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    qtbot.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    qtbot.mouseDClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert view.findChildren(QLineEdit) == []
    assert controller.conversation.id == three_stored[1]


# ---- the menu --------------------------------------------------------------------------------------


def test_a_right_click_opens_the_menu_of_its_row_and_not_the_conversation(
    make_controller, make_list_page, three_stored, qtbot
):
    controller = make_controller()
    page = make_list_page(controller)
    orders = page.sidebar.orders
    right_click(qtbot, page, 2)
    assert orders.menu.isVisible()
    assert page.sidebar.view.currentIndex().row() == 2
    assert controller.conversation.id == three_stored[0]
    assert [action.text().replace("&", "") for action in orders.menu.actions()] == ["Rename…", "Delete…"]
    orders.menu.close()
    until(qtbot, lambda: page.sidebar.view.currentIndex().row() == 0)  # what is shown is marked again


def test_a_right_click_beside_the_rows_opens_no_menu(make_controller, make_list_page, three_stored, qtbot):
    page = make_list_page(make_controller())
    view = page.sidebar.view
    place = QPoint(20, view.viewport().height() - 5)
    mouse = QContextMenuEvent(QContextMenuEvent.Reason.Mouse, place, view.viewport().mapToGlobal(place))
    QApplication.sendEvent(view.viewport(), mouse)
    assert not page.sidebar.orders.menu.isVisible()


@pytest.mark.parametrize(
    ("key", "held"),
    [(Qt.Key.Key_Menu, Qt.KeyboardModifier.NoModifier), (Qt.Key.Key_F10, Qt.KeyboardModifier.ShiftModifier)],
)
def test_the_menu_opens_by_keyboard_and_renames_the_current_row(
    make_controller, make_list_page, three_stored, qtbot, key, held
):
    page = make_list_page(make_controller())
    choose(page, 1)
    qtbot.keyClick(page.sidebar.view, key, held)
    menu = page.sidebar.orders.menu
    assert menu.isVisible()
    qtbot.keyClick(menu, Qt.Key.Key_R)
    made = editor(qtbot, page)
    assert made.text() == "Second topic"
    qtbot.keyClick(made, Qt.Key.Key_Escape)
    assert page.sidebar.view.currentIndex().row() == 1


def test_the_menu_deletes_the_row_that_was_clicked(make_controller, make_list_page, store, three_stored, qtbot):
    page = make_list_page(make_controller())
    right_click(qtbot, page, 2)
    qtbot.keyClick(page.sidebar.orders.menu, Qt.Key.Key_D)
    assert "First topic" in page.sidebar.orders.question.text()
    agree(qtbot, page)
    assert ids(page) == three_stored[:2]
    assert page.sidebar.view.currentIndex().row() == 0


def test_the_button_opens_the_same_menu_and_waits_for_a_conversation(make_controller, make_list_page, store, qtbot):
    page = make_list_page(make_controller())
    button, menu = page.sidebar.menu_button, page.sidebar.orders.menu
    assert not button.isEnabled()
    conversation = store.new_conversation("Now there is one")
    page.sidebar.view.model().refresh()
    page.sidebar.view.setCurrentIndex(page.sidebar.view.model().index(0))
    assert button.isEnabled()
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert menu.isVisible()
    qtbot.keyClick(menu, Qt.Key.Key_D)
    agree(qtbot, page)
    assert conversation not in ids(page)
    assert not button.isEnabled()


def test_tab_leads_from_the_button_to_the_list_and_on_to_the_page(make_controller, make_list_page, three_stored, qtbot):
    page = make_list_page(make_controller())
    page.sidebar.menu_button.setFocus()
    qtbot.keyClick(page.sidebar.menu_button, Qt.Key.Key_Tab)
    assert page.sidebar.view.hasFocus()
    qtbot.keyClick(page.sidebar.view, Qt.Key.Key_Tab)
    assert not page.sidebar.isAncestorOf(QApplication.focusWidget())


def test_the_editor_and_the_button_have_names_for_screen_readers(make_controller, make_list_page, three_stored, qtbot):
    page = make_list_page(make_controller())
    assert page.sidebar.menu_button.accessibleName() == "Rename or delete the conversation"
    assert "F2" in page.sidebar.view.accessibleDescription()
    qtbot.keyClick(page.sidebar.view, Qt.Key.Key_F2)
    made = editor(qtbot, page)
    assert made.accessibleName() == "Title of the conversation"
    qtbot.keyClick(made, Qt.Key.Key_Escape)


@pytest.mark.parametrize("points", [10.0, 20.0])
def test_the_editor_has_room_for_its_letters_in_its_row(
    make_controller, make_list_page, theme, three_stored, qtbot, points
):
    page = make_list_page(make_controller())
    font = page.font()
    font.setPointSizeF(points)
    page.setFont(font)
    page.setStyleSheet(style_sheet(theme.colors, mix, points))
    qtbot.keyClick(page.sidebar.view, Qt.Key.Key_F2)
    made = editor(qtbot, page)
    assert made.fontInfo().pointSizeF() == pytest.approx(points, abs=0.5)
    assert made.fontMetrics().height() + 2 <= made.height() <= made.parentWidget().height()
    assert made.fontMetrics().horizontalAdvance("Third topic") < made.width() <= made.parentWidget().width()
    qtbot.keyClick(made, Qt.Key.Key_Escape)
