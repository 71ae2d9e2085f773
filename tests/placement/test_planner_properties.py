"""What holds for every plan that is chosen by predicted speed."""

import msgspec
from factories import GIB, MIB, make_facts, make_gpu, make_machine
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from never_slower import is_no_slower
from test_placement_properties import free_memory, kinds, memories, models

from app.hardware.facts import GpuKind
from app.placement.evidence import planned, with_speed
from app.placement.lanes import gpu_lanes
from app.placement.memory import expert_bytes, fits, predict
from app.placement.plan import CPU_LANE, DISK_LANE, GOALS, Plan
from app.placement.planner import STEP_DOES_NOT_FIT, Wishes, make_plan
from app.placement.pool import staging_need

some = settings(max_examples=100, deadline=None)


def machine_with(*free, ram, kind=GpuKind.DISCRETE):
    gpus = [make_gpu(size, device=f"CUDA{index}", kind=kind, total=16 * GIB) for index, size in enumerate(free)]
    return make_machine(*gpus, ram=ram, ram_total=32 * GIB)


def on_gpus(plan, facts):
    return expert_bytes(facts, gpu_lanes(plan)) + plan.pool_bytes


@some
@given(models(), free_memory, free_memory, free_memory, kinds, st.sampled_from(GOALS))
def test_a_chosen_plan_is_within_every_memory_or_says_that_none_is(facts, free, second, ram, kind, goal):
    machine = machine_with(free, second, ram=ram, kind=kind)
    plan = planned(facts, machine, Wishes(goal=goal))
    named = [step.name for step in plan.steps]
    assert bool(fits(plan, machine)) <= (STEP_DOES_NOT_FIT in named)
    assert set(plan.expert_lanes.values()) <= {CPU_LANE, DISK_LANE, "CUDA0", "CUDA1"}
    assert tuple(plan.expert_lanes) == facts.moe_layers
    assert plan.memory == predict(facts, machine, plan)
    assert plan.gpu is not None or (not gpu_lanes(plan) and not plan.pool_bytes)


@some
@given(models(), free_memory, memories(most=4 * GIB), free_memory)
def test_more_graphics_memory_is_never_slower(facts, free, more, ram):
    less, roomy = (planned(facts, machine_with(size, ram=ram)) for size in (free, free + more))
    assume(not fits(less, machine_with(free, ram=ram)))  # the speed of what does not load is no measure
    assert is_no_slower(roomy, less)


@some
@given(models(), free_memory, free_memory, memories(most=4 * GIB))
def test_more_main_memory_is_never_slower(facts, free, ram, more):
    less, roomy = (planned(facts, machine_with(free, ram=size)) for size in (ram, ram + more))
    assume(not fits(less, machine_with(free, ram=ram)))  # the speed of what does not load is no measure
    assert is_no_slower(roomy, less)


@some
@given(models(), free_memory, free_memory, free_memory)
def test_a_second_gpu_is_never_slower(facts, free, second, ram):
    second = min(free, second)  # attention stays where it is
    one, both = (planned(facts, machine_with(*sizes, ram=ram)) for sizes in ((free,), (free, second)))
    assert is_no_slower(both, one)


@some
@given(models(), memories(2 * GIB), st.floats(0.99, 1.01), memories(8 * GIB, 24 * GIB))
@example(make_facts(layers=12, experts=64, expert_sizes=4 * MIB), 3 * GIB, 0.99, 16 * GIB)
def test_a_little_more_or_less_memory_changes_little(facts, free, factor, ram):
    """Experts on the GPU change by what the memory changed, by one layer, and by the staging area."""
    changed = int(free * factor)
    plans = [planned(facts, machine_with(size, ram=ram)) for size in (free, changed)]
    assume([step.name for step in plans[0].steps] == [step.name for step in plans[1].steps])
    assume(plans[0].gpu == plans[1].gpu)
    allowed = abs(changed - free) + max(expert_bytes(facts, [layer]) for layer in facts.moe_layers)
    allowed += 2 * staging_need(facts)
    assert abs(on_gpus(plans[0], facts) - on_gpus(plans[1], facts)) <= allowed


@some
@given(models(), free_memory, free_memory, kinds, st.sampled_from(GOALS))
def test_the_same_question_has_the_same_answer(facts, free, ram, kind, goal):
    machine = machine_with(free, ram=ram, kind=kind)
    assert planned(facts, machine, Wishes(goal=goal)) == planned(facts, machine, Wishes(goal=goal))


@some
@given(models(), free_memory, free_memory, kinds)
def test_a_pool_that_nobody_wished_holds_a_token_cycle_and_is_on_a_card(facts, free, ram, kind):
    plan = planned(facts, machine_with(free, ram=ram, kind=kind))
    if plan.pool_bytes:
        left = [layer for layer in facts.moe_layers if layer not in gpu_lanes(plan)]
        cycle = facts.experts_used * sum(facts.expert_bytes[layer] for layer in left)
        assert cycle <= plan.pool_bytes <= expert_bytes(facts, left)
        assert kind is GpuKind.DISCRETE
        assert plan.pool_on == plan.gpu


@some
@given(models(), free_memory, free_memory)
def test_the_chosen_plan_is_never_slower_than_the_simplest(facts, free, ram):
    machine = machine_with(free, ram=ram)
    chosen = planned(facts, machine, Wishes(gpu="CUDA0"))
    simplest = make_plan(facts, machine, Wishes(gpu="CUDA0"))
    assert is_no_slower(chosen, with_speed(simplest, facts, machine))


@some
@given(models(), free_memory, memories(most=GIB // 2))
def test_without_graphics_memory_or_with_little_main_memory_there_is_a_plan(facts, ram, tiny):
    none = planned(facts, machine_with(0, ram=ram))
    assert none.gpu is None
    assert none.steps[0].name == "cpu only" or none.steps[-1].name == STEP_DOES_NOT_FIT
    little = planned(facts, machine_with(8 * GIB, ram=tiny))
    assert little.speed.decode.likely > 0


@some
@given(models(), free_memory, free_memory)
def test_a_plan_survives_being_written_and_read(facts, free, ram):
    plan = planned(facts, machine_with(free, ram=ram))
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
    # One of an earlier version, which knew neither goal nor speed.
    old = {key: value for key, value in msgspec.to_builtins(plan).items() if key not in ("goal", "speed")}
    assert msgspec.convert(old, Plan) == msgspec.structs.replace(plan, speed=None)


@some
@given(st.integers(1, 12), free_memory, free_memory, kinds, st.sampled_from(GOALS))
def test_a_dense_model_has_a_plan_with_its_speed_and_without_experts(layers, free, ram, kind, goal):
    facts = make_facts(layers=layers, experts=0, layer_size=64 * MIB)
    plan = planned(facts, machine_with(free, ram=ram, kind=kind), Wishes(goal=goal))
    assert (plan.expert_lanes, plan.pool_bytes, plan.staging_bytes) == ({}, 0, 0)
    assert plan.speed.decode.likely > 0
