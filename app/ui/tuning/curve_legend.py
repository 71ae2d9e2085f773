"""What the lines and points of the curve mean, in words beside their looks."""

from collections.abc import Callable

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QWidget

from app.ui.theme import GRID, Colors, Theme, set_role
from app.ui.widgets import FoldingRow

PREDICTED, WHOLE, MEASURED = 0, 5, 2
"""Places of the theme's graph colours."""
BAND_ALPHA = 46
BESIDE_WIDTH = 480
"""Pixels, with the usual size of text: with less the kinds stand one under the other."""
SAMPLE_WIDTH, SAMPLE_HEIGHT = 26, 14

Draw = Callable[[QPainter, QRectF, Colors], None]


class CurveLegend(FoldingRow):
    """Predicted with its range, whole layers, measured."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent, spacing=GRID, beside_from=BESIDE_WIDTH)
        self._entries: list[tuple[_Entry, QLabel]] = []
        for words, draw in (
            (self.tr("predicted: likeliest and range"), _draw_predicted),
            (self.tr("predicted: whole layers in the same memory"), _draw_whole),
            (self.tr("measured: answers, least to most"), _draw_measured),
        ):
            label = QLabel(words)
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setWordWrap(True)
            set_role(label, "small")
            entry = _Entry(_Sample(draw, theme, self), label, self)
            self.add(entry, 1)
            self._entries.append((entry, label))

    @property
    def words(self) -> list[str]:
        """What is explained now."""
        return [label.text() for _sample, label in self._entries if not label.isHidden()]

    def show_kinds(self, *, whole: bool, measured: bool) -> None:
        """Explain what is drawn."""
        for (entry, label), shown in zip(self._entries, (True, whole, measured), strict=True):
            entry.setVisible(shown)
            label.setVisible(shown)


class _Entry(QWidget):
    """What one kind looks like, and its words."""

    def __init__(self, sample: "_Sample", label: QLabel, parent: QWidget) -> None:
        super().__init__(parent)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID)
        row.addWidget(sample)
        row.addWidget(label, 1)


class _Sample(QWidget):
    """What one kind looks like."""

    def __init__(self, draw: Draw, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._draw = draw
        self._theme = theme
        self.setFixedSize(SAMPLE_WIDTH, SAMPLE_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        """As large as it is."""
        return QSize(SAMPLE_WIDTH, SAMPLE_HEIGHT)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint it."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._draw(painter, QRectF(self.rect()), self._theme.colors)
        painter.end()


def _draw_predicted(painter: QPainter, frame: QRectF, colors: Colors) -> None:
    band = QColor(colors.graph[PREDICTED])
    band.setAlpha(BAND_ALPHA)
    painter.fillRect(frame.adjusted(0, 1, 0, -1), band)
    painter.setPen(QPen(colors.graph[PREDICTED], 2))
    painter.drawLine(QPointF(frame.left(), frame.center().y()), QPointF(frame.right(), frame.center().y()))


def _draw_whole(painter: QPainter, frame: QRectF, colors: Colors) -> None:
    painter.setPen(QPen(colors.graph[WHOLE], 1, Qt.PenStyle.DashLine))
    painter.drawLine(QPointF(frame.left(), frame.center().y()), QPointF(frame.right(), frame.center().y()))


def _draw_measured(painter: QPainter, frame: QRectF, colors: Colors) -> None:
    middle, half = frame.center(), frame.height() / 2 - 1
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colors.graph[MEASURED])
    corners = ((0, -half), (half * 0.7, 0), (0, half), (-half * 0.7, 0))
    painter.drawPolygon(QPolygonF([middle + QPointF(x, y) for x, y in corners]))
