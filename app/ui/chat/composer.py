"""Where the question is written: Enter sends, Shift+Enter starts a line, Stop takes Send's place."""

import math

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFocusEvent, QFontMetricsF, QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from app.ui.theme import GRID, set_kind, set_role, text_points

MOST_LINES = 8
TEXT_POINTS = 10.5


class Composer(QFrame):
    """The text, one line of help or the reason why nothing can be sent, and the button.

    Signals:
        sent: The text to ask.
        stopped: The running answer is to stop.
    """

    sent = Signal(str)
    stopped = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, "composer")
        self._reason = ""
        self._answering = False
        self._edit = _Edit(self)
        self._edit.setAccessibleName(self.tr("Your question"))
        self._edit.setPlaceholderText(self.tr("Ask something"))
        self._edit.entered.connect(self._send)
        self._edit.focused.connect(lambda on: set_role(self, "composer-focus" if on else "composer"))
        self._edit.textChanged.connect(self._update)
        self._hint = QLabel(self)
        self._hint.setWordWrap(True)
        set_role(self._hint, "small")
        self._send_button = QPushButton(self.tr("Send"), self)
        self._send_button.setAccessibleName(self.tr("Send the question"))
        set_kind(self._send_button, "primary")
        self._send_button.clicked.connect(self._send)
        self._stop_button = QPushButton(self.tr("Stop"), self)
        self._stop_button.setAccessibleName(self.tr("Stop the answer"))
        self._stop_button.setToolTip(self.tr("Stop the answer (Esc); what has come stays"))
        self._stop_button.clicked.connect(self.stopped)
        foot = QHBoxLayout()
        foot.addWidget(self._hint, 1)
        foot.addWidget(self._send_button)
        foot.addWidget(self._stop_button)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * GRID, GRID + 4, GRID + 4, GRID + 4)
        column.setSpacing(GRID // 2)
        column.addWidget(self._edit)
        column.addLayout(foot)
        self.setFocusProxy(self._edit)
        self._update()

    @property
    def text(self) -> str:
        """What is written and not sent yet."""
        return self._edit.toPlainText()

    @property
    def hint(self) -> str:
        """The line under the text."""
        return self._hint.text()

    @property
    def edit(self) -> QPlainTextEdit:
        """The text field."""
        return self._edit

    @property
    def send_button(self) -> QPushButton:
        """Sends the text."""
        return self._send_button

    @property
    def stop_button(self) -> QPushButton:
        """Stops the answer; takes the place of `send_button` meanwhile."""
        return self._stop_button

    def set_reason(self, reason: str) -> None:
        """Say why nothing can be sent, or "" when it can. Writing is possible at any time."""
        self._reason = reason
        self._update()

    def set_answering(self, answering: bool) -> None:
        """Show Stop in place of Send while an answer runs."""
        had_focus = self._send_button.hasFocus() or self._stop_button.hasFocus()
        self._answering = answering
        self._update()
        if had_focus:
            self._edit.setFocus()

    def set_text(self, text: str) -> None:
        """Replace what is written."""
        self._edit.setPlainText(text)

    def _send(self) -> None:
        text = self.text.strip()
        if text and not self._reason and not self._answering:
            self._edit.clear()
            self.sent.emit(text)

    def _update(self) -> None:
        self._send_button.setVisible(not self._answering)
        self._stop_button.setVisible(self._answering)
        self._send_button.setEnabled(not self._reason and bool(self.text.strip()))
        help_line = self.tr("Enter sends · Shift+Enter starts a new line")
        self._hint.setText(self._reason or (self.tr("Esc stops the answer") if self._answering else help_line))
        self._edit.setAccessibleDescription(self._hint.text())


class _Edit(QPlainTextEdit):
    entered = Signal()
    focused = Signal(bool)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabChangesFocus(True)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setAutoFillBackground(False)
        font = self.font()
        font.setPointSizeF(text_points(TEXT_POINTS))
        self.setFont(font)
        self.document().setDocumentMargin(2)
        set_role(self, "bare")
        # In a plain text document the layout's height is counted in lines, wrapped ones included.
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter sends; with Shift it is a line's end."""
        is_enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if is_enter and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.entered.emit()
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """The frame around shows the focus."""
        super().focusInEvent(event)
        self.focused.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """As `focusInEvent`."""
        super().focusOutEvent(event)
        self.focused.emit(False)

    def _fit(self) -> None:
        lines = min(MOST_LINES, max(1, int(self.document().size().height())))
        self.setFixedHeight(math.ceil(lines * QFontMetricsF(self.font()).lineSpacing()) + 6)
