"""The heat legend: which colour means which share of a layer's routings."""

import math

from PySide6.QtCore import QPoint, QRect, QSize
from PySide6.QtGui import QBrush, QLinearGradient, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from app.ui.lanes.heat import HeatMap
from app.ui.lanes.words import percent
from app.ui.theme import GRID, Theme, set_role
from app.ui.widgets import ElidedLabel

SCALE_WIDTH = 72
SCALE_HEIGHT = 10
GRADIENT_STOPS = 8


class HeatLegend(QWidget):
    """The colour scale between "never" and the hottest expert, or why there is none."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._scale = _Scale(theme, self)
        self._start = QLabel(self.tr("Routed 0 %"), self)
        self._end = QLabel(self)
        self._words = ElidedLabel("", self)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID - 2)
        for label in (self._start, self._end, self._words):
            set_role(label, "small")
        for widget in (self._start, self._scale, self._end):
            row.addWidget(widget)
        row.addWidget(self._words, 1)
        self.show_heat(HeatMap(), "")

    def show_heat(self, heat: HeatMap, why_none: str) -> None:
        """Show the scale of `heat`, or `why_none` while nothing was counted."""
        for widget in (self._start, self._scale, self._end):
            widget.setVisible(not heat.is_empty)
        if heat.is_empty:
            self._words.setText(why_none)
            self.setToolTip(why_none)
            self.setAccessibleName(why_none)
            return
        key = self.tr("(even: {even} %)").format(even=percent(heat.even_share))
        if heat.has_pool:
            key += self.tr(" · underlined: in the GPU pool")
        self._words.setText(key)
        self._end.setText(self.tr("{hottest} %").format(hottest=percent(heat.hottest_share)))
        experts = 1 / heat.even_share
        self._scale.show_mark(math.log1p(1) / math.log1p(heat.hottest_share * experts))
        words = self.tr(
            "Logarithmic scale, answers since the load. The hottest expert gets {hottest} % of its "
            "layer's routings; the mark is the even share, {even} %."
        ).format(hottest=percent(heat.hottest_share), even=percent(heat.even_share))
        words += "\n" + self.tr(
            "Underlined experts are in the GPU pool, half underlined ones are being copied there. Overlined: you "
            "keep it on the GPU; half overlined: on the CPU."
        )
        self.setToolTip(words)
        self.setAccessibleName(words)

    @property
    def text(self) -> str:
        """What a screen reader hears."""
        return self.accessibleName()


class _Scale(QWidget):
    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._mark = 0.0
        self.setFixedSize(SCALE_WIDTH, SCALE_HEIGHT + 4)
        theme.changed.connect(self.update)

    def show_mark(self, fraction: float) -> None:
        """Mark a place on the scale, 0 to 1."""
        self._mark = fraction
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint it."""
        bar = QRect(0, 2, SCALE_WIDTH, SCALE_HEIGHT)
        gradient = QLinearGradient(bar.topLeft(), bar.topRight())
        for stop in range(GRADIENT_STOPS + 1):
            place = stop / GRADIENT_STOPS
            gradient.setColorAt(place, self._theme.heat_color(place))
        painter = QPainter(self)
        painter.fillRect(bar, QBrush(gradient))
        mark = QRect(QPoint(0, 0), QSize(2, self.height()))
        mark.moveLeft(round(self._mark * (SCALE_WIDTH - 2)))
        painter.fillRect(mark, self._theme.colors.text)
        painter.end()
