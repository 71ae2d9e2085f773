"""The transcript: the newest messages as widgets in a scrolling column; older ones on demand."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QMargins, QPoint, Qt, QTimer
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QScrollArea, QWidget

from app.ui.chat.message import AnswerMessage, QuestionMessage
from app.ui.chat.stack import Stack, grow_downwards
from app.ui.theme import GRID, READABLE_WIDTH, Theme, set_kind, set_role

if TYPE_CHECKING:
    from app.chat.store import StoredMessage

    _Growing = tuple[AnswerMessage, StoredMessage, int]

AT_LEAST = 2
"""Messages built at once however tall they are: the last question and its answer, which may still grow."""
SLICE_CHARACTERS = 1000
"""Of an answer shown in one idle moment: about 5 ms (two-core Linux machine, November 2026)."""
NEWEST = 50
"""Message widgets built without being asked for more."""
MOST = 100
"""Message widgets at which a transcript that grew is built anew from its newest."""
EARLIER = 20
"""Messages that one press of the button brings."""
AT_BOTTOM_PIXELS = 4


class Transcript(QScrollArea):
    """Follows the newest text while it is scrolled to the bottom, and stays put otherwise."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setAccessibleName(self.tr("Conversation"))
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        set_role(self, "bare")
        self._earlier: list[StoredMessage] = []
        self._shown: list[QuestionMessage | AnswerMessage] = []
        self._follow = True
        self._anchor: tuple[QWidget, int] | None = None
        self._adjusting = False
        self._wanted = 0
        self._growing: _Growing | None = None
        self._idle = QTimer(self)
        self._idle.setInterval(0)
        self._idle.timeout.connect(self._build_slice)
        self._undressed: list[QuestionMessage | AnswerMessage] = []
        self._dressing = QTimer(self)
        self._dressing.setInterval(0)
        self._dressing.timeout.connect(self._dress_next)
        theme.changed.connect(self._theme_changed)
        self._more = QPushButton(self.tr("Show earlier messages"), self)
        set_kind(self._more, "quiet")
        self._more.clicked.connect(self.show_earlier)
        self._build()
        bar = self.verticalScrollBar()
        bar.valueChanged.connect(self._scrolled)
        bar.rangeChanged.connect(self._range_changed)

    def _build(self) -> None:
        page = QWidget(self)
        # Opaque: what scrolls is then moved on the screen, and only what comes into sight is drawn.
        page.setAutoFillBackground(True)
        grow_downwards(page)
        self._column = Stack(3 * GRID, QMargins(2 * GRID, 3 * GRID, 2 * GRID, 3 * GRID), page)
        self._column.setMaximumWidth(READABLE_WIDTH)
        self._top = QWidget(self._column)
        self._top.hide()
        top_row = QHBoxLayout(self._top)
        top_row.setContentsMargins(0, 0, 0, 0)
        top_row.addWidget(self._more, 0, Qt.AlignmentFlag.AlignHCenter)
        self._column.add(self._top)
        row = QHBoxLayout(page)
        row.setContentsMargins(0, 0, 0, 0)
        row.addStretch(1)
        row.addWidget(self._column, 1000, Qt.AlignmentFlag.AlignTop)
        row.addStretch(1)
        self.setWidget(page)

    @property
    def messages(self) -> tuple[QuestionMessage | AnswerMessage, ...]:
        """The message widgets shown, oldest first."""
        return tuple(self._shown)

    @property
    def more_button(self) -> QPushButton:
        """Brings earlier messages; visible only when there are any."""
        return self._more

    def set_messages(self, messages: "tuple[StoredMessage, ...]") -> None:
        """Show another conversation, from its end."""
        self._idle.stop()
        self._growing = None
        while self._shown:
            self._remove_oldest()
        self._earlier = list(messages)
        self._follow = True
        self._anchor = None
        self._wanted = min(NEWEST, len(messages))
        # What can be seen comes at once, the rest in idle moments.
        while len(self._shown) < self._wanted and (
            len(self._shown) < AT_LEAST or self._column.height() < self.viewport().height()
        ):
            self._build_earlier(whole=True)
        self._continue_building()

    def add_turn(self, path: "tuple[StoredMessage, ...]") -> AnswerMessage:
        """Append the question and the coming answer that `path` ends with, and scroll to them.

        Args:
            path: The whole conversation, from which a transcript that grew too long is built anew.
        """
        if len(self._shown) >= MOST:
            self.set_messages(path[:-2])
        answer = AnswerMessage(self._theme)
        for message in (QuestionMessage(path[-2].content, self._theme), answer):
            self._shown.append(message)
            self._column.add(message)
        self.scroll_to_end()
        return answer

    def scroll_to_end(self) -> None:
        """Show the newest text and follow it."""
        self._follow = True
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())

    def show_earlier(self) -> None:
        """Bring older messages above, without moving what is read."""
        self._follow = False
        self._hold_place()
        wanted = max(self._wanted, len(self._shown)) + EARLIER
        self._wanted = min(len(self._shown) + len(self._earlier), wanted)
        self._continue_building()

    def _hold_place(self) -> None:
        """Keep what is read in its place while messages come above it."""
        value = self.verticalScrollBar().value()
        seen = next((message for message in self._shown if self._top_of(message) + message.height() > value), None)
        self._anchor = None if seen is None else (seen, self._top_of(seen) - value)

    def _build_earlier(self, *, whole: bool) -> None:
        stored = self._earlier.pop()
        message: QuestionMessage | AnswerMessage
        if stored.role == "user":
            message = QuestionMessage(stored.content, self._theme)
        else:
            message = AnswerMessage(self._theme)
            if whole:
                message.show_stored(stored)
            else:
                self._growing = (message, stored, 0)
        self._shown.insert(0, message)
        self._column.insert(1, message)

    def _build_slice(self) -> None:
        if not self._follow and self._anchor is None:
            self._hold_place()
        if self._growing is not None:
            self._growing = self._grown(*self._growing)
        elif len(self._shown) < self._wanted:
            self._build_earlier(whole=False)
        self._continue_building()

    def _grown(self, message: AnswerMessage, stored: "StoredMessage", done: int) -> "_Growing | None":
        """Show the next part of a long answer; None when it is whole."""
        line_end = stored.content.find("\n", done + SLICE_CHARACTERS)
        end = len(stored.content) if line_end < 0 else line_end + 1
        message.append_stored(stored.content[done:end])
        if end < len(stored.content):
            return message, stored, end
        message.end_stored(stored)
        return None

    def _continue_building(self) -> None:
        more = self._growing is not None or (len(self._shown) < self._wanted and bool(self._earlier))
        if more:
            self._idle.start()
        else:
            self._idle.stop()
        self._top.setVisible(bool(self._earlier) and not more)

    def _theme_changed(self) -> None:
        """What is in sight has the new colours at once, the rest in idle moments, the newest first."""
        self._undressed = []
        for message in self._shown:
            if message.visibleRegion().isEmpty():
                self._undressed.append(message)
            else:
                message.dress()
        self._dressing.start()

    def _dress_next(self) -> None:
        while self._undressed:
            message = self._undressed.pop()
            if message in self._shown:  # else it was removed meanwhile
                message.dress()
                return
        self._dressing.stop()

    def _remove_oldest(self) -> None:
        self._column.remove(self._shown.pop(0))

    def _top_of(self, message: QWidget) -> int:
        return message.mapTo(self.widget(), QPoint()).y()

    def _scrolled(self, value: int) -> None:
        self._follow = value >= self.verticalScrollBar().maximum() - AT_BOTTOM_PIXELS
        if not self._adjusting:
            self._anchor = None

    def _range_changed(self, _minimum: int, maximum: int) -> None:
        self._adjusting = True
        if self._follow:
            self.verticalScrollBar().setValue(maximum)
        elif self._anchor is not None:
            message, offset = self._anchor
            self.verticalScrollBar().setValue(self._top_of(message) - offset)
        self._adjusting = False
