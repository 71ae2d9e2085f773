"""The transcript: the newest messages as widgets in a scrolling column; older ones on demand."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QMargins, QPoint, Qt, QTimer
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QScrollArea, QWidget

from app.ui.chat.message import AnswerMessage, QuestionMessage
from app.ui.chat.stack import Stack, grow_downwards
from app.ui.theme import GRID, READABLE_WIDTH, Theme, set_kind, set_role

if TYPE_CHECKING:
    from app.chat.store import StoredMessage

AT_ONCE = 6
"""Messages built before the page is shown; the rest follow in idle moments."""
NEWEST = 50
"""Message widgets built without being asked for more."""
MOST = 100
"""Message widgets at which a transcript that grew is built anew from its newest."""
SLICE = 2
"""Messages built in one idle moment: a few milliseconds."""
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
        self._idle = QTimer(self)
        self._idle.setInterval(0)
        self._idle.timeout.connect(self._build_slice)
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
        while self._shown:
            self._remove_oldest()
        self._earlier = list(messages)
        self._follow = True
        self._anchor = None
        self._wanted = min(NEWEST, len(messages))
        for _ in range(min(AT_ONCE, self._wanted)):
            self._build_earlier()
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
        value = self.verticalScrollBar().value()
        seen = next(message for message in self._shown if self._top_of(message) + message.height() > value)
        self._anchor = (seen, self._top_of(seen) - value)
        wanted = max(self._wanted, len(self._shown)) + EARLIER
        self._wanted = min(len(self._shown) + len(self._earlier), wanted)
        self._continue_building()

    def _build_earlier(self) -> None:
        stored = self._earlier.pop()
        message: QuestionMessage | AnswerMessage
        if stored.role == "user":
            message = QuestionMessage(stored.content, self._theme)
        else:
            message = AnswerMessage(self._theme)
            message.show_stored(stored)
        self._shown.insert(0, message)
        self._column.insert(1, message)

    def _build_slice(self) -> None:
        for _ in range(min(SLICE, self._wanted - len(self._shown))):
            self._build_earlier()
        self._continue_building()

    def _continue_building(self) -> None:
        more = len(self._shown) < self._wanted and bool(self._earlier)
        if more:
            self._idle.start()
        else:
            self._idle.stop()
        self._top.setVisible(bool(self._earlier) and not more)

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
