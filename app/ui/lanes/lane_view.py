"""One lane of the board under the hands: tips, clicks, keys and drags; what each does is beside it."""

import math

from PySide6.QtCore import QEvent, QPoint, QRect, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QFocusEvent,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QNativeGestureEvent,
    QPainter,
    QWheelEvent,
)
from PySide6.QtWidgets import QApplication, QToolTip, QWidget

from app.ui.announce import say
from app.ui.lanes import lane_words
from app.ui.lanes.board import Change
from app.ui.lanes.board_state import BoardState
from app.ui.lanes.lane_area import WHEEL_FACTOR, LaneArea
from app.ui.lanes.lane_drops import LaneDrops
from app.ui.lanes.lane_info import LaneInfo
from app.ui.lanes.lane_keys import LaneKeys
from app.ui.lanes.lane_mouse import LaneMouse
from app.ui.lanes.lane_overlay import paint_overlay
from app.ui.theme import Theme

_NOTCH = 120
_LEAST_PINCH = 0.1
"""The smallest part of its size that one event of a pinch leaves."""


class LaneView(LaneArea):
    """A lane that can be selected in, dragged from and dropped on.

    Attributes:
        dragging: True while something is dragged from here: the view must live until that is over.

    Signals:
        cells_wanted: Single experts were dropped here (Cells, lane).
        layers_wanted: Whole layers were dropped here (tuple of layer indices, lane).
        menu_wanted: The menu of the selection is asked for (place on the screen).
        pin_wanted: The selected experts are to be kept: "gpu", "cpu" or "auto".
        step_wanted: The selected experts are to go to the lane before (-1) or after (1) this one.
        drag_over: These experts hang above the lane (Cells), or none do any more (None).
        layers_over: These layers hang above the lane (tuple), or none do any more (empty).
        drag_ended: A drag that began here is over, wherever it ended.
    """

    cells_wanted = Signal(object, str)
    layers_wanted = Signal(tuple, str)
    menu_wanted = Signal(QPoint)
    pin_wanted = Signal(str)
    step_wanted = Signal(int)
    drag_over = Signal(object)
    layers_over = Signal(tuple)
    drag_ended = Signal()

    def __init__(self, state: BoardState, lane: LaneInfo, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(state, lane, theme, parent)
        self.dragging = False
        self.mouse = LaneMouse(self)
        self._keys = LaneKeys(self, self.mouse)
        self.drops = LaneDrops(self)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAcceptDrops(True)
        self.viewport().setMouseTracking(True)
        self.setWhatsThis(lane_words.keys_text())
        self.setAccessibleDescription(lane_words.keys_text())

    def take(self, change: Change) -> None:
        """The board changed: show it. A change that was taken already changes nothing."""
        self.mouse.forget_if_rebuilt(change)
        super().take(change)

    def say_current(self) -> None:
        """Read out the cell that the keyboard is at."""
        if self.current is not None:
            chosen = self.tr("Selected.") if self.state.selection.mask[self.current] else self.tr("Not selected.")
            say(self, f"{self.accessibleDescription()} {chosen}")

    def paint_over(self, painter: QPainter) -> None:
        """The current cell, a rubber band, what a drop would do."""
        paint_overlay(painter, self, self.mouse.band(), self.drops.offer)

    # ---- tips and menus -----------------------------------------------------------------------

    def event(self, event: QEvent) -> bool:
        """Keep this view's keys from the window's shortcuts."""
        if event.type() is QEvent.Type.ShortcutOverride and self._keys.wants(event):
            event.accept()
            return True
        return super().event(event)

    def viewportEvent(self, event: QEvent) -> bool:
        """Tips tell of the cell or the layer under the pointer; two fingers on a touchpad zoom about it."""
        if isinstance(event, QNativeGestureEvent) and event.gestureType() is Qt.NativeGestureType.ZoomNativeGesture:
            # What is told is how much larger it is since the last event: 0.1 for a tenth.
            notches = math.log(max(1 + event.value(), _LEAST_PINCH)) / math.log(WHEEL_FACTOR)
            self.zoom_by(notches, event.position().toPoint())
            event.accept()
            return True
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            # It goes when the pointer leaves what it tells of.
            QToolTip.showText(event.globalPos(), self.tip_at(event.pos()), self.viewport(), self._told_of(event.pos()))
            return True
        return super().viewportEvent(event)

    def tip_at(self, point: QPoint) -> str:
        """What is told of a point of the viewport; empty where nothing is."""
        state, board = self.state, self.state.board
        row = self.row_at(point)
        if self.in_header(point):
            if row is None:
                return ""
            return lane_words.layer_tip(board, self.packing, row, self.lane, state.loaded_report)
        place = self.cell_at(point)
        return lane_words.cell_tip(board, place, state.loaded_report) if place is not None else ""

    def _told_of(self, point: QPoint) -> QRect:
        """The place in the viewport that a tip at a point is about."""
        row, place = self.row_at(point), self.cell_at(point)
        layers = self.state.board.layers
        if place is not None:
            return self.cell_rect(layers[place[0]], place[1]) or QRect()
        if row is None or not self.in_header(point):
            return QRect()
        first = self.cell_rect(layers[row], int(self.packing.order[row][0]))
        line = self.packing.line_of(row) or 0
        height = self.grid.line_height(line) / self.ratio
        left = self.panes.names_left(line) / self.ratio
        return QRect(round(left), first.top(), self.header_width, round(height)) if first is not None else QRect()

    # ---- events of mouse, keys and drags -------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Select, or begin a rubber band or a drag."""
        self.mouse.press(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Draw the rubber band, or drag."""
        self.mouse.move(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End what was begun."""
        self.mouse.release(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scroll; with Ctrl, zoom about the pointer."""
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.zoom_by(event.angleDelta().y() / _NOTCH, event.position().toPoint())
            event.accept()
        elif event.modifiers() & Qt.KeyboardModifier.ShiftModifier and not event.angleDelta().x():
            bar = self.horizontalScrollBar()
            bar.setValue(bar.value() - round(event.angleDelta().y() / _NOTCH * 3 * bar.singleStep()))
            event.accept()
        else:
            super().wheelEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Move, select, zoom, order."""
        if not self._keys.press(event):
            event.ignore()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Ask for the menu of the selection, which then has what was clicked."""
        if event.reason() is QContextMenuEvent.Reason.Keyboard:
            self.ask_menu()
        else:
            self.mouse.select_for_menu(event.pos())
            self._ask_menu_at(event.globalPos())
        event.accept()

    def ask_menu(self) -> None:
        """Ask for the menu at the current cell."""
        inside = self.viewport().rect()
        rect = None
        if self.current is not None:
            row, expert = self.current
            rect = self.cell_rect(self.state.board.layers[row], expert)
        point = rect.center() if rect is not None and inside.contains(rect.center()) else inside.center()
        self._ask_menu_at(self.viewport().mapToGlobal(point))

    def _ask_menu_at(self, place: QPoint) -> None:
        # A menu key can come as a key and as the wish for a menu.
        if QApplication.activePopupWidget() is None:
            self.menu_wanted.emit(place)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Say what a drop would do."""
        self.drops.enter(event)

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        """As on entering; scroll near the edges."""
        self.drops.move(event)

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        """The drag went elsewhere."""
        self.drops.leave(event)

    def dropEvent(self, event: QDropEvent) -> None:
        """Ask for what was dropped."""
        self.drops.drop(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show where the keyboard is."""
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """The keyboard is elsewhere."""
        super().focusOutEvent(event)
        self.viewport().update()
