"""Paints one layer's row: its name, its heat strip, its size, and whether it changed lane."""

from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QEvent, QModelIndex, QPersistentModelIndex, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QBrush, QFontMetrics, QHelpEvent, QPainter, QPen
from PySide6.QtWidgets import (
    QAbstractItemView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QToolTip,
)

from app.ui.lanes.model import BYTES, EXPERTS, LANE, LAYER, LOADED_LANE, UNCOUNTED, LayersModel, heat_of
from app.ui.lanes.strip import SCALE_STEPS, Marks, Palette, StripGrid, strip_grid, strip_image
from app.ui.theme import GRID, Theme, mix
from app.ui.words import in_bytes

Index = QModelIndex | QPersistentModelIndex

PADDING = GRID // 2
MARKER_WIDTH = 3
NARROW_STRIP = 130
"""Pixels: with less room beside the texts the strip goes below them."""
WIDEST_SIZE_TEXT = "888.8 MiB"


@dataclass(frozen=True)
class RowLayout:
    """Where the parts of a row are, relative to the row's corner."""

    label: QRect
    size: QRect
    strip: QPoint
    grid: StripGrid
    height: int


def lay_out_row(width: int, experts: int, widest_layer: str, metrics: QFontMetrics) -> RowLayout:
    """Lay out a row of `width` pixels: on one line, or on two where the strip would be too narrow."""
    left, right = PADDING + MARKER_WIDTH + PADDING, width - PADDING - PADDING
    label_width = metrics.horizontalAdvance(widest_layer) + GRID
    size_width = metrics.horizontalAdvance(WIDEST_SIZE_TEXT)
    line = metrics.height()
    room = right - left - label_width - size_width - GRID
    if room >= NARROW_STRIP:
        grid = strip_grid(experts, room)
        height = max(line, grid.height) + 2 * PADDING
        return RowLayout(
            label=QRect(left, (height - line) // 2, label_width, line),
            size=QRect(right - size_width, (height - line) // 2, size_width, line),
            strip=QPoint(left + label_width, (height - grid.height) // 2),
            grid=grid,
            height=height,
        )
    grid = strip_grid(experts, right - left)
    return RowLayout(
        label=QRect(left, PADDING, right - left - size_width, line),
        size=QRect(right - size_width, PADDING, size_width, line),
        strip=QPoint(left, PADDING + line + 2),
        grid=grid,
        height=PADDING + line + 2 + grid.height + PADDING,
    )


class LayerDelegate(QStyledItemDelegate):
    """Paints the rows of every lane; the tooltip tells about the expert under the pointer."""

    def __init__(self, layers: LayersModel, theme: Theme, view: QAbstractItemView) -> None:
        super().__init__(view)
        self._layers = layers
        self._theme = theme
        self._palette = self._make_palette()
        theme.changed.connect(self._theme_changed)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paint the row."""
        painter.save()
        painter.translate(option.rect.topLeft())
        row = QRect(QPoint(0, 0), option.rect.size())
        layout = self.row_layout(option, index)
        self._paint_background(painter, row, option)
        colors = self._theme.colors
        if index.data(LOADED_LANE) not in (None, index.data(LANE)):
            marker = QRect(PADDING, PADDING, MARKER_WIDTH, row.height() - 2 * PADDING)
            painter.fillRect(marker, colors.accent)
        painter.setFont(option.font)
        painter.setPen(colors.text)
        painter.drawText(layout.label, Qt.AlignmentFlag.AlignVCenter, str(index.data()))
        painter.setPen(colors.muted_text)
        end = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
        painter.drawText(layout.size, end, in_bytes(index.data(BYTES)))
        self._paint_strip(painter, layout, index)
        painter.restore()

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """As wide as the view, as high as the strip needs at that width."""
        return QSize(self._width(option), self.row_layout(option, index).height)

    def helpEvent(self, event: QHelpEvent, view: QAbstractItemView, option: QStyleOptionViewItem, index: Index) -> bool:
        """Tell about the expert under the pointer, or about the layer."""
        if event.type() is not QEvent.Type.ToolTip or not index.isValid():
            return super().helpEvent(event, view, option, index)
        QToolTip.showText(event.globalPos(), self.tip_at(event.pos() - option.rect.topLeft(), option, index))
        return True

    def tip_at(self, point: QPoint, option: QStyleOptionViewItem, index: Index) -> str:
        """The tooltip at a point relative to the row's corner."""
        layout = self.row_layout(option, index)
        expert = layout.grid.expert_at(point - layout.strip)
        layer = index.data(LAYER)
        if expert is None:
            return self._layers.layer_tip(layer)
        return self._layers.expert_tip(layer, expert)

    def _width(self, option: QStyleOptionViewItem) -> int:
        view = option.widget
        return view.viewport().width() if isinstance(view, QAbstractItemView) else option.rect.width()

    def row_layout(self, option: QStyleOptionViewItem, index: Index) -> RowLayout:
        """Where the parts of a row are."""
        widest = self.tr("Layer {layer}").format(layer="88")
        metrics = QFontMetrics(option.font)
        return lay_out_row(self._width(option), index.data(EXPERTS), widest, metrics)

    def _paint_background(self, painter: QPainter, row: QRect, option: QStyleOptionViewItem) -> None:
        colors = self._theme.colors
        state = option.state
        if state & QStyle.StateFlag.State_Selected:
            painter.fillRect(row, mix(colors.surface, colors.accent, 0.16))
        elif state & QStyle.StateFlag.State_MouseOver:
            painter.fillRect(row, mix(colors.surface, colors.raised, 0.6))
        if state & QStyle.StateFlag.State_HasFocus:
            painter.setPen(QPen(colors.accent, 1))
            painter.drawRect(row.adjusted(0, 0, -1, -1))

    def _paint_strip(self, painter: QPainter, layout: RowLayout, index: Index) -> None:
        colors = self._theme.colors
        heat = heat_of(index)
        if heat is not None:
            marks = Marks(heat.experts.lanes, heat.experts.pins, colors.gpu.rgba(), colors.text.rgba())
            painter.drawImage(layout.strip, strip_image(heat.fractions, layout.grid, self._palette, marks))
            return
        area = QRect(layout.strip, QSize(layout.grid.width, layout.grid.height))
        uncounted = index.data(UNCOUNTED)
        if not uncounted:
            painter.fillRect(area, mix(colors.surface, colors.raised, 0.55))
            return
        painter.fillRect(area, QBrush(mix(colors.surface, colors.muted_text, 0.45), Qt.BrushStyle.BDiagPattern))
        metrics = painter.fontMetrics()
        text = metrics.elidedText(uncounted, Qt.TextElideMode.ElideRight, area.width() - 2 * GRID)
        chip = QRect(0, 0, metrics.horizontalAdvance(text) + GRID, min(area.height(), metrics.height()))
        chip.moveCenter(area.center())
        painter.fillRect(chip, colors.surface)
        painter.setPen(colors.muted_text)
        painter.drawText(chip, Qt.AlignmentFlag.AlignCenter, text)

    def _theme_changed(self) -> None:
        self._palette = self._make_palette()

    def _make_palette(self) -> Palette:
        steps = [self._theme.heat_color(step / (SCALE_STEPS - 1)).rgba() for step in range(SCALE_STEPS)]
        return np.array(steps, dtype=np.uint32)
