"""What the mouse does in a lane: clicks and rubber bands select, a drag carries experts or whole layers."""

from enum import Enum, auto
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QMimeData, QObject, QPoint, QRect, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QApplication

from app.ui.lanes.board import Change, Mask
from app.ui.lanes.lane_chip import drag_with_chip, experts_chip_text, layers_chip_text
from app.ui.lanes.lane_layout import CARD
from app.ui.lanes.lane_scroll import EdgeScroll
from app.ui.lanes.mime import Dragged, pack, pack_cells
from app.ui.lanes.packing import EMPTY

if TYPE_CHECKING:
    from app.ui.lanes.lane_view import LaneView, Place

_SHIFT, _CTRL = Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.ControlModifier


class _Begun(Enum):
    """What a press may become when the pointer moves."""

    NOTHING = auto()
    BAND = auto()
    CELLS = auto()
    LAYERS = auto()


class LaneMouse(QObject):
    """The mouse in one lane.

    A press on a selected cell, or on any card, may become a drag; a press elsewhere a rubber band. With Shift or
    Ctrl it is always a rubber band, which adds to the selection or turns it round.
    """

    def __init__(self, view: "LaneView") -> None:
        super().__init__(view)
        self._view = view
        self._begun = _Begun.NOTHING
        self._pressed = QPoint()
        self._origin = (0, 0)
        self._pointer = QPoint()
        self._banding = False
        self._base: Mask | None = None
        self._modifiers = Qt.KeyboardModifier.NoModifier
        self._layers: tuple[int, ...] = ()
        self._lone: Place | None = None
        self.anchor: Place | None = None
        self._scroll = EdgeScroll(view)
        self._scroll.scrolled.connect(self._select_band)

    @property
    def banding(self) -> bool:
        """True while a rubber band is drawn."""
        return self._banding

    def band(self) -> QRect | None:
        """The rubber band in the viewport, or None."""
        if not self._banding:
            return None
        view = self._view
        now = view.content_point(QPoint(0, 0))
        ratio = view.ratio
        x, y = (round((start - shift) / ratio) for start, shift in zip(self._origin, now, strict=True))
        return QRect(QPoint(x, y), self._pointer).normalized().intersected(view.viewport().rect())

    def forget_if_rebuilt(self, change: Change) -> None:
        """Where no cell is the one it was, a rubber band and an anchor mean nothing any more."""
        if change.rebuilt:
            self.cancel()
            self.anchor = None

    def cancel(self) -> bool:
        """End a rubber band and select what was selected before; False if there is none."""
        banding, base = self._banding, self._base
        self._end()
        if banding and base is not None and base.shape == self._view.state.board.lane.shape:
            self._view.state.selection.set(base)
        return banding

    def press(self, event: QMouseEvent) -> None:
        """A button went down."""
        if event.button() is not Qt.MouseButton.LeftButton:
            event.ignore()
            return
        view, point = self._view, event.position().toPoint()
        self._end()
        self._pressed = self._pointer = point
        self._modifiers = event.modifiers()
        if view.in_header(point):
            self._press_header(point)
        else:
            self._press_cell(point)

    def move(self, event: QMouseEvent) -> None:
        """The pointer moved."""
        if not event.buttons():
            self._show_what_a_drag_takes(event.position().toPoint())
        if not event.buttons() & Qt.MouseButton.LeftButton or self._begun is _Begun.NOTHING:
            return
        self._pointer = event.position().toPoint()
        far = (self._pointer - self._pressed).manhattanLength() >= QApplication.startDragDistance()
        if self._begun is _Begun.BAND and (far or self._banding):
            self._banding = True
            self._scroll.follow(self._pointer)
            self._select_band()
        elif far and self._begun is _Begun.CELLS:
            self._drag_cells()
        elif far and self._begun is _Begun.LAYERS:
            self._drag_layers()

    def release(self, event: QMouseEvent) -> None:
        """A button went up: a click on one of several selected cells or layers selects it alone."""
        if event.button() is not Qt.MouseButton.LeftButton:
            event.ignore()
            return
        lone = self._lone
        self._end()
        if lone is not None and lone.shape == self._view.state.board.lane.shape:
            self._view.state.selection.set(lone)

    def select_for_menu(self, point: QPoint) -> None:
        """A menu is asked for at a point: it is for the selection, or for what is there if that is not selected."""
        view, selection = self._view, self._view.state.selection
        place = view.cell_at(point)
        if place is not None:
            if not selection.mask[place]:
                selection.set(self._one(place))
            view.set_current(place)
            self.anchor = place
        elif view.in_header(point) and (row := view.row_at(point)) is not None:
            its = self.row_mask(row, row)
            if not (selection.mask & its).any():
                selection.set(its)

    def _show_what_a_drag_takes(self, point: QPoint) -> None:
        """An open hand where a press may become a drag."""
        view = self._view
        place = view.cell_at(point)
        if view.in_header(point):
            draggable = view.row_at(point) is not None
        else:
            draggable = place is not None and (view.pitch >= CARD or bool(view.state.selection.mask[place]))
        shape = Qt.CursorShape.OpenHandCursor if draggable else Qt.CursorShape.ArrowCursor
        if view.viewport().cursor().shape() != shape:
            view.viewport().setCursor(shape)

    # ---- masks --------------------------------------------------------------------------------

    def row_mask(self, first: int, last: int) -> Mask:
        """The cells here of the rows between two, both included."""
        rows = np.arange(self._view.state.board.rows)
        here = self._view.state.board.on(self._view.lane.key)
        return here & ((rows >= min(first, last)) & (rows <= max(first, last)))[:, None]

    def block(self, first: "Place", last: "Place") -> Mask:
        """The cells here between two: of the layers from one to the other, the experts from one to the other."""
        experts = np.arange(self._view.state.board.experts)
        low, high = sorted((first[1], last[1]))
        return self.row_mask(first[0], last[0]) & ((experts >= low) & (experts <= high))[None, :]

    def _one(self, place: "Place") -> Mask:
        mask = np.zeros(self._view.state.board.lane.shape, bool)
        mask[place] = True
        return mask

    # ---- presses ------------------------------------------------------------------------------

    def _press_cell(self, point: QPoint) -> None:
        view, selection = self._view, self._view.state.selection
        place = view.cell_at(point)
        self._base = selection.mask.copy()
        self._origin = view.content_point(point)
        self._begun = _Begun.BAND
        if place is None:
            if not self._modifiers & (_SHIFT | _CTRL):
                selection.clear()
                self._base = selection.mask.copy()
            return
        view.set_current(place)
        if self._modifiers & _SHIFT:
            block = self.block(self.anchor or place, place)
            if self._modifiers & _CTRL:
                selection.add(block)
            else:
                selection.set(block)
            return
        self.anchor = place
        if self._modifiers & _CTRL:
            selection.toggle(self._one(place))
            return
        if selection.mask[place]:
            self._begun, self._lone = _Begun.CELLS, self._one(place)
        else:
            self._base = np.zeros_like(self._base)
            selection.set(self._one(place))
            if view.pitch >= CARD:
                self._begun = _Begun.CELLS

    def _press_header(self, point: QPoint) -> None:
        view, selection = self._view, self._view.state.selection
        row = view.row_at(point)
        if row is None:
            return
        its = self.row_mask(row, row)
        if self._modifiers & _SHIFT and self.anchor is not None:
            selection.set(self.row_mask(self.anchor[0], row))
        elif self._modifiers & _CTRL:
            # Wholly selected rows are no longer, others are wholly.
            if (selection.mask & its).sum() == its.sum():
                selection.set(selection.mask & ~its)
            else:
                selection.add(its)
        elif not selection.mask[its].all():
            selection.set(its)
        elif not self._modifiers & _SHIFT:
            self._lone = its
        first = (row, int(np.flatnonzero(its[row])[0]))
        if not self._modifiers & _SHIFT or self.anchor is None:
            self.anchor = first
        view.set_current(first)
        self._begun = _Begun.LAYERS
        self._layers = self._dragged_layers(row)

    def _dragged_layers(self, row: int) -> tuple[int, ...]:
        """The layers that are wholly selected here, if this one is; else this one alone."""
        board = self._view.state.board
        here, selected = board.on(self._view.lane.key), self._view.state.selection.mask
        whole = here.any(axis=1) & ~(here & ~selected).any(axis=1)
        rows = np.flatnonzero(whole) if whole[row] else np.array([row])
        return tuple(board.layers[its] for its in rows)

    # ---- what a press became ------------------------------------------------------------------

    def _select_band(self) -> None:
        view, selection = self._view, self._view.state.selection
        if not self._banding or self._base is None:
            return
        view.viewport().update()
        mask = self._in_band()
        if self._modifiers & _CTRL:
            mask = self._base ^ mask
        elif self._modifiers & _SHIFT:
            mask = self._base | mask
        selection.set(mask)

    def _in_band(self) -> Mask:
        """The cells that the rubber band touches."""
        view = self._view
        packing, cell = view.packing, view.grid.cell
        end = view.content_point(self._pointer)
        left, right = sorted((self._origin[0], end[0]))
        top, bottom = sorted((self._origin[1], end[1]))
        lines, columns = np.nonzero(packing.table != EMPTY)
        lefts, tops = view.panes.corners(lines, columns)
        touched = (lefts <= right) & (lefts + cell > left) & (tops <= bottom) & (tops + cell > top)
        mask = np.zeros(packing.shape, bool)
        mask[packing.rows[lines[touched]], packing.table[lines[touched], columns[touched]]] = True
        return mask

    def _drag_cells(self) -> None:
        view, selection = self._view, self._view.state.selection
        self._end()
        if not selection.count:
            return
        text = experts_chip_text(selection.count, selection.bytes)
        self._drag(pack_cells(view.state.board.model, selection.cells()), text)

    def _drag_layers(self) -> None:
        view, layers = self._view, self._layers
        self._end()
        board = view.state.board
        size = sum(int(board.expert_bytes[board.row_of(layer)]) * board.experts for layer in layers)
        self._drag(pack(Dragged(model=board.model, layers=layers)), layers_chip_text(len(layers), size))

    def _drag(self, data: QMimeData, text: str) -> None:
        view = self._view
        view.dragging = True
        try:
            drag_with_chip(view, data, text, view.theme)
        finally:
            view.dragging = False
        view.drag_ended.emit()

    def _end(self) -> None:
        self._begun = _Begun.NOTHING
        self._lone = None
        self._base = None
        self._scroll.stop()
        if self._banding:
            self._banding = False
            self._view.viewport().update()
