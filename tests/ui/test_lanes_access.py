"""Every control of the lanes dock has a name for screen readers and is reached with the keyboard."""

import pytest
from controller_driver import PATIENCE
from lanes_driver import MIB, load_on_cpu, show
from memory_driver import mapped_panel
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractScrollArea,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QScrollBar,
    QWidget,
)

CONTROLS = (QAbstractButton, QAbstractSlider, QAbstractSpinBox, QComboBox, QLineEdit, QAbstractItemView)


@pytest.fixture
def panel(loaded_controller, theme, qtbot):
    """A panel with a selection, a refusal with offers, and a plan that differs from the loaded one."""
    controller = loaded_controller()
    load_on_cpu(controller, qtbot, pool=8 * MIB)
    made = show(controller, theme, qtbot)
    made.orders.pin({0: (0,)}, "cpu")
    made.orders.move_layers((3,), "Vulkan0")
    made.orders.pin({1: (0, 1, 2)}, "gpu")
    made.state.selection.set(made.state.board.mask({0: (1,)}))
    assert made.notice.buttons
    return made


@pytest.fixture
def mapped(loaded_controller, theme, qtbot):
    """A panel over experts that stay in the file, half of them in memory: budget, "Warm up" and "Release" work."""
    controller = loaded_controller("--memory-mib", 16)
    made = mapped_panel(controller, theme, qtbot, pool=8 * MIB)
    controller.cache.warm_memory()
    buttons = made.lanes.box("CPU").header.memory_buttons
    qtbot.waitUntil(buttons.release.isEnabled, timeout=PATIENCE)
    made.orders.to_lane({0: tuple(range(8))}, "disk")
    assert made.notice.buttons
    return made


def controls(panel):
    """What a user can operate now, without the inner parts of other controls."""
    lanes = [box.view for box in panel.lanes.boxes]
    found = [
        widget
        for widget in panel.findChildren(QWidget)
        if isinstance(widget, CONTROLS) and widget.isVisibleTo(panel) and widget.isEnabled()
    ]
    inner = (QAbstractSpinBox, QComboBox, QAbstractItemView, QLineEdit)
    return lanes + [
        widget
        for widget in found
        if not isinstance(widget, QScrollBar)
        and not isinstance(widget.parentWidget(), inner)
        and widget.window() is panel
    ]


def name_of(widget):
    return QAccessible.queryAccessibleInterface(widget).text(QAccessible.Text.Name)


def test_every_control_has_a_name(panel):
    assert len(controls(panel)) > 15
    for widget in controls(panel):
        assert name_of(widget).strip(" ▲■↶↷") != "", widget


def test_every_control_is_reached_with_tab(panel, qtbot):
    panel.toolbar.search.setFocus()
    qtbot.waitUntil(panel.toolbar.search.hasFocus, timeout=PATIENCE)
    reached = []
    for _ in range(80):
        focused = QApplication.focusWidget()
        if focused in reached:
            break
        reached.append(focused)
        QTest.keyClick(focused, Qt.Key.Key_Tab)
    missing = [(type(widget).__name__, name_of(widget)) for widget in controls(panel) if widget not in reached]
    assert missing == []


def test_the_controls_of_main_memory_have_names_and_are_reached_with_tab(mapped, qtbot):
    header = mapped.lanes.box("CPU").header
    its = {header.budget, header.memory_buttons.warm, header.memory_buttons.release}
    assert its <= set(controls(mapped))
    for widget in controls(mapped):
        assert name_of(widget).strip(" ▲■↶↷") != "", widget
    names = {name_of(widget) for widget in its}
    assert len(names) == 3
    for widget in its:
        assert QAccessible.queryAccessibleInterface(widget).text(QAccessible.Text.Description)
    mapped.notice.close_button.setFocus()
    reached = []
    for _ in range(80):
        focused = QApplication.focusWidget()
        if focused in reached:
            break
        reached.append(focused)
        QTest.keyClick(focused, Qt.Key.Key_Tab)
    assert [widget for widget in controls(mapped) if widget not in reached] == []
    order = [header.budget, header.memory_buttons.warm, header.memory_buttons.release, mapped.lanes.box("CPU").view]
    assert [widget for widget in reached if widget in order] == order


def test_tab_goes_from_the_tools_over_the_notice_and_the_lanes_to_the_footer(panel, qtbot):
    panel.toolbar.search.setFocus()
    qtbot.waitUntil(panel.toolbar.search.hasFocus, timeout=PATIENCE)
    order = []
    for _ in range(60):
        focused = QApplication.focusWidget()
        order.append(focused)
        if focused is panel.footer.apply_button:
            break
        QTest.keyClick(focused, Qt.Key.Key_Tab)
    places = [
        order.index(widget)
        for widget in (
            panel.toolbar.search,
            panel.notice.buttons[0],
            panel.lanes.boxes[0].header.budget,
            panel.lanes.boxes[0].view,
            panel.lanes.boxes[1].view,
            panel.footer.apply_button,
        )
    ]
    assert places == sorted(places)


def test_the_table_of_a_layer_has_names_and_keys_too(panel, qtbot):
    panel.open_experts(0)
    qtbot.waitUntil(panel.experts_page.table.hasFocus, timeout=PATIENCE)
    panel.experts_page.table.selectAll()
    page = panel.experts_page
    for widget in (page.table, page.back_button, *page.buttons.values()):
        assert name_of(widget)
        assert widget.focusPolicy() & Qt.FocusPolicy.TabFocus


def test_parts_without_controls_tell_what_they_show(panel):
    assert panel.accessibleName()
    assert panel.legend.accessibleName()
    for box in panel.lanes.boxes:
        assert box.header.accessibleName()
        assert isinstance(box.view, QAbstractScrollArea)
        assert "Experts in the lane" in box.view.accessibleName()


def test_a_refusal_is_announced_with_its_offers(panel):
    assert panel.notice.text in panel.notice.accessibleName()
    for button in panel.notice.buttons:
        assert button.text() in panel.notice.accessibleName()
