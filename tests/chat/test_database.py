"""Opening the conversation file: damage, versions, folders, locks."""

import shutil
import sqlite3
import time

import pytest

from app.chat import database
from app.chat.store import ConversationStore, StoreBusyError
from app.errors import AppError, ErrorCode


def fill(path, messages=200):
    with ConversationStore(path) as store:
        conversation = store.new_conversation("kept aside")
        for _ in range(messages):
            store.add_message(conversation, None, "user", "text " * 40)


def overwrite(path, offset, data):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: path.write_bytes(b"this is no database\n" * 500), id="another file"),
        pytest.param(lambda path: overwrite(path, 0, b"\xff" * 100), id="header overwritten"),
        pytest.param(lambda path: overwrite(path, 8192, b"\xff" * 8192), id="pages overwritten"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[: 3 * 4096]), id="cut off"),
    ],
)
def test_a_damaged_file_is_kept_aside_unchanged_and_a_fresh_one_takes_its_place(path, damage):
    fill(path)
    damage(path)
    damaged = path.read_bytes()
    with ConversationStore(path) as store:
        assert store.recovered_from is not None
        assert store.recovered_from.parent == path.parent
        assert store.recovered_from.read_bytes() == damaged
        assert store.conversations() == ()
        conversation = store.new_conversation("fresh")
    with ConversationStore(path) as store:
        assert store.recovered_from is None
        assert [row.id for row in store.conversations()] == [conversation]


def test_files_damaged_in_the_same_second_are_all_kept(path):
    kept = set()
    for number in range(3):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"damaged %d " % number * 500)
        with ConversationStore(path) as store:
            kept.add(store.recovered_from)
    assert len(kept) == 3
    assert all(file.exists() for file in kept)


def test_a_log_beside_a_damaged_file_is_moved_with_it(path):
    path.parent.mkdir()
    path.write_bytes(b"no database")
    log = path.with_name(path.name + "-wal")
    log.write_bytes(b"its log")
    aside = database._keep_aside(path)
    assert aside.with_name(aside.name + "-wal").read_bytes() == b"its log"
    assert not log.exists()


def test_a_fresh_file_of_a_process_that_was_quicker_is_not_taken_for_the_damaged_one(path, monkeypatch):
    fill(path)
    overwrite(path, 8192, b"\xff" * 8192)
    check = database._check

    def check_while_another_process_recovers(connection):
        monkeypatch.setattr(database, "_check", check)
        database._keep_aside(path)
        with ConversationStore(path) as other:
            other.new_conversation("of the other process")
        check(connection)

    monkeypatch.setattr(database, "_check", check_while_another_process_recovers)
    with ConversationStore(path) as store:
        assert [row.title for row in store.conversations()] == ["of the other process"]
        assert store.recovered_from is None


def test_an_empty_file_is_a_fresh_store(path):
    path.parent.mkdir()
    path.touch()
    with ConversationStore(path) as store:
        assert store.recovered_from is None
        store.new_conversation()


def test_a_file_of_a_newer_version_is_refused_and_left_alone(path):
    fill(path, messages=1)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(database.MIGRATIONS) + 1}")
    connection.close()
    with pytest.raises(AppError) as refused:
        ConversationStore(path)
    assert refused.value.code is ErrorCode.STORE_UNREADABLE
    assert "newer version" in refused.value.message
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_the_ladder_is_climbed_from_any_step_and_each_step_taken_once(path):
    ladder = (("CREATE TABLE one (x)",), ("CREATE TABLE two (x)", "INSERT INTO two VALUES (1)"))
    path.parent.mkdir()
    connection = sqlite3.connect(path, isolation_level=None)
    database.migrate(connection, ladder[:1])
    database.migrate(connection, ladder)
    database.migrate(connection, ladder)
    assert connection.execute("SELECT x FROM two").fetchall() == [(1,)]
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    connection.close()


def test_a_step_that_fails_leaves_nothing_of_itself_behind(path):
    ladder = (("CREATE TABLE one (x)",), ("CREATE TABLE two (x)", "no such statement"))
    path.parent.mkdir()
    connection = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError):
        database.migrate(connection, ladder)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("one",)]
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()


def test_a_folder_that_cannot_be_made_is_a_typed_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(AppError) as refused:
        ConversationStore(tmp_path / "file" / "chats" / "conversations.db")
    assert refused.value.code is ErrorCode.FOLDER_NOT_WRITABLE


def test_a_path_that_is_a_folder_is_a_typed_error(tmp_path):
    with pytest.raises(AppError) as refused:
        ConversationStore(tmp_path)
    assert refused.value.code is ErrorCode.FOLDER_NOT_WRITABLE


@pytest.mark.parametrize(
    ("free", "code"), [(0, ErrorCode.DISK_FULL), (10**9, ErrorCode.STORE_UNREADABLE)], ids=["full", "roomy"]
)
def test_an_input_output_error_is_told_as_a_full_disk_only_where_nothing_is_free(path, monkeypatch, free, code):
    fill(path, messages=1)
    usage = shutil.disk_usage(path.parent)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: usage)

    def no_room_for_the_index(_connection, _path):
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
        raise error

    monkeypatch.setattr(database, "_use_write_ahead_log", no_room_for_the_index)
    with pytest.raises(AppError) as refused:
        ConversationStore(path)
    assert refused.value.code is code


def test_a_store_held_by_another_program_is_told_as_busy_after_the_time_that_was_asked_for(path):
    fill(path, messages=1)
    holder = sqlite3.connect(path, isolation_level=None)
    with ConversationStore(path, busy_seconds=0.03) as store:
        holder.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()
        with pytest.raises(StoreBusyError) as refused:
            store.new_conversation()
        assert time.monotonic() - begun < database.BUSY_SECONDS / 2, "as long as is waited unasked"
        assert refused.value.code is ErrorCode.STORE_UNREADABLE
        holder.execute("ROLLBACK")
        store.new_conversation()
    holder.close()


def test_the_file_is_used_with_a_write_ahead_log_and_checked_references(store):
    settings = {
        name: store._connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "foreign_keys")
    }
    assert settings == {"journal_mode": "wal", "synchronous": 1, "foreign_keys": 1}
