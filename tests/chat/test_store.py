"""The conversation store as its users see it: conversations, the message tree, what is refused."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.chat.store import ConversationStore
from app.errors import AppError, ErrorCode


def contents(messages):
    return [message.content for message in messages]


def test_an_empty_store_has_no_conversations(store):
    assert store.conversations() == ()
    assert store.last_conversation() is None
    assert store.recovered_from is None


def test_a_message_is_read_back_as_it_was_written_after_reopening(path, figures):
    with ConversationStore(path) as store:
        conversation = store.new_conversation(model="demo")
        question = store.add_message(conversation, None, "user", "Grüße, 世界 🙂\n\x00")
        store.add_message(conversation, question, "assistant", "Hello", state="stopped", figures=figures)
    with ConversationStore(path) as store:
        first, second = store.active_path(conversation)
    assert (first.role, first.content, first.state, first.parent_id) == (
        "user",
        "Grüße, 世界 🙂\n\x00",
        "complete",
        None,
    )
    assert first.figures is None
    assert (second.role, second.parent_id, second.state, second.figures) == (
        "assistant",
        question,
        "stopped",
        figures,
    )
    assert abs(datetime.now(UTC) - second.created) < timedelta(minutes=1)


def test_conversations_are_listed_with_the_last_used_one_first(store):
    first, second = store.new_conversation("first"), store.new_conversation("second")
    assert [row.id for row in store.conversations()] == [second, first]
    store.add_message(first, None, "user", "again")
    assert [row.id for row in store.conversations()] == [first, second]
    assert store.last_conversation() == first


def test_a_conversation_is_titled_by_its_first_question_only(store):
    conversation = store.new_conversation()
    last = store.add_message(conversation, None, "system", "Be brief.")
    assert store.conversations()[0].title == ""
    last = store.add_message(conversation, last, "user", "Why is the sky blue?")
    store.add_message(conversation, last, "user", "And the sea?")
    assert store.conversations()[0].title == "Why is the sky blue?"


def test_a_given_title_is_not_replaced_by_a_question(store):
    conversation = store.new_conversation("Physics")
    store.add_message(conversation, None, "user", "Why is the sky blue?")
    assert store.conversations()[0].title == "Physics"


def test_an_empty_new_title_brings_back_that_of_the_first_question(store):
    conversation = store.new_conversation()
    store.add_message(conversation, None, "user", "Why is the sky blue?")
    store.rename(conversation, "  Light \n and air ")
    assert store.conversations()[0].title == "Light and air"
    store.rename(conversation, "  ")
    assert store.conversations()[0].title == "Why is the sky blue?"


def test_the_model_of_a_conversation_is_remembered(store):
    conversation = store.new_conversation(model="first")
    store.set_model(conversation, "second")
    assert store.conversations()[0].model == "second"


def test_a_question_that_is_sent_again_begins_a_branch_and_the_old_one_stays(store):
    conversation = store.new_conversation()
    question = store.add_message(conversation, None, "user", "question")
    old = store.add_message(conversation, question, "assistant", "old answer")
    edited = store.add_message(conversation, None, "user", "edited question")
    store.add_message(conversation, edited, "assistant", "new answer")
    assert contents(store.active_path(conversation)) == ["edited question", "new answer"]
    store.set_leaf(conversation, old)
    assert contents(store.active_path(conversation)) == ["question", "old answer"]


def test_an_update_changes_only_what_it_names(store, figures):
    conversation = store.new_conversation()
    message = store.add_message(conversation, None, "assistant", "", state="streaming")
    store.update_message(message, content="Hel")
    store.update_message(message, content="Hello")
    assert store.active_path(conversation)[0].state == "streaming"
    store.update_message(message, state="complete", figures=figures)
    (read,) = store.active_path(conversation)
    assert (read.content, read.state, read.figures) == ("Hello", "complete", figures)


def test_a_deleted_conversation_takes_its_messages_along_and_no_others(store):
    kept, gone = store.new_conversation(), store.new_conversation()
    store.add_message(kept, None, "user", "kept")
    message = store.add_message(gone, None, "user", "gone")
    store.add_message(gone, message, "assistant", "gone too")
    store.delete(gone)
    assert [row.id for row in store.conversations()] == [kept]
    assert store.active_path(gone) == ()
    assert contents(store.active_path(kept)) == ["kept"]
    with pytest.raises(AppError) as refused:
        store.update_message(message, content="late word")
    assert refused.value.code is ErrorCode.BAD_USAGE


def test_ids_of_deleted_conversations_and_messages_are_not_given_again(store):
    conversation = store.new_conversation()
    message = store.add_message(conversation, None, "user", "gone")
    store.delete(conversation)
    again = store.new_conversation()
    assert again > conversation
    assert store.add_message(again, None, "user", "new") > message


@pytest.mark.parametrize(
    "misuse",
    [
        lambda store, mine, foreign: store.add_message(999, None, "user", "x"),
        lambda store, mine, foreign: store.add_message(mine, 999, "user", "x"),
        lambda store, mine, foreign: store.add_message(mine, foreign, "user", "x"),
        lambda store, mine, foreign: store.add_message(mine, None, "robot", "x"),
        lambda store, mine, foreign: store.add_message(mine, None, "user", "x", state="done"),
        lambda store, mine, foreign: store.update_message(999, content="x"),
        lambda store, mine, foreign: store.update_message(foreign, state="done"),
        lambda store, mine, foreign: store.set_leaf(mine, foreign),
        lambda store, mine, foreign: store.set_leaf(999, foreign),
        lambda store, mine, foreign: store.rename(999, "x"),
        lambda store, mine, foreign: store.set_model(999, "x"),
        lambda store, mine, foreign: store.delete(999),
    ],
)
def test_unknown_conversations_messages_and_words_are_refused_and_change_nothing(store, misuse):
    mine, other = store.new_conversation("mine"), store.new_conversation("other")
    foreign = store.add_message(other, None, "user", "foreign")
    before = (store.conversations(), store.active_path(mine), store.active_path(other))
    with pytest.raises(AppError) as refused:
        misuse(store, mine, foreign)
    assert refused.value.code is ErrorCode.BAD_USAGE
    assert (store.conversations(), store.active_path(mine), store.active_path(other)) == before


def test_half_a_surrogate_pair_is_stored_as_a_replacement_and_a_whole_one_as_its_character(store):
    conversation = store.new_conversation("\ud83d")
    store.add_message(conversation, None, "user", "a\ud83db \ud83d\ude42")
    assert contents(store.active_path(conversation)) == ["a\ufffdb 🙂"]


@pytest.mark.parametrize("figures", ["{}", '{"more": ' + "[" * 100_000], ids=["nothing", "deep"])
def test_figures_that_cannot_be_read_are_left_out_and_the_message_stays(store, caplog, figures):
    conversation = store.new_conversation()
    message = store.add_message(conversation, None, "assistant", "text")
    store._connection.execute("UPDATE messages SET figures = ? WHERE id = ?", (figures, message))
    (read,) = store.active_path(conversation)
    assert (read.content, read.figures) == ("text", None)
    assert "figures" in caplog.text


def test_a_full_disk_is_reported_and_what_was_stored_stays(store):
    conversation = store.new_conversation()
    message = store.add_message(conversation, None, "assistant", "shown", state="streaming")
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(AppError) as full:
        store.update_message(message, content="x" * 100_000)
    assert full.value.code is ErrorCode.DISK_FULL
    store._connection.execute("PRAGMA max_page_count = 100000")
    assert contents(store.active_path(conversation)) == ["shown"]
    store.update_message(message, content="shown and more")
    assert contents(store.active_path(conversation)) == ["shown and more"]


@settings(max_examples=30, deadline=None)
@given(parents=st.lists(st.integers(min_value=0), min_size=1, max_size=20), leaf=st.integers(min_value=0))
def test_the_active_path_of_any_leaf_in_any_tree_is_the_chain_of_its_parents(tmp_path_factory, parents, leaf):
    with ConversationStore(tmp_path_factory.mktemp("tree") / "tree.db") as store:
        conversation = store.new_conversation()
        parent_of = {}
        for choice in parents:
            known = [None, *parent_of]
            parent = known[choice % len(known)]
            parent_of[store.add_message(conversation, parent, "user", "x")] = parent
        chosen = list(parent_of)[leaf % len(parent_of)]
        store.set_leaf(conversation, chosen)
        expected = [chosen]
        while parent_of[expected[-1]] is not None:
            expected.append(parent_of[expected[-1]])
        assert [message.id for message in store.active_path(conversation)] == expected[::-1]


def test_messages_are_counted_in_every_branch_and_in_one_conversation_only(store):
    conversation, other = store.new_conversation(), store.new_conversation()
    question = store.add_message(conversation, None, "user", "Which?")
    store.add_message(conversation, question, "assistant", "This.")
    store.add_message(conversation, question, "assistant", "That.")
    assert (store.message_count(conversation), store.message_count(other)) == (3, 0)
    store.delete(other)
    with pytest.raises(AppError) as told:
        store.message_count(other)
    assert told.value.code is ErrorCode.BAD_USAGE
