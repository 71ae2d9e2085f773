"""Small pictures that are drawn again and again into the cells of a lane: words and the shapes of pins."""

from typing import Any

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QImage, QPainter, QPen, QPixmap, QPolygonF

from app.ui.lanes.board import ON_GPU

MOST = 6000
"""Pictures kept: numbers of experts, shares and sizes in two colours and three sizes."""
MOST_CARDS = 600
"""Cards kept: up to 40 KB each at 200 %, and as many as a large screen shows."""
CARD_PADDING = 4.0
"""Logical pixels that are free at a card's edges."""
_HALO = 1.0
"""Logical pixels of the contrasting edge around a shape, which tells it apart from a cell of any colour."""


Line = tuple[int, QPixmap]
"""A picture, and how many device pixels it lies below the first one of its cell."""


class Stamps:
    """Makes each picture once for a font and a scale of the screen, for painters that count device pixels."""

    def __init__(self, font: QFont, ratio: float) -> None:
        self.font = font
        self.ratio = ratio
        self._words: dict[tuple[str, float, bool, int], QPixmap] = {}
        self._cards: dict[tuple[tuple[str, str, str], tuple[float, float, float], int, float], tuple[Line, ...]] = {}
        self._pins: dict[tuple[int, float, int, int], QPixmap] = {}
        self._fonts: dict[tuple[float, bool], tuple[QFont, QFontMetricsF]] = {}

    def metrics(self, points: float, *, bold: bool = False) -> QFontMetricsF:
        """The measures of the interface font at a size."""
        return self._font(points, bold=bold)[1]

    def words(self, text: str, points: float, color: QColor, *, bold: bool = False) -> QPixmap:
        """A line of text on nothing."""
        key = (text, points, bold, color.rgba())
        made = self._words.get(key)
        if made is None:
            _make_room(self._words, MOST)
            made = self._words[key] = self._write(text, points, color, bold=bold)
        return made

    def lines(
        self, texts: tuple[str, str, str], points: tuple[float, float, float], color: QColor, room: float
    ) -> tuple[Line, ...]:
        """The lines of a card, the first bold, one below the other: as many of them as there is room for.

        Args:
            texts: The lines.
            points: Size of each.
            color: Of the text.
            room: Logical pixels that a card is wide and high.
        """
        made: list[Line] = []
        most, padding, height = room * self.ratio, CARD_PADDING * self.ratio, 0
        for index, (text, size) in enumerate(zip(texts, points, strict=True)):
            its = self.words(text, size, color, bold=index == 0)
            if padding + height + its.height() > most + self.ratio or its.width() > most - padding:
                break
            made.append((height, its))
            height += its.height()
        return tuple(made)

    def card(
        self, texts: tuple[str, str, str], points: tuple[float, float, float], color: QColor, room: float
    ) -> tuple[Line, ...]:
        """The same as one picture, which costs less to draw and more to make; none where no line has room."""
        key = (texts, points, color.rgba(), room)
        made = self._cards.get(key)
        if made is None:
            _make_room(self._cards, MOST_CARDS)
            made = self._cards[key] = _composed(self.lines(texts, points, color, room))
        return made

    def pin(self, pin: int, size: float, color: QColor, halo: QColor) -> QPixmap:
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

    def _write(self, text: str, points: float, color: QColor, *, bold: bool) -> QPixmap:
        font, metrics = self._font(points, bold=bold)
        image = self._blank(metrics.horizontalAdvance(text) + 1, metrics.height())
        painter = QPainter(image)
        painter.setFont(font)
        painter.setPen(color)
        painter.drawText(QPointF(0, metrics.ascent()), text)
        painter.end()
        return _pixels(image)

    def _draw(self, pin: int, size: float, color: QColor, halo: QColor) -> QPixmap:
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
        return _pixels(image)


def _composed(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """Several lines as one."""
    if not lines:
        return ()
    last, its = lines[-1]
    width, height = max(picture.width() for _top, picture in lines), last + its.height()
    image = QImage(width, height, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    for top, picture in lines:
        painter.drawPixmap(0, top, picture)
    painter.end()
    return ((0, QPixmap.fromImage(image)),)


def _pixels(image: QImage) -> QPixmap:
    """An image as large as it has pixels."""
    image.setDevicePixelRatio(1.0)
    return QPixmap.fromImage(image)


def _make_room(kept: dict[Any, Any], most: int) -> None:
    """Drop what was made first: with all of it gone at once, one frame would make all that is on screen."""
    while len(kept) >= most:
        del kept[next(iter(kept))]
