"""The lanes dock as a whole: what it shows of machine, plan, memory and heat, and what it asks for when."""

import msgspec
import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QMainWindow

from app.hardware.facts import Ram
from app.placement.memory import predicted_use
from app.placement.planner import Wishes, with_lanes
from app.ui.lanes.dock import LanesDock
from app.ui.lanes.heat import LayerHeat
from app.ui.lanes.lane_info import ABSENT
from app.ui.lanes.model import HEAT, UNCOUNTED
from app.ui.lanes.panel import LanesPanel
from app.ui.words import in_bytes

MIB = 1024**2


@pytest.fixture
def make_dock(theme, qtbot):
    """A shown dock over a controller."""
    windows = []  # qtbot keeps no reference

    def make(controller):
        window = QMainWindow()
        windows.append(window)
        qtbot.addWidget(window)
        dock = LanesDock(controller, theme, window)
        window.addDockWidget(Qt.DockWidgetArea.BottomDockWidgetArea, dock)
        window.resize(1100, 700)
        window.show()
        qtbot.waitUntil(dock.content.isVisible)
        return dock

    return make


def on_cpu(controller, qtbot):
    """Load the controller's model with every layer on the CPU."""
    controller.set_plan(controller.propose_plan(Wishes(gpu=None)))
    with qtbot.waitSignal(controller.loaded, timeout=10000):
        controller.load()
    return controller


def answer(controller, qtbot):
    with qtbot.waitSignal(controller.finished, timeout=10000):
        controller.ask("What is an expert?")


def heats(panel):
    return [panel.layers.index(row).data(HEAT) for row in range(panel.layers.rowCount())]


def test_a_hidden_dock_makes_nothing(make_controller, theme, qtbot):
    dock = LanesDock(make_controller(), theme)
    qtbot.addWidget(dock)
    assert dock.widget() is None
    assert isinstance(dock.content, LanesPanel)


def test_without_a_model_the_dock_says_what_to_do(make_controller, make_dock):
    panel = make_dock(make_controller()).content
    assert "Choose a model" in panel._empty.text()
    assert panel._empty.isVisibleTo(panel)
    assert not panel.footer.isVisibleTo(panel)


def test_a_dense_model_is_said_to_have_no_experts(make_controller, make_dock, make_facts, qtbot):
    dense = make_facts(name="Dense 1B", moe_layers=(), expert_count=0, expert_bytes={})
    controller = make_controller(facts=dense)
    panel = make_dock(controller).content
    with qtbot.waitSignal(controller.model_changed, timeout=10000):
        controller.choose_model("model.gguf")
    assert "Dense 1B is a dense model" in panel._empty.text()


def test_every_lane_tells_its_layers_bytes_and_predicted_memory(loaded_controller, make_dock, qtbot):
    controller = on_cpu(loaded_controller(), qtbot)
    panel = make_dock(controller).content
    cpu = panel.column("CPU").header.text
    assert "4 layers · 32.0 MiB" in cpu
    assert f"Predicted {in_bytes(predicted_use(controller.plan, 'CPU'))} of 11.0 GiB free" in cpu
    assert "no layers" in panel.column("Vulkan0").header.text
    assert "no layers" in panel.column("disk").header.text


def test_without_a_gpu_its_lane_is_there_and_explains_itself(loaded_controller, make_dock):
    panel = make_dock(loaded_controller("--no-gpu")).content
    header = panel.column(ABSENT).header.text
    assert "No GPU was found." in header
    assert "CPU + Vulkan" in header
    assert "Predicted" not in header


def test_what_does_not_fit_is_shown_at_once_in_words_and_is_not_forbidden(
    loaded_controller, make_dock, make_facts, make_machine, qtbot
):
    machine = make_machine()
    small = msgspec.structs.replace(machine.gpus[0], free_bytes=1024 * MIB)
    controller = on_cpu(
        loaded_controller(facts=make_facts(layers=6, expert_mib=200), machine=make_machine(gpus=(small,))), qtbot
    )
    panel = make_dock(controller).content
    header = panel.column("Vulkan0").header
    assert header._memory.property("role") == "small"
    assert panel.moves.move((0, 1, 2), "Vulkan0")
    assert controller.plan.expert_lanes[0] == "Vulkan0"
    assert header._memory.property("role") == "warning"
    assert header._memory.text() in panel.footer.text
    assert panel.footer.apply_button.isVisibleTo(panel)
    panel.moves.stack.undo()
    assert header._memory.property("role") == "small"


def test_layers_that_main_memory_has_no_room_for_are_told_where_they_went(
    loaded_controller, make_dock, make_facts, make_machine
):
    short = make_machine(ram=Ram(total_bytes=8192 * MIB, available_bytes=2600 * MIB))
    controller = loaded_controller(facts=make_facts(layers=4, expert_mib=100), machine=short)
    panel = make_dock(controller).content
    assert panel.column("Vulkan0").view.proxy.layers() == (0, 1, 2, 3)
    panel.moves.move((0, 1, 2, 3), "CPU")
    cpu, disk = panel.column("CPU").view, panel.column("disk").view
    assert cpu.proxy.layers() + disk.proxy.layers() == (0, 1, 2, 3)
    assert disk.proxy.rowCount() > 0
    assert panel.notice.text.startswith("Main memory has no room for")
    before = controller.plan
    panel.moves.move(disk.proxy.layers(), "CPU")
    assert controller.plan is before
    assert panel.notice.text.startswith("Main memory has no room for")
    assert "disk lane" in panel.notice.text


def test_the_footer_tells_changes_and_memory_before_and_after(loaded_controller, make_dock, qtbot):
    controller = on_cpu(loaded_controller(), qtbot)
    panel = make_dock(controller).content
    assert panel.footer.text.startswith("This plan is loaded.")
    assert not panel.footer.apply_button.isVisibleTo(panel)
    before = predicted_use(controller.plan, "CPU")
    panel.moves.move((0, 2), "Vulkan0")
    assert panel.footer.text.startswith("2 layers change lane: 0, 2 from CPU to Vulkan0")
    after = predicted_use(controller.plan, "CPU")
    assert f"CPU {in_bytes(before)} → {in_bytes(after)}" in panel.footer.text
    assert panel.footer.apply_button.isVisibleTo(panel)


def test_applying_reloads_with_the_edited_plan_and_the_gpu_rows_turn_uncounted(loaded_controller, make_dock, qtbot):
    controller = on_cpu(loaded_controller(), qtbot)
    panel = make_dock(controller).content
    panel.moves.move((1,), "Vulkan0")
    edited = controller.plan
    with qtbot.waitSignal(controller.loaded, timeout=10000):
        panel.footer.apply_button.click()
    assert controller.loaded_plan == edited
    assert panel.footer.text.startswith("This plan is loaded.")
    assert panel.layers.layer_row(1).data(UNCOUNTED) == "not counted on the GPU"
    answer(controller, qtbot)
    qtbot.waitUntil(lambda: heats(panel)[0] is not None)
    assert heats(panel)[1] is None


def test_loading_shows_progress_and_what_is_moved_meanwhile_is_told_after_it(loaded_controller, make_dock, qtbot):
    controller = loaded_controller("--load-ms", 300)
    panel = make_dock(controller).content
    with qtbot.waitSignal(controller.load_progress, timeout=10000):
        panel.footer.apply_wanted.emit()
    assert "Loading the model" in panel.footer.text
    assert panel.footer.cancel_button.isVisibleTo(panel)
    panel.moves.move((0,), "CPU")
    assert not panel.footer.apply_button.isVisibleTo(panel)
    qtbot.waitUntil(lambda: controller.state == "ready")
    assert not panel.footer.cancel_button.isVisibleTo(panel)
    assert panel.footer.text.startswith("1 layer changes lane: 0 from Vulkan0 to CPU")
    assert panel.footer.apply_button.isVisibleTo(panel)


def test_a_cancelled_load_leaves_the_plan_ready_to_be_loaded(make_controller, make_dock, qtbot):
    controller = make_controller("--hold-load")
    panel = make_dock(controller).content
    with qtbot.waitSignals([controller.machine_changed, controller.model_changed], timeout=10000):
        controller.probe()
        controller.choose_model("model.gguf")
    controller.set_plan(controller.propose_plan())
    assert panel.footer.apply_button.text() == "Load the model"
    assert panel.footer.apply_button.isVisibleTo(panel)
    with qtbot.waitSignal(controller.load_progress, timeout=10000):
        panel.footer.apply_button.click()
    panel.footer.cancel_button.click()
    qtbot.waitUntil(lambda: controller.state == "empty")
    assert panel.footer.text.startswith("Scripted MoE is not loaded.")
    assert panel.footer.apply_button.isVisibleTo(panel)


def test_heat_appears_after_an_answer_and_the_legend_tells_its_scale(loaded_controller, make_dock, qtbot):
    controller = on_cpu(loaded_controller("--tokens", 30), qtbot)
    panel = make_dock(controller).content
    qtbot.waitUntil(lambda: heats(panel)[0] is not None)
    assert "ask something" in panel.legend.text
    answer(controller, qtbot)
    qtbot.waitUntil(lambda: heats(panel)[0].total > 0)
    assert all(isinstance(heat, LayerHeat) for heat in heats(panel))
    assert "even share, 13 %" in panel.legend.text


def test_the_cache_is_watched_only_while_the_dock_is_seen(loaded_controller, make_dock, qtbot):
    controller = on_cpu(loaded_controller("--hold-after", 3), qtbot)
    dock = make_dock(controller)
    qtbot.waitUntil(lambda: heats(dock.content)[0] is not None)
    with qtbot.waitSignal(controller.answer_started, timeout=10000):
        controller.ask("Go on")
    assert controller.cache.polling
    dock.hide()
    assert not controller.cache.polling
    qtbot.waitUntil(lambda: controller.conversation.messages()[-1].content == "Word 1 2")
    with qtbot.waitSignal(controller.finished, timeout=10000):
        controller.stop()
    assert heats(dock.content)[0].total == 0
    dock.show()
    qtbot.waitUntil(lambda: heats(dock.content)[0].total > 0)


def test_heat_goes_with_the_engine_and_starts_again_after_a_load(loaded_controller, make_dock, qtbot, tmp_path):
    controller = on_cpu(loaded_controller("--crash-after", 5, "--crash-once", tmp_path / "crashed"), qtbot)
    panel = make_dock(controller).content
    qtbot.waitUntil(lambda: heats(panel)[0] is not None)
    with qtbot.waitSignal(controller.failed, timeout=10000):
        controller.ask("Die")
    assert heats(panel) == [None] * 4
    assert panel.footer.text.startswith("Scripted MoE is not loaded.")
    with qtbot.waitSignal(controller.loaded, timeout=10000):
        panel.footer.apply_button.click()
    answer(controller, qtbot)
    qtbot.waitUntil(lambda: heats(panel)[0] is not None and heats(panel)[0].total > 0)


def test_a_model_that_is_chosen_beside_the_loaded_one_shows_no_heat_of_it(
    loaded_controller, make_dock, make_facts, qtbot
):
    controller = loaded_controller()
    panel = make_dock(controller).content
    assert panel.layers.layer_row(0).data(UNCOUNTED) == "not counted on the GPU"
    controller._set_facts(make_facts(name="Another", layers=3))
    assert "Another has no plan yet." in panel._empty.text()
    controller.set_plan(controller.propose_plan())
    assert panel.layers.rowCount() == 3
    assert heats(panel) == [None] * 3
    assert panel.layers.layer_row(0).data(UNCOUNTED) == ""
    assert panel.footer.text.startswith("Another is not loaded.")
    controller.return_to_loaded()
    assert panel.footer.text.startswith("This plan is loaded.")
    qtbot.waitUntil(lambda: panel.layers.rowCount() == 4)


def test_why_nothing_is_counted_is_told(loaded_controller, make_dock):
    panel = make_dock(loaded_controller("--no-expert-device", "the device is of another version")).content
    assert "the device is of another version" in panel.legend.text


def test_what_was_loaded_otherwise_than_planned_is_told(loaded_controller, make_dock):
    panel = make_dock(loaded_controller("--difference", "Layer 2 is on the CPU, not on Vulkan0.")).content
    assert "Layer 2 is on the CPU, not on Vulkan0." in panel.footer.text


def test_what_the_engine_allocated_stands_beside_the_prediction(loaded_controller, make_dock, qtbot):
    controller = on_cpu(loaded_controller(), qtbot)
    panel = make_dock(controller).content
    breakdown = panel.column("CPU").header._memory.toolTip()
    assert "experts: 32.0 MiB" in breakdown
    assert "The engine reports" in breakdown
    panel.moves.move((0,), "Vulkan0")
    assert "The engine reports" not in panel.column("CPU").header._memory.toolTip()


def test_layers_of_a_gpu_that_is_gone_are_seen_and_can_be_moved_away(loaded_controller, make_dock, make_machine, qtbot):
    controller = loaded_controller("--no-gpu")
    panel = make_dock(controller).content
    lanes = dict.fromkeys(controller.plan.expert_lanes, "Vulkan0")
    controller.set_plan(msgspec.structs.replace(controller.plan, expert_lanes=lanes))
    assert panel.column("Vulkan0").view.proxy.layers() == (0, 1, 2, 3)
    assert "did not find" in panel.column("Vulkan0").header.text
    panel.moves.move((0, 1, 2, 3), "CPU")
    assert panel.column("CPU").view.proxy.layers() == (0, 1, 2, 3)
    assert panel.columns[0].info.key == ABSENT


def test_lanes_stand_side_by_side_where_there_is_room_and_are_stacked_where_not(loaded_controller, theme, qtbot):
    panel = LanesPanel(loaded_controller(), theme)
    qtbot.addWidget(panel)
    panel.show()
    first, second = panel.columns[:2]
    corner = QPoint(0, 0)
    panel.resize(1000, 700)
    qtbot.waitUntil(lambda: second.mapTo(panel, corner).x() > first.mapTo(panel, corner).x())
    assert second.mapTo(panel, corner).y() == first.mapTo(panel, corner).y()
    assert panel.column("disk").view.isVisibleTo(panel)
    panel.resize(440, 900)
    qtbot.waitUntil(lambda: second.mapTo(panel, corner).y() > first.mapTo(panel, corner).y())
    assert second.mapTo(panel, corner).x() == first.mapTo(panel, corner).x()
    assert not panel.column("disk").view.isVisibleTo(panel)


def test_an_empty_stacked_lane_takes_a_drop_on_its_header_and_opens(loaded_controller, theme, qtbot):
    controller = on_cpu(loaded_controller(), qtbot)
    panel = LanesPanel(controller, theme)
    qtbot.addWidget(panel)
    panel.resize(440, 900)
    panel.show()
    gpu, cpu = panel.column("Vulkan0"), panel.column("CPU").view
    qtbot.waitUntil(lambda: not gpu.view.isVisibleTo(panel))
    data = cpu.proxy.mimeData([cpu.proxy.index(0, 0)])
    action, button, keys = Qt.DropAction.MoveAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(gpu, QDragEnterEvent(QPoint(4, 4), action, data, button, keys))
    QApplication.sendEvent(gpu, QDropEvent(QPointF(4, 4), action, data, button, keys))
    qtbot.waitUntil(lambda: gpu.view.proxy.layers() == (0,))
    assert gpu.view.isVisibleTo(panel)


def test_a_row_is_as_high_as_its_strip_needs_at_the_width_it_has(loaded_controller, theme, make_facts, qtbot):
    controller = on_cpu(loaded_controller("--experts", 128, facts=make_facts(experts=128)), qtbot)
    panel = LanesPanel(controller, theme)
    qtbot.addWidget(panel)
    panel.show()
    view = panel.column("CPU").view
    heights = {}
    for width in (2600, 1000):
        panel.resize(width, 700)
        qtbot.waitUntil(
            lambda width=width: panel.width() == width and view.visualRect(view.proxy.index(0, 0)).isValid()
        )
        qtbot.waitUntil(lambda: view.visualRect(view.proxy.index(0, 0)).width() == view.viewport().width())
        heights[width] = view.visualRect(view.proxy.index(0, 0)).height()
    assert heights[1000] > heights[2600]


def test_a_look_that_changes_repaints_lanes_legend_and_bars(loaded_controller, make_dock, theme, qtbot):
    controller = on_cpu(loaded_controller("--tokens", 30), qtbot)
    panel = make_dock(controller).content
    answer(controller, qtbot)
    qtbot.waitUntil(lambda: heats(panel)[0] is not None and heats(panel)[0].total > 0)
    parts = (panel.column("CPU").view.viewport(), panel.legend, panel.column("CPU").header._bar)
    light = [part.grab().toImage() for part in parts]
    theme.force("dark")
    dark = [part.grab().toImage() for part in parts]
    assert all(before != after for before, after in zip(light, dark, strict=True))


def test_uncounted_rows_look_unlike_cold_ones(loaded_controller, make_dock, qtbot):
    controller = on_cpu(loaded_controller(), qtbot)
    controller.set_plan(with_lanes(controller.plan, controller.facts, controller.machine, (0,), "Vulkan0"))
    with qtbot.waitSignal(controller.loaded, timeout=10000):
        controller.load()
    panel = make_dock(controller).content
    qtbot.waitUntil(lambda: heats(panel)[1] is not None)
    assert heats(panel)[1].total == 0
    hatched = panel.column("Vulkan0").view.viewport().grab().toImage()
    cold = panel.column("CPU").view.viewport().grab().toImage()
    colors = panel._theme.colors
    assert seen(cold, colors.heat[0].rgb())
    assert not seen(hatched, colors.heat[0].rgb())


def seen(image, color):
    return any(image.pixel(x, y) == color for y in range(0, 30) for x in range(image.width()))


def test_parts_have_names_for_screen_readers(loaded_controller, make_dock):
    dock = make_dock(loaded_controller())
    panel = dock.content
    assert dock.accessibleName()
    assert panel.accessibleName()
    for column in panel.columns:
        assert column.view.accessibleName()
        assert column.header.accessibleName()
    assert panel.legend.accessibleName()


def test_free_memory_follows_a_new_probe(loaded_controller, make_dock, make_machine):
    controller = loaded_controller()
    panel = make_dock(controller).content
    controller._set_machine(make_machine(ram=Ram(total_bytes=8192 * MIB, available_bytes=2048 * MIB)))
    assert "of 2.0 GiB free" in panel.column("CPU").header.text
