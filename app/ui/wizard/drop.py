"""A model file dropped on the wizard: what is taken, and the frame that says so while it hangs above."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QDragEnterEvent, QDragLeaveEvent, QDropEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from app.ui.theme import GRID, Theme, text_points
from app.ui.wizard.words import tr

_VEIL = 244
_WORDS_POINTS = 15


def dropped_file(data: QMimeData) -> Path | None:
    """The one file on this machine that is dragged, or None. Whether it is a model shows in reading it."""
    urls = data.urls()
    if len(urls) != 1 or not urls[0].isLocalFile():
        return None
    return Path(urls[0].toLocalFile())


class DropHint(QWidget):
    """Takes the drops of its parent and covers it while a file is dragged over it.

    Signals:
        dropped: One file (Path); whether it is a model is not known yet.
    """

    dropped = Signal(object)

    def __init__(self, theme: Theme, parent: QWidget, allowed: Callable[[], bool]) -> None:
        """`allowed` says whether a file is wanted now."""
        super().__init__(parent)
        self._theme = theme
        self._allowed = allowed
        parent.setAcceptDrops(True)
        parent.installEventFilter(self)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow a drag over the parent."""
        if isinstance(event, QDragEnterEvent):
            if dropped_file(event.mimeData()) is not None and self._allowed():
                event.acceptProposedAction()
                self.cover()
            return True
        if isinstance(event, QDragLeaveEvent):
            self.hide()
            return True
        if event.type() is QEvent.Type.Drop and isinstance(event, QDropEvent):
            self.hide()
            path = dropped_file(event.mimeData())
            if path is not None:
                event.acceptProposedAction()
                self.dropped.emit(path)
            return True
        return super().eventFilter(watched, event)

    def cover(self) -> None:
        """Show it over the whole parent."""
        self.setGeometry(self.parentWidget().rect())
        self.raise_()
        self.show()

    def paintEvent(self, event: QPaintEvent) -> None:
        """A veil, a dashed frame, a sentence."""
        colors = self._theme.colors
        veil = QColor(colors.window)
        veil.setAlpha(_VEIL)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), veil)
        painter.setPen(QPen(colors.accent, 2, Qt.PenStyle.DashLine))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(2 * GRID, 2 * GRID, -2 * GRID, -2 * GRID), 14, 14)
        font = self.font()
        font.setPointSizeF(text_points(_WORDS_POINTS))
        painter.setFont(font)
        painter.setPen(colors.text)
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, tr("Drop the model file here"))
        painter.end()
