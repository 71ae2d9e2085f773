"""The picture of the tuning curve: lines, marks with words, what was measured, and a handle that resizes the pool."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QColor, QFocusEvent, QKeyEvent, QMouseEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QGraphicsView, QWidget

from app.placement.speed.curve import SpeedCurve
from app.ui.theme import GRID, Theme, mix, text_points
from app.ui.tuning.curve_axis import NumberAxis, fit_words
from app.ui.tuning.curve_data import MEMORY_TIER, Measured, point_at
from app.ui.tuning.curve_legend import BAND_ALPHA, MEASURED, PREDICTED, WHOLE
from app.ui.tuning.curve_marks import Mark
from app.ui.words import in_tokens_per_second

GIB, MIB = 1024**3, 1024**2
GRAB_PIXELS = 14
"""How near the handle a press must be to take it."""
HEADROOM = 0.06
"""Of the picture's height, above the highest value and the words of the marks."""
LEFT_AXIS_WIDTH = 52
SMALLEST_HEIGHT = 200
LARGE_STEPS = 10
"""Of Page Up and Down."""

_LEAST_OF_CURVE = 0.35
"""Of the picture's height, that the words of marks leave."""
_SIDE_ROOM = 0.015
"""Of the picture's width, at either side: points at the ends are seen whole."""


@dataclass(frozen=True)
class Picture:
    """Everything that is drawn.

    Attributes:
        curve: The predictions.
        marks: In the order in which their words stand below one another.
        limit_bytes: The largest size that the handle goes to.
        step_bytes: What one key changes.
    """

    curve: SpeedCurve
    marks: tuple[Mark, ...]
    limit_bytes: int
    step_bytes: int


class CurvePlot(pg.PlotWidget):
    """Tokens a second against the pool's size. The handle follows mouse and keys; whoever listens sets its place.

    Signals:
        choosing: The handle is at this size (bytes), and may go on.
        chosen: The user lets go of the handle at this size (bytes).
        dropped: The user wants the size that was before.
    """

    choosing = Signal(object)  # an int here would be one of 32 bits
    chosen = Signal(object)
    dropped = Signal()

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        axes = {side: NumberAxis(side) for side in ("left", "bottom")}
        super().__init__(parent, enableMenu=False, axisItems=axes)
        self._theme = theme
        self._picture: Picture | None = None
        self._measured: tuple[Measured, ...] = ()
        self._size = 0
        self._unit = GIB
        self._dragging = False
        self._low = pg.PlotCurveItem()
        self._high = pg.PlotCurveItem()
        self._band = pg.FillBetweenItem(self._low, self._high)
        self._likely = pg.PlotCurveItem(antialias=True)
        self._whole = pg.PlotCurveItem(stepMode="left")
        self._spread = pg.ErrorBarItem(beam=0)
        self._answers = pg.ScatterPlotItem(symbol="d", pxMode=True)
        self._line = pg.InfiniteLine(angle=90, movable=False)
        self._handle = pg.ScatterPlotItem(symbol="o", pxMode=True)
        self._value = pg.TextItem(anchor=(0, 1))
        self._marks: list[tuple[Mark, pg.InfiniteLine, pg.TextItem]] = []
        self._prepare()
        theme.changed.connect(self._dress)
        self._dress()
        self._draw()

    # ---- what is shown --------------------------------------------------------------------------

    def show_picture(self, picture: Picture | None) -> None:
        """Draw another curve, or none."""
        if picture == self._picture:
            return
        self._picture = picture
        self._dragging = self._dragging and picture is not None
        self._draw()

    def show_size(self, pool_bytes: int) -> None:
        """Put the handle on this size."""
        self._size = pool_bytes
        self._place_handle()

    def show_measured(self, measured: Sequence[Measured]) -> None:
        """Draw what answers reached, the latest size first."""
        if tuple(measured) == self._measured:
            return
        self._measured = tuple(measured)
        self._draw_measured()
        self._fit()

    @property
    def pool_bytes(self) -> int:
        """Where the handle is."""
        return self._size

    @property
    def dragging(self) -> bool:
        """Whether the mouse holds the handle."""
        return self._dragging

    @property
    def mark_words(self) -> list[str]:
        """The words at the marks that are in the picture."""
        return [mark.words for mark, _line, _text in self._marks]

    def let_go(self) -> None:
        """Nothing is dragged any more: what the handle stood for is not to be chosen now."""
        if self._dragging:
            self._dragging = False
            self._dress_handle()

    def place_of(self, pool_bytes: int) -> QPointF:
        """Where a size of the curve is in the viewport, in pixels: for gestures of tests."""
        rate = point_at(self._picture.curve, pool_bytes).decode.likely if self._picture else 0.0
        scene = self.getViewBox().mapViewToScene(QPointF(pool_bytes / self._unit, rate))
        return QPointF(self.mapFromScene(scene))

    # ---- drawing --------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMinimumHeight(round(text_points(SMALLEST_HEIGHT)))
        self.setFrameShape(QGraphicsView.Shape.NoFrame)
        self.setMouseEnabled(x=False, y=False)
        self.hideButtons()
        self.setLabel("left", self.tr("tokens/s"))
        self.getAxis("left").setWidth(LEFT_AXIS_WIDTH)
        for side in ("left", "bottom"):
            self.getAxis(side).enableAutoSIPrefix(False)
        self.showGrid(x=False, y=True, alpha=0.12)
        self.getPlotItem().setContentsMargins(0, GRID, 3 * GRID, 0)  # room for the outermost labels
        self.setDefaultPadding(0)
        self.disableAutoRange()
        for item in (
            self._band, self._low, self._high, self._whole, self._likely, self._line, self._spread, self._answers,
            self._handle, self._value,
        ):  # fmt: skip
            self.addItem(item)
        self.viewport().setMouseTracking(True)

    def _draw(self) -> None:
        for _mark, line, text in self._marks:
            self.removeItem(line)
            self.removeItem(text)
        self._marks = []
        picture = self._picture
        shown = picture is not None and picture.curve.points[-1].pool_bytes > 0
        for item in (self._band, self._low, self._high, self._whole, self._likely, self._line, self._handle):
            item.setVisible(shown)
        for side in ("left", "bottom"):
            self.getAxis(side).setVisible(shown)  # a scale with nothing on it would tell figures that nobody computed
        self._value.setVisible(shown and self._taken)
        if not shown or picture is None:
            return
        points = picture.curve.points
        self._unit = GIB if points[-1].pool_bytes >= 2 * GIB else MIB
        unit = "GiB" if self._unit == GIB else "MiB"
        of_pool, of_memory = self.tr("pool on the GPU ({unit})"), self.tr("experts in memory ({unit})")
        self.setLabel("bottom", (of_memory if picture.curve.axis == MEMORY_TIER else of_pool).format(unit=unit))
        sizes = [point.pool_bytes / self._unit for point in points]
        self._low.setData(sizes, [point.decode.low for point in points])
        self._high.setData(sizes, [point.decode.high for point in points])
        self._likely.setData(sizes, [point.decode.likely for point in points])
        whole = [(size, point.whole_layers) for size, point in zip(sizes, points, strict=True)]
        known = [(size, rate) for size, rate in whole if rate is not None]
        self._whole.setVisible(bool(known))
        if known:
            self._whole.setData([size for size, _ in known], [rate for _, rate in known])
        for mark in picture.marks:
            if 0 < mark.pool_bytes <= points[-1].pool_bytes:
                self._add_mark(mark)
        self._dress_marks()
        self.setXRange(-sizes[-1] * _SIDE_ROOM, sizes[-1] * (1 + _SIDE_ROOM), padding=0)
        self._draw_measured()
        self._fit()
        self._place_handle()

    def _add_mark(self, mark: Mark) -> None:
        assert self._picture is not None
        line = pg.InfiniteLine(pos=mark.pool_bytes / self._unit, angle=90, movable=False)
        text = pg.TextItem(mark.words)
        for item in (line, text):
            self.addItem(item, ignoreBounds=True)
        self._marks.append((mark, line, text))

    def _draw_measured(self) -> None:
        color = self._theme.colors.graph[MEASURED]
        points = []
        for index, measured in enumerate(self._measured):
            old = index > 0  # answers with an earlier size are smaller and hollow
            brush = pg.mkBrush(self._theme.colors.surface if old else color)
            place = (measured.pool_bytes / self._unit, measured.median)
            points.append({"pos": place, "size": 9 if old else 13, "brush": brush, "pen": pg.mkPen(color, width=1)})
        self._answers.setData(points)
        self._spread.setData(
            x=np.array([measured.pool_bytes / self._unit for measured in self._measured]),
            y=np.array([measured.median for measured in self._measured]),
            top=np.array([measured.most - measured.median for measured in self._measured]),
            bottom=np.array([measured.median - measured.least for measured in self._measured]),
            pen=pg.mkPen(color, width=2),
        )

    def _fit(self) -> None:
        """Give every value its room, and the marks' words theirs above."""
        if self._picture is None:
            return
        points = self._picture.curve.points
        rates = [point.decode.high for point in points]
        rates += [point.whole_layers for point in points if point.whole_layers is not None]
        rates += [measured.most for measured in self._measured]
        step = fit_words(self.getViewBox(), [(mark.words, text) for mark, _line, text in self._marks])
        top = max(*rates, 1e-6) / max(1 - step * len(self._marks) - HEADROOM, _LEAST_OF_CURVE)
        self.setYRange(0, top, padding=0)
        for place, (mark, _line, text) in enumerate(self._marks):
            x = mark.pool_bytes / self._unit
            text.setAnchor((self._anchor(x, text.boundingRect().width()), 0))
            text.setPos(x, top * (1 - step * place))

    def _anchor(self, x: float, width: float) -> float:
        """Where words of so many pixels are held by their place on the axis, so that they are seen whole.

        0 is their left end, 1 their right one: they stand on the side that has more room for them.
        """
        (left, right), pixel = self.getViewBox().viewRange()[0], self.getViewBox().viewPixelSize()[0]
        before, after = (x - left) / pixel, (right - x) / pixel
        if after >= width or after >= before:
            return min(max(1 - after / width, 0.0), 1.0)
        return max(min(before / width, 1.0), 0.0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Words find their room again."""
        super().resizeEvent(event)
        if hasattr(self, "_marks"):  # pyqtgraph resizes while it is being made
            self._fit()

    def _place_handle(self) -> None:
        if self._picture is None:
            return
        rate = point_at(self._picture.curve, self._size).decode.likely
        self._line.setValue(self._size / self._unit)
        self._handle.setData([self._size / self._unit], [rate])
        late = self._size > self._picture.curve.points[-1].pool_bytes * 0.55
        self._value.setAnchor((1.1 if late else -0.1, 1.4))
        self._value.setText(self.tr("{rate} predicted").format(rate=in_tokens_per_second(rate)))
        self._value.setPos(self._size / self._unit, rate)

    def _dress(self) -> None:
        colors = self._theme.colors
        self.setBackground(colors.surface)
        self._band.setBrush(_with_alpha(colors.graph[PREDICTED], BAND_ALPHA))
        for edge in (self._low, self._high):
            edge.setPen(pg.mkPen(mix(colors.graph[PREDICTED], colors.surface, 0.55), width=1))
        self._likely.setPen(pg.mkPen(colors.graph[PREDICTED], width=2))
        self._whole.setPen(pg.mkPen(colors.graph[WHOLE], width=1, style=Qt.PenStyle.DashLine))
        for side in ("left", "bottom"):
            axis = self.getAxis(side)
            axis.setPen(pg.mkPen(mix(colors.border, colors.muted_text, 0.4), width=1))
            axis.setTextPen(colors.muted_text)
        self._dress_handle()
        self._dress_marks()
        self._draw_measured()

    def _dress_handle(self) -> None:
        colors, taken = self._theme.colors, self._taken
        self._line.setPen(pg.mkPen(colors.accent, width=2 if taken else 1))
        self._handle.setSize(15 if taken else 11)
        self._handle.setBrush(pg.mkBrush(colors.accent))
        self._handle.setPen(pg.mkPen(colors.surface, width=2))
        self._value.setVisible(taken and self._picture is not None)
        self._value.setColor(colors.accent)
        self._value.fill = pg.mkBrush(_with_alpha(colors.surface, 215))

    def _dress_marks(self) -> None:
        colors = self._theme.colors
        ground = _with_alpha(colors.surface, 215)
        for mark, line, text in self._marks:
            color = colors.warning if mark.hard else colors.muted_text
            line.setPen(pg.mkPen(color, width=1, style=Qt.PenStyle.DashLine if mark.hard else Qt.PenStyle.DotLine))
            text.setColor(color)
            text.fill = pg.mkBrush(ground)
            text.update()

    @property
    def _taken(self) -> bool:
        """Whether the handle is in the user's hand: by mouse, or by keyboard."""
        return self._dragging or self.hasFocus()

    # ---- the hand -------------------------------------------------------------------------------

    def _near_handle(self, position: QPointF) -> bool:
        return self._picture is not None and abs(position.x() - self.place_of(self._size).x()) <= GRAB_PIXELS

    def _choose(self, pool_bytes: float) -> None:
        if self._picture is None:
            return
        size = round(min(max(pool_bytes, 0), self._picture.limit_bytes))
        if size != self._size:
            self.show_size(size)
            self.choosing.emit(size)

    def _size_at(self, position: QPointF) -> float:
        place = self.getViewBox().mapSceneToView(self.mapToScene(position.toPoint()))
        return float(place.x()) * self._unit

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take the handle, where the press is near it."""
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        if event.button() is Qt.MouseButton.LeftButton and self._near_handle(event.position()):
            self._dragging = True
            self._dress_handle()
        event.accept()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Drag it; show that it can be dragged."""
        if self._dragging:
            self._choose(self._size_at(event.position()))
        near = self._dragging or self._near_handle(event.position())
        self.viewport().setCursor(Qt.CursorShape.SizeHorCursor if near else Qt.CursorShape.ArrowCursor)
        event.accept()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Let go of it: that is the size wanted."""
        if self._dragging and event.button() is Qt.MouseButton.LeftButton:
            self._dragging = False
            self._dress_handle()
            self.chosen.emit(self._size)
        event.accept()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """The wheel is for what the picture stands in."""
        event.ignore()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Arrows, Page Up and Down, Home and End move the handle; Enter is at once, Escape takes it back."""
        picture = self._picture
        key = event.key()
        steps = {
            Qt.Key.Key_Left: -1,
            Qt.Key.Key_Down: -1,
            Qt.Key.Key_Right: 1,
            Qt.Key.Key_Up: 1,
            Qt.Key.Key_PageDown: -LARGE_STEPS,
            Qt.Key.Key_PageUp: LARGE_STEPS,
        }
        if picture is None:
            event.ignore()
        elif key in steps:
            self._choose(self._size + steps[Qt.Key(key)] * picture.step_bytes)
        elif key == Qt.Key.Key_Home:
            self._choose(0)
        elif key == Qt.Key.Key_End:
            self._choose(picture.limit_bytes)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.chosen.emit(self._size)
        elif key == Qt.Key.Key_Escape:
            self.let_go()
            self.dropped.emit()
        else:
            event.ignore()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show where the keyboard is."""
        super().focusInEvent(event)
        self._dress_handle()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """The keyboard is elsewhere."""
        super().focusOutEvent(event)
        self._dress_handle()


def _with_alpha(color: QColor, alpha: int) -> QColor:
    made = QColor(color)
    made.setAlpha(alpha)
    return made
