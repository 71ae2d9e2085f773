"""Scrolls a lane while something is dragged near its edges."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPoint, QTimer, Signal

if TYPE_CHECKING:
    from app.ui.lanes.lane_area import LaneArea

MARGIN = 24
"""Logical pixels from an edge at which scrolling begins."""
_FASTEST = 20
_STEP_MILLISECONDS = 16


class EdgeScroll(QObject):
    """Its timer runs only while the pointer is near an edge behind which there is more.

    Signals:
        scrolled: Other cells are under the pointer now.
    """

    scrolled = Signal()

    def __init__(self, view: "LaneArea") -> None:
        super().__init__(view)
        self._view = view
        self._speed = (0, 0)
        self._timer = QTimer(self)
        self._timer.setInterval(_STEP_MILLISECONDS)
        self._timer.timeout.connect(self.step)

    @property
    def active(self) -> bool:
        """True while it scrolls."""
        return self._timer.isActive()

    def follow(self, point: QPoint) -> None:
        """The pointer is at a point of the viewport, or outside of it."""
        area = self._view.viewport().rect()
        self._speed = (
            _speed(point.x() - self._view.header_width, area.width() - self._view.header_width),
            _speed(point.y(), area.height()),
        )
        if self._wants():
            if not self._timer.isActive():
                self._timer.start()
        else:
            self._timer.stop()

    def stop(self) -> None:
        """The drag is over."""
        self._timer.stop()

    def step(self) -> None:
        """Scroll a little."""
        if not self._wants():
            self._timer.stop()
            return
        view = self._view
        for bar, speed in zip((view.horizontalScrollBar(), view.verticalScrollBar()), self._speed, strict=True):
            bar.setValue(bar.value() + speed)
        self.scrolled.emit()

    def _wants(self) -> bool:
        bars = (self._view.horizontalScrollBar(), self._view.verticalScrollBar())
        return any(
            (speed < 0 and bar.value() > bar.minimum()) or (speed > 0 and bar.value() < bar.maximum())
            for bar, speed in zip(bars, self._speed, strict=True)
        )


def _speed(place: int, length: int) -> int:
    """Pixels a step, faster nearer to the edge and beyond it; 0 away from both edges."""
    margin = min(MARGIN, length // 4)
    if place < margin:
        return -min((margin - place) // 2 + 1, _FASTEST)
    if place > length - margin:
        return min((place - length + margin) // 2 + 1, _FASTEST)
    return 0
