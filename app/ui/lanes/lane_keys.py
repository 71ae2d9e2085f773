"""What the keys do in a lane: move, select, zoom, and order where experts are kept."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent

if TYPE_CHECKING:
    from app.ui.lanes.lane_mouse import LaneMouse
    from app.ui.lanes.lane_view import LaneView, Place

_KEY = Qt.Key
_STEPS = {_KEY.Key_Left: -1, _KEY.Key_Up: -1, _KEY.Key_Right: 1, _KEY.Key_Down: 1}
_PINS = {_KEY.Key_G: "gpu", _KEY.Key_C: "cpu", _KEY.Key_A: "auto"}
_ZOOMS = {_KEY.Key_Plus: 1, _KEY.Key_Equal: 1, _KEY.Key_Minus: -1, _KEY.Key_0: 0}
_MOVES = (
    _KEY.Key_Left,
    _KEY.Key_Right,
    _KEY.Key_Up,
    _KEY.Key_Down,
    _KEY.Key_Home,
    _KEY.Key_End,
    _KEY.Key_PageUp,
    _KEY.Key_PageDown,
)
_ALT, _CTRL = Qt.KeyboardModifier.AltModifier, Qt.KeyboardModifier.ControlModifier
_SHIFT, _NONE = Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.NoModifier


class LaneKeys(QObject):
    """The keyboard in one lane: arrows move the current cell and leave the selection alone, Shift extends it."""

    def __init__(self, view: "LaneView", mouse: "LaneMouse") -> None:
        super().__init__(view)
        self._view = view
        self._mouse = mouse

    def wants(self, event: QEvent) -> bool:
        """Whether a key is one of this view's, so that no shortcut of the window may take it."""
        if not isinstance(event, QKeyEvent):
            return False
        key, held = _KEY(event.key()), _held(event)
        if held == _ALT:
            return key in _STEPS
        if held == _CTRL:
            return key in _ZOOMS or key in (_KEY.Key_A, _KEY.Key_Home, _KEY.Key_End)
        if held in (_NONE, _SHIFT) and key in (*_MOVES, *_ZOOMS, _KEY.Key_Space):
            return True
        return held == _NONE and key in _PINS

    def press(self, event: QKeyEvent) -> bool:
        """A key went down; False if it means nothing here."""
        key, held = _KEY(event.key()), _held(event)
        if held == _ALT and key in _STEPS:
            self._order(lambda: self._view.step_wanted.emit(_STEPS[key]))
        elif held & ~(_SHIFT | _CTRL) == _NONE and key in _MOVES:
            self._move(key, shift=bool(held & _SHIFT), ctrl=bool(held & _CTRL))
        elif key in _ZOOMS and held in (_NONE, _SHIFT, _CTRL, _CTRL | _SHIFT):
            self._zoom(_ZOOMS[key])
        elif held == _CTRL and key == _KEY.Key_A:
            self._view.state.selection.set(self._view.state.board.on(self._view.lane.key))
        elif held == _NONE and key in _PINS:
            self._order(lambda: self._view.pin_wanted.emit(_PINS[key]))
        elif held in (_NONE, _CTRL) and key == _KEY.Key_Space:
            self._toggle()
        elif (held == _NONE and key == _KEY.Key_Menu) or (held == _SHIFT and key == _KEY.Key_F10):
            self._view.ask_menu()
        elif held == _NONE and key == _KEY.Key_Escape:
            return self._escape()
        else:
            return False
        return True

    # ---- inside -------------------------------------------------------------------------------

    def _order(self, tell: Callable[[], None]) -> None:
        """Orders are for the selection; where nothing is selected, for the current cell."""
        selection, current = self._view.state.selection, self._view.current
        if not selection.count and current is not None:
            selection.set(self._mouse.block(current, current))
        if selection.count:
            tell()

    def _zoom(self, direction: int) -> None:
        view = self._view
        if not direction:
            view.set_zoom(0.0)
            return
        anchor = None
        if view.current is not None:
            row, expert = view.current
            rect = view.cell_rect(view.state.board.layers[row], expert)
            if rect is not None and view.viewport().rect().contains(rect.center()):
                anchor = rect.center()
        view.zoom_by(2 * direction, anchor)

    def _toggle(self) -> None:
        current = self._view.current
        if current is not None:
            self._mouse.anchor = current
            self._view.state.selection.toggle(self._mouse.block(current, current))
            self._view.say_current()

    def _escape(self) -> bool:
        if self._mouse.cancel():
            return True
        if self._view.state.selection.count:
            self._view.state.selection.clear()
            return True
        return False

    def _move(self, key: Qt.Key, *, shift: bool, ctrl: bool) -> None:
        view = self._view
        if not view.packing.lines:
            return
        start = view.current
        place = self._target(start, key, ctrl=ctrl) if start is not None else self._first_seen()
        if place is None:
            return
        if shift:
            if self._mouse.anchor is None or start is None:
                self._mouse.anchor = start or place
            view.state.selection.set(self._mouse.block(self._mouse.anchor, place))
        else:
            self._mouse.anchor = place
        view.set_current(place)
        view.say_current()

    def _first_seen(self) -> "Place | None":
        """The first cell on screen."""
        view = self._view
        window, grid, packing = view.window(), view.grid, view.packing
        line, _ = grid.lines_between(window.top, window.top + window.height)
        column = min(max(window.left + window.header, 0) // grid.pitch, int(packing.counts[line]) - 1)
        return packing.cell_at(line, column)

    def _target(self, start: "Place", key: Qt.Key, *, ctrl: bool) -> "Place | None":
        """The cell that a key leads to from another."""
        packing = self._view.packing
        where = packing.place_of(*start)
        if where is None:
            return self._first_seen()
        line, column = where
        last_line, last_column = packing.lines - 1, int(packing.counts[line]) - 1
        if key in (_KEY.Key_Left, _KEY.Key_Right):
            column += _STEPS[key]
            if column < 0 and line > 0:
                line, column = line - 1, int(packing.counts[line - 1]) - 1
            elif column > last_column and line < last_line:
                line, column = line + 1, 0
        elif key == _KEY.Key_Home:
            line, column = (0 if ctrl else line), 0
        elif key == _KEY.Key_End:
            line = last_line if ctrl else line
            column = int(packing.counts[line]) - 1
        else:
            line, column = self._strips_away(line, column, self._strips(key))
        line = min(max(line, 0), last_line)
        return packing.cell_at(line, min(max(column, 0), int(packing.counts[line]) - 1))

    def _strips(self, key: Qt.Key) -> int:
        """How many strips down a key leads."""
        if key in _STEPS:
            return _STEPS[key]
        view = self._view
        page = max(round(view.viewport().height() * view.ratio) // view.grid.pitch - 1, 1)
        return page if key == _KEY.Key_PageDown else -page

    def _strips_away(self, line: int, column: int, steps: int) -> tuple[int, int]:
        """The place so many strips below, at the same distance from the left."""
        grid = self._view.grid
        fold, across = divmod(column, grid.fold)
        strip = min(max(int(grid.starts[line]) + fold + steps, 0), len(grid.strip_tops) - 1)
        line = int(grid.line_of_strip[strip])
        return line, (strip - int(grid.starts[line])) * grid.fold + across


def _held(event: QKeyEvent) -> Qt.KeyboardModifier:
    return event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
