"""Deleting conversations: the question, what is shown then, a running answer, and other windows that were first."""

import pytest
from controller_driver import answer, seen, until
from conversation_list_driver import (
    agree,
    ask_delete,
    choose,
    delete,
    ids,
    texts,
    titles,
    to_list,
)
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox

from app.chat.store import StoreBusyError
from app.errors import AppError, ErrorCode
from app.ui.controller import ANSWERING, READY


def test_the_question_names_the_conversation_and_all_its_messages_and_cancel_is_the_default(
    make_controller, make_list_page, store, three_stored, qtbot
):
    first = store.active_path(three_stored[0])[0]
    store.add_message(three_stored[0], first.id, "assistant", "Another branch")
    page = make_list_page(make_controller())
    box = ask_delete(qtbot, page)
    assert box.text() == "Delete “Third topic”?"
    assert box.informativeText() == "Its 3 messages are deleted with it. This cannot be undone."
    assert box.textFormat() is Qt.TextFormat.PlainText
    assert box.defaultButton() is box.button(QMessageBox.StandardButton.Cancel)
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert page.sidebar.orders.question is None
    assert store.message_count(three_stored[0]) == 3


def test_escape_deletes_nothing(make_controller, make_list_page, store, three_stored, qtbot):
    page = make_list_page(make_controller())
    qtbot.keyClick(ask_delete(qtbot, page), Qt.Key.Key_Escape)
    assert page.sidebar.orders.question is None
    assert [stored.id for stored in store.conversations()] == three_stored


def test_a_title_as_long_as_a_page_leaves_the_question_on_the_screen(
    make_controller, make_list_page, store, three_stored, qtbot
):
    store.rename(three_stored[0], "word " * 2000)
    page = make_list_page(make_controller())
    box = ask_delete(qtbot, page)
    assert box.text().endswith("…”?")
    assert box.width() <= page.screen().availableGeometry().width()
    box.reject()


@pytest.mark.parametrize(("row", "following"), [(0, 1), (1, 2), (2, 1)])
def test_the_next_of_the_list_takes_the_place_of_the_shown_one(
    make_controller, make_list_page, store, three_stored, qtbot, row, following
):
    controller = make_controller()
    page = make_list_page(controller)
    controller.conversation.show(three_stored[row])
    delete(qtbot, page)
    assert controller.conversation.id == three_stored[following]
    assert (
        ids(page)
        == [stored.id for stored in store.conversations()]
        == [id_ for id_ in three_stored if id_ != three_stored[row]]
    )
    assert (
        page.sidebar.view.currentIndex().data()
        == texts(page)[0]
        == store.active_path(three_stored[following])[0].content
    )


def test_after_the_last_one_an_empty_conversation_is_shown(loaded_controller, make_list_page, store, qtbot):
    controller = loaded_controller("--tokens", 3)
    page = make_list_page(controller)
    answer(qtbot, controller)
    to_list(qtbot, page)
    delete(qtbot, page)
    assert controller.conversation.id is None
    assert ids(page) == []
    assert page.empty_state.isVisible()
    answer(qtbot, controller, "Once more?")
    assert titles(page) == ["Once more?"]


def test_deleting_another_one_leaves_what_is_shown(make_controller, make_list_page, three_stored, qtbot):
    controller = make_controller()
    page = make_list_page(controller)
    changes = seen(controller.conversation.changed)
    choose(page, 2)
    delete(qtbot, page)
    assert controller.conversation.id == three_stored[0]
    assert changes == []
    assert page.sidebar.view.currentIndex().row() == 0


def test_one_that_another_window_deleted_meanwhile_is_told_and_leaves_the_list(
    make_controller, make_list_page, other_window, three_stored, qtbot
):
    controller = make_controller()
    page = make_list_page(controller)
    ask_delete(qtbot, page)
    other_window.delete(three_stored[0])
    agree(qtbot, page)
    assert "Another window deleted this conversation." in page.banner.text
    assert ids(page) == three_stored[1:]
    assert controller.conversation.id == three_stored[1]


def test_deleting_and_opening_what_is_gone_asks_nothing_and_is_told(
    make_controller, make_list_page, other_window, three_stored, qtbot
):
    controller = make_controller()
    page = make_list_page(controller)
    other_window.delete(three_stored[1])
    choose(page, 1)
    assert ask_delete(qtbot, page) is None
    assert page.banner.isVisible()
    assert ids(page) == [three_stored[0], three_stored[2]]
    page.banner.clear()
    other_window.delete(three_stored[2])
    choose(page, 1)
    qtbot.keyClick(page.sidebar.view, Qt.Key.Key_Return)
    assert page.banner.isVisible()
    assert ids(page) == [three_stored[0]]
    assert controller.conversation.id == three_stored[0]


# ---- answers ---------------------------------------------------------------------------------------


def test_deleting_stops_the_answer_and_stores_no_more_of_it(
    loaded_controller, make_list_page, store, three_stored, qtbot, caplog
):
    controller = loaded_controller("--tokens", 400, "--token-ms", 5)
    page = make_list_page(controller)
    controller.new_conversation()
    page.ask("Hello?")
    until(qtbot, lambda: texts(page)[-1].startswith("Word 1"))
    to_list(qtbot, page)
    box = ask_delete(qtbot, page)
    assert "The answer that is being written there is stopped." in box.informativeText()
    failures, tokens = seen(controller.failed), seen(controller.token)
    agree(qtbot, page)
    tokens.clear()
    assert controller.state == ANSWERING  # until the engine has stopped
    assert controller.conversation.id == three_stored[0]
    until(qtbot, lambda: controller.state == READY)
    assert (failures, tokens) == ([], [])
    assert texts(page) == ["Third topic", "About the Third topic"]
    assert [stored.id for stored in store.conversations()] == three_stored
    assert page.banner.isHidden()
    assert "could not be stored" not in caplog.text
    answer(qtbot, controller, "Still there?")
    assert texts(page)[2] == "Still there?"


def test_a_cancelled_question_lets_the_answer_go_on(loaded_controller, make_list_page, qtbot):
    controller = loaded_controller("--tokens", 40, "--token-ms", 5)
    page = make_list_page(controller)
    page.ask("Hello?")
    until(qtbot, lambda: texts(page)[-1].startswith("Word 1"))
    to_list(qtbot, page)
    box = ask_delete(qtbot, page)
    with qtbot.waitSignal(controller.finished) as done:
        box.reject()
    assert done.args[0].stop_reason == "end_of_text"
    assert texts(page)[-1].endswith(" 39")


@pytest.mark.parametrize("end", ["crash", "close"])
def test_an_engine_that_ends_after_the_deletion_brings_nothing_back(
    loaded_controller, make_list_page, store, qtbot, caplog, end
):
    controller = loaded_controller("--tokens", 50, "--hold-after", 3)
    page = make_list_page(controller)
    page.ask("Hello?")
    until(qtbot, lambda: texts(page)[-1] == "Word 1 2")
    to_list(qtbot, page)
    delete(qtbot, page)
    if end == "crash":
        controller.end_engine()
        assert not controller.conversation.answering
    else:
        controller.shutdown()
    assert store.conversations() == ()
    assert "could not be stored" not in caplog.text


def test_an_answer_that_waits_for_the_store_ends_at_once_when_its_conversation_is_deleted(
    loaded_controller, make_list_page, store, home, qtbot, monkeypatch
):
    controller = loaded_controller("--tokens", 3)
    page = make_list_page(controller)
    written = []

    def busy(*_arguments, state=None, **_keywords):
        written.append(state)
        raise StoreBusyError(home / "conversations.db", "database is locked")

    with monkeypatch.context() as patch:
        patch.setattr(store, "update_message", busy)
        page.ask("Hello?")
        until(qtbot, lambda: "complete" in written)
        assert controller.state == ANSWERING
        to_list(qtbot, page)
        delete(qtbot, page)
    assert controller.state == READY
    assert store.conversations() == ()


def test_an_answer_whose_conversation_another_window_deletes_is_told_as_that(
    loaded_controller, make_list_page, other_window, qtbot
):
    controller = loaded_controller("--tokens", 400, "--token-ms", 5)
    page = make_list_page(controller)
    page.ask("Hello?")
    until(qtbot, lambda: texts(page)[-1].startswith("Word 1"))
    failures = seen(controller.failed)
    other_window.delete(controller.conversation.id)
    until(qtbot, lambda: controller.state == READY)
    assert failures == []
    assert "Another window deleted this conversation." in page.banner.text
    assert ids(page) == []


def test_asking_in_a_conversation_that_is_gone_keeps_the_words_and_begins_anew(
    loaded_controller, make_list_page, other_window, three_stored, qtbot
):
    controller = loaded_controller("--tokens", 3)
    page = make_list_page(controller)
    other_window.delete(three_stored[0])
    page.ask("Do not lose me")
    assert page.composer.text == "Do not lose me"
    assert "Another window deleted this conversation." in page.banner.text
    assert controller.conversation.id is None
    assert ids(page) == three_stored[1:]


def test_a_list_that_cannot_be_read_for_the_next_one_still_deletes(
    make_controller, make_list_page, store, three_stored, qtbot, monkeypatch
):
    controller = make_controller()
    page = make_list_page(controller)

    def broken():
        raise AppError(ErrorCode.STORE_UNREADABLE, "It is broken.")

    with monkeypatch.context() as patch:
        patch.setattr(store, "conversations", broken)
        delete(qtbot, page)
    assert controller.conversation.id is None
    assert [stored.id for stored in store.conversations()] == three_stored[1:]
    assert "It is broken." in page.banner.text
