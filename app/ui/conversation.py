"""The conversation shown: which one it is, asking the engine, and taking the answer's events."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.engine import client, protocol
from app.errors import AppError
from app.ui.chat.answer import AnswerWriter, figures_of
from app.ui.engine import Engine

if TYPE_CHECKING:
    from app.chat.store import ConversationStore, StoredMessage


class Conversation(QObject):
    """At most one answer at a time, always stored before it is shown.

    Another conversation may be shown while an answer is ending: its last words are stored in its own
    conversation, and not shown.

    Signals:
        answer_started: The question and an empty answer are stored.
        token: More text of the answer, stored already.
        prompt_progress: How far the prompt is computed (protocol.PromptProgress).
        finished: The answer is complete, with its figures (protocol.Finished).
        broken: The engine did not finish the answer; what had come is kept.
        ended: No answer runs any more, however it ended.
        failed: The engine refused the question, or the store could not be written (AppError).
        changed: Another conversation, or none, is shown.
        list_changed: The list of stored conversations changed.
    """

    answer_started = Signal()
    token = Signal(str)
    prompt_progress = Signal(object)
    finished = Signal(object)
    broken = Signal()
    ended = Signal()
    failed = Signal(object)
    changed = Signal()
    list_changed = Signal()

    def __init__(
        self,
        engine: Engine,
        store: "ConversationStore",
        sampling: Callable[[], tuple[protocol.Sampling, int]],
        parent: QObject | None = None,
    ) -> None:
        """Collaborators; `sampling` gives the sampling and the most tokens of the next answer."""
        super().__init__(parent)
        self._engine = engine
        self._store = store
        self._sampling = sampling
        self._writer = AnswerWriter(store, self)
        self._writer.shown.connect(self._shown)
        self._writer.failed.connect(self._store_failed)
        self._id: int | None = store.last_conversation()
        self._request_id = 0
        self._model = ""

    @property
    def id(self) -> int | None:
        """The stored conversation shown; None until something is asked in a new one."""
        return self._id

    @property
    def store(self) -> "ConversationStore":
        """Where conversations are kept."""
        return self._store

    @property
    def answering(self) -> bool:
        """True from a question until its answer ended."""
        return bool(self._request_id)

    def messages(self) -> "tuple[StoredMessage, ...]":
        """The messages shown, oldest first."""
        return () if self._id is None else self._store.active_path(self._id)

    def show(self, conversation_id: int | None) -> None:
        """Show another conversation, or an empty one for None; a running answer is stopped."""
        if conversation_id != self._id:
            self.stop()
            self._id = conversation_id
            self.changed.emit()

    def ask(self, text: str, model: str) -> bool:
        """Store a question and an empty answer, then have the engine (with `model`) answer.

        Returns:
            False where the store could not be written; `failed` has told it.
        """
        try:
            if self._id is None:
                self._id = self._store.new_conversation(model=model)
            else:
                self._store.set_model(self._id, model)
            messages = self._writer.begin(self._id, text)
        except AppError as error:
            self.failed.emit(error)
            return False
        self._model = model
        sampling, max_tokens = self._sampling()
        self._request_id = self._engine.send(
            protocol.Generate, messages=messages, sampling=sampling, max_tokens=max_tokens
        )
        self.answer_started.emit()
        self.list_changed.emit()
        return True

    def stop(self) -> None:
        """Have the engine stop; what was generated stays."""
        if self._request_id:
            self._engine.send(protocol.Cancel, target=self._request_id)

    def fail(self) -> None:
        """The engine will not go on: keep the text and mark the answer failed."""
        if not self._request_id:
            return
        self._request_id = 0
        self._writer.fail()
        self.ended.emit()
        if self._is_shown():
            self.broken.emit()

    def interrupt(self) -> None:
        """The window goes: keep the text and mark the answer interrupted."""
        self._request_id = 0
        self._writer.interrupt()

    def take(self, event: protocol.AnyEvent) -> bool:
        """Handle an event of the running answer; False for any other event."""
        if not event.id or event.id != self._request_id:
            return False
        if isinstance(event, protocol.Token):
            self._writer.add(event.text)
        elif isinstance(event, protocol.PromptProgress):
            if self._is_shown():
                self.prompt_progress.emit(event)
        elif isinstance(event, protocol.Finished):
            self._request_id = 0
            self._writer.finish(figures_of(event, self._model))
            self.ended.emit()
            if self._is_shown():
                self.finished.emit(event)
        elif isinstance(event, protocol.Failed):
            self.fail()
            self.failed.emit(client.error_of(event))
        return True

    def _is_shown(self) -> bool:
        return self._writer.conversation_id == self._id

    def _shown(self, text: str) -> None:
        if self._is_shown():
            self.token.emit(text)

    def _store_failed(self, error: AppError) -> None:
        self.stop()
        self.failed.emit(error)
