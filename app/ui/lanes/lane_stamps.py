"""Small pictures that are drawn again and again into the cells of a lane: words and the shapes of pins."""

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QImage, QPainter, QPen, QPixmap, QPolygonF

from app.ui.lanes.board import ON_GPU

MOST = 6000
"""Pictures kept: numbers of experts, shares and sizes in two colours and three sizes."""
MOST_CARDS = 600
"""Cards kept: 20 KB each at 200 %, and as many as a large screen shows."""
CARD_PADDING = 4.0
"""Logical pixels that are free at a card's edges."""
_HALO = 1.0
"""Logical pixels of the contrasting edge around a shape, which tells it apart from a cell of any colour."""


@dataclass(frozen=True, eq=False)
class Stamp:
    """A picture, and its size in logical pixels.

    Attributes:
        pixels: The same picture as large as it has pixels.
    """

    picture: QPixmap
    width: float
    height: float
    pixels: QPixmap

    def draw(self, painter: QPainter, x: float, y: float, unit: float) -> None:
        """Draw it at a place in logical pixels, each of which is `unit` in the painter's own count."""
        if unit == 1.0:
            painter.drawPixmap(QPointF(x, y), self.picture)
        else:
            painter.drawPixmap(QPointF(x * unit, y * unit), self.pixels)


class Stamps:
    """Makes each picture once for a font and a scale of the screen."""

    def __init__(self, font: QFont, ratio: float) -> None:
        self.font = font
        self.ratio = ratio
        self._words: dict[tuple[str, float, bool, int], Stamp] = {}
        self._cards: dict[tuple[tuple[str, str, str], tuple[float, float, float], int, float], Stamp | None] = {}
        self._pins: dict[tuple[int, float, int, int], Stamp] = {}
        self._fonts: dict[tuple[float, bool], tuple[QFont, QFontMetricsF]] = {}

    def metrics(self, points: float, *, bold: bool = False) -> QFontMetricsF:
        """The measures of the interface font at a size."""
        return self._font(points, bold=bold)[1]

    def words(self, text: str, points: float, color: QColor, *, bold: bool = False) -> Stamp:
        """A line of text on nothing."""
        key = (text, points, bold, color.rgba())
        made = self._words.get(key)
        if made is None:
            if len(self._words) > MOST:
                self._words.clear()
            made = self._words[key] = self._write(text, points, color, bold=bold)
        return made

    def card(
        self, texts: tuple[str, str, str], points: tuple[float, float, float], color: QColor, room: float
    ) -> Stamp | None:
        """The lines of a card, the first bold, one below the other: as many of them as there is room for.

        Args:
            texts: The lines.
            points: Size of each.
            color: Of the text.
            room: Logical pixels that a card is wide and high.

        Returns:
            None where not even the first has room.
        """
        key = (texts, points, color.rgba(), room)
        if key not in self._cards:
            if len(self._cards) > MOST_CARDS:
                self._cards.clear()
            self._cards[key] = self._compose(texts, points, color, room)
        return self._cards[key]

    def pin(self, pin: int, size: float, color: QColor, halo: QColor) -> Stamp:
        """The shape of an order: a triangle that points up keeps on the GPU, a square on the CPU.

        Args:
            pin: ON_GPU or ON_CPU.
            size: Logical pixels across, the halo included.
            color: Of the shape.
            halo: Of its edge.
        """
        key = (pin, size, color.rgba(), halo.rgba())
        made = self._pins.get(key)
        if made is None:
            made = self._pins[key] = self._draw(pin, size, color, halo)
        return made

    def _font(self, points: float, *, bold: bool) -> tuple[QFont, QFontMetricsF]:
        key = (points, bold)
        if key not in self._fonts:
            font = QFont(self.font)
            font.setPointSizeF(points)
            font.setBold(bold)
            self._fonts[key] = (font, QFontMetricsF(font))
        return self._fonts[key]

    def _blank(self, width: float, height: float) -> QImage:
        size = QSize(max(round(width * self.ratio), 1), max(round(height * self.ratio), 1))
        image = QImage(size, QImage.Format.Format_ARGB32_Premultiplied)
        image.setDevicePixelRatio(self.ratio)
        image.fill(Qt.GlobalColor.transparent)
        return image

    def _kept(self, image: QImage) -> Stamp:
        picture = QPixmap.fromImage(image)
        pixels = QPixmap(picture)
        pixels.setDevicePixelRatio(1.0)
        return Stamp(picture, image.width() / self.ratio, image.height() / self.ratio, pixels)

    def _write(self, text: str, points: float, color: QColor, *, bold: bool) -> Stamp:
        font, metrics = self._font(points, bold=bold)
        image = self._blank(metrics.horizontalAdvance(text) + 1, metrics.height())
        painter = QPainter(image)
        painter.setFont(font)
        painter.setPen(color)
        painter.drawText(QPointF(0, metrics.ascent()), text)
        painter.end()
        return self._kept(image)

    def _compose(
        self, texts: tuple[str, str, str], points: tuple[float, float, float], color: QColor, room: float
    ) -> Stamp | None:
        lines: list[Stamp] = []
        height = CARD_PADDING
        for index, (text, size) in enumerate(zip(texts, points, strict=True)):
            its = self.words(text, size, color, bold=index == 0)
            if height + its.height > room + 1 or its.width > room - CARD_PADDING:
                break
            lines.append(its)
            height += its.height
        if not lines:
            return None
        image = self._blank(max(its.width for its in lines), height - CARD_PADDING)
        image.setDevicePixelRatio(1.0)
        painter = QPainter(image)
        top = 0
        for its in lines:
            painter.drawPixmap(0, top, its.pixels)
            top += its.pixels.height()
        painter.end()
        image.setDevicePixelRatio(self.ratio)
        return self._kept(image)

    def _draw(self, pin: int, size: float, color: QColor, halo: QColor) -> Stamp:
        image = self._blank(size, size)
        painter = QPainter(image)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setBrush(color)
        pen = QPen(halo, _HALO)
        pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
        painter.setPen(pen)
        near, far = _HALO / 2, size - _HALO / 2
        if pin == ON_GPU:
            painter.drawPolygon(QPolygonF([QPointF(size / 2, near), QPointF(far, far), QPointF(near, far)]))
        else:
            inset = size / 10
            painter.drawRect(QRectF(near + inset, near + inset, far - near - 2 * inset, far - near - 2 * inset))
        painter.end()
        return self._kept(image)
