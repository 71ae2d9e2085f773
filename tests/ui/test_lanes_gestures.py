"""Every way to order experts and layers about in the dock: mouse, keyboard, menu, toolbar, notice; and undo of each."""

import pytest
from controller_driver import PATIENCE, answer, seen
from lanes_driver import (
    ALT,
    CTRL,
    MIB,
    SHIFT,
    click,
    drag_cells,
    drag_layers,
    engine_pins,
    engine_pool,
    entries,
    hang,
    leave,
    load_on_cpu,
    offer,
    popup,
    select,
    show,
    shown,
    view_of,
)
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.ui.controller import ANSWERING, READY
from app.ui.live_plan import pins_of


@pytest.fixture
def live_panel(loaded_controller, theme, qtbot):
    """`live_panel(*engine_arguments, pool=...)`: a watching panel; 4 layers of 8 experts, all on the CPU lane."""

    def make(*arguments, pool=16 * MIB):
        controller = loaded_controller(*arguments)
        load_on_cpu(controller, qtbot, pool=pool)
        panel = show(controller, theme, qtbot)
        qtbot.waitUntil(lambda: engine_pins(panel, 3) != "", timeout=PATIENCE)
        return panel

    return make


# ---- single experts ----------------------------------------------------------------------------------


def test_experts_dropped_on_the_gpu_are_kept_there_with_the_next_token_and_no_reload(live_panel, qtbot):
    panel = live_panel("--hold-after", 2)
    panel._controller.ask("Go on")
    assert drag_cells(panel, "Vulkan0", {1: (0, 3)})
    qtbot.waitUntil(lambda: {0, 3} <= set(shown(panel)["Vulkan0"].get(1, ())), timeout=PATIENCE)
    assert engine_pins(panel, 1) == "gaagaaaa"
    assert panel._controller.state == ANSWERING
    assert panel.footer.text.startswith("This plan is loaded.")
    panel.orders.stack.undo()
    qtbot.waitUntil(lambda: engine_pins(panel, 1) == "a" * 8, timeout=PATIENCE)
    panel._controller.stop()
    qtbot.waitUntil(lambda: panel._controller.state == READY, timeout=PATIENCE)


def test_experts_dropped_on_the_cpu_leave_the_pool(live_panel, qtbot):
    panel = live_panel("--tokens", 20)
    answer(qtbot, panel._controller)
    qtbot.waitUntil(lambda: bool(shown(panel)["Vulkan0"].get(2)), timeout=PATIENCE)
    hot = shown(panel)["Vulkan0"][2][0]
    assert drag_cells(panel, "CPU", {2: (hot,)})
    qtbot.waitUntil(lambda: hot in shown(panel)["CPU"][2], timeout=PATIENCE)
    assert engine_pins(panel, 2)[hot] == "c"


def test_a_drag_from_the_mouse_carries_the_selection_to_another_lane(live_panel, qtbot, monkeypatch):
    panel = live_panel()
    select(panel, {0: (1, 2), 2: (5,)})
    view = view_of(panel, "CPU")
    carried = []
    monkeypatch.setattr("app.ui.lanes.lane_mouse.drag_with_chip", lambda *data: carried.append(data[1]))
    start = view.cell_rect(0, 1).center()
    QTest.mousePress(view.viewport(), Qt.MouseButton.LeftButton, pos=start)
    QTest.mouseMove(view.viewport(), start + QPoint(60, 40))
    qtbot.waitUntil(lambda: len(carried) == 1, timeout=PATIENCE)
    QTest.mouseRelease(view.viewport(), Qt.MouseButton.LeftButton, pos=start)
    assert hang(panel, "Vulkan0", carried[0])
    leave(panel, "Vulkan0")


def test_the_disk_lane_takes_no_experts(live_panel):
    panel = live_panel()
    assert not drag_cells(panel, "disk", {1: (0,)})
    assert panel._controller.plan.pins == ()


@pytest.mark.parametrize(("key", "pin"), [(Qt.Key.Key_G, "gpu"), (Qt.Key.Key_C, "cpu"), (Qt.Key.Key_A, "auto")])
def test_keys_order_what_is_selected(live_panel, qtbot, key, pin):
    panel = live_panel()
    if pin == "auto":
        panel.orders.pin({0: (2,)}, "cpu")
    click(panel, "CPU", 0, 2)
    QTest.keyClick(view_of(panel, "CPU"), key)
    wanted = {"gpu": "g", "cpu": "c", "auto": "a"}[pin]
    qtbot.waitUntil(lambda: engine_pins(panel, 0)[2] == wanted, timeout=PATIENCE)


def test_alt_and_an_arrow_send_the_selection_to_the_lane_beside(live_panel, qtbot):
    panel = live_panel()
    select(panel, {0: (2,), 1: (3,)})
    QTest.keyClick(view_of(panel, "CPU"), Qt.Key.Key_Left, ALT)
    qtbot.waitUntil(lambda: engine_pins(panel, 0)[2] == engine_pins(panel, 1)[3] == "g", timeout=PATIENCE)
    QTest.keyClick(view_of(panel, "Vulkan0"), Qt.Key.Key_Right, ALT)
    qtbot.waitUntil(lambda: engine_pins(panel, 0)[2] == engine_pins(panel, 1)[3] == "c", timeout=PATIENCE)
    QTest.keyClick(view_of(panel, "CPU"), Qt.Key.Key_Right, ALT)
    assert "follows from main memory" in panel.notice.text
    before = panel._controller.plan
    QTest.keyClick(view_of(panel, "Vulkan0"), Qt.Key.Key_Left, ALT)
    assert panel._controller.plan is before


def test_the_toolbar_orders_what_is_selected_and_only_then(live_panel, qtbot):
    panel = live_panel()
    actions = panel.toolbar.pin_actions
    assert not any(action.isEnabled() for action in actions.values())
    select(panel, {3: (6, 7)})
    actions["gpu"].trigger()
    qtbot.waitUntil(lambda: engine_pins(panel, 3) == "aaaaaagg", timeout=PATIENCE)
    actions["auto"].trigger()
    qtbot.waitUntil(lambda: engine_pins(panel, 3) == "a" * 8, timeout=PATIENCE)


def test_the_menu_opens_from_mouse_and_keyboard_and_orders(live_panel, qtbot):
    panel = live_panel()
    view = view_of(panel, "CPU")
    place = view.cell_rect(1, 4).center()
    for reason in (QContextMenuEvent.Reason.Mouse, QContextMenuEvent.Reason.Keyboard):
        click(panel, "CPU", 1, 4)
        event = QContextMenuEvent(reason, place, view.viewport().mapToGlobal(place))
        QApplication.sendEvent(view.viewport(), event)
        with popup(qtbot) as menu:
            assert next(iter(entries(menu))).startswith("Layer 1, expert 4 selected")
            entries(menu)["■ Keep on CPU"].trigger()
        qtbot.waitUntil(lambda: engine_pins(panel, 1)[4] == "c", timeout=PATIENCE)
        panel.orders.stack.undo()
        qtbot.waitUntil(lambda: engine_pins(panel, 1)[4] == "a", timeout=PATIENCE)


# ---- refusals and offers -----------------------------------------------------------------------------


def test_a_full_layer_says_why_and_its_offers_are_buttons_that_act(live_panel, qtbot):
    panel = live_panel(pool=8 * MIB)
    assert drag_cells(panel, "Vulkan0", {0: (0, 1, 2)})
    assert "Layer 0 has 2 slots" in panel.notice.text
    assert panel._controller.plan.pins == ()
    offer(panel, "Grow the pool").click()
    qtbot.waitUntil(lambda: shown(panel)["Vulkan0"].get(0) == (0, 1, 2), timeout=PATIENCE)
    assert engine_pool(panel) == 10 * MIB
    assert panel.notice.text == ""
    panel.orders.stack.undo()
    qtbot.waitUntil(lambda: engine_pool(panel) == 8 * MIB and engine_pins(panel, 0) == "a" * 8, timeout=PATIENCE)


def test_the_hottest_that_fit_are_kept_by_a_button(live_panel, qtbot):
    panel = live_panel("--tokens", 30, pool=8 * MIB)
    answer(qtbot, panel._controller)
    qtbot.waitUntil(lambda: bool(panel.state.board.routed.any()), timeout=PATIENCE)
    drag_cells(panel, "Vulkan0", {0: tuple(range(8))})
    offer(panel, "Keep only the 2 hottest").click()
    hottest = sorted(range(8), key=lambda expert: -panel.state.board.routed[0, expert])[:2]
    qtbot.waitUntil(lambda: engine_pins(panel, 0).count("g") == 2, timeout=PATIENCE)
    assert all(engine_pins(panel, 0)[expert] == "g" for expert in hottest)


def test_others_become_automatic_by_a_button(live_panel, qtbot):
    panel = live_panel(pool=8 * MIB)
    panel.orders.pin({0: (0, 1)}, "gpu")
    qtbot.waitUntil(lambda: engine_pins(panel, 0) == "ggaaaaaa", timeout=PATIENCE)
    panel.orders.pin({0: (5,)}, "gpu")
    offer(panel, "Make 1 other automatic").click()
    qtbot.waitUntil(lambda: engine_pins(panel, 0)[5] == "g", timeout=PATIENCE)
    assert engine_pins(panel, 0).count("g") == 2


def test_without_a_pool_a_button_gives_one(live_panel, qtbot):
    panel = live_panel(pool=0)
    drag_cells(panel, "Vulkan0", {0: (0,)})
    assert "There is no pool" in panel.notice.text
    offer(panel, "Give the pool 16.0 MiB").click()
    qtbot.waitUntil(lambda: shown(panel)["Vulkan0"].get(0) == (0,), timeout=PATIENCE)


def test_a_notice_is_dismissed_and_goes_with_the_next_order(live_panel):
    panel = live_panel(pool=8 * MIB)
    panel.orders.pin({0: (0, 1, 2)}, "gpu")
    assert panel.notice.text
    panel.orders.pin({1: (0,)}, "cpu")
    assert panel.notice.text == ""


def test_what_the_engine_refuses_is_told_and_taken_back(live_panel, qtbot):
    panel = live_panel("--fail-pins", "bad_usage")
    select(panel, {0: (1,)})
    QTest.keyClick(view_of(panel, "CPU"), Qt.Key.Key_G)
    qtbot.waitUntil(lambda: panel.notice.text == "The script fails this request.", timeout=PATIENCE)
    assert panel._controller.plan.pins == ()
    qtbot.waitUntil(lambda: not panel.state.board.pin.any(), timeout=PATIENCE)


def test_an_offer_taken_with_the_keyboard_leaves_it_in_the_lanes(live_panel, qtbot):
    panel = live_panel(pool=8 * MIB)
    panel.orders.pin({0: (0, 1, 2)}, "gpu")
    button = offer(panel, "Grow the pool")
    button.setFocus()
    qtbot.waitUntil(button.hasFocus, timeout=PATIENCE)
    QTest.keyClick(button, Qt.Key.Key_Space)
    qtbot.waitUntil(view_of(panel, "CPU").hasFocus, timeout=PATIENCE)
    qtbot.waitUntil(lambda: engine_pool(panel) == 10 * MIB, timeout=PATIENCE)


# ---- search and the hottest --------------------------------------------------------------------------


def test_a_search_jumps_to_the_expert_and_selects_it(live_panel, qtbot):
    panel = live_panel()
    view_of(panel, "CPU").setFocus()
    QTest.keyClick(view_of(panel, "CPU"), Qt.Key.Key_F, CTRL)
    qtbot.waitUntil(panel.toolbar.search.hasFocus, timeout=PATIENCE)
    QTest.keyClicks(panel.toolbar.search, "layer 2 expert 7")
    QTest.keyClick(panel.toolbar.search, Qt.Key.Key_Return)
    assert panel.state.selection.cells() == {2: (7,)}
    assert view_of(panel, "CPU").current == (2, 7)
    qtbot.waitUntil(view_of(panel, "CPU").hasFocus, timeout=PATIENCE)


def test_a_search_for_a_layer_selects_all_of_it_and_nonsense_is_told(live_panel):
    panel = live_panel()
    panel.search("L3")
    assert panel.state.selection.cells() == {3: tuple(range(8))}
    panel.search("layer 99")
    assert "No layer 99" in panel.notice.text
    panel.search("banana")
    assert "names no layer and expert" in panel.notice.text
    assert panel.state.selection.cells() == {3: tuple(range(8))}


def test_the_hottest_of_all_layers_or_of_this_one_are_selected(live_panel, qtbot):
    panel = live_panel("--tokens", 30)
    panel.toolbar.hottest_button.click()
    assert "nothing was routed yet" in panel.notice.text
    answer(qtbot, panel._controller)
    qtbot.waitUntil(lambda: bool(panel.state.board.routed.any()), timeout=PATIENCE)
    panel.toolbar.percent.setValue(25)
    panel.toolbar.hottest_button.click()
    assert [len(experts) for experts in panel.state.selection.cells().values()] == [2, 2, 2, 2]
    panel.state.selection.clear()
    panel.toolbar.scope.setCurrentIndex(1)
    panel.toolbar.hottest_button.click()
    assert "Choose an expert of the layer first" in panel.notice.text
    click(panel, "CPU", 1, next(iter(shown(panel)["CPU"][1])))
    panel.toolbar.hottest_button.click()
    assert {layer: len(experts) for layer, experts in panel.state.selection.cells().items()} == {1: 2}


# ---- zoom --------------------------------------------------------------------------------------------


def test_all_lanes_share_one_zoom_whoever_changes_it(live_panel):
    panel = live_panel()
    panel.toolbar.zoom.setValue(panel.toolbar.zoom.maximum())
    zooms = {box.view.zoom for box in panel.lanes.boxes}
    assert len(zooms) == 1
    assert zooms.pop() > 100
    view_of(panel, "CPU").zoom_by(-1)
    assert len({box.view.zoom for box in panel.lanes.boxes}) == 1
    assert panel.toolbar.zoom.value() < panel.toolbar.zoom.maximum()
    QTest.keyClick(view_of(panel, "CPU"), Qt.Key.Key_0)
    assert {box.view.zoom for box in panel.lanes.boxes} == {0.0}
    assert panel.toolbar.zoom.value() == 0


def test_zooming_from_the_toolbar_keeps_what_is_selected_in_sight(live_panel):
    panel = live_panel()
    panel.search("3/7")
    panel.toolbar.zoom.setValue(panel.toolbar.zoom.maximum())
    view = view_of(panel, "CPU")
    assert view.viewport().rect().intersects(view.cell_rect(3, 7))


# ---- history -----------------------------------------------------------------------------------------


def test_keys_undo_and_redo_from_wherever_the_keyboard_is_in_the_dock(live_panel, qtbot):
    panel = live_panel()
    view = view_of(panel, "CPU")
    view.setFocus()
    qtbot.waitUntil(view.hasFocus, timeout=PATIENCE)
    panel.orders.pin({0: (1,)}, "cpu")
    assert panel.toolbar.undo_action.text() == "Undo keeping 1 expert on the CPU"
    QTest.keyClick(view, Qt.Key.Key_Z, CTRL)
    assert panel._controller.plan.pins == ()
    QTest.keyClick(view, Qt.Key.Key_Z, CTRL | SHIFT)
    assert pins_of(panel._controller.plan) == {(0, 1): "cpu"}


def test_discarding_goes_back_to_the_loaded_plan_and_can_be_undone(live_panel):
    panel = live_panel()
    drag_layers(panel, "Vulkan0", (0, 1))
    edited = panel._controller.plan
    assert panel.footer.discard_button.isVisibleTo(panel)
    panel.footer.discard_button.click()
    assert panel._controller.plan == panel._controller.loaded_plan
    assert not panel.footer.discard_button.isVisibleTo(panel)
    panel.orders.stack.undo()
    assert panel._controller.plan == edited


# ---- the table of a layer ----------------------------------------------------------------------------


def test_enter_shows_the_layer_as_a_table_whose_orders_undo_too(live_panel, qtbot):
    panel = live_panel()
    click(panel, "CPU", 2, 0)
    view = view_of(panel, "CPU")
    QTest.keyClick(view, Qt.Key.Key_Return)
    page = panel.experts_page
    assert page.layer == 2
    qtbot.waitUntil(page.table.hasFocus, timeout=PATIENCE)
    page.table.selectAll()
    page.buttons["cpu"].click()
    qtbot.waitUntil(lambda: engine_pins(panel, 2) == "c" * 8, timeout=PATIENCE)
    assert "8 kept on the CPU by you" in page.text
    panel.orders.stack.undo()
    qtbot.waitUntil(lambda: engine_pins(panel, 2) == "a" * 8, timeout=PATIENCE)
    QTest.keyClick(page.table, Qt.Key.Key_Escape)
    assert not page.isVisibleTo(panel)
    qtbot.waitUntil(view.hasFocus, timeout=PATIENCE)
    assert view.current == (2, 0)


def test_a_layer_whose_experts_are_not_told_says_why(loaded_controller, theme, qtbot):
    panel = show(loaded_controller(), theme, qtbot)
    told = seen(panel.orders.refused)
    panel.open_experts(0)
    assert panel.notice.text.startswith("Layer 0 was loaded on Vulkan0 as a whole")
    panel.open_experts(None)
    assert "Choose an expert" in panel.notice.text
    assert told == []


def test_the_table_goes_with_the_engine(live_panel, qtbot):
    panel = live_panel("--crash-after", 2)
    panel.open_experts(0)
    with qtbot.waitSignal(panel._controller.failed, timeout=PATIENCE):
        panel._controller.ask("Die")
    assert not panel.experts_page.isVisibleTo(panel)
    assert panel.lanes.isVisibleTo(panel)
    panel.open_experts(0)
    assert panel.notice.text.startswith("Load the model first")
