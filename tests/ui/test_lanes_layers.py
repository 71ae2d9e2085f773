"""Whole layers ordered about in the dock, by drags and from the menu, for the next load."""

import pytest
from controller_driver import PATIENCE
from lanes_driver import ALT, drag_layers, entries, hang, header_of, layers_in, leave, popup, select, show, view_of
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.placement.planner import Wishes
from app.ui.lanes.lane_info import ABSENT
from app.ui.lanes.mime import Dragged, pack


@pytest.fixture
def plan_panel(make_controller, theme, make_facts, make_machine, qtbot):
    """`plan_panel(gpu=True, layers=4)`: a panel whose plan has every layer on the CPU; no engine runs."""

    def make(gpu=True, layers=4):
        controller = make_controller(facts=make_facts(layers=layers))
        controller._set_machine(make_machine(gpu))
        with qtbot.waitSignal(controller.model_changed, timeout=PATIENCE):
            controller.choose_model("model.gguf")
        controller.set_plan(controller.propose_plan(Wishes(gpu=None)))
        return show(controller, theme, qtbot)

    return make


def test_layers_dropped_on_a_lane_move_there_for_the_next_load(plan_panel):
    panel = plan_panel()
    assert drag_layers(panel, "Vulkan0", (1, 2))
    assert panel._controller.plan.expert_lanes == {0: "CPU", 1: "Vulkan0", 2: "Vulkan0", 3: "CPU"}
    panel.state.refresh()
    assert layers_in(panel, "Vulkan0") == (1, 2)


def test_a_drop_on_the_lane_that_the_layers_are_in_and_on_the_disk_is_not_taken(plan_panel):
    panel = plan_panel()
    before = panel._controller.plan
    assert not drag_layers(panel, "CPU", (1,))
    assert not drag_layers(panel, "disk", (1,))
    assert panel._controller.plan is before


def test_while_layers_hang_over_a_lane_its_header_tells_what_a_drop_would_make(plan_panel):
    panel = plan_panel()
    before = header_of(panel, "Vulkan0").text
    hang(panel, "Vulkan0", pack(Dragged(model=panel.state.board.model, layers=(0,))))
    assert "After the drop" in header_of(panel, "Vulkan0").text
    leave(panel, "Vulkan0")
    assert header_of(panel, "Vulkan0").text == before


def test_the_menu_moves_whole_layers_to_a_named_lane(plan_panel, qtbot):
    panel = plan_panel()
    select(panel, {1: (0,), 3: (2, 3)})
    view_of(panel, "CPU").ask_menu()
    with popup(qtbot) as menu:
        assert not entries(menu)["Move 2 layers whole to CPU (needs a reload)"].isEnabled()
        entries(menu)["Move 2 layers whole to GPU · Vulkan0 (needs a reload)"].trigger()
    panel.state.refresh()
    assert layers_in(panel, "Vulkan0") == (1, 3)


def test_the_menu_selects_layers_a_lane_or_nothing(plan_panel, qtbot):
    panel = plan_panel()
    select(panel, {1: (0,)})
    for text, count in (("Select the whole layers", 8), ("Select all of this lane", 32), ("Select nothing", 0)):
        view_of(panel, "CPU").ask_menu()
        with popup(qtbot) as menu:
            entries(menu)[text].trigger()
        assert panel.state.selection.count == count


def test_a_machine_without_a_gpu_offers_no_move_there_and_says_why(plan_panel, qtbot):
    panel = plan_panel(gpu=False)
    select(panel, {1: (0,)})
    view_of(panel, "CPU").ask_menu()
    with popup(qtbot) as menu:
        assert not entries(menu)["Move 1 layer whole to GPU (needs a reload)"].isEnabled()
    panel.orders.move_layers((0,), ABSENT)
    assert "No GPU was found." in panel.notice.text
    QTest.keyClick(view_of(panel, "CPU"), Qt.Key.Key_Left, ALT)
    assert "No GPU was found." in panel.notice.text
    assert panel._controller.plan.pins == ()
