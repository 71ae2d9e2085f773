"""The controller over a scripted engine: answers; conversations that lose nothing."""

import json

import pytest
from controller_driver import answer, seen, until

from app.errors import AppError, ErrorCode
from app.placement.planner import Wishes
from app.ui.controller import ANSWERING, FAILED, LOADING, READY

# ---- asking ----------------------------------------------------------------------------------------


def test_an_answer_is_stored_with_its_figures(loaded_controller, qtbot):
    controller = loaded_controller("--tokens", 5)
    states = seen(controller.state_changed)
    answer(qtbot, controller, "What is up?")
    question, reply = controller.conversation.messages()
    assert (question.role, question.content, question.state) == ("user", "What is up?", "complete")
    assert (reply.role, reply.content, reply.state) == ("assistant", "Word 1 2 3 4", "complete")
    assert reply.figures.completion_tokens == 5
    assert reply.figures.model == controller.facts.name
    assert states == [ANSWERING, READY]


def test_every_text_is_in_the_store_before_it_is_shown(loaded_controller, qtbot):
    controller = loaded_controller("--tokens", 40, "--hold-after", 3)
    shown, checks = "", []

    def check(text):
        nonlocal shown
        shown += text
        checks.append(controller.conversation.messages()[-1].content == shown)

    controller.token.connect(check)
    started = []
    controller.answer_started.connect(lambda: started.extend(controller.conversation.messages()))
    controller.ask("Hello?")
    until(qtbot, lambda: shown == "Word 1 2")
    assert controller.state == ANSWERING, "nothing was shown before the answer ended"
    assert [(message.role, message.state) for message in started] == [
        ("user", "complete"),
        ("assistant", "streaming"),
    ]
    assert all(checks)
    controller.stop()
    until(qtbot, lambda: controller.state == READY)
    assert shown == controller.conversation.messages()[-1].content


def test_a_killed_engine_keeps_what_was_shown_and_the_conversation_goes_on(loaded_controller, qtbot, tmp_path):
    record = tmp_path / "requests"
    controller = loaded_controller(
        "--tokens", 8, "--crash-after", 4, "--crash-once", tmp_path / "crashed", "--record", record
    )
    shown, failures, broken = seen(controller.token), seen(controller.failed), seen(controller.conversation.broken)
    controller.ask("First?")
    until(qtbot, lambda: controller.state == FAILED)
    assert [error.code for error in failures] == [ErrorCode.ENGINE_CRASHED]
    assert broken == [None]
    cut = controller.conversation.messages()[-1]
    assert cut.state == "failed"
    assert cut.content == "".join(shown) == "Word 1 2 3"
    conversation = controller.conversation.id

    with qtbot.waitSignal(controller.loaded, timeout=10000):
        controller.load_again()
    answer(qtbot, controller, "Second?")
    assert controller.conversation.id == conversation
    assert [message.state for message in controller.conversation.messages()] == [
        "complete",
        "failed",
        "complete",
        "complete",
    ]
    sent = [json.loads(line) for line in record.read_bytes().splitlines()][-1]
    assert [message["content"] for message in sent["messages"]] == ["First?", "Word 1 2 3", "Second?"]


def test_a_question_that_failed_before_the_first_word_is_not_sent_with_the_next(loaded_controller, qtbot, tmp_path):
    record = tmp_path / "requests"
    controller = loaded_controller("--fail-answer", "engine_failed", "--record", record)
    for text in ("First?", "Second?"):
        with qtbot.waitSignal(controller.failed, timeout=10000):
            controller.ask(text)
    sent = [json.loads(line) for line in record.read_bytes().splitlines()][-1]
    assert [(message["role"], message["content"]) for message in sent["messages"]] == [("user", "Second?")]


def test_a_question_the_engine_refuses_leaves_the_model_loaded(loaded_controller, qtbot):
    controller = loaded_controller("--fail-answer", "context_full")
    with qtbot.waitSignal(controller.failed, timeout=10000) as told:
        controller.ask("Too long?")
    assert told.args[0].code is ErrorCode.CONTEXT_FULL
    assert controller.state == READY
    assert controller.loaded_plan is not None
    assert controller.conversation.messages()[-1].state == "failed"


def test_a_broken_protocol_is_told_once_and_as_such(loaded_controller, qtbot):
    controller = loaded_controller("--garbage", "--token-ms", 5)
    failures = seen(controller.failed)
    controller.ask("Hello?")
    until(qtbot, lambda: controller.state == FAILED)
    assert [error.code for error in failures] == [ErrorCode.ENGINE_PROTOCOL]
    assert controller.conversation.messages()[-1].content.startswith("Word")


def test_an_engine_of_another_version_is_refused(make_controller, qtbot):
    controller = make_controller("--protocol", 99)
    with qtbot.waitSignal(controller.failed, timeout=10000) as told:
        controller.probe()
    assert told.args[0].code is ErrorCode.ENGINE_PROTOCOL
    until(qtbot, lambda: controller.machine is not None)


def test_stop_keeps_what_came_and_says_stopped(loaded_controller, qtbot):
    controller = loaded_controller("--tokens", 50, "--hold-after", 3)
    shown = seen(controller.token)
    controller.ask("Hello?")
    until(qtbot, lambda: "".join(shown) == "Word 1 2")
    with qtbot.waitSignal(controller.finished, timeout=10000) as done:
        controller.stop()
    assert done.args[0].stop_reason == "stopped"
    assert controller.conversation.messages()[-1].state == "stopped"
    assert controller.state == READY


def test_a_question_without_a_model_is_refused(make_controller):
    controller = make_controller()
    with pytest.raises(AppError) as refused:
        controller.ask("Hello?")
    assert refused.value.code is ErrorCode.BAD_USAGE
    assert controller.conversation.id is None


def test_a_new_plan_loaded_during_an_answer_keeps_the_conversation(loaded_controller, qtbot):
    controller = loaded_controller("--tokens", 50, "--hold-after", 3)
    shown, states = seen(controller.token), seen(controller.state_changed)
    controller.ask("Hello?")
    until(qtbot, lambda: "".join(shown) == "Word 1 2")
    controller.set_plan(controller.propose_plan(Wishes(n_ctx=1024)))
    with qtbot.waitSignal(controller.loaded, timeout=10000):
        controller.load()
    assert states == [ANSWERING, LOADING, READY]
    assert [message.content for message in controller.conversation.messages()] == ["Hello?", "Word 1 2"]
    assert controller.loaded_plan.n_ctx == 1024


def test_an_answer_that_ends_after_another_conversation_was_opened_is_stored_in_its_own(loaded_controller, qtbot):
    controller = loaded_controller("--tokens", 50, "--hold-after", 3)
    shown, finished = seen(controller.token), seen(controller.finished)
    controller.ask("Hello?")
    until(qtbot, lambda: "".join(shown) == "Word 1 2")
    first = controller.conversation.id
    controller.new_conversation()
    assert controller.conversation.id is None
    assert controller.conversation.messages() == ()
    until(qtbot, lambda: controller.state == READY)
    assert finished == []
    assert controller.conversation.store.active_path(first)[-1].state == "stopped"


def test_closing_during_an_answer_marks_it_interrupted(loaded_controller, qtbot):
    controller = loaded_controller("--tokens", 50, "--hold-after", 3)
    shown, failures = seen(controller.token), seen(controller.failed)
    controller.ask("Hello?")
    until(qtbot, lambda: "".join(shown) == "Word 1 2")
    controller.shutdown()
    last = controller.conversation.messages()[-1]
    assert (last.content, last.state) == ("Word 1 2", "interrupted")
    assert failures == []
    assert not controller.engine.running


def test_a_timer_that_is_late_starts_no_engine_after_the_end(loaded_controller):
    controller = loaded_controller()
    controller.shutdown()
    controller.cache.watch(controller, experts=True)  # asks the engine at once, as its timer would
    controller.probe()
    assert not controller.engine.running


def test_the_conversation_of_last_time_is_shown_again(loaded_controller, make_controller, qtbot):
    controller = loaded_controller()
    answer(qtbot, controller, "Do you remember?")
    again = make_controller()
    assert again.conversation.messages()[0].content == "Do you remember?"


def test_a_store_that_cannot_be_written_is_told_and_nothing_is_sent(loaded_controller, qtbot, tmp_path, monkeypatch):
    controller = loaded_controller()

    def full(*_arguments, **_keywords):
        raise AppError(ErrorCode.DISK_FULL, "The disk is full.")

    monkeypatch.setattr(controller.conversation.store, "add_message", full)
    with qtbot.waitSignal(controller.failed, timeout=10000) as told:
        controller.ask("Hello?")
    assert told.args[0].code is ErrorCode.DISK_FULL
    assert controller.state == READY


def test_text_that_cannot_be_stored_is_not_shown(loaded_controller, qtbot, monkeypatch):
    controller = loaded_controller("--tokens", 400, "--token-ms", 5)
    shown, failures = seen(controller.token), seen(controller.failed)

    def full(*_arguments, **_keywords):
        raise AppError(ErrorCode.DISK_FULL, "The disk is full.")

    monkeypatch.setattr(controller.conversation.store, "update_message", full)
    controller.ask("Hello?")
    until(qtbot, lambda: controller.state == READY)
    assert shown == []
    assert [error.code for error in failures] == [ErrorCode.DISK_FULL]
