"""Writes a streaming answer to the store before it is shown, so nothing shown can be lost."""

import logging
from typing import TYPE_CHECKING

from PySide6.QtCore import QElapsedTimer, QObject, QTimer, Signal

from app.chat.store import AnswerFigures, ConversationStore
from app.engine.protocol import Finished, Message
from app.errors import AppError

if TYPE_CHECKING:
    from app.chat.store import StoredMessage

log = logging.getLogger(__name__)

SHOW_MILLISECONDS = 80
"""Text of one answer is stored and shown at most this often. At 200 tokens/s the window then took 7 % of
a core, with 50 ms 9 % (two-core Linux machine, offscreen, November 2026); a write takes 0.03 ms."""


class AnswerWriter(QObject):
    """One answer at a time: `begin`, `add`*, then `finish`, `fail` or `interrupt`.

    Signals:
        shown: Text that is stored now and may be shown.
        failed: The store could not be written (AppError); the text concerned was not shown.
    """

    shown = Signal(str)
    failed = Signal(object)

    def __init__(self, store: ConversationStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._message_id: int | None = None
        self._conversation_id: int | None = None
        self._text = ""
        self._stored = 0
        self._since_store = QElapsedTimer()
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.timeout.connect(self._flush)

    @property
    def conversation_id(self) -> int | None:
        """The conversation of the answer being written, or of the last one."""
        return self._conversation_id

    def begin(self, conversation_id: int, question: str) -> tuple[Message, ...]:
        """Store the question and an empty answer; returns the messages to send.

        Raises:
            AppError: the store could not be written.
        """
        path = self._store.active_path(conversation_id)
        parent = path[-1].id if path else None
        question_id = self._store.add_message(conversation_id, parent, "user", question)
        messages = to_send(self._store.active_path(conversation_id))
        self._message_id = self._store.add_message(conversation_id, question_id, "assistant", "", state="streaming")
        self._conversation_id = conversation_id
        self._text = ""
        self._stored = 0
        self._since_store.invalidate()
        return messages

    def add(self, text: str) -> None:
        """Take more text; it is stored and shown at once or with what comes in the next moment."""
        if self._message_id is None:
            return
        self._text += text
        if not self._since_store.isValid() or self._since_store.elapsed() >= SHOW_MILLISECONDS:
            self._flush()
        elif not self._later.isActive():
            self._later.start(SHOW_MILLISECONDS - self._since_store.elapsed())

    def finish(self, figures: AnswerFigures) -> None:
        """Store and show what is left, with how the answer ended and its measured figures."""
        self._flush()
        self._close("stopped" if figures.stop_reason == "stopped" else "complete", figures)

    def fail(self) -> None:
        """The engine will not go on: keep the text and mark the answer failed."""
        self._flush()
        self._close("failed", None)

    def interrupt(self) -> None:
        """This process is about to end: keep the text and mark the answer interrupted."""
        self._flush()
        self._close("interrupted", None)

    def _flush(self) -> None:
        self._later.stop()
        new = self._text[self._stored :]
        if self._message_id is None or not new:
            return
        try:
            self._store.update_message(self._message_id, content=self._text)
        except AppError as error:
            self._message_id = None
            self.failed.emit(error)
            return
        self._stored = len(self._text)
        self._since_store.start()
        self.shown.emit(new)

    def _close(self, state: str, figures: AnswerFigures | None) -> None:
        message_id, self._message_id = self._message_id, None
        if message_id is None:
            return
        try:
            self._store.update_message(message_id, state=state, figures=figures)
        except AppError as error:
            self.failed.emit(error)


def to_send(path: "tuple[StoredMessage, ...]") -> tuple[Message, ...]:
    """The messages of a conversation as the engine gets them.

    An answer that failed before its first word is left out, and questions that then follow each
    other are joined: many chat templates refuse two turns of the same role.
    """
    messages: list[Message] = []
    for stored in path:
        if not stored.content:
            continue
        if messages and messages[-1].role == stored.role == "user":
            joined = f"{messages[-1].content}\n\n{stored.content}"
            messages[-1] = Message(role="user", content=joined)
        else:
            messages.append(Message(role=stored.role, content=stored.content))
    return tuple(messages)


def figures_of(finished: Finished, model: str) -> AnswerFigures:
    """The figures of an answer that are kept with it."""
    return AnswerFigures(
        prompt_tokens=finished.prompt_tokens,
        completion_tokens=finished.completion_tokens,
        reused_tokens=finished.reused_tokens,
        ttft_seconds=finished.ttft_seconds,
        prompt_tokens_per_second=finished.prompt_tokens_per_second,
        tokens_per_second=finished.tokens_per_second,
        stop_reason=finished.stop_reason,
        model=model,
        cache_used=finished.cache.used,
        cache_hits=finished.cache.hits,
        cache_misses=finished.cache.misses,
    )
