"""One live graph: lines over the last minutes, their current values in text, and words where there is no line."""

import html
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, QObject, QPointF, Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QGraphicsItem, QGraphicsView, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.ui.graphs.ring import RingSeries
from app.ui.theme import GRID, Theme, mix, set_role
from app.ui.words import number

HEADROOM = 1.15
LEFT_AXIS_WIDTH = 52
SMALLEST_HEIGHT = 88


@dataclass(frozen=True)
class Line:
    """One line of a graph.

    Attributes:
        name: What it shows.
        color: Its place in the theme's graph colours.
        dashed: For a line that is a limit rather than a use.
    """

    name: str
    color: int
    dashed: bool = False


class LivePlot(QWidget):
    """A graph of one unit. Times run from `-span_seconds` to 0, now; values start at 0."""

    def __init__(
        self,
        title: str,
        unit: str,
        lines: tuple[tuple[Line, RingSeries], ...],
        theme: Theme,
        *,
        decimals: int = 2,
        smallest_top: float = 1.0,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._theme = theme
        self._unit = unit
        self._lines = lines
        self._decimals = decimals
        self._smallest_top = smallest_top
        self._span = 60.0
        self._now = 0.0
        self._hover: float | None = None
        self._limit: float | None = None
        self._scale_shown = True
        self._why = ""
        self._title = QLabel(title, self)
        set_role(self._title, "strong")
        self._values = QLabel(self)
        self._values.setTextFormat(Qt.TextFormat.RichText)
        self._when = QLabel(self)
        self._when.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        set_role(self._when, "small")
        self._values.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._note = QLabel(self)
        self._note.setWordWrap(True)
        set_role(self._note, "small")
        self._note.hide()
        self._plot = pg.PlotWidget(self, axisItems={"bottom": _AgoAxis(orientation="bottom")})
        self._curves = [self._make_curve() for _line in lines]
        self._cursor = pg.InfiniteLine(angle=90, movable=False)
        self._missing = QLabel(self._plot)
        self._missing.setWordWrap(True)
        self._missing.setAlignment(Qt.AlignmentFlag.AlignCenter)
        set_role(self._missing, "muted")
        self._missing.hide()
        self._prepare(title, unit)
        top = QHBoxLayout()
        top.addWidget(self._title)
        top.addWidget(self._when, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(GRID // 2)
        column.addLayout(top)
        column.addWidget(self._values)
        column.addWidget(self._note)
        column.addWidget(self._plot, 1)
        theme.changed.connect(self._dress)
        self._dress()

    @property
    def text(self) -> str:
        """The current values in words, or why there are none."""
        return self.accessibleDescription()

    @property
    def curves(self) -> list[pg.PlotDataItem]:
        """The drawn lines, in order."""
        return self._curves

    def set_span(self, seconds: float) -> None:
        """Show this many seconds up to now."""
        self._span = seconds
        self._plot.setXRange(-seconds, 0, padding=0)

    def set_limit(self, limit: float | None) -> None:
        """Show how much there is in all: the graph's full height; None where nobody knows."""
        self._limit = limit

    def redraw(self, now_seconds: float, missing: str = "") -> None:
        """Draw the series as of `now_seconds`.

        Args:
            now_seconds: The time at the right edge.
            missing: Why a value is not measured now; it stands where the lines would be, or with the
                current values while there are lines in the picture.
        """
        self._now = now_seconds
        self._why = missing
        oldest = now_seconds - self._span
        highest = []
        for curve, (_line, series) in zip(self._curves, self._lines, strict=True):
            curve.setData(series.times - now_seconds, series.values, connect="finite")
            highest.append(series.highest(oldest))
        drawn = [value for value in highest if value is not None]
        top = self._limit or max([self._smallest_top, *(value * HEADROOM for value in drawn)])
        self._plot.setYRange(0, top, padding=0)
        self._missing.setText(missing)
        blank = bool(missing) and not drawn
        self._missing.setVisible(blank)
        self._show_scale(not blank)
        self._tell()

    def _show_scale(self, shown: bool) -> None:
        if shown != self._scale_shown:
            self._scale_shown = shown
            for side in ("left", "bottom"):
                self._plot.getAxis(side).setStyle(showValues=shown)

    def _prepare(self, title: str, unit: str) -> None:
        plot = self._plot
        plot.setAccessibleName(title)
        plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        plot.setMinimumHeight(SMALLEST_HEIGHT)
        plot.setFrameShape(QGraphicsView.Shape.NoFrame)
        plot.setMenuEnabled(False)
        plot.setMouseEnabled(x=False, y=False)
        plot.hideButtons()
        plot.setLabel("left", unit)
        plot.getAxis("left").setWidth(LEFT_AXIS_WIDTH)
        plot.getAxis("left").enableAutoSIPrefix(False)
        plot.showGrid(x=False, y=True, alpha=0.12)
        for side in ("left", "bottom"):
            plot.getAxis(side).setStyle(hideOverlappingLabels=False)
            # Axes and grid are the same from frame to frame, and drawing their texts costs more than
            # the lines: three graphs cost 20 ms a frame without the cache, 3 ms with it (2-core
            # laptop-class machine, November 2026).
            plot.getAxis(side).setCacheMode(QGraphicsItem.CacheMode.DeviceCoordinateCache)
        plot.addItem(self._cursor, ignoreBounds=True)
        self._cursor.hide()
        plot.getPlotItem().setContentsMargins(0, GRID, 3 * GRID, 0)  # room for the outermost labels
        plot.setDefaultPadding(0)
        plot.disableAutoRange()
        self.set_span(self._span)
        plot.viewport().setMouseTracking(True)
        plot.viewport().installEventFilter(self)
        self.setAccessibleName(title)

    def _make_curve(self) -> pg.PlotDataItem:
        curve = self._plot.plot(antialias=False)
        curve.setClipToView(True)
        curve.setDownsampling(auto=True, method="peak")
        return curve

    def _color(self, line: Line) -> QColor:
        colors = self._theme.colors
        return colors.muted_text if line.dashed else colors.graph[line.color % len(colors.graph)]

    def _dress(self) -> None:
        colors = self._theme.colors
        self._plot.setBackground(colors.surface)
        for curve, (line, _series) in zip(self._curves, self._lines, strict=True):
            style = Qt.PenStyle.DashLine if line.dashed else Qt.PenStyle.SolidLine
            curve.setPen(pg.mkPen(self._color(line), width=1, style=style))
        for side in ("left", "bottom"):
            axis = self._plot.getAxis(side)
            axis.setPen(pg.mkPen(mix(colors.border, colors.muted_text, 0.4), width=1))
            axis.setTextPen(colors.muted_text)
        self._cursor.setPen(pg.mkPen(colors.muted_text, width=1))
        self._tell()

    def _tell(self) -> None:
        """Say the values at the pointer, or the current ones."""
        parts: list[tuple[str, str]] = []
        for line, series in self._lines:
            value = self._value(series)
            if value is not None:
                mark = f'<span style="color:{self._color(line).name()}">●</span> '
                parts.append((mark, f"{line.name} {number(value, self._decimals)}".strip()))
        if self._limit is not None:
            parts.append(("", self.tr("of {limit}").format(limit=number(self._limit, 1))))
        when = ""
        if self._hover is not None:
            when = self.tr("{seconds} s ago").format(seconds=number(-self._hover))
        elif parts:
            when = self.tr("now")
        self._when.setText(when)
        unit = f" {self._unit}" if parts else ""
        values = "&nbsp; ".join(mark + html.escape(said) for mark, said in parts) + unit
        beside = self._why if self._missing.isHidden() and self._hover is None else ""
        self._values.setText(values or html.escape(beside or "–"))
        self._note.setText(beside)
        self._note.setVisible(bool(values and beside))
        said = ", ".join(said for _mark, said in parts) + unit
        self.setAccessibleDescription(" ".join(word for word in (when, said, self._why) if word))

    def _value(self, series: RingSeries) -> float | None:
        if self._hover is None:
            return series.latest
        found = series.nearest(self._now + self._hover)
        return found[1] if found else None

    def show_values_at(self, seconds_ago: float | None) -> None:
        """Show the values of that time instead of the current ones, or the current ones for None."""
        self._hover = None if seconds_ago is None else -seconds_ago
        self._cursor.setVisible(self._hover is not None)
        if self._hover is not None:
            self._cursor.setValue(self._hover)
        self._tell()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow the pointer over the plot."""
        if event.type() is QEvent.Type.MouseMove:
            box = self._plot.getViewBox()
            point = self._plot.mapToScene(event.position().toPoint())
            if box.sceneBoundingRect().contains(point):
                place: QPointF = box.mapSceneToView(point)
                self.show_values_at(float(np.clip(-place.x(), 0, self._span)))
            else:
                self.show_values_at(None)
        elif event.type() is QEvent.Type.Leave:
            self.show_values_at(None)
        elif event.type() is QEvent.Type.Resize:
            self._missing.setGeometry(
                self._plot.viewport().rect().adjusted(LEFT_AXIS_WIDTH + GRID, GRID, -GRID, -5 * GRID)
            )
        return False


class _AgoAxis(pg.AxisItem):
    """Times before now, with their unit: "40 s", "5 min"."""

    def tickSpacing(self, low: float, high: float, size: float) -> list[tuple[float, float]]:
        """Distances between ticks, in seconds: whole steps of the unit that is shown."""
        span = high - low
        return [(20 if span <= 60 else 60 if span <= 300 else 120, 0)]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:
        """The texts under the ticks."""
        if spacing >= 60:
            return [f"{number(-value / 60)} min" if value else self.tr("now") for value in values]
        return [f"{number(-value)} s" if value else self.tr("now") for value in values]
