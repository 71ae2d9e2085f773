"""What lies over the cells of a lane: the keyboard's cell, a rubber band, words of what a drop would do."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QPainter, QPen

from app.ui.lanes.drop_words import Offer
from app.ui.lanes.lane_info import CPU, DISK
from app.ui.lanes.words import translate
from app.ui.theme import GRID, mix

if TYPE_CHECKING:
    from app.ui.lanes.lane_view import LaneView

_SMALLEST_RING = 9
"""Logical pixels: the ring around a tiny cell leaves room to see it."""
_WRAPPED = int(Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap)


def paint_overlay(painter: QPainter, view: "LaneView", band: QRect | None, offer: Offer | None) -> None:
    """Paint all of it."""
    if not view.packing.lines:
        _paint_nothing(painter, view)
    if view.hasFocus() and view.current is not None:
        _paint_ring(painter, view)
    if band is not None:
        _paint_band(painter, view, band)
    if offer is not None:
        _paint_offer(painter, view, offer)


def nothing_text(view: "LaneView") -> str:
    """Why a lane is empty, as far as its header does not say it."""
    if view.lane.note:
        return translate("Lanes", "No experts can lie here.")
    if view.lane.kind == DISK:
        return translate("Lanes", "Main memory has room for every layer that is not on a GPU.")
    if view.lane.kind == CPU and view.state.board.memory.any():
        return translate("Lanes", "No experts are in main memory: they are read when a token needs them.")
    return translate("Lanes", "No experts. Drag some here.")


def _paint_nothing(painter: QPainter, view: "LaneView") -> None:
    painter.setPen(view.theme.colors.muted_text)
    painter.setFont(view.font())
    area = view.viewport().rect().adjusted(GRID, GRID, -GRID, -GRID)
    painter.drawText(area, _WRAPPED, nothing_text(view))


def _paint_ring(painter: QPainter, view: "LaneView") -> None:
    row, expert = view.current
    rect = view.cell_rect(view.state.board.layers[row], expert)
    if rect is None:
        return
    missing = max(_SMALLEST_RING - rect.width(), 0)
    grown = (missing + 1) // 2 + 1
    ring = QRectF(rect.adjusted(-grown, -grown, grown, grown))
    colors = view.theme.colors
    painter.save()
    painter.setClipRect(view.viewport().rect().adjusted(view.header_width - 3, 0, 0, 0))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for color, width in ((colors.surface, 5.0), (colors.accent, 2.5)):
        painter.setPen(QPen(color, width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap, Qt.PenJoinStyle.MiterJoin))
        painter.drawRect(ring)
    painter.restore()


def _paint_band(painter: QPainter, view: "LaneView", band: QRect) -> None:
    accent = view.theme.colors.accent
    inside = view.theme.colors.accent.toRgb()
    inside.setAlpha(40)
    painter.fillRect(band, inside)
    painter.setPen(QPen(accent, 1))
    painter.drawRect(band.adjusted(0, 0, -1, -1))


def offer_strip(view: "LaneView", offer: Offer) -> QRect:
    """Where in the viewport the words of an offer are, with what is around them."""
    area = view.viewport().rect()
    width = area.width() - 4 * GRID
    words = view.fontMetrics().boundingRect(QRect(0, 0, max(width, 1), 1000), _WRAPPED, offer.text)
    strip = QRect(0, 0, min(words.width() + 2 * GRID, area.width() - 2 * GRID), words.height() + GRID)
    strip.moveCenter(area.center())
    strip.moveBottom(area.bottom() - GRID)
    return strip


def _paint_offer(painter: QPainter, view: "LaneView", offer: Offer) -> None:
    """A frame and a strip with words; a refusal is dashed, so that colour alone does not tell it."""
    colors = view.theme.colors
    color = getattr(colors, view.lane.kind) if offer.taken else colors.error
    area = view.viewport().rect()
    pen = QPen(color, 3, Qt.PenStyle.SolidLine if offer.taken else Qt.PenStyle.DashLine)
    painter.setPen(pen)
    painter.drawRect(area.adjusted(1, 1, -2, -2))
    painter.setFont(view.font())
    strip = offer_strip(view, offer)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setBrush(mix(colors.surface, color, 0.12))
    painter.setPen(QPen(color, 1.5))
    painter.drawRoundedRect(QRectF(strip).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)
    painter.setPen(colors.text)
    painter.drawText(strip.adjusted(GRID // 2, 0, -GRID // 2, 0), _WRAPPED, offer.text)
