"""The lanes while something else happens: another probe, a drag, a hidden or minimised window, a deaf engine."""

import msgspec
import pytest
from controller_driver import PATIENCE, seen
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QDrag, QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QMainWindow
from scripted_engine import GIB

from app.hardware.facts import Ram
from app.placement.planner import Wishes
from app.ui import widgets
from app.ui.graphs.dock import GraphsDock
from app.ui.lanes.dock import LanesDock
from app.ui.lanes.loads import lane_load
from app.ui.lanes.panel import LanesPanel
from app.ui.words import in_bytes


@pytest.fixture
def make_panel(make_controller, theme, make_facts, make_machine, qtbot):
    """A shown panel whose plan has every layer on the CPU; no engine runs."""

    def make(layers=4, machine=None):
        controller = make_controller(facts=make_facts(layers=layers))
        controller._set_machine(machine or make_machine())
        with qtbot.waitSignal(controller.model_changed, timeout=PATIENCE):
            controller.choose_model("model.gguf")
        controller.set_plan(controller.propose_plan(Wishes(gpu=None)))
        panel = LanesPanel(controller, theme)
        qtbot.addWidget(panel)
        panel.resize(1100, 400)
        panel.show()
        panel.activateWindow()
        qtbot.waitUntil(panel.isActiveWindow, timeout=PATIENCE)
        return panel

    return make


def drop(column, data):
    """What Qt sends when a drag ends over a lane."""
    move, button, keys = Qt.DropAction.MoveAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(column, QDragEnterEvent(QPoint(5, 5), move, data, button, keys))
    QApplication.sendEvent(column, QDropEvent(QPointF(5, 5), move, data, button, keys))


def test_another_probe_changes_figures_and_leaves_selection_focus_and_scroll(make_panel, make_machine, qtbot):
    panel = make_panel(layers=40)
    view = panel.column("CPU").view
    view.select_layers((20, 21))
    view.setFocus()
    bar = view.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 100, timeout=PATIENCE)
    bar.setValue(100)
    panel._controller._set_machine(make_machine(ram=Ram(total_bytes=16 * GIB, available_bytes=5 * GIB)))
    assert panel.column("CPU").view is view
    assert "5.0 GiB free" in panel.column("CPU").header.text
    assert view.selected_layers() == (20, 21)
    assert view.hasFocus()
    assert bar.value() == 100


def test_lanes_that_change_during_a_drag_wait_until_it_is_over(make_panel, make_machine, monkeypatch):
    panel = make_panel()
    source = panel.column("CPU")
    source.view.select_layers((0, 1))
    lanes = []

    def lanes_now():
        return [column.info.key for column in panel.columns]

    def exec_(_drag, _actions):
        panel._controller._set_machine(make_machine(False))  # the GPU was unplugged
        lanes.append((lanes_now(), panel.column("CPU") is source))

    monkeypatch.setattr(QDrag, "exec", exec_)
    source.view.startDrag(Qt.DropAction.MoveAction)
    assert lanes == [(["Vulkan0", "CPU", "disk"], True)]
    assert lanes_now() == ["", "CPU", "disk"]


def test_the_drop_itself_moves_nothing_yet(make_panel):
    panel = make_panel()
    view, target = panel.column("CPU").view, panel.column("Vulkan0")
    data = view.proxy.mimeData([view.proxy.index(0, 0)])
    wanted = seen(target.view.move_wanted)
    drop(target, data)
    assert wanted == []
    QApplication.processEvents()
    assert wanted == [(0,)]


def test_a_hidden_panel_does_nothing_until_it_is_seen_again(make_panel, monkeypatch):
    panel = make_panel()
    panel.hide()
    asked = []
    monkeypatch.setattr(panel.layers, "show", lambda *arguments: asked.append(arguments))
    for tokens in (512, 1024, 2048):
        panel._controller.set_plan(panel._controller.propose_plan(Wishes(gpu=None, n_ctx=tokens)))
    assert asked == []
    panel.show()
    assert [plan.n_ctx for _facts, plan in asked] == [2048]


@pytest.mark.parametrize("dock_type", [LanesDock, GraphsDock])
def test_a_dock_rests_while_its_window_is_minimised(loaded_controller, theme, qtbot, monkeypatch, dock_type):
    window = QMainWindow()
    qtbot.addWidget(window)
    dock = dock_type(loaded_controller(), theme, window)
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
    controller = loaded_controller("--load-ms", 200, "--deaf")
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
