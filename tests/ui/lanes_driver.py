"""Shows a lanes panel over a scripted engine and does to it what a mouse and a keyboard do, for the dock's tests."""

import contextlib

from controller_driver import PATIENCE
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.placement.planner import with_lanes
from app.ui.lanes.mime import Dragged, pack, pack_cells
from app.ui.lanes.panel import LanesPanel
from app.ui.live_plan import with_pool_bytes

MIB = 1024**2
MOVE, LEFT_BUTTON = Qt.DropAction.MoveAction, Qt.MouseButton.LeftButton
NONE = Qt.KeyboardModifier.NoModifier
CTRL, SHIFT, ALT = (
    Qt.KeyboardModifier.ControlModifier,
    Qt.KeyboardModifier.ShiftModifier,
    Qt.KeyboardModifier.AltModifier,
)


def load_on_cpu(controller, qtbot, *, pool=0, layers=None):
    """Load the model with attention on the GPU, a pool there, and these layers (all) on the CPU lane."""
    wanted = controller.facts.moe_layers if layers is None else layers
    plan = with_lanes(controller.plan, controller.facts, controller.machine, wanted, "CPU")
    controller.set_plan(with_pool_bytes(plan, pool, controller.facts, controller.machine))
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.load()


def show(controller, theme, qtbot, size=(1100, 700), orders=None):
    """A panel that is seen and follows the controller."""
    panel = LanesPanel(controller, theme, orders)
    qtbot.addWidget(panel)
    panel.resize(*size)
    panel.show()
    panel.set_active(True)
    panel.activateWindow()
    qtbot.waitUntil(panel.isActiveWindow, timeout=PATIENCE)
    if controller.loaded_facts is not None:
        qtbot.waitUntil(lambda: controller.cache.facts is not None, timeout=PATIENCE)
    panel.state.refresh()
    return panel


def view_of(panel, lane):
    """The view of a lane."""
    return panel.lanes.box(lane).view


def header_of(panel, lane):
    """The head of a lane."""
    return panel.lanes.box(lane).header


def shown(panel):
    """Where the panel shows each expert: lane to cells by layer."""
    board = panel.state.board
    return {lane: board.cells(board.on(lane)) for lane in board.lanes}


def layers_in(panel, lane):
    """The layers that have all their experts in a lane."""
    cells = shown(panel)[lane]
    return tuple(layer for layer, experts in cells.items() if len(experts) == panel.state.board.experts)


def select(panel, cells):
    """Select these experts by layer."""
    panel.state.selection.set(panel.state.board.mask(cells))


def click(panel, lane, layer, expert, keys=NONE):
    """Click one expert in a lane."""
    view = view_of(panel, lane)
    QTest.mouseClick(view.viewport(), LEFT_BUTTON, keys, view.cell_rect(layer, expert).center())


def drag_cells(panel, lane, cells):
    """What Qt does when a drag of experts ends over a lane; True where the drop was taken."""
    return _drag(panel, lane, pack_cells(panel.state.board.model, cells))


def drag_layers(panel, lane, layers):
    """The same for layers dragged by their names."""
    return _drag(panel, lane, pack(Dragged(model=panel.state.board.model, layers=tuple(layers))))


def hang(panel, lane, data):
    """Let a drag hang over a lane; true where it was taken in."""
    event = QDragEnterEvent(QPoint(20, 10), MOVE, data, LEFT_BUTTON, NONE)
    QApplication.sendEvent(view_of(panel, lane).viewport(), event)
    return event.isAccepted()


def leave(panel, lane):
    """The drag goes elsewhere."""
    QApplication.sendEvent(view_of(panel, lane).viewport(), QDragLeaveEvent())


def _drag(panel, lane, data):
    target = view_of(panel, lane).viewport()
    if not hang(panel, lane, data):
        return False
    event = QDropEvent(QPointF(20, 10), MOVE, data, LEFT_BUTTON, NONE)
    QApplication.sendEvent(target, event)
    QApplication.processEvents()  # the order follows when the drag's own event loop has ended
    return event.isAccepted()


def offer(panel, start):
    """The button of the notice whose text starts so."""
    return next(button for button in panel.notice.buttons if button.text().startswith(start))


def engine_pins(panel, layer):
    """The letters that the engine reports of a layer's pins; empty while it has not."""
    facts = panel._controller.cache.facts
    return facts.layers[layer].pins if facts is not None and layer in facts.layers else ""


def engine_pool(panel):
    """The pool's requested bytes as the engine reports them."""
    facts = panel._controller.cache.facts
    return facts.pool.requested_bytes if facts is not None and facts.pool is not None else None


@contextlib.contextmanager
def popup(qtbot):
    """The menu that opens inside; closed at the end."""
    qtbot.waitUntil(lambda: QApplication.activePopupWidget() is not None, timeout=PATIENCE)
    menu = QApplication.activePopupWidget()
    yield menu
    menu.close()
    qtbot.waitUntil(lambda: QApplication.activePopupWidget() is None, timeout=PATIENCE)


def entries(menu):
    """A menu's entries by their text, without the keys beside it."""
    return {action.text().split("\t")[0]: action for action in menu.actions() if not action.isSeparator()}
