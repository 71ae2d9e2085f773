"""A model whose experts stay in the file, over the scripted engine: how the tests of the memory tier load it."""

import msgspec
from controller_driver import PATIENCE
from lanes_driver import header_of, show

from app.placement.memory import predict
from app.placement.plan import CPU_LANE
from app.ui.live_plan import with_pool_bytes

MIB = 1024**2


def mapped_plan(controller, *, pool=0, budget=None, residency="mapped"):
    """Every expert on the CPU lane, in the file; attention on the GPU where there is one."""
    facts, machine = controller.facts, controller.machine
    lanes = dict.fromkeys(facts.moe_layers, CPU_LANE)
    plan = msgspec.structs.replace(
        controller.propose_plan(), expert_lanes=lanes, pool_bytes=0, residency=residency, resident_bytes=budget
    )
    plan = msgspec.structs.replace(plan, memory=predict(facts, machine, plan))
    return with_pool_bytes(plan, pool, facts, machine)


def load_mapped(controller, qtbot, **wishes):
    """Load it so."""
    controller.set_plan(mapped_plan(controller, **wishes))
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.load()
    return controller


def mapped_panel(controller, theme, qtbot, **wishes):
    """The lanes over it, with what the engine tells of memory."""
    load_mapped(controller, qtbot, **wishes)
    return show(controller, theme, qtbot)


def memory_of(panel):
    """What the engine told last of main memory."""
    facts = panel._controller.cache.facts
    return facts.memory if facts is not None else None


def budget_of(panel):
    """The engine's budget in MiB; None where it tells none."""
    memory = memory_of(panel)
    return None if memory is None else memory.budget_bytes // MIB


def cpu_words(panel):
    """What the head of the CPU lane says."""
    return header_of(panel, "CPU").text


def cells_in(panel, lane):
    """How many experts are shown in a lane."""
    return int(panel.state.board.on(lane).sum())
