"""Which of the possible places for experts a plan takes, once speeds are predicted."""

import msgspec
import pytest
from factories import (
    ENGINE,
    GIB,
    MIB,
    deepseek_v2_lite,
    demo,
    gpt_oss_20b,
    make_facts,
    make_gpu,
    make_machine,
    qwen3_30b,
)
from plain_speed import GB, plain_speed

from app.hardware.facts import Disk, GpuKind
from app.placement import evidence
from app.placement.lanes import gpu_lanes
from app.placement.memory import expert_bytes, fits, spare_bytes
from app.placement.plan import CPU_LANE, DISK_LANE
from app.placement.planner import Wishes, make_plan
from app.placement.pool import staging_need
from app.placement.speed.types import Range

STOCK = msgspec.structs.replace(ENGINE, expert_device=False, expert_device_reason="It is not installed.")


def planned(facts, machine, wishes=None, **speeds):
    return make_plan(facts, machine, wishes or Wishes(), plain_speed(facts, **speeds))


def decided(facts, machine, wishes=None):
    """With the law of speed itself, for a machine that was not measured."""
    return evidence.planned(facts, machine, wishes or Wishes())


def both_at_once(facts, *, cpu, gpu):
    """`plain_speed`, but for the processor's misses beside the card's hits."""
    alone = plain_speed(facts, cpu=cpu, gpu=gpu)

    def speed_of(plan):
        left = [layer for layer in facts.moe_layers if layer not in gpu_lanes(plan)]
        found = alone(plan)
        routed = facts.experts_used * sum(facts.expert_bytes[layer] for layer in left)
        spared = min(routed * found.hit_rate / gpu, routed * (1 - found.hit_rate) / cpu)
        likely = 1 / (1 / found.decode.likely - spared)
        decode = Range(low=likely * 0.9, likely=likely, high=likely * 1.1)
        return msgspec.structs.replace(found, decode=decode)

    return speed_of


def names(plan):
    return [step.name for step in plan.steps]


def test_a_pool_is_taken_where_it_makes_more_of_the_memory_than_whole_layers():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(7 * GIB))
    plan = planned(facts, machine)
    whole = planned(facts, machine, Wishes(pool_bytes=0))
    assert plan.pool_bytes > facts.token_cycle_bytes
    assert (gpu_lanes(plan), plan.steps, fits(plan, machine)) == ({}, (), ())
    assert (whole.pool_bytes, len(gpu_lanes(whole))) == (0, len(gpu_lanes(make_plan(facts, machine))))
    assert plan.speed.decode.likely > 1.3 * whole.speed.decode.likely


def test_a_pool_and_its_staging_area_fill_the_gpu():
    plan = planned(qwen3_30b(), machine := make_machine(make_gpu(7 * GIB)))
    assert plan.staging_bytes == staging_need(qwen3_30b())
    assert spare_bytes(plan, machine, "CUDA0") == 0


def test_a_model_that_fits_needs_no_pool():
    plan = planned(gpt_oss_20b(), make_machine(make_gpu(16 * GIB)))
    assert set(plan.expert_lanes.values()) == {"CUDA0"}
    assert (plan.pool_bytes, plan.staging_bytes) == (0, 0)


def test_no_pool_is_taken_that_holds_less_than_one_token_cycle():
    facts = qwen3_30b()
    plain = make_plan(facts, make_machine(make_gpu(7 * GIB, total=8 * GIB)), Wishes(pool_bytes=0, whole_layers=0))
    bare = plain.bytes_on("CUDA0") - plain.staging_bytes
    for beyond, pooled in ((facts.token_cycle_bytes, True), (facts.token_cycle_bytes - 1, False)):
        free = bare + plain.staging_bytes + beyond
        plan = planned(facts, make_machine(make_gpu(free, total=8 * GIB)))
        assert (plan.pool_bytes == facts.token_cycle_bytes) is pooled
        assert bool(gpu_lanes(plan)) is not pooled


def test_without_the_expert_device_whole_layers_are_all_there_is():
    plan = planned(qwen3_30b(), make_machine(make_gpu(7 * GIB), engine=STOCK))
    assert (plan.pool_bytes, plan.staging_bytes) == (0, 0)
    assert len(gpu_lanes(plan)) >= 8
    assert plan.steps == ()


def test_both_together_are_taken_where_main_memory_is_short():
    """Layers that are whole on the GPU need no main memory; a pool's experts are in it too."""
    facts = qwen3_30b()
    machine = make_machine(make_gpu(8 * GIB), ram=17 * GIB)
    plan = planned(facts, machine)
    layers = list(gpu_lanes(plan))
    assert layers == list(range(len(layers)))
    # One layer less, and another would be read from disk.
    assert DISK_LANE not in plan.expert_lanes.values()
    one_less = planned(facts, machine, Wishes(whole_layers=len(layers) - 1))
    assert DISK_LANE in one_less.expert_lanes.values()
    assert plan.pool_bytes > 0
    assert fits(plan, machine) == ()


def test_equally_fast_plans_are_decided_by_what_is_simpler():
    facts = qwen3_30b()
    plan = planned(facts, make_machine(make_gpu(7 * GIB)), cpu=50 * GB, gpu=50 * GB)
    assert plan.pool_bytes == 0
    assert plan.gpu == "CUDA0"
    assert gpu_lanes(plan)


def test_experts_stay_off_a_gpu_that_computes_them_slower_than_the_processor():
    facts = qwen3_30b()
    plan = planned(facts, make_machine(make_gpu(7 * GIB)), layer_seconds=0.1, cpu=90 * GB, gpu=91 * GB)
    assert set(plan.expert_lanes.values()) == {CPU_LANE}


def test_a_gpu_that_only_slows_is_left_out_and_the_plan_says_by_how_much():
    facts = demo()
    machine = make_machine(make_gpu(7 * GIB))
    plan = planned(facts, machine, cpu=50 * GB, gpu=5 * GB)
    assert plan.gpu is None
    assert names(plan) == ["cpu only"]
    assert "With attention on CUDA0" in plan.steps[0].reason
    assert f"{plan.speed.decode.likely:.1f}" in plan.steps[0].reason
    named = planned(facts, machine, Wishes(gpu="CUDA0"), cpu=50 * GB, gpu=5 * GB)
    assert (named.gpu, names(named)) == ("CUDA0", [])


def test_a_plan_tells_its_speed_and_without_a_law_of_speed_none():
    facts = qwen3_30b()
    speed_of = plain_speed(facts)
    plan = make_plan(facts, make_machine(make_gpu()), Wishes(), speed_of)
    assert plan.speed == speed_of(plan)
    assert make_plan(facts, make_machine(make_gpu())).speed is None
    dense = make_facts(experts=0)
    assert planned(dense, make_machine(make_gpu())).speed is not None


def test_experts_are_not_read_from_disk_to_decode_hardly_faster_while_prompts_wait():
    """With a larger pool and two layers on a hard disk, by the law of speed: 2 % faster, prompts 5 times as slow."""
    facts = gpt_oss_20b(quantization="MXFP4")
    slow = Disk(path="/m", total_bytes=None, free_bytes=None, rotational=True)
    machine = make_machine(make_gpu(8 * GIB), ram=int(11.5 * GIB), disk=slow)
    plan = decided(facts, machine)
    assert DISK_LANE not in plan.expert_lanes.values()
    assert (len(gpu_lanes(plan)), plan.residency) == (2, "repacked")
    assert plan.pool_bytes > facts.token_cycle_bytes
    on_disk = decided(facts, machine, Wishes(whole_layers=0))
    assert DISK_LANE in on_disk.expert_lanes.values()
    assert 1 < on_disk.speed.decode.likely / plan.speed.decode.likely < 1.05
    assert on_disk.speed.prompt.likely < 0.7 * plan.speed.prompt.likely
    roomy = decided(facts, make_machine(make_gpu(8 * GIB), ram=13 * GIB))
    assert (gpu_lanes(roomy), roomy.pool_bytes) == ({}, on_disk.pool_bytes)


def test_where_every_plan_reads_from_disk_the_fastest_is_taken():
    plan = decided(gpt_oss_20b(), make_machine(make_gpu(4 * GIB), ram=6 * GIB))
    assert DISK_LANE in plan.expert_lanes.values()


def test_a_pool_is_no_larger_than_the_card_has_time_for_and_the_plan_says_so():
    """Of a slow card that could hold nearly all experts; the processor computes the rest meanwhile."""
    facts = make_facts(layers=4, experts=64, used=4, expert_sizes=40 * MIB)
    speeds = {"cpu": 28 * GB, "gpu": 60 * GB}
    sizes = []
    for free in (10 * GIB, 10 * GIB + 256 * MIB):
        machine = make_machine(make_gpu(free, total=12 * GIB))
        plan = make_plan(facts, machine, Wishes(), both_at_once(facts, **speeds))
        assert names(plan) == ["smaller pool"]
        assert "the processor is predicted to wait for the card" in plan.steps[0].reason
        full = make_plan(facts, machine, Wishes(pool_bytes=20 * GIB, whole_layers=0), both_at_once(facts, **speeds))
        assert full.pool_bytes > plan.pool_bytes
        assert plan.speed.decode.likely > 1.02 * full.speed.decode.likely
        sizes.append(plan.pool_bytes)
    assert abs(sizes[0] - sizes[1]) < 0.001 * sizes[0]
    fast = make_plan(facts, machine, Wishes(), both_at_once(facts, cpu=28 * GB, gpu=900 * GB))
    assert "smaller pool" not in names(fast)


# ---- wishes ----------------------------------------------------------------------------------


def test_a_wished_pool_is_taken_also_where_another_plan_is_faster():
    facts = gpt_oss_20b()
    plan = planned(facts, make_machine(make_gpu(16 * GIB)), Wishes(pool_bytes=2 * GIB))
    assert plan.pool_bytes == 2 * GIB


@pytest.mark.parametrize("count", [0, 3])
def test_wished_whole_layers_are_taken_and_a_pool_gets_the_rest(count):
    facts = qwen3_30b()
    machine = make_machine(make_gpu(7 * GIB))
    plan = planned(facts, machine, Wishes(whole_layers=count))
    assert list(gpu_lanes(plan)) == list(range(count))
    assert plan.pool_bytes > 0
    assert spare_bytes(plan, machine, "CUDA0") == 0
    alone = planned(facts, machine, Wishes(whole_layers=count, pool_bytes=0))
    assert (len(gpu_lanes(alone)), alone.pool_bytes, alone.steps) == (count, 0, ())


def test_more_wished_layers_than_fit_are_as_many_as_fit_and_the_plan_says_so():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(7 * GIB))
    plan = planned(facts, machine, Wishes(whole_layers=48))
    assert 8 <= len(gpu_lanes(plan)) <= 14
    assert names(plan) == ["fewer whole layers"]
    assert "7.0 GiB on CUDA0" in plan.steps[0].reason
    assert fits(plan, machine) == ()


# ---- GPUs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", [make_machine(), make_machine(make_gpu(0))])
def test_wished_layers_without_a_gpu_for_them_are_told(machine):
    plan = planned(qwen3_30b(), machine, Wishes(whole_layers=5))
    assert (plan.gpu, names(plan)[-1]) == (None, "fewer whole layers")
    assert "5 whole layers were wished" in plan.steps[-1].reason


def test_other_discrete_gpus_take_whole_layers_beside_the_pool_of_the_first():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(7 * GIB), make_gpu(4 * GIB, device="CUDA1"))
    plan = planned(facts, machine)
    assert (plan.gpu, plan.pool_on) == ("CUDA0", "CUDA0")
    assert plan.pool_bytes > 0
    assert set(gpu_lanes(plan).values()) == {"CUDA1"}
    assert list(gpu_lanes(plan)) == list(range(len(gpu_lanes(plan))))
    assert fits(plan, machine) == ()
    assert spare_bytes(plan, machine, "CUDA1") < expert_bytes(facts, [0])
    one = planned(facts, make_machine(machine.gpus[0]))
    assert plan.speed.decode.likely > one.speed.decode.likely


def test_layers_fill_the_second_gpu_after_the_first_where_all_fit_on_both():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(12 * GIB), make_gpu(11 * GIB, device="CUDA1"))
    plan = planned(facts, machine)
    assert set(plan.expert_lanes.values()) == {"CUDA0", "CUDA1"}
    assert plan.expert_lanes[0] == "CUDA0"
    assert (plan.pool_bytes, plan.staging_bytes, fits(plan, machine)) == (0, 0, ())


def test_a_second_gpu_is_left_alone_where_the_first_holds_everything_or_it_is_named():
    machine = make_machine(make_gpu(24 * GIB), make_gpu(20 * GIB, device="CUDA1"))
    assert planned(qwen3_30b(), machine).gpus == ("CUDA0",)
    small = make_machine(make_gpu(7 * GIB), make_gpu(6 * GIB, device="CUDA1"))
    assert planned(qwen3_30b(), small, Wishes(gpu="CUDA1")).gpus == ("CUDA1",)


def test_a_second_gpu_takes_experts_where_the_first_has_to_concede():
    facts = qwen3_30b()
    first = make_gpu(2 * GIB + 512 * MIB, total=8 * GIB)
    machine = make_machine(first, make_gpu(2 * GIB, device="CUDA1", total=8 * GIB))
    plan = planned(facts, machine)
    assert "smaller context" in names(plan)
    assert set(gpu_lanes(plan).values()) == {"CUDA1"}
    assert fits(plan, machine) == ()


def test_one_card_that_two_backends_offer_is_used_once():
    cuda = make_gpu(7 * GIB, device="CUDA0", pci_id="0000:01:00.0", name="Card")
    for twice in ({"pci_id": "0000:01:00.0", "name": "Card of another spelling"}, {"pci_id": None, "name": "Card"}):
        plan = planned(qwen3_30b(), make_machine(make_gpu(7 * GIB, device="Vulkan0", **twice), cuda))
        assert plan.gpus == ("CUDA0",)
    other = make_gpu(6 * GIB, device="Vulkan1", pci_id="0000:02:00.0", name="Card")
    assert planned(qwen3_30b(), make_machine(cuda, other)).gpus == ("CUDA0", "Vulkan1")


def test_software_and_integrated_gpus_take_nothing_beside_a_discrete_one():
    software = make_gpu(30 * GIB, device="Vulkan1", kind=GpuKind.SOFTWARE)
    integrated = make_gpu(12 * GIB, device="Vulkan0", kind=GpuKind.INTEGRATED)
    assert planned(qwen3_30b(), make_machine(integrated, make_gpu(7 * GIB), software)).gpus == ("CUDA0",)
    assert planned(qwen3_30b(), make_machine(software)).gpus == ()


def test_an_integrated_gpu_holds_all_experts_or_none():
    facts = deepseek_v2_lite()
    integrated = make_gpu(16 * GIB, device="Vulkan0", kind=GpuKind.INTEGRATED)
    plan = planned(facts, make_machine(integrated))
    assert set(plan.expert_lanes.values()) == {"Vulkan0"}
    assert (plan.pool_bytes, plan.steps) == (0, ())
    tight = msgspec.structs.replace(integrated, free_bytes=6 * GIB)
    divided = planned(facts, make_machine(tight))
    assert set(divided.expert_lanes.values()) == {CPU_LANE}
    assert (divided.gpu, divided.pool_bytes, names(divided)) == ("Vulkan0", 0, ["experts in one memory"])
    assert "6.0 GiB is free" in divided.steps[0].reason
    assert "no memory of its own" in divided.steps[0].reason
