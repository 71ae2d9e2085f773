"""The page of knobs over a controller, turned by mouse and keyboard: what its tests share."""

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QStyle, QStyleOptionSpinBox
from ui_factories import MIB, make_facts

from app.placement.planner import Wishes
from app.ui.orders import Orders
from app.ui.tuning.evidence import TuningEvidence
from app.ui.tuning.knob_values import value_of
from app.ui.tuning.knobs_page import KnobsPage

PATIENCE = 10000
FACTS = make_facts(layers=8, experts=16, context_length=65536)
POOL = 64 * MIB


def page_over(controller, theme, qtbot, width=460):
    """A shown page, its predictions there."""
    page = KnobsPage(controller, Orders(controller, controller), TuningEvidence(controller, controller), theme)
    qtbot.addWidget(page)
    page.resize(width, 900)
    page.show()
    page.set_active(True)
    settled(page, qtbot)
    return page


def choose(controller, qtbot, **wishes):
    """Choose the model and plan it with its experts on the CPU and a pool, unless wished otherwise."""
    if controller.facts is None:
        with qtbot.waitSignals([controller.machine_changed, controller.model_changed], timeout=PATIENCE):
            controller.probe()
            controller.choose_model(Path("model.gguf"))
    controller.set_plan(controller.propose_plan(Wishes(**{"whole_layers": 0, "pool_bytes": POOL, **wishes})))
    return controller


def load(controller, qtbot, **wishes):
    """The same, and load it."""
    choose(controller, qtbot, **wishes)
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.load()
    return controller


def settled(page, qtbot):
    """Wait until everything that was wanted is done and predicted."""

    def done():
        situation = page.situation()
        return (
            not page.turner.busy
            and not page._controller.cache.resizing
            and page.forecast.consequences is not None
            and page.forecast.automatic("n_ctx", situation).known
        )

    qtbot.waitUntil(done, timeout=PATIENCE)


def box_of(page, key):
    """The control of a knob."""
    return page.rows[key].editor.widget


def by_keyboard(page, key, qtbot):
    """One step up, or the next choice, with the keys alone."""
    box = box_of(page, key)
    box.setFocus()
    up = isinstance(box, QComboBox) and box.currentIndex() == box.count() - 1
    step = Qt.Key.Key_Up if up or not isinstance(box, QComboBox) else Qt.Key.Key_Down
    if not isinstance(box, QComboBox) and box.value() >= box.maximum():
        step = Qt.Key.Key_Down
    qtbot.keyClick(box, step)
    settled(page, qtbot)


def by_mouse(page, key, qtbot):
    """One step with the arrows of a box, or another line of a list."""
    box = box_of(page, key)
    page._scroll.ensureWidgetVisible(box)
    if isinstance(box, QComboBox):
        box.showPopup()
        index = box.model().index((box.currentIndex() + 1) % box.count(), 0)
        qtbot.mouseClick(box.view().viewport(), Qt.MouseButton.LeftButton, pos=box.view().visualRect(index).center())
    else:
        option = QStyleOptionSpinBox()
        box.initStyleOption(option)
        arrow = QStyle.SubControl.SC_SpinBoxUp if box.value() < box.maximum() else QStyle.SubControl.SC_SpinBoxDown
        rect = box.style().subControlRect(QStyle.ComplexControl.CC_SpinBox, option, arrow, box)
        qtbot.mouseClick(box, Qt.MouseButton.LeftButton, pos=rect.center())
    settled(page, qtbot)


def value(page, key):
    """Where a knob stands in the plan being edited."""
    return value_of(page._controller.plan, key, page._controller.facts)


def press(page, button, qtbot):
    """Press a button with the mouse."""
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    settled(page, qtbot)


def typed(page, key, text, qtbot):
    """Type a value and press Enter."""
    box = box_of(page, key)
    box.setFocus()
    box.selectAll()
    qtbot.keyClicks(box, text)
    qtbot.keyClick(box, Qt.Key.Key_Return)
    settled(page, qtbot)
