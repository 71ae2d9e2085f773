"""When a plan that tuning kept is taken in place of the planner's, and what is said of it."""

import msgspec
import pytest
from factories import ENGINE, GIB, MIB, make_facts, make_gpu, make_machine, qwen3_30b

from app.errors import AppError
from app.hardware.fingerprint import engine_name, fingerprint
from app.placement.evidence import NO_EVIDENCE, Evidence, evidence_for, planned
from app.placement.memory import fits
from app.placement.placing import with_lanes
from app.placement.plan import CachePolicy
from app.placement.planner import Wishes
from app.placement.scenarios.figure import Figure
from app.placement.tuner.kept import STEP_NOT_TUNED, tuned_words
from app.placement.tuner.types import Tried, TunedPlan
from app.placement.words import describe_plan

FACTS = qwen3_30b()
MACHINE = make_machine(make_gpu(7 * GIB))


def tried(decode, prompt):
    figures = (Figure(median=its, least=its, most=its, samples=5) for its in (decode, prompt))
    return Tried(words="", decode=next(figures), prompt=next(figures))


def record(machine=MACHINE, wishes=Wishes(), **changes):  # noqa: B008 - frozen
    plan = msgspec.structs.replace(planned(FACTS, machine, wishes), **{"threads": 4, "threads_batch": 4, **changes})
    return TunedPlan(
        model=FACTS.fingerprint, machine=fingerprint(machine), engine=engine_name(ENGINE), plan=plan,
        words="4 threads", before=tried(20, 100), after=tried(22.8, 99), tuned_at="2026-01-02T10:00:00+00:00",
        wishes=wishes,
    )  # fmt: skip


def plan_of(kept, machine=MACHINE, facts=FACTS, **wishes):
    return planned(facts, machine, Wishes(**wishes), Evidence(tuned=kept))


def refusal(plan):
    """Why the kept plan is not used, which the first step says."""
    assert plan.tuned == ""
    assert plan.steps[0].name == STEP_NOT_TUNED
    return plan.steps[0].reason


def test_a_kept_plan_is_taken_and_its_gain_is_said_as_measured():
    plan = plan_of(record())
    assert plan.threads == 4 != planned(FACTS, MACHINE).threads
    assert plan.tuned == "tuned on 2026-01-02 (4 threads): decoding 1.14×, prompts 0.99× the default, measured"
    assert describe_plan(plan, FACTS).endswith(f"; {plan.tuned}")
    assert plan.speed is not None
    assert not fits(plan, MACHINE)


def test_without_a_kept_plan_or_with_the_wish_to_plan_anew_it_is_the_planners():
    assert plan_of(None) == planned(FACTS, MACHINE)
    assert plan_of(record(), tuned=False) == planned(FACTS, MACHINE)


@pytest.mark.parametrize(
    ("wishes", "name"),
    [
        ({"n_ctx": 2048}, "context"),
        ({"threads": 6}, "threads"),
        ({"gpu": None}, "device"),
        ({"kv_type": "q8_0"}, "KV cache type"),
        ({"pool_bytes": 0}, "pool"),
        ({"whole_layers": 3}, "whole layers"),
        ({"residency": "mapped"}, "residency"),
        ({"policy": CachePolicy(kind="decay")}, "cache policy"),
        ({"lock_bytes": GIB}, "page-locked memory"),
        ({"goal": "quiet"}, "goal"),
    ],
)
def test_a_wish_that_it_does_not_keep_to_leads_to_the_planner_and_is_named(wishes, name):
    plan = plan_of(record(), **wishes)
    assert refusal(plan) == (
        f"The plan that was tuned on 2026-01-02 is not used: it does not keep to what is wished now ({name})."
    )
    assert msgspec.structs.replace(plan, steps=plan.steps[1:]) == planned(FACTS, MACHINE, Wishes(**wishes))


def test_wishes_that_it_keeps_to_change_nothing():
    kept = record()
    same = {"n_ctx": kept.plan.n_ctx, "threads": 4, "gpu": "CUDA0", "pool_bytes": kept.plan.pool_bytes}
    assert plan_of(kept, **same, policy=kept.plan.policy, kv_type="f16") == plan_of(kept)


def test_what_was_tuned_with_a_wish_holds_only_where_it_is_made_again():
    kept = record(wishes=Wishes(n_ctx=1024))
    assert "with a wish that is not made now (context)" in refusal(plan_of(kept))
    assert plan_of(kept, n_ctx=1024).tuned


def test_an_impossible_wish_is_refused_all_the_same():
    with pytest.raises(AppError, match="context"):
        plan_of(record(), n_ctx=10_000_000)


def test_one_that_does_not_fit_now_leads_to_the_planner_with_the_figures():
    less = make_machine(make_gpu(3 * GIB, total=8 * GIB))
    assert fingerprint(less) == fingerprint(MACHINE)
    plan = plan_of(record(), less)
    assert "it does not fit now. CUDA0 would need" in refusal(plan)
    assert "3.0 GiB is free" in refusal(plan)
    assert not fits(plan, less)


def test_one_whose_pool_just_does_not_fit_any_more_gets_a_hardly_smaller_one():
    kept = record()
    assert kept.plan.pool_bytes > 2 * GIB
    less = make_machine(make_gpu(7 * GIB - 100 * MIB, total=8 * GIB))
    plan = plan_of(kept, less)
    assert plan.tuned
    assert kept.plan.pool_bytes * 0.9 <= plan.pool_bytes < kept.plan.pool_bytes
    assert not fits(plan, less)
    assert (plan.steps[-1].name, "fit now (predicted)" in plan.steps[-1].reason) == ("smaller pool", True)


def test_one_that_kept_more_experts_in_memory_than_fit_now_keeps_hardly_fewer():
    short, shorter, shortest = (make_machine(ram=int(size * GIB)) for size in (10, 9.7, 8))
    kept = record(short)
    plan = plan_of(kept, shorter)
    assert plan.tuned
    assert kept.plan.resident_bytes * 0.9 <= plan.resident_bytes < kept.plan.resident_bytes
    assert not fits(plan, shorter)
    step = plan.steps[-1]
    assert (step.name, step.reason.endswith(" of experts stay there.")) == ("experts on disk", True)
    assert "it does not fit now" in refusal(plan_of(kept, shortest))


def test_another_budget_of_memory_for_experts_leads_to_the_planner():
    short = make_machine(ram=10 * GIB)
    assert "main memory of experts" in refusal(plan_of(record(short), short, resident_bytes=2 * GIB))
    wished = Wishes(resident_bytes=2 * GIB)
    assert plan_of(record(short, wished), short, resident_bytes=2 * GIB).tuned
    assert "main memory of experts" in refusal(plan_of(record(short, wished), short))


def test_a_device_that_is_gone_or_the_missing_expert_device_leads_to_the_planner():
    stock = make_machine(make_gpu(7 * GIB), engine=msgspec.structs.replace(ENGINE, expert_device=False))
    assert "the expert device is missing" in refusal(plan_of(record(), stock))


def test_another_machines_is_not_used_and_a_note_says_so():
    other = make_machine(make_gpu(7 * GIB), cores=16)
    found = evidence_for(other, Evidence(tuned=record()))
    assert found.tuned is None
    assert found.notes == (
        "The tuned plan is not used: it was tuned on another machine than the one that is planned for.",
    )
    assert plan_of(record(), other) == planned(FACTS, other)


def test_where_the_default_could_not_be_measured_no_gain_is_claimed():
    kept = msgspec.structs.replace(record(), before=None, tuned_at="whenever")
    assert tuned_words(kept) == "tuned (4 threads): the default could not be measured"


def test_a_plan_that_the_user_changes_is_no_longer_called_tuned():
    plan = plan_of(record())
    layer = FACTS.moe_layers[-1]
    assert with_lanes(plan, FACTS, MACHINE, (layer,), plan.expert_lanes[layer]).tuned == plan.tuned
    assert plan.expert_lanes[layer] == "CPU"
    assert with_lanes(plan, FACTS, MACHINE, (layer,), "CUDA0").tuned == ""


def test_a_dense_model_has_no_kept_plan_and_is_planned_as_ever():
    dense = make_facts(experts=0)
    assert planned(dense, MACHINE, Wishes(), NO_EVIDENCE).tuned == ""
