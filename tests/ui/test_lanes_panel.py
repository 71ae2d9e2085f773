"""The lanes dock as a whole: what it shows of machine, plan, memory and heat, and what it asks for when."""

import msgspec
import pytest
from controller_driver import PATIENCE, answer
from lanes_driver import MIB, drag_cells, header_of, layers_in, load_on_cpu, show, shown, view_of
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QMainWindow

from app.hardware.facts import Ram
from app.placement.memory import predicted_use
from app.ui.lanes.dock import LanesDock
from app.ui.lanes.lane_info import ABSENT
from app.ui.lanes.lane_overlay import nothing_text
from app.ui.lanes.panel import LanesPanel
from app.ui.orders import Orders
from app.ui.words import in_bytes


@pytest.fixture
def make_dock(theme, qtbot):
    """A shown dock over a controller."""
    windows = []  # qtbot keeps no reference

    def make(controller):
        window = QMainWindow()
        windows.append(window)
        qtbot.addWidget(window)
        dock = LanesDock(controller, theme, parent=window)
        window.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, dock)
        window.resize(1100, 700)
        window.show()
        qtbot.waitUntil(dock.content.isVisible)
        dock.content.state.refresh()
        return dock

    return make


def on_cpu(controller, qtbot, **keywords):
    """Load the controller's model with every layer on the CPU lane."""
    load_on_cpu(controller, qtbot, **keywords)
    return controller


def counted(panel):
    """Which layers the engine counts routings of."""
    return [bool(row) for row in panel.state.board.counted]


def routed(panel):
    return int(panel.state.board.routed.sum())


def test_a_hidden_dock_makes_nothing(make_controller, theme, qtbot):
    dock = LanesDock(make_controller(), theme)
    qtbot.addWidget(dock)
    assert dock.widget() is None
    assert isinstance(dock.content, LanesPanel)


def test_the_dock_shares_the_windows_history(make_controller, theme, qtbot):
    controller = make_controller()
    orders = Orders(controller, controller)
    dock = LanesDock(controller, theme, orders)
    qtbot.addWidget(dock)
    assert dock.content.orders is orders
    assert dock.content.toolbar.undo_action.shortcuts() == []  # the window has the keys


def test_without_a_model_the_dock_says_what_to_do(make_controller, make_dock):
    panel = make_dock(make_controller()).content
    assert "Choose a model" in panel._empty.text()
    assert panel._empty.isVisibleTo(panel)
    assert not panel.footer.isVisibleTo(panel)
    assert not panel.toolbar.isVisibleTo(panel)


def test_a_dense_model_is_said_to_have_no_experts(make_controller, make_dock, make_facts, qtbot):
    dense = make_facts(name="Dense 1B", moe_layers=(), expert_count=0, expert_bytes={})
    controller = make_controller(facts=dense)
    panel = make_dock(controller).content
    with qtbot.waitSignal(controller.model_changed, timeout=PATIENCE):
        controller.choose_model("model.gguf")
    assert "Dense 1B is a dense model" in panel._empty.text()


def test_every_lane_tells_its_experts_bytes_and_predicted_memory(loaded_controller, make_dock, qtbot):
    controller = on_cpu(loaded_controller(), qtbot)
    panel = make_dock(controller).content
    cpu = header_of(panel, "CPU").text
    assert "32 experts · 32.0 MiB" in cpu
    assert f"Predicted {in_bytes(predicted_use(controller.plan, 'CPU'))} of 11.0 GiB free" in cpu
    assert "no experts" in header_of(panel, "Vulkan0").text
    assert "no experts" in header_of(panel, "disk").text
    assert "4 layers" in header_of(panel, "CPU")._contents.toolTip()


def test_experts_in_the_pool_are_counted_in_its_lane(loaded_controller, make_dock, qtbot):
    controller = on_cpu(loaded_controller("--tokens", 20), qtbot, pool=8 * MIB)
    panel = make_dock(controller).content
    answer(qtbot, controller)
    qtbot.waitUntil(lambda: "8 experts · 8.0 MiB" in header_of(panel, "Vulkan0").text, timeout=PATIENCE)
    assert "24 experts · 24.0 MiB" in header_of(panel, "CPU").text


def test_without_a_gpu_its_lane_is_there_and_explains_itself_once(loaded_controller, make_dock):
    panel = make_dock(loaded_controller("--no-gpu")).content
    header = header_of(panel, ABSENT).text
    assert "No GPU was found." in header
    assert "CPU + Vulkan" in header
    assert "Predicted" not in header
    assert nothing_text(view_of(panel, ABSENT)) == "No experts can lie here."


def test_what_does_not_fit_is_shown_at_once_in_words_and_is_not_forbidden(
    loaded_controller, make_dock, make_facts, make_machine, qtbot
):
    machine = make_machine()
    small = msgspec.structs.replace(machine.gpus[0], free_bytes=1024 * MIB)
    controller = on_cpu(
        loaded_controller(facts=make_facts(layers=6, expert_mib=200), machine=make_machine(gpus=(small,))), qtbot
    )
    panel = make_dock(controller).content
    header = header_of(panel, "Vulkan0")
    assert header._memory.property("role") == "small"
    assert panel.orders.move_layers((0, 1, 2), "Vulkan0")
    assert controller.plan.expert_lanes[0] == "Vulkan0"
    assert header._memory.property("role") == "warning"
    assert header._memory.text() in panel.footer.text
    assert panel.footer.apply_button.isVisibleTo(panel)
    panel.orders.stack.undo()
    assert header._memory.property("role") == "small"


def test_layers_that_main_memory_has_no_room_for_are_told_where_they_went(
    loaded_controller, make_dock, make_facts, make_machine
):
    short = make_machine(ram=Ram(total_bytes=8192 * MIB, available_bytes=2600 * MIB))
    controller = loaded_controller(facts=make_facts(layers=4, expert_mib=100), machine=short)
    panel = make_dock(controller).content
    panel.orders.move_layers((0, 1, 2, 3), "Vulkan0")
    panel.orders.move_layers((0, 1, 2, 3), "CPU")
    panel.state.refresh()
    assert layers_in(panel, "CPU") + layers_in(panel, "disk") == (0, 1, 2, 3)
    assert layers_in(panel, "disk")
    assert panel.notice.text.startswith("Main memory has no room for")
    before = controller.plan
    panel.orders.move_layers(layers_in(panel, "disk"), "CPU")
    assert controller.plan is before
    assert panel.notice.text.startswith("Main memory has no room for")
    assert "disk lane" in panel.notice.text


def test_the_footer_tells_changes_and_memory_before_and_after(loaded_controller, make_dock, qtbot):
    controller = on_cpu(loaded_controller(), qtbot)
    panel = make_dock(controller).content
    assert panel.footer.text.startswith("This plan is loaded.")
    assert not panel.footer.apply_button.isVisibleTo(panel)
    before = predicted_use(controller.plan, "CPU")
    panel.orders.move_layers((0, 2), "Vulkan0")
    assert panel.footer.text.startswith("2 layers change lane: 0, 2 from CPU to Vulkan0")
    after = predicted_use(controller.plan, "CPU")
    assert f"CPU {in_bytes(before)} → {in_bytes(after)}" in panel.footer.text
    assert panel.footer.apply_button.isVisibleTo(panel)
    assert panel.footer.apply_button.text() == "Apply (reload ≈ 1.40 s)"  # as the script's load took


def test_applying_reloads_with_the_edited_plan_and_the_gpu_rows_are_uncounted(loaded_controller, make_dock, qtbot):
    controller = on_cpu(loaded_controller(), qtbot)
    panel = make_dock(controller).content
    panel.orders.move_layers((1,), "Vulkan0")
    edited = controller.plan
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        panel.footer.apply_button.click()
    assert controller.loaded_plan == edited
    assert panel.footer.text.startswith("This plan is loaded.")
    qtbot.waitUntil(lambda: counted(panel) == [True, False, True, True], timeout=PATIENCE)
    view = view_of(panel, "Vulkan0")
    assert "routings are not counted" in view.tip_at(view.cell_rect(1, 0).center())


def test_loading_shows_progress_and_what_is_moved_meanwhile_is_told_after_it(loaded_controller, make_dock, qtbot):
    controller = loaded_controller("--load-ms", 1500)
    panel = make_dock(controller).content
    with qtbot.waitSignal(controller.load_progress, timeout=PATIENCE):
        panel.footer.apply_wanted.emit()
    assert "Loading the model" in panel.footer.text
    assert panel.footer.cancel_button.isVisibleTo(panel)
    panel.orders.move_layers((0,), "CPU")
    assert not panel.footer.apply_button.isVisibleTo(panel)
    qtbot.waitUntil(lambda: controller.state == "ready")
    assert not panel.footer.cancel_button.isVisibleTo(panel)
    assert panel.footer.text.startswith("1 layer changes lane: 0 from Vulkan0 to CPU")
    assert panel.footer.apply_button.isVisibleTo(panel)


def test_a_cancelled_load_leaves_the_plan_ready_to_be_loaded(make_controller, make_dock, qtbot):
    controller = make_controller("--hold-load")
    panel = make_dock(controller).content
    with qtbot.waitSignals([controller.machine_changed, controller.model_changed], timeout=PATIENCE):
        controller.probe()
        controller.choose_model("model.gguf")
    controller.set_plan(controller.propose_plan())
    assert panel.footer.apply_button.text() == "Load the model"
    assert panel.footer.apply_button.isVisibleTo(panel)
    with qtbot.waitSignal(controller.load_progress, timeout=PATIENCE):
        panel.footer.apply_button.click()
    panel.footer.cancel_button.click()
    qtbot.waitUntil(lambda: controller.state == "empty")
    assert panel.footer.text.startswith("Scripted MoE is not loaded.")
    assert panel.footer.apply_button.isVisibleTo(panel)


def test_heat_appears_after_an_answer_and_the_legend_tells_its_scale(loaded_controller, make_dock, qtbot):
    controller = on_cpu(loaded_controller("--tokens", 30), qtbot)
    panel = make_dock(controller).content
    qtbot.waitUntil(lambda: counted(panel) == [True] * 4, timeout=PATIENCE)
    assert "ask something" in panel.legend.text
    answer(qtbot, controller)
    qtbot.waitUntil(lambda: "even share, 13 %" in panel.legend.text, timeout=PATIENCE)
    for words in ("▲: you keep this expert on the GPU", "■: you keep this expert on the CPU", "column for each GPU"):
        assert words in panel.legend.text


def test_the_cache_is_watched_only_while_the_dock_is_seen(loaded_controller, make_dock, qtbot):
    controller = on_cpu(loaded_controller("--hold-after", 3), qtbot)
    dock = make_dock(controller)
    qtbot.waitUntil(lambda: counted(dock.content) == [True] * 4, timeout=PATIENCE)
    with qtbot.waitSignal(controller.answer_started, timeout=PATIENCE):
        controller.ask("Go on")
    assert controller.cache.polling
    dock.hide()
    assert not controller.cache.polling
    before = routed(dock.content)
    qtbot.waitUntil(lambda: controller.conversation.messages()[-1].content == "Word 1 2")
    with qtbot.waitSignal(controller.finished, timeout=PATIENCE):
        controller.stop()
    assert routed(dock.content) == before
    dock.show()
    qtbot.waitUntil(lambda: routed(dock.content) > before, timeout=PATIENCE)


def test_heat_goes_with_the_engine_and_starts_again_after_a_load(loaded_controller, make_dock, qtbot, tmp_path):
    controller = on_cpu(loaded_controller("--crash-after", 5, "--crash-once", tmp_path / "crashed"), qtbot)
    panel = make_dock(controller).content
    qtbot.waitUntil(lambda: counted(panel) == [True] * 4, timeout=PATIENCE)
    with qtbot.waitSignal(controller.failed, timeout=PATIENCE):
        controller.ask("Die")
    qtbot.waitUntil(lambda: counted(panel) == [False] * 4, timeout=PATIENCE)
    assert panel.footer.text.startswith("Scripted MoE is not loaded.")
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        panel.footer.apply_button.click()
    answer(qtbot, controller)
    qtbot.waitUntil(lambda: routed(panel) > 0, timeout=PATIENCE)


def test_a_model_that_is_chosen_beside_the_loaded_one_shows_no_heat_of_it(
    loaded_controller, make_dock, make_facts, qtbot
):
    controller = on_cpu(loaded_controller(), qtbot)
    panel = make_dock(controller).content
    qtbot.waitUntil(lambda: counted(panel) == [True] * 4, timeout=PATIENCE)
    controller._set_facts(make_facts(name="Another", layers=3))
    assert "Another has no plan yet." in panel._empty.text()
    controller.set_plan(controller.propose_plan())
    panel.state.refresh()
    assert counted(panel) == [False] * 3
    assert panel.footer.text.startswith("Another is not loaded.")
    controller.return_to_loaded()
    assert panel.footer.text.startswith("This plan is loaded.")
    qtbot.waitUntil(lambda: counted(panel) == [True] * 4, timeout=PATIENCE)


def test_why_nothing_is_counted_is_told(loaded_controller, make_dock):
    panel = make_dock(loaded_controller("--no-expert-device", "the device is of another version")).content
    assert "the device is of another version" in panel.legend.text


def test_what_was_loaded_otherwise_than_planned_is_told(loaded_controller, make_dock):
    panel = make_dock(loaded_controller("--difference", "Layer 2 is on the CPU, not on Vulkan0.")).content
    assert "Layer 2 is on the CPU, not on Vulkan0." in panel.footer.text


def test_what_the_engine_allocated_stands_beside_the_prediction(loaded_controller, make_dock, qtbot):
    controller = on_cpu(loaded_controller(), qtbot)
    panel = make_dock(controller).content
    breakdown = header_of(panel, "CPU")._memory.toolTip()
    assert "experts: 32.0 MiB" in breakdown
    assert "The engine reports" in breakdown
    panel.orders.move_layers((0,), "Vulkan0")
    assert "The engine reports" not in header_of(panel, "CPU")._memory.toolTip()


def test_layers_of_a_gpu_that_is_gone_are_seen_and_can_be_moved_away(loaded_controller, make_dock, qtbot):
    controller = loaded_controller("--no-gpu")
    panel = make_dock(controller).content
    lanes = dict.fromkeys(controller.plan.expert_lanes, "Vulkan0")
    controller.set_plan(msgspec.structs.replace(controller.plan, expert_lanes=lanes))
    panel.state.refresh()
    assert layers_in(panel, "Vulkan0") == (0, 1, 2, 3)
    assert "did not find" in header_of(panel, "Vulkan0").text
    panel.orders.move_layers((0, 1, 2, 3), "CPU")
    panel.state.refresh()
    assert layers_in(panel, "CPU") == (0, 1, 2, 3)
    assert panel.lanes.boxes[0].info.key == ABSENT


def test_lanes_stand_side_by_side_where_there_is_room_and_are_stacked_where_not(loaded_controller, theme, qtbot):
    panel = show(loaded_controller(), theme, qtbot, (1000, 700))
    first, second, disk = panel.lanes.boxes
    corner = QPoint(0, 0)
    qtbot.waitUntil(lambda: second.mapTo(panel, corner).x() > first.mapTo(panel, corner).x())
    assert second.mapTo(panel, corner).y() == first.mapTo(panel, corner).y()
    panel.resize(420, 900)
    qtbot.waitUntil(lambda: second.mapTo(panel, corner).y() > first.mapTo(panel, corner).y())
    assert second.mapTo(panel, corner).x() == first.mapTo(panel, corner).x()
    assert panel.width() == 420
    assert disk.view.isHidden()  # empty, and it takes no drops


def test_an_empty_stacked_lane_keeps_a_strip_that_takes_drops(loaded_controller, theme, qtbot):
    panel = show(on_cpu(loaded_controller(), qtbot, pool=16 * MIB), theme, qtbot, (420, 900))
    gpu = view_of(panel, "Vulkan0")
    qtbot.waitUntil(lambda: 0 < gpu.height() < view_of(panel, "CPU").height(), timeout=PATIENCE)
    low = gpu.height()
    assert drag_cells(panel, "Vulkan0", {0: (1,)})
    qtbot.waitUntil(lambda: gpu.height() > low, timeout=PATIENCE)


@pytest.mark.parametrize("size", [(420, 480), (420, 900), (1200, 700)])
def test_nothing_is_cut_off_at_the_sides_of_a_narrow_or_a_wide_dock(loaded_controller, theme, qtbot, size):
    panel = show(on_cpu(loaded_controller(), qtbot), theme, qtbot, size)
    panel.orders.pin({0: (0,)}, "gpu")
    assert panel.notice.isVisibleTo(panel)
    assert panel.minimumSizeHint().width() <= 420
    for part in (panel.toolbar.search, panel.toolbar.zoom, panel.toolbar.profiles_button, *panel.notice.buttons):
        right = part.mapTo(panel, QPoint(part.width(), 0)).x()
        assert 0 < right <= panel.width()


def test_a_look_that_changes_repaints_lanes_legend_and_bars(loaded_controller, make_dock, theme, qtbot):
    controller = on_cpu(loaded_controller("--tokens", 30), qtbot)
    panel = make_dock(controller).content
    answer(qtbot, controller)
    qtbot.waitUntil(lambda: routed(panel) > 0, timeout=PATIENCE)
    header = header_of(panel, "CPU")
    parts = (view_of(panel, "CPU").viewport(), panel.legend, header._bar, header_of(panel, "Vulkan0").budget)
    light = [part.grab().toImage() for part in parts]
    theme.force("dark")
    dark = [part.grab().toImage() for part in parts]
    assert all(before != after for before, after in zip(light, dark, strict=True))


def test_free_memory_follows_a_new_probe_and_the_views_stay(loaded_controller, make_dock, make_machine):
    controller = loaded_controller()
    panel = make_dock(controller).content
    view = view_of(panel, "CPU")
    controller._set_machine(make_machine(ram=Ram(total_bytes=8192 * MIB, available_bytes=2048 * MIB)))
    panel.state.refresh()
    assert "of 2.0 GiB free" in header_of(panel, "CPU").text
    assert view_of(panel, "CPU") is view


def test_what_others_order_is_shown_here(loaded_controller, theme, qtbot):
    controller = on_cpu(loaded_controller(), qtbot, pool=16 * MIB)
    orders = Orders(controller, controller)
    panel = show(controller, theme, qtbot, orders=orders)
    orders.pin({2: (1,)}, "gpu")
    qtbot.waitUntil(lambda: shown(panel)["Vulkan0"].get(2) == (1,), timeout=PATIENCE)
    assert not orders.to_lane({2: (1,)}, "disk")
    assert "follows from main memory" in panel.notice.text
