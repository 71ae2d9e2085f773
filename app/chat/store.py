"""The conversation store: a message tree for each conversation, in SQLite, safe against a killed process."""

import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from app.chat.database import BUSY_SECONDS, StoreBusyError, open_database, set_patience, typed_errors, writing
from app.chat.records import ROLES, STATES, AnswerFigures, StoredConversation, StoredMessage
from app.chat.title import title_from
from app.errors import AppError, ErrorCode

__all__ = ["AnswerFigures", "ConversationStore", "StoreBusyError", "StoredConversation", "StoredMessage"]

log = logging.getLogger(__name__)

# The system clock may be set while a process runs, and moves the start that is reported for it.
_START_TOLERANCE_SECONDS = 5.0
_MESSAGE_COLUMNS = "id, conversation_id, parent_id, role, content, state, created, figures"


class ConversationStore:
    """All conversations of a user. Use it from the thread that made it; `close` it at the end.

    What a method has written survives the death of the process. Several processes may have the same
    file open.

    Args:
        path: The database file; it and its folder are created where missing. A damaged file is kept
            aside under another name, and `recovered_from` names it.
        busy_seconds: How long a write waits for another program that is writing; opening waits longer.

    Raises:
        AppError: every method may raise folder_not_writable, disk_full or store_unreadable.
        StoreBusyError: a method that writes waited `busy_seconds` in vain.
    """

    def __init__(self, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self._path = path
        self._connection, self._recovered_from = open_database(path)
        try:
            self._mark_interrupted()
            set_patience(self._connection, busy_seconds)
        except BaseException:
            self._connection.close()
            raise

    @property
    def recovered_from(self) -> Path | None:
        """Where the damaged file was kept that this store replaced, or None."""
        return self._recovered_from

    def __enter__(self) -> "ConversationStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the store cannot be used any more."""
        with typed_errors(self._path):
            self._connection.close()

    def new_conversation(self, title: str = "", model: str = "") -> int:
        """Begin a conversation and return its id; without a title it gets one from its first question."""
        now = time.time()
        with self._writing():
            cursor = self._connection.execute(
                "INSERT INTO conversations (title, created, updated, model) VALUES (?, ?, ?, ?)",
                (_storable(title), now, now, _storable(model)),
            )
        return _new_id(cursor)

    def conversations(self) -> tuple[StoredConversation, ...]:
        """Every conversation, the last used one first."""
        rows = self._read("SELECT id, title, created, updated, model FROM conversations ORDER BY updated DESC, id DESC")
        return tuple(
            StoredConversation(id=id_, title=title, created=_moment(created), updated=_moment(updated), model=model)
            for id_, title, created, updated, model in rows
        )

    def last_conversation(self) -> int | None:
        """Id of the last used conversation, or None where there is none."""
        rows = self._read("SELECT id FROM conversations ORDER BY updated DESC, id DESC LIMIT 1")
        return rows[0][0] if rows else None

    def message_count(self, conversation_id: int) -> int:
        """How many messages a conversation holds, those of all its branches.

        Raises:
            AppError: bad_usage, for an unknown conversation.
        """
        with typed_errors(self._path):
            self._check_conversation(conversation_id)
        rows = self._read("SELECT COUNT(*) FROM messages WHERE conversation_id = ?", (conversation_id,))
        return int(rows[0][0])

    def active_path(self, conversation_id: int) -> tuple[StoredMessage, ...]:
        """The messages from the first one to the active leaf; empty where there are none."""
        rows = self._read(
            f"""WITH RECURSIVE path(id, depth) AS (
                SELECT leaf, 0 FROM conversations WHERE id = ?
                UNION ALL
                SELECT messages.parent_id, depth + 1 FROM path JOIN messages USING (id)
            )
            SELECT {_MESSAGE_COLUMNS} FROM path JOIN messages USING (id) ORDER BY depth DESC""",  # noqa: S608
            (conversation_id,),
        )
        return tuple(_message(row) for row in rows)

    def add_message(
        self,
        conversation_id: int,
        parent_id: int | None,
        role: str,
        content: str,
        state: str = "complete",
        figures: AnswerFigures | None = None,
    ) -> int:
        """Add a message after `parent_id` (None: at the beginning), make it the active leaf, return its id.

        Raises:
            AppError: bad_usage, for an unknown conversation, parent, role or state.
        """
        _check_word("role", role, ROLES)
        _check_word("state", state, STATES)
        now = time.time()
        with self._writing():
            self._check_conversation(conversation_id)
            if parent_id is not None:
                self._check_message(parent_id, conversation_id)
            cursor = self._connection.execute(
                "INSERT INTO messages (conversation_id, parent_id, role, content, state, created, figures,"
                " writer_pid, writer_started) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    conversation_id,
                    parent_id,
                    role,
                    _storable(content),
                    state,
                    now,
                    _encoded(figures),
                    *_writer(state),
                ),
            )
            message_id = _new_id(cursor)
            self._connection.execute(
                "UPDATE conversations SET leaf = ?, updated = ? WHERE id = ?",
                (message_id, now, conversation_id),
            )
            if role == "user":
                self._connection.execute(
                    "UPDATE conversations SET title = ? WHERE id = ? AND title = ''",
                    (_storable(title_from(content)), conversation_id),
                )
        return message_id

    def begin_turn(self, conversation_id: int | None, question: str, model: str) -> tuple[StoredMessage, ...]:
        """Add a question and the empty answer that `model` is about to write, both or neither.

        Args:
            conversation_id: Where to ask; None begins a conversation.
            question: What is asked.
            model: Name of the model that answers, remembered with the conversation.

        Returns:
            The conversation's active path; it ends with the question and the answer.

        Raises:
            AppError: bad_usage, for an unknown conversation.
        """
        with self._writing():
            if conversation_id is None:
                conversation_id = self.new_conversation(model=model)
            else:
                self.set_model(conversation_id, model)
            path = self.active_path(conversation_id)
            question_id = self.add_message(conversation_id, path[-1].id if path else None, "user", question)
            self.add_message(conversation_id, question_id, "assistant", "", state="streaming")
            return self.active_path(conversation_id)

    def update_message(
        self,
        message_id: int,
        content: str | None = None,
        state: str | None = None,
        figures: AnswerFigures | None = None,
    ) -> None:
        """Change what is given of a message and leave the rest.

        Raises:
            AppError: bad_usage, for an unknown message or state.
        """
        changes: dict[str, Any] = {}
        if content is not None:
            changes["content"] = _storable(content)
        if figures is not None:
            changes["figures"] = _encoded(figures)
        if state is not None:
            _check_word("state", state, STATES)
            changes["state"] = state
            changes["writer_pid"], changes["writer_started"] = _writer(state)
        with self._writing():
            self._check_message(message_id)
            for column, value in changes.items():
                self._connection.execute(
                    f"UPDATE messages SET {column} = ? WHERE id = ?",  # noqa: S608
                    (value, message_id),
                )
            if state is not None:
                self._connection.execute(
                    "UPDATE conversations SET updated = ?"
                    " WHERE id = (SELECT conversation_id FROM messages WHERE id = ?)",
                    (time.time(), message_id),
                )

    def set_leaf(self, conversation_id: int, message_id: int) -> None:
        """Show the branch that ends with `message_id`.

        Raises:
            AppError: bad_usage, the message is not one of this conversation.
        """
        with self._writing():
            self._check_message(message_id, conversation_id)
            self._connection.execute("UPDATE conversations SET leaf = ? WHERE id = ?", (message_id, conversation_id))

    def rename(self, conversation_id: int, title: str) -> None:
        """Give a conversation another title; an empty one brings back that of its first question.

        Raises:
            AppError: bad_usage, for an unknown conversation.
        """
        with self._writing():
            self._check_conversation(conversation_id)
            words = " ".join(title.split()) or self._first_question_title(conversation_id)
            self._connection.execute(
                "UPDATE conversations SET title = ? WHERE id = ?", (_storable(words), conversation_id)
            )

    def set_model(self, conversation_id: int, model: str) -> None:
        """Remember the name of the model that answers in a conversation.

        Raises:
            AppError: bad_usage, for an unknown conversation.
        """
        with self._writing():
            self._check_conversation(conversation_id)
            self._connection.execute(
                "UPDATE conversations SET model = ? WHERE id = ?", (_storable(model), conversation_id)
            )

    def delete(self, conversation_id: int) -> None:
        """Delete a conversation with all its messages.

        Raises:
            AppError: bad_usage, for an unknown conversation.
        """
        with self._writing():
            self._check_conversation(conversation_id)
            self._connection.execute("DELETE FROM conversations WHERE id = ?", (conversation_id,))

    def _mark_interrupted(self) -> None:
        """Answers whose writer is gone will not go on: keep their text and say so."""
        rows = self._read("SELECT id, writer_pid, writer_started FROM messages WHERE state = 'streaming'")
        gone = [id_ for id_, pid, started in rows if not _is_running(pid, started)]
        if not gone:
            return
        with self._writing():
            self._connection.executemany(
                "UPDATE messages SET state = 'interrupted', writer_pid = NULL, writer_started = NULL"
                " WHERE id = ? AND state = 'streaming'",
                [(id_,) for id_ in gone],
            )
        log.info("%d answers were left unfinished by a process that ended", len(gone))

    def _first_question_title(self, conversation_id: int) -> str:
        rows = self._connection.execute(
            "SELECT content FROM messages WHERE conversation_id = ? AND role = 'user' ORDER BY id LIMIT 1",
            (conversation_id,),
        ).fetchall()
        return title_from(rows[0][0]) if rows else ""

    def _check_conversation(self, conversation_id: int) -> None:
        found = self._connection.execute("SELECT 1 FROM conversations WHERE id = ?", (conversation_id,))
        if found.fetchone() is None:
            raise AppError(ErrorCode.BAD_USAGE, f"There is no conversation {conversation_id}.")

    def _check_message(self, message_id: int, conversation_id: int | None = None) -> None:
        found = self._connection.execute("SELECT conversation_id FROM messages WHERE id = ?", (message_id,))
        row = found.fetchone()
        if row is None:
            raise AppError(ErrorCode.BAD_USAGE, f"There is no message {message_id}.")
        if conversation_id is not None and row[0] != conversation_id:
            raise AppError(ErrorCode.BAD_USAGE, f"Message {message_id} is not one of conversation {conversation_id}.")

    def _read(self, query: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        with typed_errors(self._path):
            return self._connection.execute(query, parameters).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with typed_errors(self._path), writing(self._connection):
            yield


def _check_word(what: str, word: str, allowed: tuple[str, ...]) -> None:
    if word not in allowed:
        raise AppError(ErrorCode.BAD_USAGE, f"{word!r} is no {what}: choose one of {', '.join(allowed)}.")


def _new_id(cursor: sqlite3.Cursor) -> int:
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _storable(text: str) -> str:
    """Text without halves of surrogate pairs, which no file can hold; pairs become their character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _encoded(figures: AnswerFigures | None) -> str | None:
    return None if figures is None else msgspec.json.encode(figures).decode()


def _decoded(message_id: int, figures: str | None) -> AnswerFigures | None:
    if figures is None:
        return None
    try:
        return msgspec.json.decode(figures, type=AnswerFigures)
    except (msgspec.MsgspecError, RecursionError) as error:
        log.warning("the figures of message %d cannot be read: %s", message_id, error)
        return None


def _message(row: tuple[Any, ...]) -> StoredMessage:
    id_, conversation_id, parent_id, role, content, state, created, figures = row
    return StoredMessage(
        id=id_,
        conversation_id=conversation_id,
        parent_id=parent_id,
        role=role,
        content=content,
        state=state,
        created=_moment(created),
        figures=_decoded(id_, figures),
    )


def _moment(unix_seconds: float) -> datetime:
    return datetime.fromtimestamp(unix_seconds, UTC)


def _writer(state: str) -> tuple[int, float] | tuple[None, None]:
    """Who writes a streaming message: this process's id and start, which together are never used again."""
    if state != "streaming":
        return None, None
    import psutil  # noqa: PLC0415 - no start of the window needs it

    return os.getpid(), psutil.Process().create_time()


def _is_running(pid: int | None, started: float | None) -> bool:
    if pid is None or started is None:
        return False
    import psutil  # noqa: PLC0415 - as above

    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - started) < _START_TOLERANCE_SECONDS
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
