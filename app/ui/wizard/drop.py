"""A model file dropped on the wizard: what is taken, and the frame that says so while it hangs above."""

from pathlib import Path

from PySide6.QtCore import QMimeData, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from app.ui.theme import GRID, Theme
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
    """Covers its parent while a file is dragged over it."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

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
        font.setPointSizeF(_WORDS_POINTS)
        painter.setFont(font)
        painter.setPen(colors.text)
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, tr("Drop the model file here"))
        painter.end()
