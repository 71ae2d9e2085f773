"""What a plan is best at: speed, context, or quiet."""

import pytest
from factories import GIB, MIB, deepseek_v2_lite, gpt_oss_20b, make_facts, make_gpu, make_machine, qwen3_30b
from plain_speed import plain_speed

from app.errors import AppError, ErrorCode
from app.placement.lanes import gpu_lanes
from app.placement.memory import fits
from app.placement.plan import CPU_LANE, DISK_LANE
from app.placement.planner import Wishes, make_plan


def names(plan):
    return [step.name for step in plan.steps]


def planned(facts, machine, goal, **wishes):
    return make_plan(facts, machine, Wishes(goal=goal, **wishes), plain_speed(facts))


def test_the_goal_context_takes_the_models_own_where_it_fits():
    facts = gpt_oss_20b()
    machine = make_machine(make_gpu(16 * GIB))
    plan = planned(facts, machine, "context")
    assert (plan.n_ctx, plan.kv_type, plan.goal) == (131_072, "f16", "context")
    assert fits(plan, machine) == ()
    assert len(gpu_lanes(planned(facts, machine, "speed"))) == 24
    assert plan.steps == ()


def test_experts_leave_the_gpu_before_the_context_shrinks():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(8 * GIB))
    speed, context = (planned(facts, machine, goal) for goal in ("speed", "context"))
    assert (speed.n_ctx, context.n_ctx) == (8192, 40_960)
    assert context.pool_bytes < speed.pool_bytes
    assert fits(context, machine) == ()


def test_where_the_models_own_context_does_not_fit_the_longest_that_does_is_found():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(3 * GIB))
    plan = planned(facts, machine, "context")
    assert plan.gpu == "CUDA0"
    assert plan.kv_type == "q8_0"
    assert 8192 < plan.n_ctx < 40_960
    assert names(plan) == ["smaller context", "q8_0 KV cache"]
    assert fits(plan, machine) == ()
    with_more = make_plan(facts, machine, Wishes(n_ctx=plan.n_ctx + 256, kv_type="q8_0", gpu="CUDA0"))
    assert with_more.n_ctx < plan.n_ctx + 256 or with_more.gpu is None or with_more.kv_type != "q8_0"


def test_a_longer_context_drives_no_experts_from_main_memory_to_the_disk():
    facts = qwen3_30b()
    machine = make_machine(ram=21 * GIB)
    plan = planned(facts, machine, "context")
    assert plan.n_ctx > 8192
    assert set(plan.expert_lanes.values()) == {CPU_LANE}
    assert DISK_LANE not in plan.expert_lanes.values()


def test_a_wished_context_wins_over_the_goal():
    plan = planned(qwen3_30b(), make_machine(make_gpu(8 * GIB)), "context", n_ctx=4096)
    assert plan.n_ctx == 4096


def test_where_not_even_a_small_context_fits_the_goal_concedes_like_any_plan():
    facts = qwen3_30b()
    machine = make_machine(ram=int(1.75 * GIB), ram_total=4 * GIB)
    context, speed = (planned(facts, machine, goal) for goal in ("context", "speed"))
    assert (context.n_ctx, context.kv_type) == (speed.n_ctx, speed.kv_type)
    assert fits(context, machine) == ()


@pytest.mark.parametrize(("performance", "threads"), [(1, 1), (2, 1), (6, 3), (7, 3)])
def test_a_quiet_plan_uses_half_of_the_fast_cores(performance, threads):
    plan = planned(make_facts(), make_machine(cores=8, performance=performance), "quiet")
    assert (plan.threads, plan.threads_batch, plan.goal) == (threads, threads, "quiet")


def test_wished_threads_win_over_a_quiet_plan():
    assert planned(make_facts(), make_machine(), "quiet", threads=5).threads == 5


def test_a_quiet_plan_leaves_a_tenth_of_every_memory_more_and_says_so():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(7 * GIB, total=8 * GIB))
    quiet, speed = (planned(facts, machine, goal) for goal in ("quiet", "speed"))
    tenth = 8 * GIB // 10
    assert abs(speed.bytes_on("CUDA0") - quiet.bytes_on("CUDA0") - tenth) <= 1
    assert names(quiet) == ["room for other programs"]
    assert "6.2 GiB of CUDA0" in quiet.steps[0].reason
    tiny = planned(facts, make_machine(make_gpu(64 * MIB), ram=GIB), "quiet")
    assert tiny.gpu is None


def test_an_unknown_goal_is_refused_and_the_known_are_named():
    with pytest.raises(AppError, match="speed, context, quiet") as caught:
        planned(deepseek_v2_lite(), make_machine(), "cheap")
    assert caught.value.code is ErrorCode.BAD_USAGE


@pytest.mark.parametrize("layers", [-1, 27])
def test_impossible_numbers_of_whole_layers_are_refused(layers):
    with pytest.raises(AppError, match="26 layers with experts") as caught:
        planned(deepseek_v2_lite(), make_machine(), "speed", whole_layers=layers)
    assert caught.value.code is ErrorCode.BAD_USAGE
