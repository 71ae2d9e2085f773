"""The picture of one graph: scales, bands, lines and the pointer's moment; drawn in one pass, scales kept as a pixmap.

A plain widget rather than a scene of items: eleven graphs are repainted five times a second.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import shiboken6
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen, QPixmap, QPolygonF, QWheelEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.ui.graphs.scale import time_labels, value_step, value_words
from app.ui.graphs.shapes import Shape
from app.ui.theme import GRID, Theme, mix

LEFT, RIGHT, TOP, BOTTOM = 44, 3 * GRID, GRID, 20
"""Room for the labels around the picture."""
SMALLEST_HEIGHT = 84
_DOT = 3.0
_NOTCH, _NOTCH_FACTOR = 120, 1.25
_WIDEST_WORDS = 260.0
_WRAPPED = int(Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap)


class Canvas(QWidget):
    """Draws what it is given; tells what the pointer wants.

    Signals:
        zoomed: Show `factor` times as much, the place at `fraction` of the width kept.
        panned: Move by so many seconds.
        pointed: The pointer is so many seconds left of the right edge, or None.
        live_wanted: Follow the time again.
    """

    zoomed = Signal(float, float)
    panned = Signal(float)
    pointed = Signal(object)
    live_wanted = Signal()

    def __init__(self, theme: Theme, wheel_zooms: Callable[[], bool], parent: QWidget | None = None) -> None:
        """`wheel_zooms` tells whether a turn of the wheel zooms; otherwise it scrolls what is around."""
        super().__init__(parent)
        self._theme = theme
        self._wheel_zooms = wheel_zooms
        self._shapes: Sequence[Shape] = ()
        self._span, self._top, self._limit = 60.0, 1.0, 0.0
        self._clock: float | None = None
        self._words = ""
        self._cursor: float | None = None
        self._cursor_words = ""
        self._ground: QPixmap | None = None
        self._ground_key: tuple[object, ...] = ()
        self._dragged_from: float | None = None
        self.setMinimumHeight(SMALLEST_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMouseTracking(True)
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        theme.changed.connect(self.update)

    @property
    def area(self) -> QRectF:
        """Where the lines are."""
        width, height = max(self.width() - LEFT - RIGHT, 1), max(self.height() - TOP - BOTTOM, 1)
        return QRectF(LEFT, TOP, width, height)

    @property
    def top(self) -> float:
        """The value at the picture's top."""
        return self._top

    @property
    def shapes(self) -> Sequence[Shape]:
        """What is drawn."""
        return self._shapes

    @property
    def words(self) -> str:
        """What stands where the lines would be; empty with lines."""
        return self._words

    def show_shapes(
        self, shapes: Sequence[Shape], span: float, top: float, limit: float, clock: float | None, words: str
    ) -> None:
        """Draw these.

        Args:
            shapes: Bands and lines, in the order they are drawn.
            span: Seconds shown.
            top: Value at the top; the bottom is 0.
            limit: Value at which a line says what there is in all; 0 for none.
            clock: Wall clock at the right edge, None while that is now.
            words: What stands where the lines would be; empty with lines.
        """
        self._shapes, self._span, self._top, self._limit = shapes, span, top, limit
        self._clock, self._words = clock, words
        self.update()

    def show_cursor(self, seconds_ago: float | None, words: str = "") -> None:
        """Mark a moment, or none; `words` stand beside it where there is nothing to see in the lines."""
        if (seconds_ago, words) != (self._cursor, self._cursor_words):
            self._cursor, self._cursor_words = seconds_ago, words
            self.update()

    def sizeHint(self) -> QSize:
        """Wide rather than high."""
        return QSize(300, SMALLEST_HEIGHT + 2 * GRID)

    # ---- painting -----------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint it."""
        area = self.area
        painter = QPainter(self)
        painter.drawPixmap(0, 0, self._scales(area))
        colors = self._theme.colors
        if self._words:
            painter.setPen(colors.muted_text)
            flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
            painter.drawText(area.adjusted(GRID, 0, -GRID, 0), flags, self._words)
        else:
            painter.setClipRect(area.adjusted(0, -1, 1, 1))
            for shape in self._shapes:
                self._paint_shape(painter, shape, area)
            if 0 < self._limit <= self._top:
                self._paint_level(painter, area, self._limit)
            if self._cursor is not None:
                painter.setPen(QPen(colors.muted_text, 0))
                x = area.right() - self._cursor / self._span * area.width()
                painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()))
                if self._cursor_words:
                    self._paint_cursor_words(painter, area, x)
        painter.end()

    def _paint_cursor_words(self, painter: QPainter, area: QRectF, x: float) -> None:
        """Words in a box about the pointer's moment, inside of the picture."""
        colors = self._theme.colors
        room = area.adjusted(GRID, 0, -GRID, 0)
        room.setWidth(min(room.width(), _WIDEST_WORDS))
        box = painter.boundingRect(room, _WRAPPED, self._cursor_words).adjusted(-GRID / 2, -2, GRID / 2, 2)
        left = min(max(x - box.width() / 2, area.left() + 1), area.right() - box.width() - 1)
        box.moveTo(left, max(area.center().y() - box.height() / 2, area.top()))
        painter.setPen(QPen(colors.border, 0))
        painter.setBrush(colors.surface)
        painter.drawRect(box)
        painter.setPen(colors.muted_text)
        painter.drawText(box, _WRAPPED, self._cursor_words)

    def _paint_shape(self, painter: QPainter, shape: Shape, area: QRectF) -> None:
        color = shape.color(self._theme.colors)
        x = area.right() + shape.times * (area.width() / self._span)
        scale = area.height() / self._top
        upper = area.bottom() - shape.upper * scale
        if shape.lower is not None:
            lower = area.bottom() - shape.lower * scale
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(color)
            for run in _runs(shape.upper):
                xs = np.concatenate((x[run], x[run][::-1]))
                painter.drawPolygon(_polygon(xs, np.concatenate((upper[run], lower[run][::-1]))))
            return
        painter.setPen(_pen(color, dashed=shape.dashed))
        for run in _runs(shape.upper):
            xs, ys = x[run], upper[run]
            if xs[-1] - xs[0] < 1.0 and not shape.dashed:
                # A figure between two gaps has no length: a dot is what can be seen of it.
                painter.fillRect(QRectF(xs[0] - _DOT / 2, ys.min() - _DOT / 2, _DOT, _DOT + np.ptp(ys)), color)
            else:
                line = _polygon(xs, ys)
                for offset in self._offsets():
                    painter.drawPolyline(line.translated(offset, offset) if offset else line)

    def _offsets(self) -> Iterator[float]:
        """Where a line is drawn to be a pixel wide: again beside itself where a pixel is several of the screen's.

        A pen that is two of them wide goes through a stroker: an hour took 90 ms a frame with it, 11 ms so
        (offscreen at 200 %, November 2026).
        """
        ratio = self.devicePixelRatioF()
        return (place / ratio for place in range(max(1, round(ratio))))

    def _paint_level(self, painter: QPainter, area: QRectF, value: float) -> None:
        y = area.bottom() - value / self._top * area.height()
        painter.setPen(_pen(self._theme.colors.text, dashed=False))
        painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))

    def _scales(self, area: QRectF) -> QPixmap:
        """Ground, grid and labels: the same from frame to frame, and dearer than the lines."""
        ratio = self.devicePixelRatioF()
        colors = self._theme.colors
        clock = None if self._clock is None else round(self._clock, 1)
        key = (self.size(), ratio, self._span, self._top, clock, bool(self._words), colors.surface.rgba(), self.font())
        if self._ground is None or key != self._ground_key:
            self._ground_key = key
            self._ground = QPixmap(self.size() * ratio)
            self._ground.setDevicePixelRatio(ratio)
            self._ground.fill(colors.surface)
            painter = QPainter(self._ground)
            font = painter.font()
            font.setPointSizeF(max(7.0, self.font().pointSizeF() - 1.5))
            painter.setFont(font)
            if not self._words:
                self._paint_grid(painter, area)
            painter.setPen(QPen(mix(colors.border, colors.muted_text, 0.4), 0))
            painter.drawLine(area.bottomLeft(), area.bottomRight())
            painter.end()
        return self._ground

    def _paint_grid(self, painter: QPainter, area: QRectF) -> None:
        colors = self._theme.colors
        grid = QPen(mix(colors.surface, colors.muted_text, 0.18), 0)
        height = painter.fontMetrics().height()
        step = value_step(self._top, area.height())
        for place in range(int(self._top / step + 1e-6) + 1):
            y = area.bottom() - place * step / self._top * area.height()
            painter.setPen(grid)
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            painter.setPen(colors.muted_text)
            box = QRectF(0, y - height / 2, LEFT - 6, height)
            painter.drawText(
                box, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, value_words(place * step, step)
            )
        for ago, words in time_labels(self._span, area.width(), self._clock):
            x = area.right() - ago / self._span * area.width()
            painter.setPen(grid)
            painter.drawLine(QPointF(x, area.top()), QPointF(x, area.bottom()))
            painter.setPen(colors.muted_text)
            width = painter.fontMetrics().horizontalAdvance(words) + 2
            left = min(max(x - width / 2, 0), self.width() - width)
            painter.drawText(QRectF(left, area.bottom() + 3, width, height), Qt.AlignmentFlag.AlignCenter, words)

    # ---- the pointer --------------------------------------------------------------------------

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Point at a moment, or drag the time."""
        area = self.area
        x = event.position().x()
        if self._dragged_from is not None:
            self.panned.emit((self._dragged_from - x) / area.width() * self._span)
            self._dragged_from = x
        inside = area.left() - 1 <= x <= area.right() + 1
        self.pointed.emit((area.right() - x) / area.width() * self._span if inside else None)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take hold of the time."""
        if event.button() is Qt.MouseButton.LeftButton:
            self._dragged_from = event.position().x()
            self.setCursor(Qt.CursorShape.ClosedHandCursor)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Let it go."""
        if event.button() is Qt.MouseButton.LeftButton:
            self._dragged_from = None
            self.unsetCursor()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Follow the time again."""
        self._dragged_from = None
        self.live_wanted.emit()

    def leaveEvent(self, event: QEvent) -> None:
        """The pointer is nowhere."""
        self.pointed.emit(None)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom around the pointer, or move the time sideways."""
        area, turn = self.area, event.angleDelta()
        keys = event.modifiers()
        sideways = turn.x() or (turn.y() if keys & Qt.KeyboardModifier.ShiftModifier else 0)
        if sideways:
            self.panned.emit(-sideways / _NOTCH * self._span / 10)
        elif keys & Qt.KeyboardModifier.ControlModifier or self._wheel_zooms():
            fraction = min(1.0, max(0.0, (event.position().x() - area.left()) / area.width()))
            self.zoomed.emit(_NOTCH_FACTOR ** (-turn.y() / _NOTCH), fraction)
        else:
            event.ignore()
            return
        event.accept()


def _pen(color: QColor, *, dashed: bool) -> QPen:
    pen = QPen(color, 0)  # one pixel of the screen's own
    pen.setStyle(Qt.PenStyle.DashLine if dashed else Qt.PenStyle.SolidLine)
    return pen


def _runs(values: np.ndarray) -> Iterator[slice]:
    """Stretches without a gap."""
    measured = np.isfinite(values)
    if measured.all():
        if measured.size:
            yield slice(0, measured.size)
        return
    edges = np.flatnonzero(np.diff(np.concatenate(([False], measured, [False])).astype(np.int8)))
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield slice(first, last)


def _polygon(xs: np.ndarray, ys: np.ndarray) -> QPolygonF:
    """Points from two arrays, written straight into Qt's memory."""
    polygon = QPolygonF()
    polygon.resize(len(xs))
    memory = shiboken6.VoidPtr(shiboken6.getCppPointer(polygon.data())[0], 16 * len(xs), True)
    points = np.frombuffer(memory, np.float64).reshape(-1, 2)
    points[:, 0] = xs
    points[:, 1] = ys
    return polygon
