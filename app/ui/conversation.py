"""The conversation shown: which one it is, asking the engine, and taking the answer's events."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.engine import client, protocol
from app.errors import AppError, ErrorCode
from app.ui.chat.answer import AnswerWriter, figures_of, to_send
from app.ui.engine import Engine

if TYPE_CHECKING:
    from app.chat.store import ConversationStore, StoredMessage


class Conversation(QObject):
    """At most one answer at a time, always stored before it is shown.

    Another conversation may be shown while an answer is ending: its last words are stored in its own
    conversation, and not shown.

    Signals:
        answer_started: The conversation (tuple of StoredMessage), which now ends with the question and
            an empty answer, both stored.
        token: More text of the answer, stored already.
        prompt_progress: How far the prompt is computed (protocol.PromptProgress).
        finished: The answer is complete, with its figures (protocol.Finished).
        broken: The answer did not come to its end, or could not be stored to its end; what is stored is kept.
        ended: No answer runs any more, however it ended.
        failed: The engine refused the question, or the store could not be written (AppError).
        gone: What was to be done was not: another window deleted the conversation.
        changed: Another conversation, or none, is shown.
        list_changed: The list of stored conversations changed.
    """

    answer_started = Signal(object)
    token = Signal(str)
    prompt_progress = Signal(object)
    finished = Signal(object)
    broken = Signal()
    ended = Signal()
    failed = Signal(object)
    gone = Signal()
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
        self._writer.closed.connect(self._closed)
        self._id: int | None = store.last_conversation()
        self._request_id = 0
        self._finished: protocol.Finished | None = None
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
        """True from a question until its answer ended and is stored."""
        return self._writer.writing

    def messages(self) -> "tuple[StoredMessage, ...]":
        """The messages shown, oldest first."""
        return () if self._id is None else self._store.active_path(self._id)

    def show(self, conversation_id: int | None) -> None:
        """Show another conversation, or an empty one for None; a running answer is stopped."""
        if conversation_id != self._id:
            self.stop()
            self._id = conversation_id
            self.changed.emit()

    def answers_in(self, conversation_id: int) -> bool:
        """True while an answer is written in this conversation."""
        return self.answering and self._writer.conversation_id == conversation_id

    def open(self, conversation_id: int) -> None:
        """Show a conversation of the list, or tell that it is not there any more."""
        if self.count(conversation_id) is not None:
            self.show(conversation_id)

    def count(self, conversation_id: int) -> int | None:
        """How many messages a conversation holds; None where `gone` or `failed` was told instead."""
        counted: list[int] = []
        self._try(conversation_id, lambda: counted.append(self._store.message_count(conversation_id)))
        return counted[0] if counted else None

    def rename(self, conversation_id: int, title: str) -> bool:
        """Give a conversation another title, an empty one brings back that of its first question.

        Returns:
            False where it was not done; `gone` or `failed` has told why.
        """
        if not self._try(conversation_id, lambda: self._store.rename(conversation_id, title)):
            return False
        self.list_changed.emit()
        return True

    def delete(self, conversation_id: int) -> bool:
        """Delete a conversation with all its messages; its running answer is stopped, and no more of it is stored.

        Where it is the one shown, the next of the list takes its place.

        Returns:
            False where it was not done; `gone` or `failed` has told why.
        """
        following = self._beside(conversation_id)
        if not self._try(conversation_id, lambda: self._store.delete(conversation_id)):
            return False
        self._leave(conversation_id, following)
        return True

    def ask(self, text: str, model: str) -> bool:
        """Store a question and an empty answer, then have the engine (with `model`) answer.

        Returns:
            False where the store could not be written; `failed` has told it.
        """
        try:
            path = self._writer.begin(self._id, text, model)
        except AppError as error:
            if self._id is not None and error.code is ErrorCode.BAD_USAGE:
                self._leave(self._id, None)
                self.gone.emit()
            else:
                self.failed.emit(error)
            return False
        self._id = self._writer.conversation_id
        self._model = model
        self._finished = None
        sampling, max_tokens = self._sampling()
        self._request_id = self._engine.send(
            protocol.Generate, messages=to_send(path), sampling=sampling, max_tokens=max_tokens
        )
        self.answer_started.emit(path)
        self.list_changed.emit()
        return True

    def stop(self) -> None:
        """Have the engine stop; what was generated stays."""
        if self._request_id:
            self._engine.send(protocol.Cancel, target=self._request_id)

    def fail(self) -> None:
        """The engine will not go on: keep the text and mark the answer failed."""
        self._request_id = 0
        self._writer.fail()

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
            self._finished = event
            self._writer.finish(figures_of(event, self._model))
        elif isinstance(event, protocol.Failed):
            self.fail()
            self.failed.emit(client.error_of(event))
        return True

    def _try(self, conversation_id: int, do: Callable[[], None]) -> bool:
        """Do it with the store; False where it could not be done, which is told."""
        try:
            do()
        except AppError as error:
            if error.code is ErrorCode.BAD_USAGE:
                self._leave(conversation_id, self._beside(conversation_id))
                self.gone.emit()
            else:
                self.list_changed.emit()
                self.failed.emit(error)
            return False
        return True

    def _beside(self, conversation_id: int) -> int | None:
        """The conversation that follows in the list, or where it is the last one, that before it."""
        try:
            ids = [stored.id for stored in self._store.conversations()]
        except AppError:  # the list tells it, which is read next
            return None
        place = ids.index(conversation_id) if conversation_id in ids else -1
        around = ids[place + 1 :] or ids[:place][-1:]
        return around[0] if around else None

    def _leave(self, deleted: int, following: int | None) -> None:
        """Nothing is shown of a deleted conversation, and nothing is stored in it."""
        if self.answers_in(deleted):
            self.stop()
            self._writer.drop()
        if self._id == deleted:
            self.show(following)
        self.list_changed.emit()

    def _is_shown(self) -> bool:
        return self._writer.conversation_id == self._id

    def _shown(self, text: str) -> None:
        if self._is_shown():
            self.token.emit(text)

    def _closed(self, state: str) -> None:
        finished, self._finished = self._finished, None
        self.ended.emit()
        if not self._is_shown():
            return
        if state == "failed" or finished is None:
            self.broken.emit()
        else:
            self.finished.emit(finished)

    def _store_failed(self, error: AppError) -> None:
        self.stop()
        if error.code is ErrorCode.BAD_USAGE:
            self.list_changed.emit()
            self.gone.emit()
        else:
            self.failed.emit(error)
