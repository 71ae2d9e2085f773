"""The line of truth over a scripted engine: what it says when, and what it leaves out when room is short."""

import msgspec
import pytest
from controller_driver import PATIENCE, answer, choose, until
from memory_driver import load_mapped, mapped_plan

from app.placement.cache.facts import MemoryFacts
from app.ui.controller import FAILED
from app.ui.orders import Orders
from app.ui.truth_line import TruthLine
from app.ui.truth_words import (
    expert_memory_detail,
    expert_memory_in_words,
    speed_in_short,
    speed_in_words,
)

MIB = 1024**2


@pytest.fixture
def make_line(qtbot):
    """`make_line(controller, width=1600) -> TruthLine`, shown."""

    def make(controller, width=1600):
        line = TruthLine(controller)
        qtbot.addWidget(line)
        line.resize(width, 28)
        line.show()
        return line

    return make


@pytest.fixture
def pooled(make_controller, qtbot, tmp_path):
    """A controller whose model is loaded with a pool of 16 MiB."""
    from app.placement.plan import CPU_LANE
    from app.placement.planner import with_lanes

    def make(*arguments):
        controller = make_controller(*arguments)
        choose(qtbot, controller, tmp_path)
        facts = controller.facts
        plan = with_lanes(controller.plan, facts, controller.machine, facts.moe_layers, CPU_LANE)
        controller.set_plan(msgspec.structs.replace(plan, pool_bytes=16 * MIB))
        return controller

    return make


def load(qtbot, controller):
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.load()


def test_before_anything_is_chosen_it_says_that_nothing_is_loaded(make_controller, make_line):
    line = make_line(make_controller())
    assert line.text == line.shown == "No model is loaded"
    assert line.accessibleName() == "No model is loaded"


def test_of_a_plan_that_is_not_loaded_it_tells_what_is_asked_for_and_predicted(pooled, make_line):
    line = make_line(pooled())
    assert "Expert pool: requested 16.0 MiB, nothing allocated" in line.text
    assert "Memory predicted: Vulkan0" in line.text


def test_requested_allocated_and_used_and_predictions_stand_there_once_it_is_loaded(pooled, make_line, qtbot):
    controller = pooled("--token-ms", 5)
    line = make_line(controller)
    load(qtbot, controller)
    until(qtbot, lambda: "Expert pool: requested 16.0 MiB, allocated 16.0 MiB, not in use" in line.text)
    until(qtbot, lambda: line.speed.full.startswith("Predicted "))
    assert line.speed.full.endswith(" tokens/s · not measured yet")
    answer(qtbot, controller)
    until(qtbot, lambda: "in use, hits" in line.text)
    measured = controller.cache.last_finished.tokens_per_second
    assert f"measured {measured:.0f} in the last answer" in line.speed.full
    assert line.speed.full.startswith("Predicted beforehand ")
    assert "predicted before the answer and is not corrected by it" in line.speed.toolTip()
    assert "Bound by" in line.speed.toolTip()
    assert "hold an expert, on Vulkan0" in line.expert_device.toolTip()
    assert "CPU in all: predicted" in line.memory.toolTip()
    assert "measured" in line.memory.toolTip()
    assert "(script)" in line.memory.toolTip()


def test_a_pool_that_is_resized_while_it_runs_is_predicted_and_told_anew(pooled, make_line, qtbot):
    controller = pooled()
    line, orders = make_line(controller), Orders(controller)
    load(qtbot, controller)
    until(qtbot, lambda: line._predicted.speed is not None)
    answer(qtbot, controller)
    before, memory, shown = line._predicted.speed, line.memory.full, []
    line._predicted.changed.connect(lambda: shown.append(line._predicted.speed))
    controller.cache.changed.connect(lambda: shown.append(line._predicted.speed))
    assert orders.set_pool(24 * MIB)
    until(qtbot, lambda: "requested 24.0 MiB, allocated 24.0 MiB" in line.text)
    until(qtbot, lambda: line._predicted.speed is not before)
    assert line._predicted.speed.hit_rate > before.hit_rate
    assert None not in shown, "the former prediction stays until the new one is there"
    assert line.speed.full.startswith("Predicted since the change ")
    assert line.speed.full.endswith(" in the last answer, before it")
    assert line.memory.full != memory
    assert "Vulkan0, expert pool: predicted 24.0 MiB, reported 24.0 MiB" in line.memory.toolTip()
    assert "(script)" not in line.memory.toolTip(), "what was measured at the load is of another pool"


def test_an_answer_does_not_correct_the_prediction_that_it_is_held_against(pooled, make_line, qtbot):
    controller = pooled("--tokens", 40)
    line = make_line(controller)
    load(qtbot, controller)
    until(qtbot, lambda: line._predicted.speed is not None)
    before = line._predicted.speed
    answer(qtbot, controller)
    assert line._predicted.speed is before


@pytest.mark.parametrize("width", [1600, 1280, 1000, 800, 640, 480])
def test_pool_memory_and_speed_stay_in_sight_whatever_the_width(pooled, make_line, qtbot, width):
    controller = pooled()
    line = make_line(controller, width)
    load(qtbot, controller)
    answer(qtbot, controller)
    until(qtbot, lambda: "in use" in line.expert_device.text() and line._predicted.speed is not None)
    for fact in (line.memory, line.speed, line.expert_device):
        assert fact.text() in (fact.full, fact.short)
        assert fact.isVisible()
        assert fact.full in fact.toolTip()
        assert fact.full in fact.accessibleName()
    assert line.text == line.accessibleName()
    if width >= 800:
        for fact in (line.memory, line.speed, line.expert_device):
            assert fact.fontMetrics().horizontalAdvance(fact.text()) <= fact.width(), "nothing ends in an ellipsis"


def test_a_model_that_is_gone_leaves_nothing_measured_behind(loaded_controller, make_line, qtbot):
    controller = loaded_controller("--crash-after", 2)
    line = make_line(controller)
    with qtbot.waitSignal(controller.failed, timeout=PATIENCE):
        controller.ask("Hello?")
    assert controller.state == FAILED
    assert "No model is loaded: the last load or the engine failed" in line.text
    assert "measured" not in line.speed.full.replace("not measured yet", "")


def test_while_plans_are_measured_it_says_so(loaded_controller, make_line):
    controller = loaded_controller()
    line = make_line(controller)
    controller.lend_engine()
    assert line.text == "No model is loaded: auto-tune is measuring plans"
    controller.return_engine()


def test_without_prediction_or_answer_nothing_is_made_up():
    assert speed_in_words(None, None, loaded=True) == "Speed: nothing predicted or measured yet"
    assert speed_in_words(None, None, loaded=False) == ""
    assert speed_in_short(None, None) == ""


@pytest.mark.parametrize(("budget", "requested"), [(None, "what fits"), (16 * MIB, "16.0 MiB")])
def test_a_budget_of_main_memory_is_told_as_requested_and_as_it_is_filled(
    make_controller, make_line, qtbot, tmp_path, budget, requested
):
    controller = make_controller("--memory-mib", 16, "--tokens", 60)
    choose(qtbot, controller, tmp_path)
    line = make_line(controller)
    load_mapped(controller, qtbot, budget=budget)
    there = "0 B of 32.0 MiB in memory or being read"
    until(qtbot, lambda: f"requested {requested}, budget 16.0 MiB, {there}" in line.text)
    answer(qtbot, controller)
    until(qtbot, lambda: "16.0 MiB of 32.0 MiB in memory or being read" in line.text)
    assert line.expert_memory.short == "Experts 16.0 MiB of 16.0 MiB in memory or being read"
    assert line.expert_memory.accessibleName().startswith("Main memory for experts: Experts in main memory")
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.set_plan(mapped_plan(controller, residency="repacked"))
        controller.load()
    until(qtbot, lambda: controller.cache.facts is not None)
    assert line.expert_memory.full == "", "experts that were copied have no budget"


def test_where_the_system_decides_or_nothing_is_loaded_no_budget_is_told(make_controller, make_line, qtbot, tmp_path):
    controller = make_controller()
    choose(qtbot, controller, tmp_path)
    line = make_line(controller)
    load_mapped(controller, qtbot, budget=16 * MIB)
    until(qtbot, lambda: line.expert_memory.full != "")
    orders = Orders(controller)
    orders.set_memory(0)
    until(qtbot, lambda: line.expert_memory.full == "")
    orders.set_memory(8 * MIB)
    until(qtbot, lambda: "requested 8.0 MiB, budget 8.0 MiB" in line.text)
    controller.end_engine()
    until(qtbot, lambda: line.expert_memory.full == "")


def test_what_of_a_budget_cannot_be_used_or_taken_away_is_in_its_tip():
    memory = MemoryFacts(
        budget_bytes=16 * MIB,
        trusted_bytes=8 * MIB,
        resident_bytes=8 * MIB,
        total_bytes=32 * MIB,
        evictions=0,
        stale=3,
        reads=True,
        locked_bytes=4 * MIB,
        reason="The limit of locked memory is 4 MiB.",
    )
    assert expert_memory_detail(memory).splitlines() == [
        "The system took experts back: only 8.0 MiB of the budget are used.",
        "4.0 MiB of them are locked: the system may not take them.",
        "The limit of locked memory is 4 MiB.",
    ]
    whole = msgspec.structs.replace(memory, trusted_bytes=16 * MIB, locked_bytes=0, reason="")
    assert expert_memory_detail(whole) == ""
    assert expert_memory_detail(None) == expert_memory_in_words(None, None) == ""
