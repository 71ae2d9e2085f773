"""Experts that fly from lane to lane: a layer over all lanes that is there only while something moves."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from time import monotonic

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QRectF, Qt, QTimer
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QRegion
from PySide6.QtWidgets import QWidget
from shiboken6 import isValid

from app.ui.lanes.board import Board, Change
from app.ui.lanes.lane_flash import AWAY, TO_GPU, TO_MEMORY, change_color, ways_of
from app.ui.lanes.lane_overlay import offer_strip
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
        going: TO_GPU, TO_MEMORY, or AWAY for one that was evicted.
    """

    began: float
    start: QRectF
    end: QRectF
    going: int

    @cached_property
    def way(self) -> tuple[float, float, float, float, float, float]:
        """Place and size at the start, and how much they change until the end: asked for in every frame."""
        start, end = self.start, self.end
        x, y, size = start.x(), start.y(), start.width()
        return x, y, size, end.x() - x, end.y() - y, end.width() - size

    def at(self, fraction: float) -> QRectF:
        """Where it is after a fraction of the time, 0 to 1."""
        return QRectF(*placed(np.array([self.way]), np.array([fraction]))[0].tolist())


def placed(ways: NDArray[np.float64], fractions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Left, top, width and height of ghosts on their ways, shape (ghosts, 4), after fractions of their times."""
    now = ways[:, :3] + ways[:, 3:] * eased(fractions)[:, None]
    more = np.maximum(_SMALLEST - now[:, 2:], 0.0)
    size = now[:, 2:] + more
    return np.hstack([now[:, :2] - more / 2, size, size])


class Flights(QWidget):
    """Over all lanes of a widget; lets every event through.

    Call `fly` with each change of the board. Few moved experts fly; many flash in their lanes; none moves at all
    where the desktop asks for stillness. The timer runs only while something flies.
    """

    def __init__(self, over: QWidget, theme: Theme) -> None:
        super().__init__(over)
        self._theme = theme
        self._ghosts: list[Ghost] = []
        self._ways = np.zeros((0, 7))  # when each ghost began, and its way
        self._places: list[tuple[QRectF, int]] = []
        self._around = QRectF()
        self._views: tuple[LaneView, ...] = ()
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
        self._ways = np.zeros((0, 7))
        self._views = tuple(views)
        if not self._timer.isActive():
            self._timer.start()
        self.setGeometry(self.parentWidget().rect())
        self.raise_()
        self.show()
        self.step()

    def step(self) -> None:
        """Move everything on; land what has arrived."""
        now = monotonic()
        flying = [ghost for ghost in self._ghosts if (now - ghost.began) * 1000 < MILLISECONDS]
        if len(flying) != len(self._ways):
            self._ways = np.array([(ghost.began, *ghost.way) for ghost in flying]).reshape(-1, 7)
        self._ghosts = flying
        if not self._ghosts:
            self._timer.stop()
            self.hide()
            return
        before = self._around
        places = placed(self._ways[:, 1:], (now - self._ways[:, 0]) * 1000 / MILLISECONDS)
        self._places = [
            (QRectF(*place), ghost.going) for place, ghost in zip(places.tolist(), self._ghosts, strict=True)
        ]
        left, top = places[:, :2].min(axis=0).tolist()
        right, bottom = (places[:, :2] + places[:, 2:]).max(axis=0).tolist()
        self._around = QRectF(left, top, right - left, bottom - top)
        # One rectangle: a region of many costs more than the lanes' images that lie below it.
        self.update((self._around | before).toAlignedRect().adjusted(-2, -2, 2, 2))

    def paintEvent(self, event: QPaintEvent) -> None:
        """The ghosts: filled ones come to the GPU or into memory, hollow ones go. None flies over a drop's words."""
        painter = QPainter(self)
        if kept := self.kept_clear():
            painter.setClipRegion(QRegion(self.rect()).subtracted(kept))
        for going in (AWAY, TO_MEMORY, TO_GPU):
            color = QColor(change_color(self._theme.colors, going))
            # Thin or no lines: wide ones would cost more than all the rest.
            painter.setPen(color if going == AWAY else Qt.PenStyle.NoPen)
            if going == AWAY:
                color.setAlphaF(0.35)
            painter.setBrush(color)
            painter.drawRects([place for place, its in self._places if its == going])
        painter.end()

    def kept_clear(self) -> QRegion:
        """Where words of what a drop would do are read now."""
        region = QRegion()
        for view in self._views:
            if isValid(view) and view.drops.offer is not None:
                strip = offer_strip(view, view.drops.offer)
                corner = view.viewport().mapTo(self.parentWidget(), strip.topLeft())
                region += QRect(corner, strip.size()).adjusted(-1, -1, 1, 1)
        return region

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay as large as what it lies over."""
        if event.type() is QEvent.Type.Resize and self.isVisible():
            self.setGeometry(self.parentWidget().rect())
        return False

    def _made(self, change: Change, board: Board, views: Sequence[LaneView]) -> list[Ghost]:
        starts: dict[int, QRectF] = {}
        ends: dict[int, QRectF] = {}
        for view in views:
            if view.isVisible():
                starts |= self._places_in(view, change, before=True)
                ends |= self._places_in(view, change, before=False)
        ways, now = ways_of(board, change).tolist(), monotonic()
        return [Ghost(now, starts[moved], ends[moved], ways[moved]) for moved in sorted(starts.keys() & ends.keys())]

    def _places_in(self, view: LaneView, change: Change, *, before: bool) -> dict[int, QRectF]:
        """Where moved cells are in a lane, or were, by their place in the change, in this widget's own coordinates.

        One that is scrolled away is at the lane's edge.
        """
        moved, corners, sizes = view.moved_rects(change, before=before)
        if not len(moved):
            return {}
        area = view.viewport().rect()
        half = (sizes - 1) // 2
        centers = np.clip(corners + half, (area.left(), area.top()), (area.right(), area.bottom()))
        origin = view.viewport().mapTo(self.parentWidget(), QPoint())
        places = np.hstack([centers - half + (origin.x(), origin.y()), sizes]).tolist()
        return {index: QRectF(*place) for index, place in zip(moved.tolist(), places, strict=True)}
