"""The values of a graph in text, each with the colour of its line: painted, for they change five times a second."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.ui.graphs.graph_spec import ColorOf
from app.ui.theme import GRID, Theme

_MARK = 9
_GAP = 12


@dataclass(frozen=True)
class Value:
    """One value in words.

    Attributes:
        words: What it says.
        color: Of its line; None for words without one.
        mark: "band", "line" or "dashed": how its line is drawn.
    """

    words: str
    color: ColorOf | None = None
    mark: str = "line"


class ValuesLine(QWidget):
    """Values one after the other, on as many lines as they need; a line more is kept until the width changes."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._values: tuple[Value, ...] = ()
        self._places: list[QPointF] = []
        self._rows = 1
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def show_values(self, values: Sequence[Value]) -> None:
        """Show these."""
        if self._values != tuple(values):
            self._values = tuple(values)
            self._arrange()
            self.update()

    def sizeHint(self) -> QSize:
        """As high as the words need."""
        return QSize(10 * GRID, self._rows * self._row_height)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Arrange the words anew."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._rows = 1
            self._arrange()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint them."""
        painter = QPainter(self)
        colors = self._theme.colors
        height = self._row_height
        metrics = self.fontMetrics()
        ascent = metrics.ascent()
        for value, place in zip(self._values, self._places, strict=True):
            left, top = place.x(), place.y()
            if value.color is not None:
                color, middle = value.color(colors), top + height / 2
                if value.mark == "band":
                    painter.fillRect(QRectF(left, middle - _MARK / 2, _MARK, _MARK), color)
                else:
                    style = Qt.PenStyle.DotLine if value.mark == "dashed" else Qt.PenStyle.SolidLine
                    painter.setPen(QPen(color, 2, style))
                    painter.drawLine(QPointF(left, middle), QPointF(left + _MARK, middle))
                left += _MARK + 4
            painter.setPen(colors.text)
            words = metrics.elidedText(value.words, Qt.TextElideMode.ElideRight, round(self.width() - left))
            painter.drawText(QPointF(left, top + ascent), words)
        painter.end()

    @property
    def _row_height(self) -> int:
        return self.fontMetrics().height() + 2

    def _arrange(self) -> None:
        metrics = self.fontMetrics()
        places, left, row, cut = [], 0.0, 0, ""
        for value in self._values:
            width = metrics.horizontalAdvance(value.words) + (_MARK + 4 if value.color else 0)
            if width > self.width():
                cut = value.words
            if left and left + width > self.width():
                left, row = 0.0, row + 1
            places.append(QPointF(left, row * self._row_height))
            left += width + _GAP
        self._places = places
        self.setToolTip(cut)  # a reason can be longer than a graph is wide
        rows = max(self._rows, row + 1)  # never back to fewer: the graph below would jump with every digit
        if rows != self._rows or self.height() != rows * self._row_height:
            self._rows = rows
            self.setFixedHeight(rows * self._row_height)
