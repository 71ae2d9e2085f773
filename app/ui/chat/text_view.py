"""Read-only text as tall as its contents: prose in rich text, code with a copy button."""

import math

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import (
    QDesktopServices,
    QFontMetricsF,
    QGuiApplication,
    QResizeEvent,
    QTextBlockFormat,
    QTextCursor,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QTextBrowser,
    QVBoxLayout,
    QWidget,
)

from app.ui.chat.markdown import Block, TextLook, Writer, is_spare, is_web_address
from app.ui.chat.stack import grow_downwards
from app.ui.theme import GRID, monospace_font, set_kind, set_role


class TextView(QTextBrowser):
    """Prose: committed blocks are never touched again, only the tail after them is replaced."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, "bare")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setOpenLinks(False)
        self.setUndoRedoEnabled(False)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextBrowserInteraction | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.viewport().setAutoFillBackground(False)
        grow_downwards(self)
        grow_downwards(self.viewport())
        self.document().setDocumentMargin(0)
        self.document().setIndentWidth(3 * GRID)
        self.anchorClicked.connect(open_link)
        self._committed = 0
        self._has_committed = False

    def loadResource(self, _kind: int, _address: QUrl) -> None:
        """Nothing is ever fetched, neither from a disk nor from a network."""
        return

    def set_plain(self, text: str, look: TextLook) -> None:
        """Show `text` exactly as it is."""
        self.document().clear()
        Writer(QTextCursor(self.document()), look).write_plain(text)
        self.fit()

    def write(self, block: Block, look: TextLook) -> None:
        """Append a block to the tail; call `fit` after the last one."""
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        Writer(cursor, look).write(block)

    def commit(self) -> bool:
        """Make everything written part of what is never touched again.

        Returns:
            False where that must wait for more: an empty block at the end (a heading without words)
            would take over the format of a tail that is removed after it.
        """
        last = self.document().lastBlock()
        if not last.text() and not is_spare(last):
            return False
        self._committed = last.position() + last.length() - 1
        self._has_committed = True
        return True

    def drop_tail(self) -> None:
        """Remove what follows the committed blocks."""
        if not self._has_committed:
            self.document().clear()
            return
        cursor = QTextCursor(self.document())
        cursor.setPosition(self._committed)
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        if not cursor.block().text():  # the spare block after a table: the tail may have made a heading of it
            cursor.setBlockFormat(QTextBlockFormat())

    def fit(self) -> None:
        """Be as tall as the text."""
        # Asking for the size completes the layout, which otherwise goes on in idle time.
        height = max(1, math.ceil(self.document().size().height()))
        if height != self.height():
            self.setFixedHeight(height)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Another width gives another height."""
        if event.size().width() == event.oldSize().width():
            return  # QTextEdit would lay out and draw the whole document for each new line
        super().resizeEvent(event)
        self.fit()
        self.viewport().update()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Leave the wheel to the transcript."""
        event.ignore()


class CodeView(QFrame):
    """Code as it was written, never wrapped, with its language and a button that copies it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, "code")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._code = ""
        self._text = _CodeText(self)
        self._text.setAccessibleName(self.tr("Code"))
        self._language = QLabel(self)
        set_role(self._language, "small")
        self.set_language("")
        copy = QPushButton(self.tr("Copy"), self)
        copy.setAccessibleName(self.tr("Copy this code"))
        set_kind(copy, "quiet")
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(self._code))
        head = QHBoxLayout()
        head.setContentsMargins(GRID + 4, GRID // 2, GRID // 2, 0)
        head.addWidget(self._language)
        head.addStretch(1)
        head.addWidget(copy)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, GRID)
        column.setSpacing(0)
        column.addLayout(head)
        column.addWidget(self._text)

    @property
    def code(self) -> str:
        """The code shown."""
        return self._code

    def set_language(self, language: str) -> None:
        """Show what the code is written in."""
        self._language.setText(language or self.tr("Code"))

    def set_code(self, code: str) -> None:
        """Show `code`; text that only grew is appended."""
        if code != self._code:
            self._text.replace(self._code, code)
            self._code = code


class _CodeText(QPlainTextEdit):
    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFont(monospace_font())
        self.setWordWrapMode(QTextOption.WrapMode.NoWrap)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTabStopDistance(4 * QFontMetricsF(self.font()).horizontalAdvance(" "))
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setTabChangesFocus(True)
        self.viewport().setAutoFillBackground(False)
        self.document().setDocumentMargin(GRID + 4)
        self.horizontalScrollBar().rangeChanged.connect(self._fit)
        set_role(self, "bare")
        self._fit()

    def replace(self, old: str, new: str) -> None:
        """Go from `old` to `new` with the least change."""
        if new.startswith(old):
            cursor = QTextCursor(self.document())
            cursor.movePosition(QTextCursor.MoveOperation.End)
            cursor.insertText(new[len(old) :])
        else:
            self.setPlainText(new)
        self._fit()

    def _fit(self) -> None:
        lines = self.document().blockCount()
        height = lines * QFontMetricsF(self.font()).lineSpacing() + 2 * self.document().documentMargin()
        bar = self.horizontalScrollBar()
        if bar.maximum() > bar.minimum():
            height += bar.sizeHint().height()
        self.setFixedHeight(math.ceil(height))

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scroll sideways only; up and down is the transcript's."""
        if event.angleDelta().x() and not event.angleDelta().y():
            super().wheelEvent(event)
        else:
            event.ignore()


def open_link(address: QUrl) -> None:
    """Open a clicked link in the user's browser, if it is a web address."""
    if is_web_address(address.toString()):
        QDesktopServices.openUrl(address)
