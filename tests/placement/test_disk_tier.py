"""Experts that main memory keeps a part of: speed, plans, words, curve and advice."""

import itertools

import msgspec
import pytest
from factories import ENGINE, GIB, MIB, make_facts, make_gpu, make_machine, qwen3_30b
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import skewed_trace
from test_placement_properties import free_memory, memories, models
from two_tiers import missed

from app.errors import AppError, ErrorCode
from app.hardware.facts import GpuKind
from app.placement.cache import simulator
from app.placement.cache.recorded_hits import curve_of
from app.placement.evidence import planned
from app.placement.memory import bytes_off_gpus, fits, predict, spare_bytes
from app.placement.plan import CPU_LANE, DISK_LANE
from app.placement.planner import STEP_AS_IN_FILE, Wishes, make_plan, with_lanes
from app.placement.resident import STEP_DISK, STEP_LIMITED, STEP_NO_BUDGET, again_undecided, stay_words
from app.placement.speed.curve import memory_curve
from app.placement.speed.demand import demand_of, hits_of
from app.placement.speed.prediction import predict_speed
from app.placement.words import describe_gain, describe_lanes, describe_plan

some = settings(max_examples=80, deadline=None)
FACTS = qwen3_30b()
SHORT = make_machine(ram=10 * GIB)


def names(plan):
    return [step.name for step in plan.steps]


def kept(plan, resident_bytes, facts=FACTS, machine=SHORT):
    made = msgspec.structs.replace(plan, resident_bytes=resident_bytes)
    return msgspec.structs.replace(made, memory=predict(facts, machine, made))


# ---- speed -----------------------------------------------------------------------------------


@some
@given(
    models().filter(lambda facts: facts.moe_layers),
    st.lists(st.integers(1, 64 * GIB), min_size=2, max_size=5, unique=True),
    st.sampled_from([0, 256 * MIB, 2 * GIB]),
)
def test_more_main_memory_for_experts_is_never_slower(facts, sizes, pool):
    machine = make_machine(make_gpu(8 * GIB), ram=128 * GIB)
    plan = make_plan(facts, machine, Wishes(gpu="CUDA0", pool_bytes=pool, whole_layers=0, residency="mapped"))
    speeds = [predict_speed(facts, machine, kept(plan, size, facts, machine)) for size in sorted(sizes)]
    for less, more in itertools.pairwise(speeds):
        for phase in ("decode", "prompt"):
            assert getattr(more, phase).likely >= getattr(less, phase).likely * (1 - 1e-9)
        assert more.cold_experts <= less.cold_experts + 1e-9
    for speed in speeds:
        assert 0 < speed.decode.low <= speed.decode.likely <= speed.decode.high


def test_a_budget_of_all_experts_is_as_fast_as_none_where_all_fit():
    roomy = make_machine(ram=30 * GIB)
    plan = make_plan(FACTS, roomy, Wishes(residency="mapped"))
    everything = bytes_off_gpus(FACTS, plan)
    all_of_them = predict_speed(FACTS, roomy, kept(plan, everything, machine=roomy))
    assert all_of_them == predict_speed(FACTS, roomy, plan)
    assert all_of_them.cold_experts == 0


def test_reads_that_are_asked_for_at_once_beat_the_systems_own_paging():
    plan = make_plan(FACTS, SHORT)
    ours, systems = (predict_speed(FACTS, SHORT, kept(plan, size)) for size in (plan.resident_bytes, 0))
    assert ours.decode.likely > 1.5 * systems.decode.likely
    stock = make_machine(ram=10 * GIB, engine=msgspec.structs.replace(ENGINE, expert_device=False))
    assert predict_speed(FACTS, stock, kept(plan, 0, machine=stock)).decode.likely == pytest.approx(
        systems.decode.likely
    )


def test_a_core_that_does_not_compute_brings_missing_experts_in():
    plan = make_plan(FACTS, SHORT)
    waiting, aside = (
        predict_speed(FACTS, SHORT, msgspec.structs.replace(plan, threads=threads)).decode_parts for threads in (8, 7)
    )
    seconds = [next(part.seconds for part in parts if part.name == "disk") for parts in (waiting, aside)]
    assert seconds[0] > seconds[1]


POOLS = [(slots, share) for slots in (4, 6, 10) for share in (0.2, 0.4, 0.6, 0.8)]


@pytest.mark.parametrize(("slots", "share"), POOLS)
def test_pool_and_memory_lack_what_the_law_says_they_do(slots, share):
    """Step by step as the engine does, on a recorded routing."""
    trace = skewed_trace(tokens=1200, layers=tuple(range(6)), experts=16, used=2)
    facts = make_facts(layers=6, experts=16, used=2, expert_sizes=MIB)
    room = int(share * 6 * 16)
    machine = make_machine(make_gpu(8 * GIB))
    wishes = Wishes(gpu="CUDA0", pool_bytes=slots * 6 * MIB, residency="mapped", whole_layers=0)
    plan = make_plan(facts, machine, wishes)
    plan = kept(plan, room * MIB, facts, machine)
    curve = curve_of(simulator.recorded_hits(trace, facts.expert_bytes), facts.expert_bytes, facts.moe_layers)
    found = hits_of(demand_of(facts, machine, plan, 100), plan, facts, curve, None)
    read = missed(trace, 16, slots, room)
    assert found["high"].cold - 0.02 <= read <= found["low"].cold + 0.02
    assert abs(found["likely"].cold - read) < 0.03


# ---- plans -----------------------------------------------------------------------------------


@some
@given(models(), free_memory, free_memory, st.sampled_from(["speed", "context", "quiet"]))
def test_what_a_plan_keeps_in_main_memory_is_within_it_and_all_that_there_is_room_for(facts, free, ram, goal):
    machine = make_machine(make_gpu(free, total=16 * GIB), ram=ram, ram_total=32 * GIB)
    plan = planned(facts, machine, Wishes(goal=goal))
    everything = bytes_off_gpus(facts, plan)
    quiet = round(0.1 * machine.ram.total_bytes) if goal == "quiet" else 0
    left = machine.ram.available_bytes - quiet - plan.bytes_on("CPU")
    if not plan.resident_bytes:
        assert DISK_LANE not in plan.expert_lanes.values() or left < MIB
        return
    assert (plan.residency, plan.resident_bytes < everything) == ("mapped", True)
    assert "CPU" not in [short.device for short in fits(plan, machine)]
    assert STEP_DISK in names(plan)
    assert 0 <= left < MIB
    assert next(part for part in plan.memory if (part.device, part.part) == ("CPU", "experts")).basis == "set"


def test_a_model_larger_than_memory_keeps_what_there_is_room_for_and_says_so_in_words():
    plan = planned(FACTS, SHORT)
    step = next(step for step in plan.steps if step.name == STEP_DISK)
    assert "too little for all 16.3 GiB of experts. " in step.reason
    assert " of experts stay there. Those that were used last stay" in step.reason
    words = describe_gain(plan, FACTS)
    assert " of 16.3 GiB of experts stay in memory, and about " in words
    assert " others a token are read from the disk (predicted); expect " in words
    nearly = kept(plan, FACTS.bytes.experts - MIB)
    nearly = msgspec.structs.replace(nearly, speed=predict_speed(FACTS, make_machine(ram=30 * GIB), nearly))
    assert "hardly any others are read from the disk (predicted); expect " in describe_gain(nearly, FACTS)
    assert "Experts of all 48 layers on the CPU;" in describe_plan(plan, FACTS)
    assert describe_lanes(plan, FACTS)[0].endswith(" stay in memory")
    less = planned(FACTS, make_machine(ram=6 * GIB))
    assert less.speed.decode_bound == "disk"
    assert less.speed.sentence.startswith("Bound by the disk: ")


def test_a_model_that_fits_has_no_budget():
    for residency in (None, "mapped"):
        plan = make_plan(FACTS, make_machine(ram=30 * GIB), Wishes(residency=residency))
        assert plan.resident_bytes is None
    assert "stay in memory" not in describe_gain(planned(FACTS, make_machine(ram=30 * GIB)), FACTS)


def test_a_quiet_plan_leaves_more_to_other_programs():
    usual, quiet = (planned(FACTS, SHORT, Wishes(goal=goal)) for goal in ("speed", "quiet"))
    assert usual.resident_bytes - quiet.resident_bytes == pytest.approx(0.1 * SHORT.ram.total_bytes, rel=0.05)


def test_a_little_more_or_less_memory_changes_the_budget_by_as_much():
    sizes = [planned(FACTS, make_machine(ram=10 * GIB + more)).resident_bytes for more in (0, 3 * MIB)]
    assert 0 <= sizes[1] - sizes[0] <= 4 * MIB


def test_a_wished_budget_is_kept_though_there_is_room_for_more():
    machine = make_machine(ram=30 * GIB)
    plan = planned(FACTS, machine, Wishes(resident_bytes=6 * GIB))
    assert (plan.residency, plan.resident_bytes) == ("mapped", 6 * GIB)
    assert names(plan) == [STEP_AS_IN_FILE, STEP_LIMITED]
    experts = next(part.bytes for part in plan.memory if (part.device, part.part) == ("CPU", "experts"))
    assert experts == 6 * GIB
    assert plan.speed.cold_experts > 0
    moved = with_lanes(plan, FACTS, machine, (0,), CPU_LANE)
    assert (moved.resident_bytes, moved.residency) == (6 * GIB, "mapped")


def test_a_budget_of_more_than_all_experts_is_all_of_them():
    plan = planned(FACTS, make_machine(ram=30 * GIB), Wishes(resident_bytes=25 * GIB))
    assert plan.resident_bytes == FACTS.bytes.experts
    assert set(plan.expert_lanes.values()) == {CPU_LANE}
    assert names(plan) == [STEP_AS_IN_FILE]
    assert planned(FACTS, make_machine(ram=30 * GIB), Wishes(resident_bytes=25 * GIB, residency="mapped")).steps == ()


def test_a_budget_that_main_memory_has_no_room_for_is_refused_with_what_there_is():
    with pytest.raises(AppError, match=r"12.0 GiB of main memory cannot be kept .* room for 6\.\d GiB") as caught:
        planned(FACTS, SHORT, Wishes(resident_bytes=12 * GIB))
    assert caught.value.code is ErrorCode.OUT_OF_MEMORY
    with pytest.raises(AppError, match="cannot be kept"):
        make_plan(FACTS, SHORT, Wishes(resident_bytes=12 * GIB))


def test_off_leaves_it_to_the_system():
    plan = planned(FACTS, SHORT, Wishes(resident_bytes=0))
    assert (plan.residency, plan.resident_bytes) == ("mapped", 0)
    assert "The system keeps what was used last" in next(s for s in plan.steps if s.name == STEP_DISK).reason
    assert plan.speed.decode.likely < planned(FACTS, SHORT).speed.decode.likely


def test_layers_that_move_take_the_chosen_budget_with_them():
    machine = make_machine(make_gpu(6 * GIB), ram=10 * GIB)
    plan = make_plan(FACTS, machine, Wishes(gpu="CUDA0", whole_layers=4, pool_bytes=0))
    moved = with_lanes(plan, FACTS, machine, (0,), CPU_LANE)
    back = with_lanes(moved, FACTS, machine, (0,), "CUDA0")
    assert fits(moved, machine) == ()
    assert (back.resident_bytes, back.memory) == (plan.resident_bytes, plan.memory)


def test_a_budget_that_was_changed_by_hand_is_kept_when_lanes_change():
    machine = make_machine(make_gpu(6 * GIB), ram=10 * GIB)
    plan = make_plan(FACTS, machine, Wishes(gpu="CUDA0", whole_layers=4, pool_bytes=0))
    less = kept(plan, 3 * GIB, machine=machine)
    moved = with_lanes(less, FACTS, machine, (0,), CPU_LANE)
    assert (moved.resident_bytes, moved.residency) == (3 * GIB, "mapped")
    assert STEP_LIMITED in names(moved)
    roomy = make_machine(make_gpu(6 * GIB), ram=40 * GIB)
    assert with_lanes(less, FACTS, roomy, (0,), CPU_LANE).resident_bytes == 3 * GIB
    assert with_lanes(plan, FACTS, roomy, (0,), CPU_LANE).residency == "repacked"


def test_a_budget_is_the_chosen_one_by_its_bytes_and_not_by_the_words_of_its_step():
    plan = make_plan(FACTS, make_machine(ram=17 * GIB))
    assert again_undecided(plan) is None
    by_hand = plan.resident_bytes - 1
    assert stay_words(by_hand) == stay_words(plan.resident_bytes)
    assert again_undecided(kept(plan, by_hand)) == by_hand
    steps = tuple(msgspec.structs.replace(step, reason="Too little.") for step in plan.steps)
    assert again_undecided(msgspec.structs.replace(plan, steps=steps)) is None


def test_a_budget_that_nothing_would_keep_is_said_and_not_planned():
    reason = "The library is missing."
    engine = msgspec.structs.replace(ENGINE, expert_device=False, expert_device_reason=reason)
    wishes = Wishes(resident_bytes=3 * GIB)
    for machine, facts, why in (
        (make_machine(ram=30 * GIB, engine=engine), FACTS, reason),
        (make_machine(ram=30 * GIB), make_facts(experts=0), "no experts"),
    ):
        plan = planned(facts, machine, wishes)
        assert plan.resident_bytes is None
        assert plan.residency == planned(facts, machine).residency
        [step] = plan.steps
        assert step.name == STEP_NO_BUDGET
        assert "3.0 GiB of main memory were wished for experts." in step.reason
        assert why in step.reason


@pytest.mark.parametrize("integrated", [True, False])
def test_plans_for_one_machine_are_the_same_whoever_asks_and_whatever_gpu_it_has(integrated):
    kind = GpuKind.INTEGRATED if integrated else GpuKind.DISCRETE
    machine = make_machine(make_gpu(6 * GIB, kind=kind), make_gpu(2 * GIB, device="CUDA1", kind=kind), ram=9 * GIB)
    plan = planned(FACTS, machine)
    assert plan == planned(FACTS, machine)
    assert fits(plan, machine) == ()
    assert 0 < plan.resident_bytes < bytes_off_gpus(FACTS, plan)
    assert 0 <= spare_bytes(plan, machine, CPU_LANE) < MIB


def test_one_layer_that_has_no_room_as_a_whole_keeps_the_experts_there_is_room_for():
    facts = make_facts(layers=1, experts=64, used=4, expert_sizes=100 * MIB, experts_shared=1)
    machine = make_machine(ram=5 * GIB)
    plan = planned(facts, machine)
    assert set(plan.expert_lanes.values()) == {DISK_LANE}
    assert 0 < plan.resident_bytes < 6400 * MIB
    assert 0 < plan.speed.cold_experts < 4
    assert describe_lanes(plan, facts)[0].startswith("CPU: experts of 1 layer ")


# ---- the curve over main memory ----------------------------------------------------------------


def test_the_memory_curve_goes_from_next_to_nothing_to_all_experts_and_marks_where_the_disk_ends():
    plan = planned(FACTS, SHORT)
    found = memory_curve(FACTS, SHORT, plan)
    sizes = [point.pool_bytes for point in found.points]
    assert sizes == sorted(set(sizes))
    assert (sizes[0], sizes[-1]) == (0, FACTS.bytes.experts)
    assert found.cycle_bytes == FACTS.token_cycle_bytes
    rates = [point.decode.likely for point in found.points]
    assert all(more >= less * (1 - 1e-9) for less, more in itertools.pairwise(rates))
    assert (found.points[0].hit_rate, found.points[-1].hit_rate) == (0, 1)
    assert found.running.pool_bytes == plan.resident_bytes
    assert found.running.decode == plan.speed.decode
    for point in found.points:
        room = make_machine(ram=60 * GIB)
        speed = predict_speed(FACTS, room, kept(plan, max(point.pool_bytes, 1), machine=room))
        assert (speed.decode_bound == "disk") <= (point.pool_bytes < found.break_even_bytes)
        assert speed.decode == point.decode


@some
@given(models(), free_memory, free_memory, memories())
def test_every_plan_has_a_memory_curve(facts, free, ram, most):
    machine = make_machine(make_gpu(free), ram=ram, ram_total=32 * GIB)
    plan = planned(facts, machine)
    found = memory_curve(facts, machine, plan, most_bytes=most, points=5)
    assert found.points[-1].pool_bytes == min(most, bytes_off_gpus(facts, plan))
    assert all(0 <= point.hit_rate <= 1 for point in (*found.points, found.running))
