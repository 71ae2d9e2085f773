"""Which stretch of time all graphs show, and which moment of it the pointer is at."""

from PySide6.QtCore import QObject, Signal

SHORTEST_SECONDS, LONGEST_SECONDS = 10.0, 3600.0


class TimeWindow(QObject):
    """A stretch of `span` seconds that ends now, or stands still at `end`.

    Moments under the pointer are told as seconds before the right edge, so that a pointer which rests keeps its
    place while live graphs move below it.

    Signals:
        changed: Another stretch is to be shown, or it was held or let go.
        cursor_moved: The pointer is at another moment, or at none.
    """

    changed = Signal()
    cursor_moved = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._span = 60.0
        self._end: float | None = None
        self._cursor: float | None = None

    @property
    def span(self) -> float:
        """Seconds shown."""
        return self._span

    @property
    def held(self) -> bool:
        """Whether the picture stands still."""
        return self._end is not None

    @property
    def cursor(self) -> float | None:
        """Seconds from the right edge back to the moment under the pointer; None without one."""
        return self._cursor

    def end(self, now: float) -> float:
        """The time of the right edge."""
        return now if self._end is None else self._end

    def set_span(self, seconds: float) -> None:
        """Show so many seconds, the right edge where it is."""
        self._set(seconds, self._end)

    def hold(self, now: float) -> None:
        """Stand still at what is shown."""
        if self._end is None:
            self._set(self._span, now)

    def go_live(self) -> None:
        """Follow the time again."""
        if self._end is not None:
            self._set(self._span, None)

    def zoom(self, factor: float, fraction: float = 1.0) -> None:
        """Show `factor` times as many seconds.

        Args:
            factor: Below 1 to see less, and that larger.
            fraction: Place that stays where it is, 0 (left edge) to 1 (right edge). A live picture stays live.
        """
        span = min(LONGEST_SECONDS, max(SHORTEST_SECONDS, self._span * factor))
        end = None if self._end is None else self._end + (span - self._span) * (1.0 - fraction)
        self._set(span, end)

    def pan(self, seconds: float, now: float, oldest: float) -> None:
        """Move the stretch by `seconds` (below 0 into the past); its newest end is live again.

        Args:
            seconds: How far.
            now: The time.
            oldest: The time of the oldest row: no stretch without any is shown.
        """
        end = max(self.end(now) + seconds, min(oldest + self._span, now))
        self._set(self._span, None if end >= now else end)

    def point_at(self, seconds_ago: float | None) -> None:
        """The pointer is so many seconds left of the right edge, or at none."""
        cursor = None if seconds_ago is None else min(self._span, max(0.0, seconds_ago))
        if cursor != self._cursor:
            self._cursor = cursor
            self.cursor_moved.emit()

    def _set(self, span: float, end: float | None) -> None:
        span = min(LONGEST_SECONDS, max(SHORTEST_SECONDS, span))
        if (span, end) == (self._span, self._end):
            return
        self._span, self._end = span, end
        if self._cursor is not None and self._cursor > span:
            self._cursor = span
        self.changed.emit()
