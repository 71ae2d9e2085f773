"""One live graph: its title, the values of now or of the pointer's moment in text, and its picture."""

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QFocusEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.ui.graphs.canvas import Canvas
from app.ui.graphs.graph_spec import GraphSpec, Line
from app.ui.graphs.history import History
from app.ui.graphs.scale import clock_words, round_top
from app.ui.graphs.shapes import shapes_of
from app.ui.graphs.time_window import TimeWindow
from app.ui.graphs.values import Value, ValuesLine
from app.ui.theme import GRID, Theme, set_role
from app.ui.widgets import ElidedLabel
from app.ui.words import number


class LivePlot(QWidget):
    """A graph of one unit over the stretch of time that `window` says; values start at 0."""

    def __init__(
        self,
        spec: GraphSpec,
        history: History,
        window: TimeWindow,
        theme: Theme,
        *,
        wheel_zooms: Callable[[], bool] = lambda: True,
        clock_offset: Callable[[], float] = lambda: 0.0,
        why_at: Callable[[float], str] = lambda _time: "",
        parent: QWidget | None = None,
    ) -> None:
        """Makes it; `redraw` draws.

        Args:
            spec: What it shows.
            history: Where that is kept.
            window: Which stretch of time is shown.
            theme: The look.
            wheel_zooms: Whether a turn of the wheel zooms.
            clock_offset: Wall clock less the history's clock, in seconds.
            why_at: Why there is no value in the row of a time; empty where nobody knows.
            parent: The widget around.
        """
        super().__init__(parent)
        self.spec = spec
        self._history = history
        self._window = window
        self._theme = theme
        self._clock_offset = clock_offset
        self._why_at = why_at
        self._now = 0.0
        self._limit = spec.limit
        self._why = ""
        self._title = ElidedLabel(spec.title, self)
        set_role(self._title, "strong")
        self._title.setToolTip(spec.about or spec.title)
        self._when = QLabel(self)
        self._when.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._when.setTextFormat(Qt.TextFormat.PlainText)
        set_role(self._when, "small")
        self.values = ValuesLine(theme, self)
        self._note = QLabel(self)
        self._note.setWordWrap(True)
        self._note.setTextFormat(Qt.TextFormat.PlainText)
        set_role(self._note, "small")
        self._note.hide()
        self.canvas = Canvas(theme, wheel_zooms, self)
        self.canvas.setFocusPolicy(Qt.FocusPolicy.ClickFocus)
        self.canvas.setFocusProxy(self)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(spec.title)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        top = QHBoxLayout()
        top.addWidget(self._title, 1)
        top.addWidget(self._when)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID // 2, GRID // 2, GRID // 2, GRID // 2)
        column.setSpacing(GRID // 2)
        column.addLayout(top)
        column.addWidget(self.values)
        column.addWidget(self._note)
        column.addWidget(self.canvas, 1)
        window.cursor_moved.connect(self._show_cursor)
        self.canvas.pointed.connect(window.point_at)
        self.canvas.live_wanted.connect(window.go_live)
        self.canvas.zoomed.connect(window.zoom)

    @property
    def text(self) -> str:
        """The values in words, or why there are none."""
        return self.accessibleDescription()

    def redraw(self, now_seconds: float, missing: str = "", limit: float | None = None) -> None:
        """Draw the history as of `now_seconds`.

        Args:
            now_seconds: The time.
            missing: Why a value is not measured now; it stands where the lines would be, or with the
                current values while there are lines in the picture.
            limit: How much this machine has, where that is known: a line, and the scale's top unless more is shown.
        """
        self._now, self._why = now_seconds, missing
        self._limit = self.spec.limit if limit is None else limit
        window = self._window
        end = window.end(now_seconds)
        shapes = shapes_of(self.spec, self._history, end, window.span, round(self.canvas.area.width()))
        drawn = [shape.highest for shape in shapes if shape.highest is not None]
        highest = max(drawn, default=0.0)
        top = self._limit or 0.0
        if highest > top:
            top = round_top(highest, self.spec.smallest_top)
        top = top or self.spec.smallest_top
        clock = end + self._clock_offset() if window.held else None
        # What was not measured in the past has the reasons of then.
        words = "" if drawn else self._why_at(end) if window.held else missing
        self.canvas.show_shapes(shapes, window.span, top, limit or 0.0, clock, words)
        self._tell()

    def _show_cursor(self) -> None:
        if self.isVisible():
            self._tell()
        else:
            self.canvas.show_cursor(self._window.cursor)

    def _tell(self) -> None:
        """Say the values at the pointer, or those at the right edge, or why there are none."""
        window, history = self._window, self._history
        moment = window.end(self._now) - (window.cursor or 0.0)
        past = window.held or window.cursor is not None
        place = history.nearest(moment) if past else len(history) - 1
        values = self._values_at(place) if place is not None and place >= 0 else []
        why = self._why
        if past and place is not None:
            why = "" if values else self._why_at(float(history.times[place]))
        if self._limit is not None and values:
            limit = number(self._limit, 1 if self._limit % 1 else 0)
            values.append(Value(self.tr("of {limit}").format(limit=limit)))
        when = self._when_words(moment) if values or past else ""
        said = ", ".join(value.words for value in values)
        if values:
            unit = f" {self.spec.unit}"
            said += unit
            values[-1] = Value(values[-1].words + unit, values[-1].color, values[-1].mark)
        beside = why if not self.canvas.words and window.cursor is None else ""
        self.values.show_values(values or [Value(beside or "–")])
        note = beside if values else ""
        if self._note.text() != note or self._note.isHidden() == bool(note):
            self._note.setText(note)
            self._note.setVisible(bool(note))
        self.canvas.show_cursor(window.cursor, "" if values else why)
        if self._when.text() != when:
            self._when.setText(when)
        nothing = "" if said or why else self.tr("No value at this moment.")
        self.setAccessibleDescription(" ".join(word for word in (when, said, why, nothing) if word))

    def _values_at(self, place: int) -> list[Value]:
        """The figures of a row in words, without those that were not measured and bands of nothing."""
        bands = [(band, "band") for band in self.spec.bands]
        lines = [(line, "dashed" if line.dashed else "line") for line in self.spec.lines]
        found = []
        for line, mark in (*bands, *lines):
            value = self._history.at(line.key, place)
            if value is not None and (value or mark != "band"):
                found.append(Value(self._words(line, value), line.color, mark))
        return found

    def _words(self, line: Line, value: float) -> str:
        return f"{line.name} {number(value, self.spec.decimals)}".strip()

    def _when_words(self, moment: float) -> str:
        if self._window.held:
            return clock_words(moment + self._clock_offset())
        if self._window.cursor is None:
            return self.tr("now")
        return self.tr("{seconds} s ago").format(seconds=number(self._window.cursor))

    # ---- focus --------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """A frame where the keyboard is."""
        if self.hasFocus():
            painter = QPainter(self)
            painter.setPen(QPen(self._theme.colors.accent, 1))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
            painter.end()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show the frame."""
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Take the frame away."""
        super().focusOutEvent(event)
        self.update()
