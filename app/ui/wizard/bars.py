"""Memory as a stacked bar: coloured parts against what is free."""

from dataclasses import dataclass

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.ui.theme import Colors, Theme, mix

BAR_HEIGHT = 12
SWATCH = 10
_GAP = 1.0

_PART_LINES = {"weights": 0, "experts": 1, "kv": 2, "compute": 3, "pool": 4, "context": 5}


def part_color(part: str, colors: Colors) -> QColor:
    """The colour of a part of the memory; what is kept free has none of its own."""
    line = _PART_LINES.get(part)
    return mix(colors.raised, colors.muted_text, 0.35) if line is None else colors.graph[line]


@dataclass(frozen=True)
class Segment:
    """A stretch of a bar: `color` names a part of the memory (see `part_color`)."""

    color: str
    bytes: int


class StackedBar(QWidget):
    """Segments from the left, and the mark where the whole ends if they exceed it."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._segments: tuple[Segment, ...] = ()
        self._whole = 0
        self.setFixedHeight(BAR_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def show_segments(self, segments: tuple[Segment, ...], whole: int, words: str) -> None:
        """Show `segments` of `whole` bytes; `words` says the same to who cannot see it."""
        self._segments, self._whole = segments, whole
        self.setToolTip(words)
        self.setAccessibleName(words)
        self.update()

    def sizeHint(self) -> QSize:
        """Wide as given."""
        return QSize(120, BAR_HEIGHT)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint it."""
        colors = self._theme.colors
        used = sum(segment.bytes for segment in self._segments)
        scale = self.width() / max(self._whole, used, 1)
        frame = QRectF(self.rect())
        shape = QPainterPath()
        shape.addRoundedRect(frame, BAR_HEIGHT / 3, BAR_HEIGHT / 3)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setClipPath(shape)
        painter.fillRect(frame, colors.raised)
        left = 0.0
        for segment in self._segments:
            width = segment.bytes * scale
            # A hair of the ground between two parts tells them apart without relying on colour alone.
            painter.fillRect(QRectF(left, 0, max(width - _GAP, 0.5), frame.height()), part_color(segment.color, colors))
            left += width
        if used > self._whole:
            painter.fillRect(QRectF(self._whole * scale - 1, 0, 2, frame.height()), colors.text)
        painter.end()


class Swatch(QWidget):
    """A part's colour beside its name."""

    def __init__(self, part: str, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._part = part
        self._theme = theme
        self.setFixedSize(SWATCH, SWATCH)
        theme.changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint it."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(part_color(self._part, self._theme.colors))
        painter.drawRoundedRect(self.rect(), 3, 3)
        painter.end()
