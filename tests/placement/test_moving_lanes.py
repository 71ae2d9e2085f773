"""Moving layers between lanes by hand."""

import pytest
from factories import GIB, MIB, deepseek_v2_lite, demo, make_gpu, make_machine, qwen3_30b

from app.errors import AppError, ErrorCode
from app.hardware.facts import GpuKind
from app.placement.memory import bytes_off_gpus, expert_bytes, fits, predict, working_bytes
from app.placement.plan import CPU_LANE, DISK_LANE
from app.placement.planner import Wishes, make_plan, with_lanes
from app.placement.pool import staging_need
from app.units import format_bytes


def names(plan):
    return [step.name for step in plan.steps]


def test_moved_layers_change_lane_and_the_memory_follows():
    facts = demo()
    machine = make_machine(make_gpu())
    plan = make_plan(facts, machine)
    moved = with_lanes(plan, facts, machine, [3, 7], CPU_LANE)
    assert {layer for layer, lane in moved.expert_lanes.items() if lane == CPU_LANE} == {3, 7}
    assert moved.memory == predict(facts, machine, moved)
    # A staging area comes with the first layers that are off the GPU.
    assert (plan.staging_bytes, moved.staging_bytes) == (0, staging_need(facts))
    change = plan.bytes_on("CUDA0") - moved.bytes_on("CUDA0")
    assert change == expert_bytes(facts, [3, 7]) - moved.staging_bytes - working_bytes(facts)
    assert (moved.n_ctx, moved.kv_type, moved.threads) == (plan.n_ctx, plan.kv_type, plan.threads)


def test_any_gpu_of_the_machine_may_take_layers():
    facts = demo()
    machine = make_machine(make_gpu(), make_gpu(GIB, device="Vulkan1"))
    moved = with_lanes(make_plan(facts, machine), facts, machine, [0], "Vulkan1")
    assert moved.expert_lanes[0] == "Vulkan1"
    assert moved.gpus == ("CUDA0", "Vulkan1")
    assert moved.bytes_on("Vulkan1") > expert_bytes(facts, [0])


def test_the_first_layer_on_a_gpu_brings_attention_there_and_the_plan_says_so():
    facts = demo()
    machine = make_machine(make_gpu())
    plan = make_plan(facts, machine, Wishes(gpu=None))
    moved = with_lanes(plan, facts, machine, [0], "CUDA0")
    assert moved.gpu == "CUDA0"
    assert names(moved) == ["attention on the GPU"]
    assert any(part.device == "CUDA0" and part.part == "kv" for part in moved.memory)
    assert names(with_lanes(moved, facts, machine, [1], "CUDA0")) == ["attention on the GPU"]


def test_attention_that_the_user_moves_to_a_gpu_is_no_longer_given_up():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(GIB))
    plan = make_plan(facts, machine)
    assert names(plan) == ["cpu only"]
    moved = with_lanes(plan, facts, machine, [0], "CUDA0")
    assert names(moved) == ["attention on the GPU", "does not fit"]


def test_moving_no_layer_changes_nothing():
    facts = demo()
    machine = make_machine(make_gpu())
    plan = make_plan(facts, machine, Wishes(gpu=None))
    assert with_lanes(plan, facts, machine, [], "CUDA0") == plan


def test_the_reason_to_stay_off_a_software_gpu_goes_when_the_user_moves_there():
    facts = demo()
    machine = make_machine(make_gpu(2 * GIB, device="Vulkan0", kind=GpuKind.SOFTWARE))
    plan = make_plan(facts, machine, Wishes(gpu="Vulkan0"))
    assert names(plan) == ["experts off the software GPU"]
    assert names(with_lanes(plan, facts, machine, [0], "Vulkan0")) == []


def test_layers_move_from_disk_to_ram_as_others_leave_for_the_gpu():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(9 * GIB), ram=8 * GIB)
    plan = make_plan(facts, machine, Wishes(n_ctx=2048))
    all_off = with_lanes(plan, facts, machine, range(48), CPU_LANE)
    disk_before = [layer for layer, lane in all_off.expert_lanes.items() if lane == DISK_LANE]
    moved = with_lanes(all_off, facts, machine, [0, 1, 2], "CUDA0")
    disk_after = [layer for layer, lane in moved.expert_lanes.items() if lane == DISK_LANE]
    assert len(disk_before) == len(disk_after) + 3
    assert names(all_off).count("experts on disk") == names(moved).count("experts on disk") == 1
    [step] = [step for step in moved.steps if step.name == "experts on disk"]
    left = format_bytes(bytes_off_gpus(facts, moved))
    assert f"too little for all {left} of experts off the GPUs. {format_bytes(moved.resident_bytes)} of" in step.reason
    assert fits(moved, machine) == ()


def test_too_much_on_a_gpu_is_said():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(7 * GIB))
    plan = make_plan(facts, machine)
    crowded = with_lanes(plan, facts, machine, range(48), "CUDA0")
    assert [short.device for short in fits(crowded, machine)] == ["CUDA0"]
    assert names(crowded) == ["does not fit"]
    relieved = with_lanes(crowded, facts, machine, range(48), CPU_LANE)
    assert relieved.steps == ()


def test_the_disk_lane_cannot_be_chosen_by_hand():
    facts = demo()
    machine = make_machine(make_gpu())
    with pytest.raises(AppError, match="by hand") as caught:
        with_lanes(make_plan(facts, machine), facts, machine, [0], DISK_LANE)
    assert caught.value.code is ErrorCode.BAD_USAGE


def test_unknown_lanes_are_refused_and_the_known_named():
    facts = demo()
    machine = make_machine(make_gpu())
    with pytest.raises(AppError, match="CPU, CUDA0") as caught:
        with_lanes(make_plan(facts, machine), facts, machine, [0], "CUDA1")
    assert caught.value.code is ErrorCode.BAD_USAGE


def test_layers_without_experts_are_refused():
    facts = deepseek_v2_lite()
    machine = make_machine(make_gpu())
    with pytest.raises(AppError, match="no experts: 0, 99") as caught:
        with_lanes(make_plan(facts, machine), facts, machine, [0, 1, 99], CPU_LANE)
    assert caught.value.code is ErrorCode.BAD_USAGE


def test_experts_that_leave_the_disk_are_repacked_again_unless_they_were_wished_to_be_mapped():
    facts = demo()
    machine = make_machine(make_gpu(), ram=700 * MIB, ram_total=8 * GIB)
    plan = with_lanes(make_plan(facts, machine), facts, machine, facts.moe_layers, CPU_LANE)
    assert (plan.residency, names(plan)) == ("mapped", ["experts on disk", "experts stay mapped"])
    back = with_lanes(plan, facts, machine, facts.moe_layers, "CUDA0")
    assert (back.residency, names(back)) == ("repacked", [])
    wished = make_plan(facts, machine, Wishes(residency="mapped"))
    off = with_lanes(wished, facts, machine, facts.moe_layers, CPU_LANE)
    assert (off.residency, names(off)) == ("mapped", ["experts on disk"])
    assert with_lanes(off, facts, machine, facts.moe_layers, "CUDA0").residency == "mapped"


def test_a_wished_pool_stays_when_layers_are_moved():
    facts = qwen3_30b()
    machine = make_machine(make_gpu(8 * GIB))
    plan = make_plan(facts, machine, Wishes(pool_bytes=3 * GIB))
    moved = with_lanes(plan, facts, machine, list(plan.expert_lanes)[:1], CPU_LANE)
    assert moved.pool_bytes == plan.pool_bytes == 3 * GIB
    assert moved.memory == predict(facts, machine, moved)
