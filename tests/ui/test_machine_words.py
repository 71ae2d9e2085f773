"""Main memory that a GPU without its own takes is told where main memory is told, and not only in a tip."""

import msgspec
import pytest
from ui_factories import GpuKind, make_facts, make_machine

from app.placement.memory import predicted_use
from app.placement.planner import Wishes, make_plan
from app.ui.lanes.header import LaneHeader
from app.ui.lanes.lane_info import lanes_of
from app.ui.lanes.loads import lane_load
from app.ui.wizard.memory_view import MemoryView
from app.ui.words import in_bytes


@pytest.fixture(params=[GpuKind.DISCRETE, GpuKind.INTEGRATED, GpuKind.SOFTWARE])
def planned(request, qapp):
    """A kind of GPU, its machine, and a plan with attention on it."""
    machine = make_machine()
    machine = msgspec.structs.replace(machine, gpus=(msgspec.structs.replace(machine.gpus[0], kind=request.param),))
    facts = make_facts()
    return request.param, machine, facts, make_plan(facts, machine, Wishes(gpu="Vulkan0"))


def test_the_cpu_lane_and_the_wizards_bar_say_what_of_main_memory_is_a_gpus(qtbot, theme, planned):
    kind, machine, facts, plan = planned
    info = next(lane for lane in lanes_of(machine, plan) if lane.key == "CPU")
    header, view = LaneHeader(info, theme), MemoryView(theme)
    qtbot.addWidget(header)
    qtbot.addWidget(view)
    header.show_load(lane_load("CPU", plan, facts, machine))
    view.show_plan(plan, machine)
    words = f", {in_bytes(predicted_use(plan, 'Vulkan0'))} of it for Vulkan0"
    own = kind is GpuKind.DISCRETE
    assert (words in header.text, words in view.text) == (not own, not own)
    together = predicted_use(plan, "CPU") + (0 if own else predicted_use(plan, "Vulkan0"))
    assert f"redicted {in_bytes(together)} of" in header.text
    assert f"Main memory: predicted {in_bytes(together)} of" in view.text
