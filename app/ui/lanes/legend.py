"""The legend: which colour means which share of a layer's routings, and what the shapes on experts mean."""

import math

from PySide6.QtCore import QPoint, QRect, QSize
from PySide6.QtGui import QBrush, QLinearGradient, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QWidget

from app.ui.lanes.flow_layout import FlowLayout
from app.ui.lanes.words import percent
from app.ui.theme import GRID, Theme, set_role
from app.ui.widgets import ElidedLabel

SCALE_WIDTH = 72
SCALE_HEIGHT = 10
GRADIENT_STOPS = 8


class HeatLegend(QWidget):
    """The colour scale between "never" and the hottest expert, or why there is none, and the pins' shapes."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._scale = _Scale(theme, self)
        self._start = QLabel(self.tr("Routed 0 %"), self)
        self._end = QLabel(self)
        self._words = ElidedLabel("", self)
        # A reason may be a long sentence: it does not make the dock wider, which would not become narrower again.
        self._words.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        self._words.setMinimumWidth(4 * GRID)
        shapes = (
            (self.tr("▲ kept on GPU"), self.tr("▲: you keep this expert on the GPU")),
            (self.tr("■ kept on CPU"), self.tr("■: you keep this expert on the CPU")),
            (self.tr("dashed: being copied"), self.tr("dashed: on its way to the pool")),
            (self.tr("hatched: not counted"), self.tr("hatched: its routings are not counted")),
        )
        self._shapes = tuple(QLabel(short, self) for short, _long in shapes)
        self._shape_words = ". ".join(long for _short, long in shapes)
        heat = QWidget(self)
        row = QHBoxLayout(heat)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GRID - 2)
        for label in (self._start, self._end, self._words, *self._shapes):
            set_role(label, "small")
        for widget in (self._start, self._scale, self._end, self._words):
            row.addWidget(widget)
        flow = FlowLayout(self, spacing=GRID)
        for widget in (heat, *self._shapes):
            flow.addWidget(widget)
        self.show_heat(0.0, 0.0, "")

    def show_heat(self, hottest: float, even: float, why_none: str) -> None:
        """Show the scale, or `why_none` while nothing was counted.

        Args:
            hottest: The largest share that any expert has of its layer's routings, 0 to 1; 0 for nothing counted.
            even: What each would have if routing were even.
            why_none: Why nothing was counted.
        """
        shapes = self._shape_words
        lanes = self.tr(
            "Every expert is in the lane that computes it: a column for each GPU, the CPU and the disk. Of experts "
            "that stay in the file, the CPU has those in main memory and the disk the others."
        )
        words = why_none
        if hottest > 0:
            self._words.setText(self.tr("(even: {even} %)").format(even=percent(even)))
            self._end.setText(self.tr("{hottest} %").format(hottest=percent(hottest)))
            self._scale.show_mark(math.log1p(1) / math.log1p(hottest / even))
            words = self.tr(
                "Logarithmic scale, answers since the load. The hottest expert gets {hottest} % of its "
                "layer's routings; the mark is the even share, {even} %."
            ).format(hottest=percent(hottest), even=percent(even))
        else:
            self._words.setText(why_none)
        for widget in (self._start, self._scale, self._end):
            widget.setVisible(hottest > 0)
        self.setToolTip(f"{words}\n{lanes}\n{shapes}.")
        self.setAccessibleName(f"{words} {lanes} {shapes}")

    def set_compact(self, compact: bool) -> None:
        """Leave the shapes to the tooltip."""
        for label in self._shapes:
            label.setVisible(not compact)

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
