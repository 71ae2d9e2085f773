"""More memory is never slower, also where layers are of very different sizes and pages of the file are a cache."""

import itertools

import msgspec
from factories import GIB, MIB, make_facts, make_gpu, make_machine
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from never_slower import NEARLY, is_no_slower

from app.hardware.fingerprint import fingerprint
from app.placement.evidence import Evidence, planned, with_speed
from app.placement.lanes import gpu_order, most_on_gpu, with_gpu_lanes
from app.placement.memory import expert_bytes, fits, predict
from app.placement.plan import CPU_LANE, DISK_LANE
from app.placement.planner import Wishes, make_plan
from app.placement.speed.calibration import Calibration, ComputeRate, CopyRate, LayerCost

many = settings(max_examples=60, deadline=None)
GB = 1e9


@st.composite
def mixed_models(draw):
    """Up to twelve layers; of each the experts are one to eight times as large as in the smallest."""
    layers = draw(st.integers(1, 12))
    size = draw(st.sampled_from([64 * 1024, MIB, 8 * MIB, 48 * MIB]))
    experts = draw(st.sampled_from([8, 32, 128]))
    return make_facts(
        layers=layers,
        experts=experts,
        used=draw(st.sampled_from([1, 2, 4, 8])),
        expert_sizes=[size * draw(st.sampled_from([1, 1, 1, 2, 3, 5, 7, 8])) for _ in range(layers)],
        layer_size=draw(st.integers(0, 32)) * MIB,
        context=draw(st.sampled_from([2048, 32768])),
        vocab=draw(st.sampled_from([1000, 150_000])),
    )


def parts(facts, of):
    """So many twelfths of what the experts take, and something for the rest."""
    return GIB // 2 + expert_bytes(facts, facts.moe_layers) * of // 12


def machine_with(free, ram):
    gpus = () if free is None else (make_gpu(free, total=free + GIB),)
    return make_machine(*gpus, ram=ram, ram_total=64 * GIB)


def measured(machine, *, gpu=300 * GB, locked=24 * GB):
    """A calibration; copies from page-locked memory are three or more times as fast."""
    return Calibration(
        machine=fingerprint(machine),
        engine="0.3.36",
        measured_at="2026-01-01T00:00:00Z",
        seconds=20.0,
        compute=(
            ComputeRate(device="CPU", type="q4_K", threads=6, bytes_per_second=30 * GB, flops_per_second=60 * GB),
            ComputeRate(
                device="CPU", type="q4_K", threads=6, tokens=512, bytes_per_second=GB, flops_per_second=400 * GB
            ),
            ComputeRate(device="CUDA0", type="q4_K", bytes_per_second=gpu, flops_per_second=2 * gpu),
            ComputeRate(device="CUDA0", type="q4_K", tokens=512, bytes_per_second=gpu, flops_per_second=9e12),
        ),
        copies=tuple(
            CopyRate(device="CUDA0", direction="to_device", pinned=pinned, bytes_per_second=rate)
            for pinned, rate in ((True, locked), (False, 7 * GB))
        ),
        layer_costs=(LayerCost(device="CUDA0", seconds=20e-6), LayerCost(device="CPU", seconds=2e-6)),
    )


def chosen(facts, machine, *, calibrated=False, gpu=300 * GB):
    evidence = Evidence(calibration=measured(machine, gpu=gpu)) if calibrated else Evidence()
    return planned(facts, machine, Wishes(), evidence)


def assert_never_slower(less, more, facts, machines, **evidence):
    """Of two plans that concede the same to make attention fit."""
    before, after = (chosen(facts, machine, **evidence) for machine in machines)
    assume(not fits(before, machines[0]))  # the speed of what does not load is no measure
    assume((before.n_ctx, before.kv_type) == (after.n_ctx, after.kv_type))
    assert is_no_slower(after, before), (less, more)


twelfths = st.integers(0, 16)
LARGE_BETWEEN_SMALL = make_facts(
    layers=10, experts=128, used=4, expert_sizes=[MIB, MIB, 7 * MIB, MIB, MIB, MIB, 7 * MIB, MIB, MIB, MIB]
)


@many
@given(mixed_models(), twelfths, st.integers(0, 64), st.booleans())
@example(LARGE_BETWEEN_SMALL, 6, 4, False)
def test_more_main_memory_is_never_slower_on_the_processor(facts, part, more, calibrated):
    ram = parts(facts, part)
    machines = [machine_with(None, size) for size in (ram, ram + more * 32 * MIB)]
    assert_never_slower(ram, more, facts, machines, calibrated=calibrated)


@many
@given(mixed_models(), twelfths, twelfths, st.integers(0, 64), st.booleans())
def test_more_main_memory_is_never_slower_beside_a_card(facts, part, of_card, more, calibrated):
    ram, free = parts(facts, part), parts(facts, of_card)
    machines = [machine_with(free, size) for size in (ram, ram + more * 32 * MIB)]
    assert_never_slower(ram, more, facts, machines, calibrated=calibrated)


@many
@given(mixed_models(), twelfths, twelfths, st.integers(0, 64), st.sampled_from([None, 60 * GB, 300 * GB]))
def test_more_graphics_memory_is_never_slower(facts, part, of_card, more, gpu):
    ram, free = parts(facts, part), parts(facts, of_card)
    machines = [
        make_machine(make_gpu(size, total=64 * GIB), ram=ram, ram_total=64 * GIB)
        for size in (free, free + more * 32 * MIB)
    ]
    assert_never_slower(free, more, facts, machines, calibrated=gpu is not None, gpu=gpu)


def test_each_32_mib_of_main_memory_more_is_no_slower():
    """A layer more that fits leaves the others no fewer pages: all of them are one cache."""
    machines = [machine_with(None, 5 * GIB // 2 + step * 32 * MIB) for step in range(100)]
    plans = [chosen(LARGE_BETWEEN_SMALL, machine) for machine in machines]
    assert {(plan.n_ctx, plan.kv_type) for plan in plans} == {(8192, "f16")}
    assert {plan.residency for plan in plans} == {"mapped", "repacked"}
    speeds = [plan.speed.decode.likely for plan in plans]
    assert all(later >= earlier * NEARLY for earlier, later in itertools.pairwise(speeds))
    assert speeds[-1] > 5 * speeds[0]


def test_with_one_layer_on_disk_what_the_others_leave_is_a_cache_of_all():
    facts = LARGE_BETWEEN_SMALL
    machine = machine_with(None, 3 * GIB)
    plan = make_plan(facts, machine)
    assert {CPU_LANE, DISK_LANE} == set(plan.expert_lanes.values())
    all_on_disk = with_gpu_lanes(plan, facts, machine, {})
    bytes_there = dict.fromkeys(facts.moe_layers, DISK_LANE)
    bare = msgspec.structs.replace(all_on_disk, expert_lanes=bytes_there)
    bare = msgspec.structs.replace(bare, memory=predict(facts, machine, bare))
    assert with_speed(bare, facts, machine).speed.decode == with_speed(plan, facts, machine).speed.decode


def test_small_layers_go_to_a_card_before_much_larger_ones_and_else_the_first():
    facts = make_facts(layers=6, experts=8, expert_sizes=[9 * MIB, 4 * MIB, 5 * MIB, 17 * MIB, 4 * MIB, 7 * MIB])
    assert gpu_order(facts, facts.moe_layers) == [1, 2, 4, 5, 0, 3]


@many
@given(mixed_models(), twelfths, st.integers(0, 64))
def test_more_room_adds_whole_layers_and_takes_none_away(facts, part, more):
    free = parts(facts, part)
    sets = []
    for size in (free, free + more * 32 * MIB):
        machine = make_machine(make_gpu(size, total=64 * GIB), ram=64 * GIB, ram_total=64 * GIB)
        plan = make_plan(facts, machine, Wishes(gpu="CUDA0", n_ctx=2048, kv_type="f16"))
        assume(plan.gpu)
        sets.append(set(most_on_gpu(plan, facts, machine, "CUDA0")))
    assert sets[0] <= sets[1]
