"""One message of the transcript: the question in a bubble, the answer with its figures under it."""

import math
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtGui import QFontMetricsF, QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.ui.announce import announce
from app.ui.chat.answer_body import AnswerBody
from app.ui.chat.markdown import TextLook
from app.ui.chat.stack import Stack
from app.ui.chat.text_view import TextView
from app.ui.theme import GRID, Theme, monospace_font, set_kind, set_role, text_points
from app.ui.words import in_percent, in_seconds, in_tokens, in_tokens_per_second, number

if TYPE_CHECKING:
    from app.chat.store import AnswerFigures, StoredMessage
    from app.engine.protocol import PromptProgress

TEXT_POINTS = 10.5
BUBBLE_SHARE = 0.85
"""Widest bubble, as a share of the column."""


def text_look(theme: Theme) -> TextLook:
    """How messages look in `theme`."""
    return TextLook(text_points(TEXT_POINTS), monospace_font(TEXT_POINTS - 0.5), theme.colors)


class QuestionMessage(QWidget):
    """What the user wrote, exactly as written."""

    def __init__(self, text: str, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._text = text
        self._theme = theme
        self._view = TextView(self)
        self._view.setAccessibleName(self.tr("Question"))
        self._bubble = QFrame(self)
        set_role(self._bubble, "bubble")
        inner = QVBoxLayout(self._bubble)
        inner.setContentsMargins(2 * GRID, GRID + 2, 2 * GRID, GRID + 2)
        inner.addWidget(self._view)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addStretch(1)
        row.addWidget(self._bubble)
        self.dress()

    @property
    def text(self) -> str:
        """The question."""
        return self._text

    def dress(self) -> None:
        """Take the theme's colours; whoever shows the message says when they are others."""
        self._view.set_plain(self._text, text_look(self._theme))
        self._set_width(self.width())

    def _set_width(self, column: int) -> None:
        font = self._view.font()
        font.setPointSizeF(text_points(TEXT_POINTS))
        metrics = QFontMetricsF(font)
        longest = max((metrics.horizontalAdvance(line[:400]) for line in self._text.splitlines()), default=0)
        padding = 4 * GRID + 4
        self._bubble.setFixedWidth(min(math.ceil(longest) + padding, max(120, int(column * BUBBLE_SHARE))))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The bubble is as wide as its text, within the column."""
        super().resizeEvent(event)
        self._set_width(event.size().width())


class AnswerMessage(Stack):
    """An answer: markdown, then what happens or how it ended, with measured figures."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(GRID, parent=parent)
        self._theme = theme
        self._body = AnswerBody(text_look(theme), self.tr("Answer"), self)
        foot = QWidget(self)
        self._status = QLabel(foot)
        self._status.setWordWrap(True)
        self._status.setTextFormat(Qt.TextFormat.PlainText)
        self._status.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        set_role(self._status, "small")
        self._copy = QPushButton(self.tr("Copy"), foot)
        self._copy.setAccessibleName(self.tr("Copy this answer"))
        self._copy.setToolTip(self.tr("Copy the whole answer as Markdown"))
        set_kind(self._copy, "quiet")
        self._copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._body.source))
        self._copy.hide()
        row = QHBoxLayout(foot)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        row.addWidget(self._status, 1)
        row.addWidget(self._copy, 0, Qt.AlignmentFlag.AlignTop)
        self._body.hide()
        self.add(self._body)
        self.add(foot)
        self._say(self.tr("Waiting for the engine…"))

    @property
    def text(self) -> str:
        """The answer so far, as Markdown."""
        return self._body.source

    @property
    def body(self) -> AnswerBody:
        """The rich text."""
        return self._body

    @property
    def status(self) -> str:
        """The line under the answer."""
        return self._status.text()

    def show_stored(self, message: "StoredMessage") -> None:
        """Show an answer from the store."""
        self.append_stored(message.content)
        self.end_stored(message)

    def append_stored(self, text: str) -> None:
        """Show the next part of a stored answer, which `end_stored` ends."""
        self._say("")
        self._append(text)

    def end_stored(self, message: "StoredMessage") -> None:
        """Say how a stored answer ended, now that all its text is shown."""
        if message.state == "failed":
            self.show_failed()
        elif message.state == "interrupted":
            self._show_incomplete(
                self.tr("Interrupted: the window ended while this answer came. What had come is kept."),
                self.tr("Interrupted: the window ended before the first word."),
            )
        elif message.state == "streaming":
            self._say(self.tr("Answering…"))
        elif message.figures is not None:
            self.show_figures(message.figures)
        elif message.state == "stopped":
            self._say(ending_in_words("stopped"))
        else:
            self._say("")
        self._copy.setVisible(bool(message.content))

    def show_prompt(self, progress: "PromptProgress") -> None:
        """Say how far the prompt is read, until the first word comes."""
        if not self.text:
            self._say(prompt_in_words(progress))

    def append(self, text: str) -> None:
        """More of the answer."""
        if not self.text:
            self._say(self.tr("Answering…"))
        self._append(text)

    def show_figures(self, figures: "AnswerFigures") -> None:
        """The answer is complete: say how it ended and what was measured."""
        self._say(figures_in_words(figures))
        self._copy.setVisible(bool(self.text))

    def show_failed(self) -> None:
        """An error ended the answer: what is stored of it is kept and marked."""
        self._show_incomplete(
            self.tr("Failed: an error ended this answer before it was complete. What had come is kept."),
            self.tr("Failed: an error came before the first word. The model is not told of this question again."),
        )

    def _show_incomplete(self, kept: str, nothing: str) -> None:
        set_role(self._status, "warning")
        self._say(kept if self.text else nothing)
        self._copy.setVisible(bool(self.text))

    def announce_end(self) -> None:
        """Have a screen reader say how the answer ended."""
        announce(self._status)

    def _append(self, text: str) -> None:
        if text:
            self._body.show()
            self._body.append(text)

    def _say(self, text: str) -> None:
        self._status.setText(text)
        self._status.setVisible(bool(text))

    def dress(self) -> None:
        """Take the theme's colours; whoever shows the message says when they are others."""
        self._body.set_look(text_look(self._theme))


def figures_in_words(figures: "AnswerFigures") -> str:
    """The line under an answer; every figure in it was measured."""
    translate = QCoreApplication.translate
    parts = []
    if figures.tokens_per_second > 0:
        parts.append(in_tokens_per_second(figures.tokens_per_second))
    if figures.completion_tokens:
        first = translate("AnswerMessage", "%1 to the first token")
        parts.append(first.replace("%1", in_seconds(figures.ttft_seconds)))
    parts.append(in_tokens(figures.completion_tokens))
    if figures.prompt_tokens_per_second > 0:
        prompt = translate("AnswerMessage", "prompt %1")
        parts.append(prompt.replace("%1", in_tokens_per_second(figures.prompt_tokens_per_second)))
    if figures.cache_used and figures.cache_misses is not None and figures.cache_hits:
        share = figures.cache_hits / (figures.cache_hits + figures.cache_misses)
        hits = translate("AnswerMessage", "%1 of routed experts from the GPU pool")
        parts.append(hits.replace("%1", in_percent(share)))
    parts.append(ending_in_words(figures.stop_reason))
    return " · ".join(parts)


def ending_in_words(stop_reason: str) -> str:
    """How an answer ended."""
    translate = QCoreApplication.translate
    return {
        "end_of_text": translate("AnswerMessage", "complete"),
        "max_tokens": translate("AnswerMessage", "cut at the longest answer allowed in the settings"),
        "stopped": translate("AnswerMessage", "stopped by you"),
        "context_full": translate("AnswerMessage", "cut: the context is full"),
    }.get(stop_reason, stop_reason)


def prompt_in_words(progress: "PromptProgress") -> str:
    """How far the prompt is read."""
    translate = QCoreApplication.translate
    words = translate("AnswerMessage", "Reading the prompt: %1 of %2 tokens")
    words = words.replace("%1", number(progress.done)).replace("%2", number(progress.total))
    if progress.reused:
        reused = translate("AnswerMessage", "%1 known from before")
        words += f" ({reused.replace('%1', number(progress.reused))})"
    return words
