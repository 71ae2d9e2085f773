"""Answers and the store: a write that fails, a file another program keeps, a question that is not stored twice."""

import sqlite3
import time

import pytest

from app.chat.store import AnswerFigures, ConversationStore
from app.errors import AppError, ErrorCode
from app.ui.chat import answer as answer_module
from app.ui.chat.answer import AnswerWriter, to_send
from app.ui.controller import READY


def until(qtbot, condition):
    qtbot.waitUntil(condition, timeout=10000)


def disk_full(*_arguments, **_keywords):
    raise AppError(ErrorCode.DISK_FULL, "The disk is full.")


def seen(signal):
    values = []
    signal.connect(lambda *carried: values.append(carried[0] if carried else None))
    return values


@pytest.fixture
def quick_store(home):
    """A store as the window opens it: it waits hardly for another program."""
    with ConversationStore(home / "conversations.db", busy_seconds=0.001) as made:
        yield made


@pytest.fixture
def holder(quick_store, home):
    """Another program that can hold the store."""
    connection = sqlite3.connect(home / "conversations.db", isolation_level=None)
    yield connection
    connection.close()


@pytest.fixture
def writer(qapp, quick_store):
    made = AnswerWriter(quick_store)
    made.begin(None, "Why?", "demo")
    return made


def figures(stop_reason="end_of_text"):
    return AnswerFigures(
        prompt_tokens=3,
        completion_tokens=2,
        reused_tokens=0,
        ttft_seconds=0.1,
        prompt_tokens_per_second=1.0,
        tokens_per_second=1.0,
        stop_reason=stop_reason,
    )


def last(store):
    return store.active_path(store.last_conversation())[-1]


# ---- a store that fails ----------------------------------------------------------------------------


def test_an_answer_that_could_not_be_stored_is_closed_as_failed_not_as_stopped(loaded_controller, qtbot, monkeypatch):
    controller = loaded_controller("--tokens", 400, "--token-ms", 5)
    conversation = controller.conversation
    update = conversation.store.update_message
    failures, finished, broken = seen(controller.failed), seen(controller.finished), seen(conversation.broken)
    shown = seen(controller.token)
    monkeypatch.setattr(conversation.store, "update_message", disk_full)

    def has_room_again(_error):
        monkeypatch.setattr(conversation.store, "update_message", update)

    controller.failed.connect(has_room_again)
    controller.ask("Hello?")
    until(qtbot, lambda: controller.state == READY)
    assert [error.code for error in failures] == [ErrorCode.DISK_FULL]
    assert (len(finished), len(broken)) == (0, 1)
    stored = conversation.messages()[-1]
    assert (stored.state, stored.figures) == ("failed", None)
    assert stored.content == "".join(shown), "shown is what is stored"
    assert stored.content.startswith("Word"), "the text found room when it was tried again"


def test_an_answer_whose_end_found_no_room_is_closed_before_the_next_question(writer, quick_store, monkeypatch):
    ends, failures = seen(writer.closed), seen(writer.failed)
    with monkeypatch.context() as patch:
        patch.setattr(quick_store, "update_message", disk_full)
        writer.add("text")
        writer.add("more")
        writer.finish(figures())
    assert (ends, len(failures)) == (["failed"], 1)
    assert last(quick_store).state == "streaming"
    path = writer.begin(writer.conversation_id, "And now?", "demo")
    assert [message.state for message in path] == ["complete", "failed", "complete", "streaming"]


def test_where_only_the_text_finds_no_room_the_end_is_stored_alone(writer, quick_store, monkeypatch):
    update = quick_store.update_message

    def full_for_text(message_id, content=None, state=None, figures=None):
        if content is not None:
            disk_full()
        update(message_id, state=state, figures=figures)

    monkeypatch.setattr(quick_store, "update_message", full_for_text)
    shown = seen(writer.shown)
    writer.add("text")
    writer.finish(figures())
    assert (last(quick_store).content, last(quick_store).state, shown) == ("", "failed", [])


@pytest.mark.parametrize("written", [0, 1])
def test_a_question_that_fails_half_way_leaves_nothing_behind(store, monkeypatch, written):
    kept = store.new_conversation("kept", model="before")
    before = store.conversations()
    add, calls = store.add_message, []

    def fail_later(*arguments, **keywords):
        calls.append(arguments)
        return add(*arguments, **keywords) if len(calls) <= written else disk_full()

    with monkeypatch.context() as patch:
        patch.setattr(store, "add_message", fail_later)
        for conversation in (None, kept):
            calls.clear()
            with pytest.raises(AppError):
                store.begin_turn(conversation, "Why?", "after")
            assert len(calls) == written + 1
    assert store.conversations() == before
    assert store.active_path(kept) == ()
    store.begin_turn(kept, "Why?", "after")
    assert [message.content for message in store.active_path(kept)] == ["Why?", ""]


# ---- a store that another program keeps ------------------------------------------------------------


def test_text_waits_unshown_while_another_program_keeps_the_store(writer, quick_store, holder, qtbot):
    shown, failures = seen(writer.shown), seen(writer.failed)
    holder.execute("BEGIN IMMEDIATE")
    writer.add("one ")
    writer.add("two")
    assert (shown, failures, last(quick_store).content) == ([], [], "")
    holder.execute("ROLLBACK")
    until(qtbot, lambda: bool(shown))
    assert ("".join(shown), last(quick_store).content) == ("one two", "one two")
    assert failures == []


def test_an_answer_ends_once_its_end_is_stored(writer, quick_store, holder, qtbot):
    ends = seen(writer.closed)
    holder.execute("BEGIN IMMEDIATE")
    writer.add("text")
    writer.finish(figures("stopped"))
    assert writer.writing
    assert ends == []
    holder.execute("ROLLBACK")
    until(qtbot, lambda: bool(ends))
    assert ends == ["stopped"]
    assert (last(quick_store).content, last(quick_store).state) == ("text", "stopped")
    assert not writer.writing


def test_a_store_that_is_kept_too_long_fails_the_answer(writer, quick_store, holder, qtbot, monkeypatch):
    monkeypatch.setattr(answer_module, "PATIENCE_MILLISECONDS", 150)
    ends, failures = seen(writer.closed), seen(writer.failed)
    holder.execute("BEGIN IMMEDIATE")
    writer.add("text")
    until(qtbot, lambda: bool(failures))
    holder.execute("ROLLBACK")
    writer.add("never shown after a gap")
    writer.finish(figures("stopped"))
    assert ends == ["failed"]
    assert (last(quick_store).content, last(quick_store).state) == ("text", "failed")


def test_a_held_store_does_not_hold_the_window(writer, holder):
    holder.execute("BEGIN IMMEDIATE")
    begun = time.monotonic()
    writer.add("text")
    writer.finish(figures())
    writer.interrupt()
    assert time.monotonic() - begun < answer_module.PATIENCE_MILLISECONDS / 1000 / 2
    holder.execute("ROLLBACK")


# ---- what the engine is sent -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "sent"),
    [("failed", ["First?", "Yes.", "Second?"]), ("interrupted", ["First?", "Yes.", "Too long?\n\nSecond?"])],
)
def test_a_question_that_failed_before_its_first_word_is_not_sent_again_with_the_next(store, state, sent):
    path = store.begin_turn(None, "First?", "model")
    store.update_message(path[-1].id, content="Yes.", state="complete")
    conversation = store.last_conversation()
    path = store.begin_turn(conversation, "Too long?", "model")
    assert [message.content for message in to_send(path)] == ["First?", "Yes.", "Too long?"]
    store.update_message(path[-1].id, state=state)
    path = store.begin_turn(conversation, "Second?", "model")
    assert [message.content for message in to_send(path)] == sent
    assert "Too long?" in [message.content for message in path], "it stays in the conversation"


def test_the_words_of_an_answer_that_failed_later_are_sent_with_its_question(store):
    path = store.begin_turn(None, "First?", "model")
    store.update_message(path[-1].id, content="It is", state="failed")
    path = store.begin_turn(store.last_conversation(), "Go on", "model")
    assert [message.content for message in to_send(path)] == ["First?", "It is", "Go on"]
