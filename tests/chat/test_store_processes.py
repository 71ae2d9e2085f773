"""The store between processes: a killed writer loses nothing, two writers do not disturb each other."""

import os
import sqlite3

import psutil
import pytest
from store_writer import PIECE

from app.chat.store import ConversationStore


def integrity(path):
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA integrity_check").fetchone()[0]
    finally:
        connection.close()


def test_a_killed_process_loses_no_text_that_it_had_shown(path, start_writer):
    child = start_writer("stream", path)
    for _ in range(50):
        shown = int(child.stdout.readline())
    child.kill()
    rest, _ = child.communicate()
    complete = rest[: rest.rfind("\n") + 1].split()
    shown = int(complete[-1]) if complete else shown
    with ConversationStore(path) as store:
        (row,) = store.conversations()
        question, answer = store.active_path(row.id)
        assert question.content == row.title == "Tell me a long story"
        assert answer.state == "interrupted"
        assert len(answer.content) >= shown
        assert answer.content == PIECE * (len(answer.content) // len(PIECE))
    assert integrity(path) == "ok"


def test_an_answer_that_another_living_process_is_writing_is_left_to_it(path, start_writer):
    child = start_writer("stream", path)
    child.stdout.readline()
    with ConversationStore(path) as store:
        (row,) = store.conversations()
        assert store.active_path(row.id)[-1].state == "streaming"


def test_a_writer_whose_process_id_was_given_to_another_process_counts_as_gone(path):
    with ConversationStore(path) as store:
        conversation = store.new_conversation()
        store.add_message(conversation, None, "assistant", "half", state="streaming")
        earlier = psutil.Process().create_time() - 3600
        store._connection.execute("UPDATE messages SET writer_pid = ?, writer_started = ?", (os.getpid(), earlier))
    with ConversationStore(path) as store:
        (message,) = store.active_path(conversation)
        assert (message.content, message.state) == ("half", "interrupted")


@pytest.mark.parametrize("children", [3])
def test_several_processes_create_and_fill_the_same_file_together(path, start_writer, children):
    count = 60
    writers = [start_writer("add", path, count) for _ in range(children)]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    with ConversationStore(path) as store:
        mine = store.new_conversation("by the parent")
        last = None
        for number in range(count):
            last = store.add_message(mine, last, "user", f"message {number}")
        for writer in writers:
            assert writer.wait(240) == 0
        expected = [f"message {number}" for number in range(count)]
        rows = store.conversations()
        assert len(rows) == children + 1
        for row in rows:
            assert [message.content for message in store.active_path(row.id)] == expected
        assert store.recovered_from is None
    assert integrity(path) == "ok"
