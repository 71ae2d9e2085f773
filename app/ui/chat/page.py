"""The chat page: conversations beside, the transcript, what went wrong, and the composer."""

import contextlib
import logging
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QStackedWidget, QVBoxLayout, QWidget

from app.engine.protocol import Finished, PromptProgress
from app.errors import AppError, ErrorCode
from app.ui.banner import Banner
from app.ui.chat.answer import figures_of
from app.ui.chat.composer import Composer
from app.ui.chat.conversation_list import ConversationList
from app.ui.chat.empty_state import EmptyState
from app.ui.chat.message import AnswerMessage
from app.ui.chat.transcript import Transcript
from app.ui.controller import ANSWERING, EMPTY, FAILED, LENT, LOADING, READY, Controller
from app.ui.theme import GRID, READABLE_WIDTH, Theme, set_kind
from app.ui.words import number

if TYPE_CHECKING:
    from app.chat.store import StoredMessage

log = logging.getLogger(__name__)


class ChatPage(QWidget):
    """The conversation shown, and everything to go on with it.

    Signals:
        model_wanted: The user wants to choose a model.
    """

    model_wanted = Signal()

    def __init__(self, controller: Controller, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self._conversation = controller.conversation
        self._answer: AnswerMessage | None = None
        self.sidebar = ConversationList(self._conversation, self)
        self.transcript = Transcript(theme, self)
        self.empty_state = EmptyState(self)
        self.banner = Banner(self)
        self.composer = Composer(self)
        self.banner.set_focus_after(self.composer)
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self.empty_state)
        self._stack.addWidget(self.transcript)
        self._stale = True
        self._told_silent = False
        self._lay_out()
        self._connect()
        self._state_changed(controller.state)

    def ask(self, text: str) -> None:
        """Ask what was written into the composer; it comes back there where it could not be sent."""
        if not self._ask(text):
            self.composer.set_text(text)

    def _ask_example(self, text: str) -> None:
        """An example can be asked again with one click: it must not replace what is being written."""
        self._ask(text)

    def _ask(self, text: str) -> bool:
        self.banner.clear()
        self._told_silent = False
        try:
            self._controller.ask(text)
        except AppError as error:
            self.banner.tell(error)
        return self._controller.state == ANSWERING

    def new_conversation(self) -> None:
        """Begin anew, ready to write."""
        self._controller.new_conversation()
        self.composer.setFocus()

    # ---- building -----------------------------------------------------------------------------

    def _lay_out(self) -> None:
        foot = QWidget(self)
        foot.setMaximumWidth(READABLE_WIDTH)
        inner = QVBoxLayout(foot)
        inner.setContentsMargins(2 * GRID, GRID, 2 * GRID, 2 * GRID)
        inner.setSpacing(GRID + 4)
        inner.addWidget(self.banner)
        inner.addWidget(self.composer)
        foot_row = QHBoxLayout()
        self._foot_row = foot_row
        foot_row.setContentsMargins(0, 0, 0, 0)
        foot_row.addStretch(1)
        foot_row.addWidget(foot, 1000)
        foot_row.addStretch(1)
        main = QVBoxLayout()
        main.setSpacing(0)
        main.addWidget(self._stack, 1)
        main.addLayout(foot_row)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.sidebar)
        row.addLayout(main, 1)

    def _connect(self) -> None:
        controller, conversation = self._controller, self._conversation
        controller.state_changed.connect(self._state_changed)
        controller.load_progress.connect(self._load_progress)
        controller.loaded.connect(lambda _report: self.banner.clear())
        controller.failed.connect(self._failed)
        controller.engine_watch.silent.connect(self._silent)
        conversation.answer_started.connect(self._answer_started)
        controller.prompt_progress.connect(self._prompt_progress)
        controller.token.connect(self._token)
        controller.finished.connect(self._finished)
        conversation.broken.connect(self._broken)
        conversation.changed.connect(self._conversation_changed)
        conversation.gone.connect(self._gone)
        self.sidebar.new_wanted.connect(self.new_conversation)
        self.empty_state.asked.connect(self._ask_example)
        self.empty_state.model_wanted.connect(self.model_wanted)
        self.composer.sent.connect(self.ask)
        self.composer.stopped.connect(controller.stop)
        self.transcript.verticalScrollBar().rangeChanged.connect(self._align_foot)
        self._stack.currentChanged.connect(self._align_foot)
        escape = QShortcut(QKeySequence(Qt.Key.Key_Escape), self)
        # Wherever in the window the keyboard is; only while there is something to stop.
        escape.setContext(Qt.ShortcutContext.WindowShortcut)
        escape.setEnabled(controller.state == ANSWERING)
        controller.state_changed.connect(lambda state: escape.setEnabled(state == ANSWERING))
        escape.activated.connect(controller.stop)

    def _align_foot(self) -> None:
        """Keep the composer under the column of text, which a scroll bar pushes aside."""
        bar = self.transcript.verticalScrollBar()
        has_bar = self._stack.currentWidget() is self.transcript and bar.maximum() > 0
        self._foot_row.setContentsMargins(0, 0, bar.sizeHint().width() if has_bar else 0, 0)

    # ---- the conversation ---------------------------------------------------------------------

    def showEvent(self, event: QShowEvent) -> None:
        """Messages are built when they can be seen: not before the wizard, at the start."""
        if self._stale:
            self._show_conversation()
        super().showEvent(event)

    def _conversation_changed(self) -> None:
        self._stale = True
        if self.isVisible():
            self._show_conversation()

    def _show_conversation(self) -> None:
        self._stale = False
        try:
            messages = self._conversation.messages()
        except AppError as error:
            self.banner.tell(error)
            messages = ()
        # Before the messages are made: they are made until what can be seen of the transcript is full.
        self._stack.setCurrentWidget(self.transcript if messages else self.empty_state)
        self.transcript.set_messages(messages)
        self._answer = None
        if messages and messages[-1].state == "streaming":
            last = self.transcript.messages[-1]
            self._answer = last if isinstance(last, AnswerMessage) else None

    def _answer_started(self, path: "tuple[StoredMessage, ...]") -> None:
        self._stack.setCurrentWidget(self.transcript)
        self._answer = self.transcript.add_turn(path)

    def _prompt_progress(self, progress: PromptProgress) -> None:
        if self._answer is not None:
            self._answer.show_prompt(progress)

    def _token(self, text: str) -> None:
        if self._answer is not None:
            self._answer.append(text)

    def _finished(self, finished: Finished) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.show_figures(figures_of(finished, ""))
            answer.announce_end()

    def _broken(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.show_failed()
            answer.announce_end()
            if not answer.text:
                self._give_back()

    def _give_back(self) -> None:
        """Put a question that got no word of an answer back into the composer, to be changed or asked elsewhere."""
        with contextlib.suppress(AppError):  # a store that cannot be read tells it itself
            messages = self._conversation.messages()
            if len(messages) > 1 and not self.composer.text:
                self.composer.set_text(messages[-2].content)

    # ---- state and problems -------------------------------------------------------------------

    def _state_changed(self, state: str) -> None:
        self.composer.set_reason(
            {
                EMPTY: self.tr("Load a model first"),
                LOADING: self.tr("The model is loading…"),
                FAILED: self.tr("No model is loaded: load it again first"),
                LENT: self.tr("Auto-tune is measuring plans: the model answers again when it ends"),
            }.get(state, "")
        )
        self.composer.set_answering(state == ANSWERING)
        facts = self._controller.loaded_facts
        self.empty_state.set_ready(state == READY, facts.name if facts else "", can_choose=state in (EMPTY, FAILED))
        if state in (LOADING, ANSWERING):
            self.banner.clear()

    def _load_progress(self, fraction: float) -> None:
        percent = number(100 * fraction)
        self.composer.set_reason(self.tr("The model is loading: {percent} %").format(percent=percent))

    def _failed(self, error: AppError) -> None:
        if not self.isVisible() and self._controller.state != FAILED:
            return  # the wizard is shown, and tells what it began itself
        actions = self._rescue_buttons() if self._controller.state == FAILED else ()
        self._told_silent = False  # what takes the banner now is not taken away by an engine that answers again
        self.banner.tell(error, actions)

    def _gone(self) -> None:
        self._told_silent = False
        gone = AppError(ErrorCode.BAD_USAGE, self.tr("Another window deleted this conversation."))
        self.banner.tell(gone, advice=self.tr("The list shows which ones there are now."))

    def _silent(self, silence: AppError | None) -> None:
        """The engine does not answer: say so, and leave it to the user whether to wait; or it answers again."""
        told, self._told_silent = self._told_silent, silence is not None
        if silence is not None:
            end = QPushButton(self.tr("End the engine"), self.banner)
            end.setToolTip(self.tr("Frees the model; it can be loaded again then. The conversation stays."))
            end.clicked.connect(self._controller.engine_watch.end_silent)
            self.banner.tell(silence, (end,))
        elif told:
            self.banner.clear()

    def _rescue_buttons(self) -> tuple[QPushButton, ...]:
        again = QPushButton(self.tr("Load again"), self.banner)
        set_kind(again, "primary")
        again.clicked.connect(self._controller.load_again)
        try:
            smaller = self._controller.smaller_plan()
        except AppError as error:
            log.warning("no smaller plan: %s", error.message)
            smaller = None
        if smaller is None:
            return (again,)
        button = QPushButton(self.tr("Load with a smaller plan"), self.banner)
        where = self.tr("experts on the CPU") if smaller.gpu else self.tr("everything on the CPU")
        button.setToolTip(
            self.tr("{tokens} tokens of context, {where}").format(tokens=number(smaller.n_ctx), where=where)
        )
        button.clicked.connect(self._controller.load_smaller)
        return (again, button)
