"""The pool in the lanes dock: the box, its throttle, refusals, and the way from a layer to its experts' pins."""

import json

import pytest
from controller_driver import PATIENCE, answer, seen
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from ui_factories import MIB, make_pool

from app.placement.memory import predicted_use
from app.placement.planner import Wishes, with_lanes
from app.ui.controller import ANSWERING
from app.ui.lanes.experts_model import Column
from app.ui.lanes.panel import LanesPanel
from app.ui.lanes.pool import PoolRoom
from app.ui.lanes.pool_bar import PoolBar
from app.ui.words import in_bytes

ROOM = PoolRoom(device="Vulkan0", most_bytes=512 * MIB, cycle_bytes=16 * MIB)


@pytest.fixture
def bar(qtbot, theme):
    """A bar over a pool of 64 MiB, with the keyboard in its box."""
    made = PoolBar()
    qtbot.addWidget(made)
    made.show_pool(ROOM, make_pool(), None, resizing=False)
    made.resize(500, 80)
    made.show()
    made.activateWindow()
    made.box.setFocus()
    qtbot.waitUntil(made.box.hasFocus)
    return made


@pytest.fixture
def make_panel(loaded_controller, theme, qtbot):
    """A shown, watching panel over a loaded model with attention on the GPU and experts on the CPU lane."""

    def make(*arguments, wishes=None):
        controller = loaded_controller(*arguments)
        plan = controller.propose_plan(wishes) if wishes else controller.plan
        if wishes is None and controller.machine.gpus:
            plan = with_lanes(plan, controller.facts, controller.machine, range(4), "CPU")
        controller.set_plan(plan)
        with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
            controller.load()
        panel = LanesPanel(controller, theme)
        qtbot.addWidget(panel)
        panel.resize(1100, 700)
        panel.show()
        panel.set_active(True)
        panel.activateWindow()
        qtbot.waitUntil(panel.isActiveWindow, timeout=PATIENCE)
        qtbot.waitUntil(lambda: controller.cache.facts is not None, timeout=PATIENCE)
        return panel

    return make


def cache_of(panel):
    return panel._controller.cache


# ---- the box -----------------------------------------------------------------------------------------


def test_the_bar_shows_what_was_asked_for_what_was_given_and_whether_it_is_used(bar):
    assert bar.box.text() == "64 MiB"
    assert bar.box.maximum() == 512
    assert bar.text == (
        "Expert pool on Vulkan0\nRequested 64.0 MiB, allocated 62.0 MiB, in use: 19 experts in 20 slots."
    )
    assert bar.box.accessibleName() == "Expert pool on Vulkan0"
    assert "16.0 MiB" in bar.box.accessibleDescription()
    assert bar.accessibleName() == bar.text


def test_a_typed_size_is_sent_with_enter_and_not_while_it_is_typed(bar):
    wanted = seen(bar.size_wanted)
    bar.box.selectAll()
    QTest.keyClicks(bar.box, "128")
    assert wanted == []
    QTest.keyClick(bar.box, Qt.Key.Key_Return)
    assert wanted == [128 * MIB]
    QTest.keyClick(bar.box, Qt.Key.Key_Return)
    assert wanted == [128 * MIB]


def test_many_steps_are_one_wish(bar, qtbot):
    wanted = seen(bar.size_wanted)
    for _ in range(5):
        QTest.keyClick(bar.box, Qt.Key.Key_Up)
    assert wanted == []
    qtbot.waitUntil(lambda: len(wanted) > 0)
    assert wanted == [(64 + 5 * 16) * MIB]


def test_the_engines_facts_do_not_overwrite_what_is_being_typed_or_waits(bar):
    bar.box.selectAll()
    QTest.keyClicks(bar.box, "12")
    bar.show_pool(ROOM, make_pool(resident=20), None, resizing=False)
    assert bar.box.lineEdit().text().startswith("12")
    QTest.keyClick(bar.box, Qt.Key.Key_Return)
    bar.show_pool(ROOM, make_pool(), None, resizing=True)
    assert bar.box.value() == 12
    assert "changes the pool's size" in bar.text
    bar.show_pool(ROOM, make_pool(), None, resizing=False)  # refused: the engine's own stands
    assert bar.box.value() == 64


def test_a_wish_back_to_the_old_size_is_sent_while_another_is_under_way(bar):
    wanted = seen(bar.size_wanted)
    bar.show_pool(ROOM, make_pool(), None, resizing=True)
    bar.box.setValue(128)
    bar.box.editingFinished.emit()
    bar.box.setValue(64)
    bar.box.editingFinished.emit()
    assert wanted == [128 * MIB, 64 * MIB]


def test_release_is_zero_and_there_is_nothing_to_release_without_a_pool(bar):
    wanted = seen(bar.size_wanted)
    bar.release_button.click()
    assert wanted == [0]
    assert bar.box.text() == "none"
    bar.show_pool(ROOM, make_pool(requested_bytes=0, allocated_bytes=0, used=False), None, resizing=False)
    assert not bar.release_button.isEnabled()


def test_scrolling_past_the_box_changes_nothing(bar):
    bar.setFocus()
    bar.box.clearFocus()
    wheel = QWheelEvent(
        QPointF(5, 5),
        bar.box.mapToGlobal(QPointF(5, 5)),
        QPoint(0, 0),
        QPoint(0, 120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(bar.box, wheel)
    assert bar.box.value() == 64


def test_where_no_size_can_be_chosen_the_reason_stands_instead(bar):
    bar.show_pool(PoolRoom(why_not="A pool needs a GPU."), None, None, resizing=False)
    assert bar.text == "Expert pool\nA pool needs a GPU."
    assert not bar.box.isEnabled()
    assert not bar.release_button.isVisibleTo(bar)
    # A pool that is there can be given back even then.
    bar.show_pool(PoolRoom(device="Vulkan0", why_not="No room."), make_pool(), None, resizing=False)
    assert bar.release_button.isEnabled()
    assert bar.release_button.isVisibleTo(bar)


# ---- in the dock -------------------------------------------------------------------------------------


def test_a_pool_made_by_hand_fills_while_the_model_answers_and_tells_its_hits(make_panel, qtbot):
    panel = make_panel("--tokens", 40, "--token-ms", 2)
    assert "No expert pool" in panel.pool_bar.text
    panel.pool_bar.box.setValue(16)
    panel.pool_bar.box.editingFinished.emit()
    qtbot.waitUntil(lambda: "Requested 16.0 MiB, allocated 16.0 MiB" in panel.pool_bar.text, timeout=PATIENCE)
    assert "No expert was routed to since the load." in panel.pool_bar.text
    answer(qtbot, panel._controller)
    qtbot.waitUntil(lambda: "in use: 16 experts in 16 slots" in panel.pool_bar.text, timeout=PATIENCE)
    assert "of routed experts in the last answer" in panel.pool_bar.text
    assert "underlined: in the GPU pool" in panel.legend._words.text()
    panel.pool_bar.release_button.click()
    qtbot.waitUntil(lambda: "No expert pool" in panel.pool_bar.text, timeout=PATIENCE)


def test_a_live_pool_counts_in_the_lanes_predicted_memory_and_is_no_change_of_the_plan(make_panel, qtbot):
    panel = make_panel()
    plan, header = panel._controller.plan, panel.column("Vulkan0").header
    before = predicted_use(plan, "Vulkan0")
    assert f"Predicted {in_bytes(before)} of" in header.text
    cache_of(panel).set_pool(32 * MIB)
    qtbot.waitUntil(lambda: f"Predicted {in_bytes(before + 32 * MIB)} of" in header.text, timeout=PATIENCE)
    assert panel._controller.plan is plan
    assert panel.footer.text.startswith("This plan is loaded.")


def test_a_refused_pool_is_told_in_the_docks_notice_and_its_reason_in_the_bar(make_panel, qtbot):
    panel = make_panel("--fail-pool", "out_of_memory")
    panel.pool_bar.box.setValue(16)
    panel.pool_bar.box.editingFinished.emit()
    qtbot.waitUntil(lambda: panel.notice.text == "The script fails this request.", timeout=PATIENCE)
    qtbot.waitUntil(lambda: panel.pool_bar.box.value() == 0, timeout=PATIENCE)


def test_a_device_that_gives_nothing_is_told_with_its_reason(make_panel, qtbot):
    panel = make_panel("--no-pool", "the driver refused 16.0 MiB")
    panel.pool_bar.box.setValue(16)
    panel.pool_bar.box.editingFinished.emit()
    qtbot.waitUntil(lambda: "The driver refused 16.0 MiB." in panel.pool_bar.text, timeout=PATIENCE)
    assert "Requested 16.0 MiB, allocated 0 B, not in use" in panel.pool_bar.text
    assert panel.pool_bar._warning.isVisibleTo(panel)


def test_without_a_gpu_the_bar_says_so_and_experts_are_still_counted(make_panel, qtbot):
    panel = make_panel("--no-gpu")
    assert "A pool needs a GPU, and none was found" in panel.pool_bar.text
    assert not panel.pool_bar.box.isVisibleTo(panel)
    answer(qtbot, panel._controller)
    panel.open_experts(0)
    assert panel.experts_page.isVisibleTo(panel)


def test_enter_on_a_layer_shows_its_experts_and_escape_returns_to_it(make_panel, qtbot):
    panel = make_panel()
    view = panel.column("CPU").view
    view.select_layers((2,))
    view.setFocus()
    QTest.keyClick(view, Qt.Key.Key_Return)
    page = panel.experts_page
    assert page.layer == 2
    assert page.isVisibleTo(panel)
    assert not view.isVisibleTo(panel)
    qtbot.waitUntil(page.table.hasFocus, timeout=PATIENCE)
    QTest.keyClick(page.table, Qt.Key.Key_Escape)
    assert not page.isVisibleTo(panel)
    assert view.selected_layers() == (2,)
    qtbot.waitUntil(view.hasFocus, timeout=PATIENCE)


def test_the_context_menu_names_the_layer_whose_experts_it_shows(make_panel):
    panel = make_panel()
    view = panel.column("CPU").view
    view.select_layers((1, 3))
    action = view.context_menu().actions()[0]
    assert action.text() == "Experts of layer 1…"
    action.trigger()
    assert panel.experts_page.layer == 1


def test_an_order_is_sent_while_the_model_answers_and_shown_when_it_is_reported(make_panel, qtbot, tmp_path):
    record = tmp_path / "requests"
    panel = make_panel("--hold-after", 2, "--record", record)
    cache_of(panel).set_pool(16 * MIB)
    panel._controller.ask("Go on")
    panel.open_experts(1)
    page = panel.experts_page
    page.table.selectAll()
    page.buttons["cpu"].click()
    pins = [page.proxy.index(row, Column.PIN) for row in range(8)]
    assert {pin.data() for pin in pins} == {"automatic"}
    qtbot.waitUntil(lambda: {pin.data() for pin in pins} == {"on CPU"}, timeout=PATIENCE)
    assert panel._controller.state == ANSWERING
    assert "8 kept on the CPU by you" in page.text
    sent = [json.loads(line) for line in record.read_text().splitlines() if '"set_pins"' in line]
    assert [len(request["pins"]) for request in sent] == [8]
    with qtbot.waitSignal(panel._controller.finished, timeout=PATIENCE):
        panel._controller.stop()


def test_a_refused_order_is_told_and_nothing_changes(make_panel, qtbot):
    panel = make_panel("--fail-pins", "bad_usage")
    panel.open_experts(0)
    panel.experts_page.table.selectAll()
    panel.experts_page.buttons["gpu"].click()
    qtbot.waitUntil(lambda: panel.notice.text == "The script fails this request.", timeout=PATIENCE)
    assert panel.experts_page.proxy.index(0, Column.PIN).data() == "automatic"
    assert len(panel.experts_page.selected_experts()) == 8


def test_orders_without_room_in_the_pool_are_told(make_panel, qtbot):
    panel = make_panel()
    cache_of(panel).set_pool(4 * MIB)
    cache_of(panel).set_pins(0, (1, 2, 3), "gpu")
    qtbot.waitUntil(lambda: "2 experts that you keep on the GPU have no slot" in panel.pool_bar.text, timeout=PATIENCE)


def test_a_layer_that_is_whole_on_the_gpu_says_why_its_experts_are_not_shown(make_panel):
    panel = make_panel(wishes=Wishes())
    lane = panel.column("Vulkan0").view
    lane.activated.emit(lane.proxy.row_of(0))
    assert panel.notice.text.startswith("Layer 0 was loaded on Vulkan0 as a whole")
    assert not panel.experts_page.isVisibleTo(panel)
    assert "All experts are on a GPU already" in panel.pool_bar.text


def test_the_experts_go_with_the_engine(make_panel, qtbot):
    panel = make_panel("--crash-after", 2)
    panel.open_experts(0)
    with qtbot.waitSignal(panel._controller.failed, timeout=PATIENCE):
        panel._controller.ask("Die")
    assert not panel.experts_page.isVisibleTo(panel)
    assert panel._scroll.isVisibleTo(panel)
    panel.open_experts(0)
    assert panel.notice.text.startswith("Load the model first")
    assert "Load the model" in panel.pool_bar.text
