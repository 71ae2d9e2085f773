"""Answers in the window teach the speed model."""

import msgspec
from controller_driver import answer, until

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
