"""Charts of what was measured, drawn without a window and saved: bars or lines, each with its spread."""

import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QImage, QPainter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QApplication

from app.placement.scenarios.figure import Figure
from app.placement.scenarios.results import CaseResult
from app.placement.scenarios.schedule import OURS
from app.ui.theme import LIGHT, mix, text_points
from app.ui.words import number

WIDTH = 1080
PANEL_HEIGHT = 330
TITLE_HEIGHT = 50
SCALE = 2
"""Pixels of an image for one of the chart, so that small text stays sharp."""

_GROUP_WIDTH = 0.84
_HEADROOM = 1.34  # the legend is there
_LABEL_POINTS = 9
_AXIS_WIDTH = 56
_STYLES = (Qt.PenStyle.SolidLine, Qt.PenStyle.DashLine, Qt.PenStyle.DotLine, Qt.PenStyle.DashDotLine)
_SYMBOLS = "osdt"


@dataclass(frozen=True)
class Series:
    """One colour of bars, or one line.

    Attributes:
        name: In the legend.
        values: One for each place of the panel; None where nothing was measured.
        color: Its place in the graph colours.
        pale: For bars: the lesser of two of one colour.
        style: For lines: which of the dash patterns.
    """

    name: str
    values: tuple[Figure | None, ...]
    color: int
    pale: bool = False
    style: int = 0


@dataclass(frozen=True)
class Panel:
    """One plot: what stands under its places, and what is drawn at each; `lines` joins the places of a series."""

    title: str
    places: tuple[str, ...]
    series: tuple[Series, ...]
    lines: bool = False


def of_bench(results: Sequence[CaseResult]) -> tuple[Panel, ...]:
    """The panels of a benchmark: decoding and prompts by scenario, and the sweep by micro-batch."""
    panels: list[Panel] = []
    scenarios = [its for its in results if its.n_ubatch is None]
    if scenarios:
        panels += [_decoding(scenarios), _prompts(scenarios)]
    sweep = [its for its in results if its.n_ubatch is not None]
    if sweep:
        panels += [
            _sweep("Sweep: prompt, tokens/s by micro-batch", sweep, [its.prompt for its in sweep]),
            _sweep("Sweep: decoding, tokens/s by micro-batch", sweep, [its.steady for its in sweep]),
        ]
    return tuple(panels)


def save(path: Path, title: str, panels: Sequence[Panel]) -> None:
    """Draw `panels` below one another and save them as the path's ending says, .png or .svg.

    Raises:
        OSError: the file cannot be written.
    """
    application = QApplication.instance()
    if application is None and sys.platform != "win32":  # which has a screen for every process
        os.environ["QT_QPA_PLATFORM"] = "offscreen"
    pg.mkQApp()
    # All of it grows with the texts: larger ones would lie over each other.
    width, height = (round(text_points(its)) for its in (WIDTH, TITLE_HEIGHT + PANEL_HEIGHT * len(panels)))
    view = pg.GraphicsLayoutWidget(show=False, size=(width, height))
    try:
        view.setAttribute(Qt.WidgetAttribute.WA_DontShowOnScreen)
        view.setAntialiasing(True)
        view.setBackground(LIGHT.surface)
        view.addLabel(title, row=0, col=0, size=_points(13), bold=True, color=LIGHT.text)
        for row, panel in enumerate(panels, start=1):
            _draw(view.addPlot(row=row, col=0), panel)
        view.resize(width, height)
        view.show()
        QApplication.processEvents()  # the layout takes its places
        _write(view, path, QSize(width, height))
    finally:
        view.close()
        view.deleteLater()


# ---- a benchmark's panels --------------------------------------------------------------------


def _decoding(results: Sequence[CaseResult]) -> Panel:
    series = []
    for color, variant in enumerate(_variants(results)):
        its = _by_place(results, variant)
        series += [
            Series(f"{variant}, transient", tuple(one and one.transient for one in its), color, pale=True),
            Series(f"{variant}, steady", tuple(one and one.steady for one in its), color),
        ]
    return Panel("Decoding, tokens/s over all sequences", _places(results), tuple(series))


def _prompts(results: Sequence[CaseResult]) -> Panel:
    series = tuple(
        Series(variant, tuple(one and one.prompt for one in _by_place(results, variant)), color)
        for color, variant in enumerate(_variants(results))
    )
    return Panel("Prompt, tokens/s", _places(results), series)


def _sweep(title: str, results: Sequence[CaseResult], figures: Sequence[Figure | None]) -> Panel:
    at = {(its.variant, its.threads, its.n_ubatch): figure for its, figure in zip(results, figures, strict=True)}
    batches = sorted({its.n_ubatch for its in results if its.n_ubatch is not None})
    threads = sorted({its.threads for its in results if its.threads is not None})
    series = tuple(
        Series(
            f"{variant}, {count} thread{'s' if count > 1 else ''}",
            tuple(at.get((variant, count, n_ubatch)) for n_ubatch in batches),
            color,
            style=style,
        )
        for color, variant in enumerate(_variants(results))
        for style, count in enumerate(threads)
    )
    return Panel(title, tuple(map(str, batches)), series, lines=True)


def _variants(results: Sequence[CaseResult]) -> list[str]:
    """The variants in the order of their colours: ours first."""
    return sorted(dict.fromkeys(its.variant for its in results), key=lambda variant: variant != OURS)


def _places(results: Sequence[CaseResult]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(its.case for its in results))


def _by_place(results: Sequence[CaseResult], variant: str) -> list[CaseResult | None]:
    at = {its.case: its for its in results if its.variant == variant}
    return [at.get(place) for place in _places(results)]


# ---- drawing ---------------------------------------------------------------------------------


def _draw(plot: pg.PlotItem, panel: Panel) -> None:
    plot.setTitle(panel.title, color=LIGHT.text, size=_points(11))
    plot.setMenuEnabled(False)
    plot.hideButtons()
    plot.showGrid(x=False, y=True, alpha=0.15)
    for side in ("left", "bottom"):
        axis = plot.getAxis(side)
        axis.setPen(pg.mkPen(LIGHT.border, width=1))
        axis.setTextPen(LIGHT.text)
        axis.setTickFont(_font())
        axis.enableAutoSIPrefix(False)
    plot.getAxis("bottom").setTicks([list(enumerate(panel.places))])
    plot.getAxis("left").setWidth(text_points(_AXIS_WIDTH))
    legend = plot.addLegend(
        offset=(-8, 4),
        colCount=len(panel.series),
        labelTextColor=LIGHT.text,
        labelTextSize=_points(_LABEL_POINTS),
    )
    legend.setBrush(LIGHT.surface)
    for index, series in enumerate(panel.series):
        if panel.lines:
            _draw_line(plot, series)
        else:
            _draw_bars(plot, series, index, len(panel.series))
    values = [figure.most for series in panel.series for figure in series.values if figure is not None]
    plot.setYRange(0, max(values, default=1.0) * _HEADROOM, padding=0)
    plot.setXRange(-0.5, len(panel.places) - 0.5, padding=0)
    plot.disableAutoRange()


def _draw_bars(plot: pg.PlotItem, series: Series, index: int, count: int) -> None:
    width = _GROUP_WIDTH / count
    places = {
        place - _GROUP_WIDTH / 2 + (index + 0.5) * width: figure
        for place, figure in enumerate(series.values)
        if figure is not None
    }
    color = _color(series)
    heights = [figure.median for figure in places.values()]
    bars = pg.BarGraphItem(
        x=list(places), height=heights, width=width * 0.9, brush=color, pen=pg.mkPen(color), name=series.name
    )
    plot.addItem(bars)
    _draw_spread(plot, places, width * 0.3, LIGHT.text)
    for place, figure in places.items():
        label = pg.TextItem(_short(figure.median), color=LIGHT.text, anchor=(0.5, 1.0))
        label.setFont(_font())
        plot.addItem(label)
        label.setPos(place, figure.most)


def _draw_line(plot: pg.PlotItem, series: Series) -> None:
    places = {float(place): figure for place, figure in enumerate(series.values) if figure is not None}
    color = _color(series)
    plot.plot(
        list(places),
        [figure.median for figure in places.values()],
        pen=pg.mkPen(color, width=2, style=_STYLES[series.style % len(_STYLES)]),
        symbol=_SYMBOLS[series.style % len(_SYMBOLS)],
        symbolSize=8,
        symbolBrush=color,
        symbolPen=pg.mkPen(color),
        useCache=False,  # shapes, not pieces of a pixmap, which an SVG file does not take
        name=series.name,
    )
    _draw_spread(plot, places, 0.03, color)


def _draw_spread(plot: pg.PlotItem, places: dict[float, Figure], beam: float, color: QColor) -> None:
    """From the least to the most measured, at each place."""
    figures = list(places.values())
    if figures:
        medians = np.array([figure.median for figure in figures])
        plot.addItem(
            pg.ErrorBarItem(
                x=np.array(list(places)),
                y=medians,
                top=np.array([figure.most for figure in figures]) - medians,
                bottom=medians - np.array([figure.least for figure in figures]),
                beam=beam,
                pen=pg.mkPen(color, width=1),
            )
        )


def _points(points: float) -> str:
    """A size of text beside the application's own font, as pyqtgraph is told it."""
    return f"{text_points(points):g}pt"


def _font() -> QFont:
    font = QApplication.font()
    font.setPointSizeF(text_points(_LABEL_POINTS))
    return font


def _color(series: Series) -> QColor:
    color = LIGHT.graph[series.color % len(LIGHT.graph)]
    return mix(color, LIGHT.surface, 0.55) if series.pale else color


def _short(value: float) -> str:
    """Three digits that count."""
    return number(value, max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0)


# ---- saving ----------------------------------------------------------------------------------


def _write(view: pg.GraphicsLayoutWidget, path: Path, size: QSize) -> None:
    if path.suffix.lower() == ".svg":
        generator = QSvgGenerator()
        generator.setFileName(str(path))
        generator.setSize(size)
        generator.setResolution(view.logicalDpiX())  # axes are recorded pictures: replayed in another they are moved
        generator.setViewBox(QRect(0, 0, size.width(), size.height()))
        _paint(view, generator, size, path)
        return
    image = QImage(size * SCALE, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(SCALE)
    image.fill(LIGHT.surface)
    _paint(view, image, size, path)
    if not image.save(str(path)):
        raise OSError(f"{path} could not be written")


def _paint(view: pg.GraphicsLayoutWidget, device: QImage | QSvgGenerator, size: QSize, path: Path) -> None:
    painter = QPainter()
    if not painter.begin(device):
        raise OSError(f"{path} could not be written")
    try:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        view.render(painter, QRectF(0, 0, size.width(), size.height()), QRect(0, 0, size.width(), size.height()))
    finally:
        painter.end()
