"""Small pictures that are drawn again and again into the cells of a lane: words and the shapes of pins."""

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QImage, QPainter, QPen, QPixmap, QPolygonF

from app.ui.lanes.board import ON_GPU

MOST = 6000
"""Pictures kept: numbers of experts, shares and sizes in two colours and three sizes."""
_HALO = 1.0
"""Logical pixels of the contrasting edge around a shape, which tells it apart from a cell of any colour."""


@dataclass(frozen=True, eq=False)
class Stamp:
    """A picture, and its size in logical pixels."""

    picture: QPixmap
    width: float
    height: float


class Stamps:
    """Makes each picture once for a font and a scale of the screen."""

    def __init__(self, font: QFont, ratio: float) -> None:
        self.font = font
        self.ratio = ratio
        self._words: dict[tuple[str, float, bool, int], Stamp] = {}
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
        return Stamp(QPixmap.fromImage(image), image.width() / self.ratio, image.height() / self.ratio)

    def _write(self, text: str, points: float, color: QColor, *, bold: bool) -> Stamp:
        font, metrics = self._font(points, bold=bold)
        image = self._blank(metrics.horizontalAdvance(text) + 1, metrics.height())
        painter = QPainter(image)
        painter.setFont(font)
        painter.setPen(color)
        painter.drawText(QPointF(0, metrics.ascent()), text)
        painter.end()
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
