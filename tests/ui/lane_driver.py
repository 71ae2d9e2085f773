"""One lane's view for the tests, and hands for it."""

from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import (
    QContextMenuEvent,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QMouseEvent,
    QNativeGestureEvent,
    QPointingDevice,
    QWheelEvent,
)
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from told_board import told_state

from app.ui.lanes.lane_view import LaneView

MOVE, LEFT_BUTTON, NONE = Qt.DropAction.MoveAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
CTRL, SHIFT, ALT = (
    Qt.KeyboardModifier.ControlModifier,
    Qt.KeyboardModifier.ShiftModifier,
    Qt.KeyboardModifier.AltModifier,
)


def shown_view(qtbot, controller, theme, lane="CPU", *, state=None, size=(500, 400), zoom=20.0):
    """The view of a lane in a window of its own, with cells of `zoom` pixels."""
    state = state or told_state(controller)
    info = next(its for its in state.lanes if its.key == lane)
    view = LaneView(state, info, theme)
    qtbot.addWidget(view)
    view.resize(*size)
    view.show()
    view.set_zoom(zoom)
    view.horizontalScrollBar().setValue(0)
    view.verticalScrollBar().setValue(0)
    view.activateWindow()
    view.setFocus()
    QApplication.processEvents()
    return view


def picture(view):
    """What is on screen."""
    return view.viewport().grab().toImage()


def place(view, layer, expert):
    """The middle of a cell in the viewport."""
    return view.cell_rect(layer, expert).center()


def header(view, layer):
    """The middle of a layer's name."""
    row = view.state.board.row_of(layer)
    first = int(view.packing.order[row][0])
    left = round(view.panes.names_left(view.packing.line_of(row)) / view.ratio)
    return QPoint(left + view.header_width // 2, view.cell_rect(layer, first).center().y())


def click(view, point, modifiers=NONE):
    QTest.mouseClick(view.viewport(), LEFT_BUTTON, modifiers, point)


def press(view, point, modifiers=NONE):
    QTest.mousePress(view.viewport(), LEFT_BUTTON, modifiers, point)


def release(view, point, modifiers=NONE):
    QTest.mouseRelease(view.viewport(), LEFT_BUTTON, modifiers, point)


def move(view, point):
    """The pointer moves with the left button held."""

    where = QPointF(point)
    event = QMouseEvent(
        QMouseEvent.Type.MouseMove,
        where,
        view.viewport().mapToGlobal(where),
        Qt.MouseButton.NoButton,
        LEFT_BUTTON,
        NONE,
    )
    QApplication.sendEvent(view.viewport(), event)


def pull(view, start, end, modifiers=NONE):
    """Press, move in steps, and let go."""
    press(view, start, modifiers)
    for step in range(1, 6):
        move(view, start + (end - start) * step / 5)
    release(view, end, modifiers)


def key(view, *keys, modifiers=NONE):
    for its in keys:
        QTest.keyClick(view, its, modifiers)


def wheel(view, notches, modifiers=NONE, point=None):
    where = QPointF(point or view.viewport().rect().center())
    event = QWheelEvent(
        where,
        view.viewport().mapToGlobal(where),
        QPoint(0, 0),
        QPoint(0, round(120 * notches)),
        Qt.MouseButton.NoButton,
        modifiers,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(view.viewport(), event)


def pinch(view, larger, point=None):
    """Two fingers on a touchpad make what is under them so much larger, 0.1 for a tenth."""
    where = QPointF(point or view.viewport().rect().center())
    event = QNativeGestureEvent(
        Qt.NativeGestureType.ZoomNativeGesture,
        QPointingDevice.primaryPointingDevice(),
        2,
        where,
        where,
        view.viewport().mapToGlobal(where),
        larger,
        QPointF(),
    )
    QApplication.sendEvent(view.viewport(), event)


def menu_event(view, point, reason=QContextMenuEvent.Reason.Mouse):
    event = QContextMenuEvent(reason, point, view.viewport().mapToGlobal(point))
    QApplication.sendEvent(view.viewport(), event)


def hang(view, data, point=None):
    """A drag of `data` comes over the lane and moves there; True if a drop would be taken."""
    point = point or view.viewport().rect().center()
    enter = QDragEnterEvent(point, MOVE, data, LEFT_BUTTON, NONE)
    QApplication.sendEvent(view.viewport(), enter)
    if not enter.isAccepted():
        return False
    over = QDragMoveEvent(point, MOVE, data, LEFT_BUTTON, NONE)
    QApplication.sendEvent(view.viewport(), over)
    return over.isAccepted()


def leave(view):
    QApplication.sendEvent(view.viewport(), QDragLeaveEvent())


def drop(view, data):
    """What Qt does when a drag of `data` ends over a lane; True if the drop was taken."""
    if not hang(view, data):
        leave(view)
        return False
    point = QPointF(view.viewport().rect().center())
    event = QDropEvent(point, MOVE, data, LEFT_BUTTON, NONE)
    QApplication.sendEvent(view.viewport(), event)
    return event.isAccepted()
