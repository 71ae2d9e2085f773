"""Experts that fly from lane to lane: a layer over all lanes that is there only while something moves."""

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

import numpy as np
from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, QRect, QRectF, Qt, QTimer
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from app.ui.lanes.board import Board, Change
from app.ui.lanes.lane_flash import change_color, goes_to_gpu
from app.ui.lanes.lane_view import LaneView
from app.ui.lanes.motion import FRAME_MILLISECONDS, MILLISECONDS, eased, motion_wanted
from app.ui.theme import Theme

MOST = 64
"""Experts that fly at a time; more of them flash where they left and where they came."""
_SMALLEST = 7.0
"""Logical pixels: a smaller ghost would not be seen on its way."""


@dataclass(frozen=True)
class Ghost:
    """One expert on its way, in the places of the layer over the lanes.

    Attributes:
        began: When, in seconds of the clock that does not jump.
        start, end: Where from and where to.
        to_gpu: False for one that was evicted.
    """

    began: float
    start: QRectF
    end: QRectF
    to_gpu: bool

    def at(self, fraction: float) -> QRectF:
        """Where it is after a fraction of the time, 0 to 1."""
        way = eased(fraction)
        start, end = self.start, self.end
        size = start.width() + (end.width() - start.width()) * way
        x, y = start.x() + (end.x() - start.x()) * way, start.y() + (end.y() - start.y()) * way
        more = max(_SMALLEST - size, 0.0)
        return QRectF(x - more / 2, y - more / 2, size + more, size + more)


class Flights(QWidget):
    """Over all lanes of a widget; lets every event through.

    Call `fly` with each change of the board. Few moved experts fly; many flash in their lanes; none moves at all
    where the desktop asks for stillness. The timer runs only while something flies.
    """

    def __init__(self, over: QWidget, theme: Theme) -> None:
        super().__init__(over)
        self._theme = theme
        self._ghosts: list[Ghost] = []
        self._places: list[tuple[QRectF, bool]] = []
        self._around = QRectF()
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(FRAME_MILLISECONDS)
        self._timer.timeout.connect(self.step)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_NoSystemBackground)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.hide()
        over.installEventFilter(self)

    @property
    def active(self) -> bool:
        """True while something flies."""
        return self._timer.isActive()

    @property
    def ghosts(self) -> tuple[Ghost, ...]:
        """What flies now."""
        return tuple(self._ghosts)

    def fly(self, change: Change, views: Sequence[LaneView]) -> None:
        """Show how the cells of a change moved between these lanes."""
        for view in views:
            view.take(change)
        if not change.moved or not self.parentWidget().isVisible() or not motion_wanted(self):
            return
        if change.moved + len(self._ghosts) > MOST:
            for view in views:
                view.flash(change)
            return
        board = views[0].state.board if views else None
        ghosts = self._made(change, board, views) if board is not None else []
        if not ghosts:
            return
        self._ghosts += ghosts
        if not self._timer.isActive():
            self._timer.start()
        self.setGeometry(self.parentWidget().rect())
        self.raise_()
        self.show()
        self.step()

    def step(self) -> None:
        """Move everything on; land what has arrived."""
        now = monotonic()
        self._ghosts = [ghost for ghost in self._ghosts if (now - ghost.began) * 1000 < MILLISECONDS]
        if not self._ghosts:
            self._timer.stop()
            self.hide()
            return
        before = self._around
        self._places = [(ghost.at((now - ghost.began) * 1000 / MILLISECONDS), ghost.to_gpu) for ghost in self._ghosts]
        self._around = QRectF()
        for place, _ in self._places:
            self._around |= place
        # One rectangle: a region of many costs more than the lanes' images that lie below it.
        self.update((self._around | before).toAlignedRect().adjusted(-2, -2, 2, 2))

    def paintEvent(self, event: QPaintEvent) -> None:
        """The ghosts: filled ones go to the GPU, hollow ones leave it."""
        painter = QPainter(self)
        for to_gpu in (False, True):
            color = QColor(change_color(self._theme.colors, going_to_gpu=to_gpu))
            # Thin or no lines: wide ones would cost more than all the rest.
            painter.setPen(Qt.PenStyle.NoPen if to_gpu else color)
            if not to_gpu:
                color.setAlphaF(0.35)
            painter.setBrush(color)
            painter.drawRects([place for place, its in self._places if its == to_gpu])
        painter.end()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay as large as what it lies over."""
        if event.type() is QEvent.Type.Resize and self.isVisible():
            self.setGeometry(self.parentWidget().rect())
        return False

    def _made(self, change: Change, board: Board, views: Sequence[LaneView]) -> list[Ghost]:
        by_lane = {view.lane.key: view for view in views}
        to_gpu = goes_to_gpu(board, change)
        made, now = [], monotonic()
        for moved in range(change.moved):
            layer, expert = board.layers[int(change.rows[moved])], int(change.experts[moved])
            source = by_lane.get(board.lanes[int(change.before[moved])])
            target = by_lane.get(board.lanes[int(change.after[moved])])
            start = self._place(source, source.rect_before(layer, expert)) if source else None
            end = self._place(target, target.cell_rect(layer, expert)) if target else None
            if start is not None and end is not None:
                made.append(Ghost(now, start, end, bool(np.asarray(to_gpu)[moved])))
        return made

    def _place(self, view: LaneView, rect: QRect | None) -> QRectF | None:
        """A place of a lane in this widget; one that is scrolled away is at the lane's edge."""
        if rect is None or not view.isVisible():
            return None
        area = view.viewport().rect()
        center = rect.center()
        inside = QPoint(
            min(max(center.x(), area.left()), area.right()), min(max(center.y(), area.top()), area.bottom())
        )
        rect = QRect(rect)
        rect.moveCenter(inside)
        corner = view.viewport().mapTo(self.parentWidget(), rect.topLeft())
        return QRectF(QPointF(corner), rect.size().toSizeF())
