"""The lanes while something else happens: another probe, a drag, a hidden or minimised window, a deaf engine."""

import msgspec
import pytest
from controller_driver import PATIENCE, seen
from lanes_driver import header_of, select, show, view_of
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QMainWindow
from scripted_engine import GIB

from app.hardware.facts import Ram
from app.placement.planner import Wishes
from app.ui import widgets
from app.ui.graphs.dock import GraphsDock
from app.ui.lanes.dock import LanesDock
from app.ui.lanes.loads import lane_load
from app.ui.lanes.mime import Dragged, pack
from app.ui.lanes.panel import LanesPanel
from app.ui.words import in_bytes


@pytest.fixture
def make_panel(make_controller, theme, make_facts, make_machine, qtbot):
    """A shown panel whose plan has every layer on the CPU; no engine runs."""

    def make(layers=4, machine=None, size=(1100, 400)):
        controller = make_controller(facts=make_facts(layers=layers))
        controller._set_machine(machine or make_machine())
        with qtbot.waitSignal(controller.model_changed, timeout=PATIENCE):
            controller.choose_model("model.gguf")
        controller.set_plan(controller.propose_plan(Wishes(gpu=None)))
        return show(controller, theme, qtbot, size)

    return make


def test_another_probe_changes_figures_and_leaves_selection_focus_and_scroll(make_panel, make_machine, qtbot):
    panel = make_panel(layers=40)
    view = view_of(panel, "CPU")
    panel.lanes.set_zoom(40.0)
    select(panel, {20: (1, 2)})
    view.setFocus()
    bar = view.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 100, timeout=PATIENCE)
    bar.setValue(100)
    panel._controller._set_machine(make_machine(ram=Ram(total_bytes=16 * GIB, available_bytes=5 * GIB)))
    panel.state.refresh()
    assert view_of(panel, "CPU") is view
    assert "5.0 GiB free" in header_of(panel, "CPU").text
    assert panel.state.selection.cells() == {20: (1, 2)}
    assert view.hasFocus()
    assert (bar.value(), view.zoom) == (100, 40.0)


def test_lanes_that_change_during_a_drag_wait_until_it_is_over(make_panel, make_machine):
    panel = make_panel()
    view = view_of(panel, "CPU")

    def lanes_now():
        return [box.info.key for box in panel.lanes.boxes]

    view.dragging = True
    panel._controller._set_machine(make_machine(False))  # the GPU was unplugged
    panel.state.refresh()
    assert (lanes_now(), view_of(panel, "CPU") is view) == (["Vulkan0", "CPU", "disk"], True)
    view.dragging = False
    view.drag_ended.emit()
    assert lanes_now() == ["", "CPU", "disk"]


def test_other_lanes_keep_the_zoom(make_panel, make_machine):
    panel = make_panel()
    panel.lanes.set_zoom(60.0)
    panel._controller._set_machine(make_machine(False))
    panel.state.refresh()
    assert {box.view.zoom for box in panel.lanes.boxes} == {60.0}


def test_the_drop_itself_orders_nothing_yet(make_panel):
    panel = make_panel()
    target = view_of(panel, "Vulkan0").viewport()
    data = pack(Dragged(model=panel.state.board.model, layers=(0,)))
    before = panel._controller.plan
    move, button, keys = Qt.DropAction.MoveAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(target, QDragEnterEvent(QPoint(5, 5), move, data, button, keys))
    QApplication.sendEvent(target, QDropEvent(QPointF(5, 5), move, data, button, keys))
    assert panel._controller.plan is before
    QApplication.processEvents()
    assert panel._controller.plan.expert_lanes[0] == "Vulkan0"


def test_a_hidden_panel_does_nothing_until_it_is_seen_again(make_panel, monkeypatch):
    panel = make_panel()
    panel.hide()
    panel.set_active(False)
    asked = []
    monkeypatch.setattr(panel.footer, "show_plan", lambda plan, *_arguments, **_keywords: asked.append(plan))
    for tokens in (512, 1024, 2048):
        panel._controller.set_plan(panel._controller.propose_plan(Wishes(gpu=None, n_ctx=tokens)))
    assert asked == []
    panel.show()
    assert [plan.n_ctx for plan in asked] == [2048]


@pytest.mark.parametrize("dock_type", [LanesDock, GraphsDock])
def test_a_dock_rests_while_its_window_is_minimised(loaded_controller, theme, qtbot, monkeypatch, dock_type):
    window = QMainWindow()
    qtbot.addWidget(window)
    dock = dock_type(loaded_controller(), theme, parent=window)
    window.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, dock)
    window.resize(1000, 700)
    window.show()
    qtbot.waitUntil(dock.content.isVisible, timeout=PATIENCE)
    told = []
    real = dock.content.set_active
    monkeypatch.setattr(dock.content, "set_active", lambda active: (told.append(active), real(active)))
    window.showMinimized()
    qtbot.waitUntil(lambda: told[-1:] == [False], timeout=PATIENCE)
    window.showNormal()
    qtbot.waitUntil(lambda: told[-1:] == [True], timeout=PATIENCE)
    dock.shutdown()


def test_a_mapped_file_is_not_told_as_allocated_memory(loaded_controller):
    controller = loaded_controller("--no-gpu")
    report = controller.loaded_report
    load = lane_load("CPU", controller.plan, controller.facts, controller.machine, reported=report)
    parts = {buffer.part: buffer.bytes for buffer in report.buffers}
    allocated = sum(parts.values()) - parts["mapped"]
    assert f"The engine reports {in_bytes(allocated)} allocated here." in load.breakdown
    assert f"It maps {in_bytes(parts['mapped'])} of the model file" in load.breakdown
    only = msgspec.structs.replace(report, buffers=tuple(b for b in report.buffers if b.part == "mapped"))
    load = lane_load("CPU", controller.plan, controller.facts, controller.machine, reported=only)
    assert "allocated here" not in load.breakdown


def test_an_engine_deaf_to_the_footers_cancel_can_be_ended(make_panel, monkeypatch, qtbot, loaded_controller, theme):
    monkeypatch.setattr(widgets, "CANCEL_MILLISECONDS", 100)
    controller = loaded_controller("--load-ms", 1500, "--deaf")
    panel = LanesPanel(controller, theme)
    qtbot.addWidget(panel)
    panel.resize(1100, 600)
    panel.show()
    controller.load()
    button = panel.footer.cancel_button
    ended = seen(controller.state_changed)
    monkeypatch.setattr(controller.engine, "send", lambda *_arguments, **_fields: 0)  # nothing arrives any more
    button.click()
    qtbot.waitUntil(lambda: button.text() == "&End the engine", timeout=PATIENCE)
    button.click()
    assert ended == ["empty"]
    assert button.text() == "Cancel loading"
