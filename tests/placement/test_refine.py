"""A plan and llama.cpp's dry run of it: what is taken over, when another plan is made, and what is told."""

import msgspec
import pytest
from factories import GIB, MIB, make_gpu, make_machine, qwen3_30b

from app.errors import AppError, ErrorCode
from app.placement.memory import fits, predict, predicted_use
from app.placement.plan import CPU_LANE
from app.placement.planner import Wishes, make_plan
from app.placement.refine import STEP_DRY_RUN, STEP_NO_DRY_RUN, refine
from app.placement.report import BufferReport

FACTS = qwen3_30b()
MACHINE = make_machine(make_gpu(7 * GIB))


def make(machine):
    return make_plan(FACTS, machine, Wishes())


def laid_out(plan, more):
    """Buffers as a dry run would tell them: the estimate's, with `more` MiB of compute buffers by device."""
    sizes = {(part.device, part.part): part.bytes for part in predict(FACTS, MACHINE, plan)}
    for device, mib in more.items():
        sizes[device, "compute"] = sizes.get((device, "compute"), 0) + mib * MIB
    return [
        BufferReport(device=device, part=part, bytes=size)
        for (device, part), size in sizes.items()
        if part in ("weights", "kv", "compute")
    ]


class DryRuns:
    """Plays the engine: counts the plans it was asked for."""

    def __init__(self, **more):
        self.plans = []
        self.more = more

    def __call__(self, plan):
        self.plans.append(plan)
        return laid_out(plan, self.more)


def steps(plan):
    return [step for step in plan.steps if step.name in (STEP_DRY_RUN, STEP_NO_DRY_RUN)]


def test_a_plan_that_still_fits_gets_the_dry_runs_figures_and_nothing_else():
    runs = DryRuns(CUDA0=-100, CPU=5)
    plan, before = refine(FACTS, MACHINE, make, runs), make(MACHINE)
    assert plan.dry_run
    assert plan.loads_like(before)
    assert plan.steps == before.steps
    assert len(runs.plans) == 1
    for device, mib in (("CUDA0", -100), (CPU_LANE, 5)):
        assert predicted_use(plan, device) - predicted_use(before, device) == mib * MIB


def test_a_plan_that_fits_no_more_is_made_again_and_says_by_how_much():
    runs = DryRuns(CUDA0=700)
    plan, before = refine(FACTS, MACHINE, make, runs), make(MACHINE)
    assert plan.dry_run
    assert not fits(plan, MACHINE)
    assert not plan.loads_like(before)
    assert len(runs.plans) == 2
    [step] = steps(plan)
    assert "700.0 MiB more on CUDA0" in step.reason
    # What is kept for the dry run's surplus is no longer spent on experts.
    held = [
        sum(its.bytes for its in one.memory if its.part in ("experts", "pool") and its.device == "CUDA0")
        for one in (plan, before)
    ]
    assert held[0] <= held[1] - 400 * MIB


def test_main_memory_that_lacks_is_made_room_for_too():
    machine = make_machine(make_gpu(7 * GIB), ram=13 * GIB)
    plan = refine(FACTS, machine, make, DryRuns(CPU=600))
    assert not fits(plan, machine)
    assert "600.0 MiB more of RAM" in steps(plan)[0].reason


def test_it_ends_where_no_plan_is_small_enough_and_says_what_lacks():
    fixed = make(MACHINE)
    runs = DryRuns(CUDA0=700)
    plan = refine(FACTS, MACHINE, lambda _machine: fixed, runs)
    assert len(runs.plans) == 4
    assert plan.dry_run
    [short] = fits(plan, MACHINE)
    assert steps(plan)[-1].reason == short.sentence


def test_where_the_gpu_lacks_too_much_the_plan_goes_to_the_cpu():
    plan = refine(FACTS, MACHINE, make, DryRuns(CUDA0=7000))
    assert plan.gpu is None
    assert not fits(plan, MACHINE)
    assert "more on CUDA0" in steps(plan)[-1].reason


def test_a_plan_that_never_fitted_is_not_made_again():
    tiny = make_machine(ram=300 * MIB, ram_total=GIB)
    runs = DryRuns(CPU=100)
    plan = refine(FACTS, tiny, make, runs)
    assert len(runs.plans) == 1
    assert steps(plan) == []
    assert fits(plan, tiny)


def test_without_a_dry_run_the_estimate_stays_and_says_why():
    def refuse(_plan):
        raise AppError(ErrorCode.ENGINE_FAILED, "llama.cpp has no memory for tables.")

    plan = refine(FACTS, MACHINE, make, refuse)
    assert not plan.dry_run
    assert plan.memory == make(MACHINE).memory
    [step] = steps(plan)
    assert (step.name, "no memory for tables" in step.reason) == (STEP_NO_DRY_RUN, True)


def test_a_model_that_the_engine_does_not_know_has_no_plan():
    def refuse(_plan):
        raise AppError(ErrorCode.ARCHITECTURE_UNKNOWN, "The engine does not know the architecture 'nova9'.")

    with pytest.raises(AppError, match="nova9"):
        refine(FACTS, MACHINE, make, refuse)


def test_who_cancels_gets_no_plan():
    def cancel(_plan):
        raise AppError(ErrorCode.CANCELLED, "Cancelled.")

    with pytest.raises(AppError):
        refine(FACTS, MACHINE, make, cancel)


def test_plans_load_alike_whatever_they_predict():
    plan = make(MACHINE)
    assert plan.loads_like(msgspec.structs.replace(plan, memory=(), steps=()))
    assert not plan.loads_like(msgspec.structs.replace(plan, n_ctx=4096))
