"""The chat page: writing, streaming, stopping, figures, failures, and conversations side by side."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QGuiApplication
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from app.errors import AppError, ErrorCode
from app.ui.chat.message import AnswerMessage, QuestionMessage, figures_in_words
from app.ui.chat.page import ChatPage
from app.ui.controller import ANSWERING, EMPTY, FAILED, READY


@pytest.fixture
def make_page(qtbot, theme):
    """`make_page(controller) -> ChatPage`, shown."""

    def make(controller):
        page = ChatPage(controller, theme)
        qtbot.addWidget(page)
        page.resize(1000, 700)
        page.show()
        qtbot.waitExposed(page)
        return page

    return make


def until(qtbot, condition):
    qtbot.waitUntil(condition, timeout=10000)


def disk_full(*_arguments, **_keywords):
    raise AppError(ErrorCode.DISK_FULL, "The disk is full.")


def write(qtbot, page, text):
    page.composer.setFocus()
    qtbot.keyClicks(page.composer.edit, text)


def ask(qtbot, page, controller, text="Hello?"):
    write(qtbot, page, text)
    with qtbot.waitSignal(controller.finished, timeout=10000):
        qtbot.keyClick(page.composer.edit, Qt.Key.Key_Return)


def last_answer(page):
    answer = page.transcript.messages[-1]
    assert isinstance(answer, AnswerMessage)
    return answer


def button(widget, text):
    return next(found for found in widget.findChildren(QPushButton) if found.text() == text and not found.isHidden())


# ---- composer --------------------------------------------------------------------------------------


def test_without_a_model_the_composer_says_why_it_cannot_send(make_controller, make_page, qtbot):
    page = make_page(make_controller())
    assert page.composer.hint == "Load a model first"
    write(qtbot, page, "Hello?")
    assert not page.composer.send_button.isEnabled()
    qtbot.keyClick(page.composer.edit, Qt.Key.Key_Return)
    assert page.composer.text == "Hello?"
    assert page.transcript.messages == ()


def test_enter_sends_and_shift_enter_starts_a_line(loaded_controller, make_page, qtbot):
    controller = loaded_controller()
    page = make_page(controller)
    write(qtbot, page, "one")
    qtbot.keyClick(page.composer.edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    write(qtbot, page, "two")
    assert page.composer.text == "one\ntwo"
    with qtbot.waitSignal(controller.finished, timeout=10000):
        qtbot.keyClick(page.composer.edit, Qt.Key.Key_Enter)
    assert controller.conversation.messages()[0].content == "one\ntwo"
    assert page.composer.text == ""


def test_blank_text_is_not_sent(loaded_controller, make_page, qtbot):
    controller = loaded_controller()
    page = make_page(controller)
    write(qtbot, page, "   ")
    assert not page.composer.send_button.isEnabled()
    qtbot.keyClick(page.composer.edit, Qt.Key.Key_Return)
    assert controller.state == READY
    assert controller.conversation.id is None


def test_the_composer_grows_with_its_lines_up_to_a_limit(make_controller, make_page, qtbot):
    page = make_page(make_controller())
    heights = []
    for lines in (1, 3, 8, 30):
        page.composer.set_text("\n".join(["line"] * lines))
        heights.append(page.composer.edit.height())
    assert heights[0] < heights[1] < heights[2] == heights[3]


def test_stop_takes_the_place_of_send_and_what_came_stays(loaded_controller, make_page, qtbot):
    controller = loaded_controller("--tokens", 50, "--hold-after", 3)
    page = make_page(controller)
    write(qtbot, page, "Hello?")
    qtbot.mouseClick(page.composer.send_button, Qt.MouseButton.LeftButton)
    until(qtbot, lambda: last_answer(page).text == "Word 1 2")
    assert page.composer.send_button.isHidden()
    write(qtbot, page, "My next question")
    with qtbot.waitSignal(controller.finished, timeout=10000):
        qtbot.mouseClick(page.composer.stop_button, Qt.MouseButton.LeftButton)
    assert page.composer.stop_button.isHidden()
    assert page.composer.send_button.isEnabled()
    assert page.composer.text == "My next question"
    assert last_answer(page).text == "Word 1 2"
    assert "stopped by you" in last_answer(page).status


def test_escape_stops_the_answer(loaded_controller, make_page, qtbot):
    controller = loaded_controller("--tokens", 50, "--hold-after", 3)
    page = make_page(controller)
    write(qtbot, page, "Hello?")
    qtbot.keyClick(page.composer.edit, Qt.Key.Key_Return)
    until(qtbot, lambda: last_answer(page).text == "Word 1 2")
    with qtbot.waitSignal(controller.finished, timeout=10000) as done:
        qtbot.keyClick(page.composer.edit, Qt.Key.Key_Escape)
    assert done.args[0].stop_reason == "stopped"


def test_a_question_that_cannot_be_stored_comes_back_into_the_composer(
    loaded_controller, make_page, qtbot, monkeypatch
):
    controller = loaded_controller()
    page = make_page(controller)

    monkeypatch.setattr(controller.conversation.store, "add_message", disk_full)
    write(qtbot, page, "Do not lose me")
    qtbot.keyClick(page.composer.edit, Qt.Key.Key_Return)
    assert page.composer.text == "Do not lose me"
    assert "The disk is full." in page.banner.text
    assert not page.banner.isHidden()


# ---- answers ---------------------------------------------------------------------------------------


def test_an_answer_streams_in_and_ends_with_its_figures(loaded_controller, make_page, qtbot):
    controller = loaded_controller("--tokens", 30, "--token-ms", 30)
    page = make_page(controller)
    lengths = set()
    controller.token.connect(lambda _text: lengths.add(len(last_answer(page).text)))
    ask(qtbot, page, controller, "Count!")
    question, answer = page.transcript.messages
    assert isinstance(question, QuestionMessage)
    assert question.text == "Count!"
    assert answer.text == "Word " + " ".join(map(str, range(1, 30)))
    assert len(lengths) > 1
    stored = controller.conversation.messages()[-1]
    assert answer.status == figures_in_words(stored.figures)
    assert "30 tokens" in answer.status
    assert answer.status.endswith("complete")


def test_the_prompt_is_shown_while_it_is_read(loaded_controller, make_page, qtbot):
    controller = loaded_controller("--prompt-ms", 100)
    page = make_page(controller)
    said = set()
    controller.prompt_progress.connect(lambda _progress: said.add(last_answer(page).status))
    ask(qtbot, page, controller)
    assert "Reading the prompt: 0 of 5 tokens" in said
    assert "Reading the prompt: 5 of 5 tokens" in said


def test_an_answer_can_be_copied_as_markdown(loaded_controller, make_page, qtbot):
    controller = loaded_controller("--text", "Some **bold** words")
    page = make_page(controller)
    ask(qtbot, page, controller)
    qtbot.mouseClick(button(last_answer(page), "Copy"), Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == "Some **bold** words"


def test_an_example_is_asked_with_one_click(loaded_controller, make_page, qtbot):
    controller = loaded_controller()
    page = make_page(controller)
    example = page.empty_state.examples[0]
    with qtbot.waitSignal(controller.finished, timeout=10000):
        qtbot.mouseClick(example, Qt.MouseButton.LeftButton)
    assert controller.conversation.messages()[0].content == example.text()
    assert page.empty_state.isHidden()


def test_examples_wait_for_a_model_and_offer_to_choose_one(make_controller, make_page, qtbot):
    controller = make_controller()
    page = make_page(controller)
    assert controller.state == EMPTY
    assert not any(example.isEnabled() for example in page.empty_state.examples)
    with qtbot.waitSignal(page.model_wanted):
        qtbot.mouseClick(button(page.empty_state, "Choose a model…"), Qt.MouseButton.LeftButton)


# ---- failures --------------------------------------------------------------------------------------


def test_a_killed_engine_leaves_the_text_marked_and_two_ways_on(loaded_controller, make_page, qtbot, tmp_path):
    controller = loaded_controller("--tokens", 8, "--crash-after", 4, "--crash-once", tmp_path / "crashed")
    page = make_page(controller)
    write(qtbot, page, "First?")
    qtbot.keyClick(page.composer.edit, Qt.Key.Key_Return)
    until(qtbot, lambda: controller.state == FAILED)
    assert last_answer(page).text == "Word 1 2 3"
    assert last_answer(page).status.startswith("Failed")
    assert "SIGKILL" in page.banner.text
    assert "Load again" in page.banner.text
    assert page.composer.hint == "No model is loaded: load it again first"
    assert button(page.banner, "Load with a smaller plan").isEnabled()

    with qtbot.waitSignal(controller.loaded, timeout=10000):
        qtbot.mouseClick(button(page.banner, "Load again"), Qt.MouseButton.LeftButton)
    assert page.banner.isHidden()
    ask(qtbot, page, controller, "Second?")
    assert [message.text for message in page.transcript.messages] == [
        "First?",
        "Word 1 2 3",
        "Second?",
        "Word 1 2 3 4 5 6 7",
    ]


def test_a_smaller_plan_is_loaded_from_the_banner(make_controller, make_page, qtbot, tmp_path):
    controller = make_controller("--crash-on-load")
    page = make_page(controller)
    with qtbot.waitSignals([controller.machine_changed, controller.model_changed], timeout=10000):
        controller.probe()
        controller.choose_model(tmp_path / "model.gguf")
    plan = controller.propose_plan()
    controller.set_plan(plan)
    with qtbot.waitSignal(controller.failed, timeout=10000):
        controller.load()
    with qtbot.waitSignal(controller.failed, timeout=10000):
        qtbot.mouseClick(button(page.banner, "Load with a smaller plan"), Qt.MouseButton.LeftButton)
    assert controller.plan.n_ctx == plan.n_ctx // 2
    assert not page.banner.isHidden()


def test_a_refused_question_is_told_without_load_buttons(loaded_controller, make_page, qtbot):
    controller = loaded_controller("--fail-answer", "context_full")
    page = make_page(controller)
    write(qtbot, page, "Too long?")
    with qtbot.waitSignal(controller.failed, timeout=10000):
        qtbot.keyClick(page.composer.edit, Qt.Key.Key_Return)
    assert "start a new conversation" in page.banner.text
    assert page.composer.text == "Too long?", "to be shortened, or asked in another one"
    texts = [found.text() for found in page.banner.findChildren(QPushButton) if not found.isHidden()]
    assert "Load again" not in texts
    qtbot.mouseClick(button(page.banner, "Show details"), Qt.MouseButton.LeftButton)
    shown = [label.text() for label in page.banner.findChildren(QLabel) if not label.isHidden()]
    assert "from the script" in shown
    qtbot.mouseClick(button(page.banner, "Dismiss"), Qt.MouseButton.LeftButton)
    assert page.banner.isHidden()


def test_an_error_text_with_markup_is_shown_as_it_is(make_controller, make_page):
    page = make_page(make_controller())
    page.banner.tell(AppError(ErrorCode.FILE_MISSING, "No file <b>x</b>.gguf", "<img src=x>"))
    labels = page.banner.findChildren(QLabel)
    assert all(label.textFormat() == Qt.TextFormat.PlainText for label in labels if "<" in label.text())
    assert "No file <b>x</b>.gguf" in page.banner.text


# ---- conversations ---------------------------------------------------------------------------------


def test_conversations_are_listed_and_opened(loaded_controller, make_page, qtbot):
    controller = loaded_controller("--tokens", 3)
    page = make_page(controller)
    ask(qtbot, page, controller, "First topic")
    page.new_conversation()
    assert page.transcript.messages == ()
    assert not page.empty_state.isHidden()
    ask(qtbot, page, controller, "Second topic")
    view = page.sidebar.view
    titles = [view.model().index(row).data() for row in range(view.model().rowCount())]
    assert titles == ["Second topic", "First topic"]
    assert view.currentIndex().row() == 0
    view.clicked.emit(view.model().index(1))
    assert [message.text for message in page.transcript.messages] == ["First topic", "Word 1 2"]
    assert last_answer(page).status.endswith("complete")
    assert view.currentIndex().row() == 1


def test_coming_back_to_an_answer_that_is_ending_shows_its_end(loaded_controller, make_page, qtbot):
    controller = loaded_controller("--tokens", 50, "--hold-after", 3)
    page = make_page(controller)
    write(qtbot, page, "Hello?")
    qtbot.keyClick(page.composer.edit, Qt.Key.Key_Return)
    until(qtbot, lambda: last_answer(page).text == "Word 1 2")
    conversation = controller.conversation.id
    page.new_conversation()
    controller.conversation.show(conversation)
    assert controller.state == ANSWERING
    until(qtbot, lambda: controller.state == READY)
    assert last_answer(page).text == "Word 1 2"
    assert "stopped by you" in last_answer(page).status


def test_an_answer_that_could_not_be_stored_says_failed_and_not_that_it_was_stopped(
    loaded_controller, make_page, qtbot, monkeypatch
):
    controller = loaded_controller("--tokens", 400, "--token-ms", 5)
    page = make_page(controller)

    monkeypatch.setattr(controller.conversation.store, "update_message", disk_full)
    write(qtbot, page, "Hello?")
    qtbot.keyClick(page.composer.edit, Qt.Key.Key_Return)
    until(qtbot, lambda: controller.state == READY)
    assert last_answer(page).status.startswith("Failed")
    assert "The disk is full." in page.banner.text


def test_a_store_that_cannot_be_read_once_the_question_is_written_does_not_hide_the_answer(
    loaded_controller, make_page, qtbot, monkeypatch
):
    controller = loaded_controller("--tokens", 3)
    page = make_page(controller)

    def unreadable(*_arguments):
        raise AppError(ErrorCode.STORE_UNREADABLE, "It cannot be read.")

    monkeypatch.setattr(controller.conversation, "messages", unreadable)
    ask(qtbot, page, controller, "Hello?")
    assert [message.text for message in page.transcript.messages] == ["Hello?", "Word 1 2"]


def test_an_example_that_cannot_be_asked_leaves_the_draft_alone(loaded_controller, make_page, qtbot, monkeypatch):
    controller = loaded_controller()
    page = make_page(controller)

    monkeypatch.setattr(controller.conversation.store, "begin_turn", disk_full)
    write(qtbot, page, "My long draft")
    qtbot.mouseClick(page.empty_state.examples[0], Qt.MouseButton.LeftButton)
    assert page.composer.text == "My long draft"
    assert "The disk is full." in page.banner.text


def test_a_problem_and_the_end_of_an_answer_are_announced(loaded_controller, make_page, qtbot, monkeypatch):
    announced = []
    monkeypatch.setattr(
        "app.ui.announce.QAccessible.updateAccessibility",
        lambda event: announced.append((event.type(), event.object())),
    )
    controller = loaded_controller("--tokens", 3)
    page = make_page(controller)
    ask(qtbot, page, controller)
    ((kind, told),) = announced
    assert kind == QAccessible.Event.Alert
    assert told.text() == last_answer(page).status
    page.banner.tell(AppError(ErrorCode.DISK_FULL, "The disk is full."))
    assert announced[1:] == [(QAccessible.Event.Alert, page.banner)]


def test_every_control_has_a_name_for_screen_readers(loaded_controller, make_page, qtbot):
    controller = loaded_controller("--text", "Words\n\n```py\ncode\n```")
    page = make_page(controller)
    ask(qtbot, page, controller)
    unnamed = [
        widget
        for widget in page.findChildren(QWidget)
        if widget.focusPolicy() & Qt.FocusPolicy.TabFocus
        and widget.isVisible()
        and not widget.accessibleName()
        and not (isinstance(widget, QPushButton) and widget.text())
    ]
    assert unnamed == []


def test_tab_leads_from_the_composer_to_stop(loaded_controller, make_page, qtbot):
    controller = loaded_controller("--tokens", 50, "--hold-after", 3)
    page = make_page(controller)
    page.activateWindow()
    write(qtbot, page, "Hello?")
    qtbot.keyClick(page.composer.edit, Qt.Key.Key_Return)
    until(qtbot, lambda: controller.state == ANSWERING)
    page.composer.edit.setFocus()
    until(qtbot, page.composer.edit.hasFocus)
    qtbot.keyClick(page.composer.edit, Qt.Key.Key_Tab)
    until(qtbot, page.composer.stop_button.hasFocus)
    with qtbot.waitSignal(controller.finished, timeout=10000):
        qtbot.keyClick(page.composer.stop_button, Qt.Key.Key_Space)
    assert page.composer.edit.hasFocus()
