"""Answers in the window teach the speed model."""

import msgspec
import pytest
from controller_driver import PATIENCE, answer, until

from app.library.speed_records import observations
from app.ui.speed_memory import SpeedMemory


def test_an_answer_is_kept_with_the_plan_that_was_loaded(loaded_controller, qtbot):
    controller = loaded_controller("--tokens", 40)
    memory = SpeedMemory(controller)
    memory._loaded(controller.loaded_report)  # it was loaded before anyone listened
    answer(qtbot, controller)
    until(qtbot, lambda: not controller.background.busy)
    (seen,) = observations(controller.loaded_facts, controller.machine)
    assert seen.decode_tokens_per_second > 0
    assert seen.plan.expert_lanes == controller.loaded_plan.expert_lanes
    assert not seen.plan.model_files


def test_what_was_loaded_otherwise_than_planned_teaches_nothing(loaded_controller, qtbot):
    controller = loaded_controller("--tokens", 40)
    memory = SpeedMemory(controller)
    memory._loaded(msgspec.structs.replace(controller.loaded_report, differences=("The KV cache is elsewhere.",)))
    answer(qtbot, controller)
    until(qtbot, lambda: not controller.background.busy)
    assert observations(controller.loaded_facts, controller.machine) == ()


@pytest.mark.parametrize("back", [False, True])
def test_an_answer_during_which_the_pool_changed_teaches_nothing_and_the_next_one_does(loaded_controller, qtbot, back):
    controller = loaded_controller("--tokens", 40, "--token-ms", 40)
    memory = SpeedMemory(controller)
    memory._loaded(controller.loaded_report)
    plan = controller.loaded_plan
    with qtbot.waitSignal(controller.finished, timeout=PATIENCE):
        with qtbot.waitSignal(controller.token, timeout=PATIENCE):
            controller.ask("Hello?")
        controller.cache.set_pool(16 * 1024**2)
        controller.set_live_plan(msgspec.structs.replace(plan, pool_bytes=16 * 1024**2))
        if back:
            controller.set_live_plan(plan)
    until(qtbot, lambda: not controller.background.busy and not controller.cache.resizing)
    assert observations(controller.loaded_facts, controller.machine) == ()
    until(qtbot, lambda: controller.state == "ready")
    answer(qtbot, controller)
    until(qtbot, lambda: not controller.background.busy)
    assert len(observations(controller.loaded_facts, controller.machine)) == 1
