"""Plans with a pool for single experts: how large it is, what it displaces, and what is said of it."""

import msgspec
import pytest
from factories import ENGINE, GIB, MIB, demo, make_facts, make_gpu, make_machine, qwen3_30b

from app.errors import AppError, ErrorCode
from app.hardware.facts import GpuKind
from app.placement.memory import expert_bytes, fits, spare_bytes
from app.placement.plan import CPU_LANE, DISK_LANE, CachePolicy
from app.placement.planner import Wishes, make_plan
from app.placement.pool import staging_need

STOCK = msgspec.structs.replace(ENGINE, expert_device=False, expert_device_reason="It is not installed.")
STAGING = staging_need(qwen3_30b())
"""Of qwen3_30b: two halves of four experts."""


def names(plan):
    return [step.name for step in plan.steps]


def on_gpu(plan):
    return [layer for layer, lane in plan.expert_lanes.items() if lane not in (CPU_LANE, DISK_LANE)]


def reason(plan, name):
    [step] = [step for step in plan.steps if step.name == name]
    return step.reason


def test_without_a_wish_there_is_no_pool_and_a_staging_area_where_experts_stay_off_the_gpu():
    plan = make_plan(qwen3_30b(), make_machine(make_gpu()))
    assert (plan.pool_bytes, plan.staging_bytes, plan.residency) == (0, STAGING, "repacked")
    assert plan.policy == CachePolicy()
    assert plan.steps == ()
    whole = make_plan(demo(), make_machine(make_gpu()))
    assert (whole.staging_bytes, len(on_gpu(whole))) == (0, 30)
    assert make_plan(demo(), make_machine()).staging_bytes == 0


def test_a_wished_pool_comes_before_whole_layers_which_get_what_is_left():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(7 * GIB))
    without = make_plan(facts, machine)
    plan = make_plan(facts, machine, Wishes(pool_bytes=3 * GIB))
    assert (plan.pool_bytes, plan.staging_bytes, plan.steps) == (3 * GIB, STAGING, ())
    lost = len(on_gpu(without)) - len(on_gpu(plan))
    assert lost * expert_bytes(facts, [0]) - 3 * GIB < expert_bytes(facts, [0])
    assert 0 < len(on_gpu(plan)) < len(on_gpu(without))
    assert fits(plan, machine) == ()


def test_a_pool_larger_than_what_is_free_shrinks_to_it_and_says_how_much_that_is():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(7 * GIB))
    plan = make_plan(facts, machine, Wishes(pool_bytes=12 * GIB))
    assert names(plan) == ["smaller pool"]
    assert on_gpu(plan) == []
    assert plan.staging_bytes == STAGING
    assert spare_bytes(plan, machine, "CUDA0") == 0
    assert "12.0 GiB was wished" in reason(plan, "smaller pool")
    assert "(predicted)" in reason(plan, "smaller pool")


def test_a_pool_for_less_than_one_token_is_named_with_what_would_help():
    plan = make_plan(qwen3_30b(), make_machine(make_gpu()), Wishes(pool_bytes=64 * MIB))
    assert plan.pool_bytes == 64 * MIB
    assert names(plan) == ["pool below one token cycle"]
    assert "64.0 MiB" in plan.steps[0].reason
    assert "would help" in plan.steps[0].reason


def test_the_staging_area_gives_way_where_the_pool_would_fall_below_one_token_for_it():
    facts = make_facts(layers=2, experts=64, used=2, expert_sizes=16 * MIB, layer_size=0)
    assert facts.token_cycle_bytes == 64 * MIB
    machine = make_machine(make_gpu(2 * GIB))
    roomy = make_plan(facts, machine, Wishes(pool_bytes=2 * GIB))
    free = roomy.pool_bytes + roomy.staging_bytes
    assert roomy.staging_bytes == staging_need(facts) > 1024 * MIB

    def with_free(left):
        tight = make_machine(make_gpu(2 * GIB - (free - left), total=machine.gpus[0].total_bytes))
        plan = make_plan(facts, tight, Wishes(pool_bytes=2 * GIB))
        return plan.pool_bytes, plan.staging_bytes

    assert with_free(300 * MIB) == (172 * MIB, 128 * MIB), "some experts at a time instead of a whole layer"
    assert with_free(130 * MIB) == (130 * MIB, 0)


@pytest.mark.parametrize(
    ("machine", "wishes", "words"),
    [
        (make_machine(), Wishes(pool_bytes=GIB), "no GPU"),
        (make_machine(make_gpu()), Wishes(pool_bytes=GIB, gpu=None), "no GPU"),
        (make_machine(make_gpu(), engine=STOCK), Wishes(pool_bytes=GIB), "It is not installed."),
    ],
    ids=["none", "not wished", "no expert device"],
)
def test_where_there_can_be_no_pool_the_plan_says_why(machine, wishes, words):
    plan = make_plan(qwen3_30b(), machine, wishes)
    assert (plan.pool_bytes, plan.staging_bytes) == (0, 0)
    assert words in reason(plan, "no pool")


def test_a_dense_model_has_no_pool():
    plan = make_plan(make_facts(experts=0), make_machine(make_gpu()), Wishes(pool_bytes=GIB))
    assert (plan.pool_bytes, plan.staging_bytes) == (0, 0)
    assert "no experts" in reason(plan, "no pool")


def test_a_pool_without_room_for_one_expert_is_none():
    plan = make_plan(qwen3_30b(), make_machine(make_gpu()), Wishes(pool_bytes=MIB))
    assert plan.pool_bytes == 0
    assert names(plan) == ["no pool"]


def test_a_pool_of_more_than_all_experts_is_cut_to_them():
    facts = demo()
    plan = make_plan(facts, make_machine(make_gpu(20 * GIB)), Wishes(pool_bytes=10 * GIB))
    assert plan.pool_bytes == facts.bytes.experts
    assert on_gpu(plan) == []
    assert "all experts together" in reason(plan, "smaller pool")


def test_whole_layers_leave_so_many_experts_off_the_gpu_as_the_pool_has_room_for():
    """Otherwise a wished pool would lie idle on a GPU that has room for the whole model."""
    facts = demo()
    plan = make_plan(facts, make_machine(make_gpu(20 * GIB)), Wishes(pool_bytes=64 * MIB))
    layers = on_gpu(plan)
    assert layers == list(range(len(layers)))
    left = expert_bytes(facts, [layer for layer in facts.moe_layers if layer not in layers])
    assert plan.pool_bytes == 64 * MIB
    assert 64 * MIB <= left < 64 * MIB + expert_bytes(facts, [0])
    assert plan.steps == ()


def test_a_software_gpu_gets_a_pool_only_when_one_is_wished():
    facts = demo()
    machine = make_machine(make_gpu(2 * GIB, device="Vulkan0", kind=GpuKind.SOFTWARE))
    plain = make_plan(facts, machine, Wishes(gpu="Vulkan0"))
    assert (plain.pool_bytes, plain.staging_bytes) == (0, 0)
    wished = make_plan(facts, machine, Wishes(gpu="Vulkan0", pool_bytes=64 * MIB))
    assert (wished.pool_bytes, wished.staging_bytes) == (64 * MIB, staging_need(demo()))
    assert on_gpu(wished) == []
    assert names(plain) == ["experts off the software GPU"]
    # Top-2 of 30 layers are 94.9 MiB.
    assert names(wished) == ["experts off the software GPU", "pool below one token cycle"]
    larger = make_plan(facts, machine, Wishes(gpu="Vulkan0", pool_bytes=96 * MIB))
    assert names(larger) == ["experts off the software GPU"]


def test_a_pool_on_an_integrated_gpu_pushes_no_experts_to_disk():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(30 * GIB, device="Vulkan0", kind=GpuKind.INTEGRATED), ram=21 * GIB)
    plan = make_plan(facts, machine, Wishes(pool_bytes=4 * GIB))
    assert DISK_LANE not in plan.expert_lanes.values()
    assert plan.pool_bytes < 4 * GIB
    assert fits(plan, machine) == ()


def test_after_a_concession_a_wished_pool_gets_what_is_left():
    facts = qwen3_30b()
    plan = make_plan(facts, make_machine(make_gpu(2 * GIB)), Wishes(pool_bytes=GIB))
    assert "smaller context" in names(plan)
    assert "smaller pool" in names(plan)
    assert 0 < plan.pool_bytes < GIB


def test_wished_policy_and_residency_are_taken():
    policy = CachePolicy(kind="decay", stream="off")
    plan = make_plan(demo(), make_machine(), Wishes(policy=policy, residency="mapped"))
    assert (plan.policy, plan.residency, plan.steps) == (policy, "mapped", ())


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        (Wishes(pool_bytes=-1), "-1 bytes"),
        (Wishes(residency="frozen"), "repacked, mapped"),
        (Wishes(policy=CachePolicy(kind="random")), "lru, decay, frozen, manual"),
    ],
)
def test_impossible_wishes_are_refused_and_what_is_possible_named(wishes, words):
    with pytest.raises(AppError, match=words) as caught:
        make_plan(demo(), make_machine(), wishes)
    assert caught.value.code is ErrorCode.BAD_USAGE
