"""Writes a streaming answer to the store before it is shown, so nothing shown can be lost."""

import logging
from typing import TYPE_CHECKING

from PySide6.QtCore import QElapsedTimer, QObject, QTimer, Signal

from app.chat.store import AnswerFigures, ConversationStore, StoreBusyError
from app.engine.protocol import Finished, Message
from app.errors import AppError, ErrorCode

if TYPE_CHECKING:
    from app.chat.store import StoredMessage

log = logging.getLogger(__name__)

SHOW_MILLISECONDS = 80
"""Text of one answer is stored and shown at most this often. At 200 tokens/s the window then took 7 % of
a core, with 50 ms 9 % (two-core Linux machine, offscreen, November 2026); a write takes 0.03 ms."""


PATIENCE_MILLISECONDS = 10_000
"""How long a store that another program keeps is tried again before the answer counts as failed."""


class AnswerWriter(QObject):
    """One answer at a time: `begin`, `add`*, then `finish`, `fail` or `interrupt`; `drop` where it is to be lost.

    While another program keeps the store, text waits unshown and is tried again. Once the store
    failed nothing more is taken, and the answer ends as "failed" however the engine ends it.

    Signals:
        shown: Text that is stored now and may be shown.
        failed: The store could not be written (AppError); the text concerned was not shown.
        closed: The answer's end is stored as well as it can be: "complete", "stopped" or "failed".
    """

    shown = Signal(str)
    failed = Signal(object)
    closed = Signal(str)

    def __init__(self, store: ConversationStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._message_id: int | None = None
        self._unclosed: int | None = None
        self._conversation_id: int | None = None
        self._text = ""
        self._stored = 0
        self._broken = False
        self._dropped = False
        self._end: tuple[str, AnswerFigures | None] | None = None
        self._since_store = QElapsedTimer()
        self._since_busy = QElapsedTimer()
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.timeout.connect(self._write)

    @property
    def conversation_id(self) -> int | None:
        """The conversation of the answer being written, or of the last one."""
        return self._conversation_id

    @property
    def writing(self) -> bool:
        """True from `begin` until `closed`."""
        return self._message_id is not None

    def begin(self, conversation_id: int | None, question: str, model: str) -> "tuple[StoredMessage, ...]":
        """Store the question and an empty answer of `model`; returns the conversation, which ends with them.

        Raises:
            AppError: the store could not be written; it is as it was.
        """
        if self._message_id is not None:
            self.interrupt()
        self._close_earlier()
        path = self._store.begin_turn(conversation_id, question, model)
        self._message_id = path[-1].id
        self._conversation_id = path[-1].conversation_id
        self._text = ""
        self._stored = 0
        self._broken = False
        self._dropped = False
        self._end = None
        self._since_store.invalidate()
        self._since_busy.invalidate()
        return path

    def add(self, text: str) -> None:
        """Take more text; it is stored and shown at once or with what comes in the next moment."""
        if self._message_id is None or self._broken or self._dropped:
            return
        self._text += text
        if self._later.isActive():
            return
        if not self._since_store.isValid() or self._since_store.elapsed() >= SHOW_MILLISECONDS:
            self._write()
        else:
            self._later.start(SHOW_MILLISECONDS - self._since_store.elapsed())

    def finish(self, figures: AnswerFigures) -> None:
        """Store and show what is left, with how the answer ended and its measured figures."""
        self._finish("stopped" if figures.stop_reason == "stopped" else "complete", figures)

    def fail(self) -> None:
        """The engine will not go on: keep the text and mark the answer failed."""
        self._finish("failed", None)

    def drop(self) -> None:
        """Its conversation was deleted: nothing more is stored or shown; its end is told when the engine ends it."""
        self._later.stop()
        self._dropped = True
        if self._message_id is not None and self._end is not None:
            self._close(self._end[0])

    def interrupt(self) -> None:
        """This process is about to end: keep the text and mark the answer interrupted; no end is told.

        Where even that cannot be written the next start finds the answer without its writer, and marks it.
        """
        self._later.stop()
        if self._dropped:
            self._message_id = None
        if self._message_id is not None:
            state, figures = self._end or ("failed" if self._broken else "interrupted", None)
            self._close_at_last(state, figures)
        try:
            self._close_earlier()
        except AppError as error:
            log.error("the end of an answer could not be stored: %s", error.message)

    def _finish(self, state: str, figures: AnswerFigures | None) -> None:
        if self._message_id is None or self._end is not None:
            return
        self._end = (state, figures)
        if self._dropped:
            self._close(state)
        elif self._broken:
            self._end_as_failed()
        else:
            self._write()

    def _write(self) -> None:
        """Store what is not stored yet, and the end if it came; then show it."""
        self._later.stop()
        new = self._text[self._stored :]
        if self._message_id is None or self._broken or not (new or self._end):
            return
        state, figures = self._end or (None, None)
        try:
            self._store.update_message(
                self._message_id, content=self._text if new else None, state=state, figures=figures
            )
        except StoreBusyError as error:
            if not self._since_busy.isValid():
                self._since_busy.start()
            if self._since_busy.elapsed() < PATIENCE_MILLISECONDS:
                self._later.start(SHOW_MILLISECONDS)
            else:
                self._break(error)
            return
        except AppError as error:
            self._break(error)
            return
        self._since_busy.invalidate()
        self._show_stored()
        if state is not None:
            self._close(state)

    def _break(self, error: AppError) -> None:
        self._broken = True
        self.failed.emit(error)
        if self._end is not None:
            self._end_as_failed()

    def _end_as_failed(self) -> None:
        self._close_at_last("failed", None)
        self.closed.emit("failed")

    def _close_at_last(self, state: str, figures: AnswerFigures | None) -> None:
        """Store text and end once more; where the text finds no room, the end alone."""
        message_id = self._message_id
        assert message_id is not None, "an answer is being written"
        self._message_id = None
        for content in (self._text, None):
            try:
                self._store.update_message(message_id, content=content, state=state, figures=figures)
            except AppError as error:
                log.error("the end of an answer could not be stored: %s", error.message)
                continue
            if content is not None:
                self._show_stored()
            return
        self._unclosed = message_id

    def _close_earlier(self) -> None:
        """Mark the answer whose end could not be stored when it came."""
        if self._unclosed is None:
            return
        try:
            self._store.update_message(self._unclosed, state="failed")
        except AppError as error:
            if error.code is not ErrorCode.BAD_USAGE:  # which says that it was deleted meanwhile
                raise
        self._unclosed = None

    def _show_stored(self) -> None:
        new = self._text[self._stored :]
        self._stored = len(self._text)
        self._since_store.start()
        if new:
            self.shown.emit(new)

    def _close(self, state: str) -> None:
        self._message_id = None
        self.closed.emit(state)


def to_send(path: "tuple[StoredMessage, ...]") -> tuple[Message, ...]:
    """The messages of a conversation as the engine gets them.

    A question whose answer failed before its first word is left out with it: asked again and again, one that is too
    long would fill every context. Other questions that follow each other are joined, as after an interruption: many
    chat templates refuse two turns of the same role.
    """
    messages: list[Message] = []
    for stored, following in zip(path, (*path[1:], None), strict=True):
        unanswered = following is not None and following.state == "failed" and not following.content
        if not stored.content or (stored.role == "user" and unanswered):
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
