"""The speed model's laws: order, monotony, no machine or model it cannot speak of, and what bounds whom."""

import itertools
import math

import msgspec
import pytest
from factories import (
    GIB,
    MIB,
    demo,
    gpt_oss_20b,
    make_facts,
    make_gpu,
    make_machine,
    qwen3_30b,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import AppError
from app.hardware.facts import Disk, GpuKind, Pcie
from app.hardware.fingerprint import fingerprint
from app.placement.cache.hit_rates import HitCurve, HitPoint
from app.placement.plan import CPU_LANE, DISK_LANE, CachePolicy, ExpertPin
from app.placement.planner import Wishes, make_plan
from app.placement.speed.calibration import Calibration, ComputeRate, CopyRate, DiskRate, LayerCost, Overlap
from app.placement.speed.prediction import predict_speed
from app.placement.speed.types import BOUNDS

LAPTOP = make_machine(make_gpu(7 * GIB))
GB = 1e9


def plan_of(facts, machine, **wishes):
    return make_plan(facts, machine, Wishes(**wishes))


def rates(*, cpu=20 * GB, gpu=200 * GB, machine=None, **parts):
    """A calibration for q4_K on a processor of 8 threads at most and one card."""
    compute = [
        ComputeRate(
            device="CPU", type="q4_K", threads=threads, bytes_per_second=cpu * threads / 8, flops_per_second=cpu
        )
        for threads in (1, 2, 4, 8)
    ]
    compute += [
        ComputeRate(
            device="CPU", type="q4_K", threads=8, tokens=512, bytes_per_second=1 * GB, flops_per_second=400 * GB
        ),
        ComputeRate(device="CUDA0", type="q4_K", bytes_per_second=gpu, flops_per_second=gpu),
        ComputeRate(device="CUDA0", type="q4_K", tokens=512, bytes_per_second=gpu, flops_per_second=9e12),
    ]
    made = {
        "machine": fingerprint(machine) if machine else "",
        "engine": "0.3.36",
        "measured_at": "2026-01-01T00:00:00Z",
        "seconds": 20.0,
        "compute": tuple(compute),
        "copies": (CopyRate(device="CUDA0", direction="to_device", pinned=True, bytes_per_second=20 * GB),),
        "overlaps": (Overlap(device="CUDA0", cpu_share=1.0, device_share=1.0, copy_share=1.0),),
        "layer_costs": (LayerCost(device="CUDA0", seconds=20e-6), LayerCost(device="CPU", seconds=2e-6)),
        "disk": (DiskRate(path="/models", slice_bytes=900_000, parallel=8, bytes_per_second=2 * GB),),
    }
    return Calibration(**{**made, **parts})


def curve(*points):
    return HitCurve(points=tuple(HitPoint(size, rate, rate, rate) for size, rate in points), basis="trace")


# ---- laws for any model and machine ------------------------------------------------------------

models = st.builds(
    lambda layers, experts, used, size, layer: make_facts(
        layers=layers, experts=experts, used=min(used, experts), expert_sizes=size, layer_size=layer
    ),
    st.integers(1, 6),
    st.sampled_from([0, 1, 8, 64]),
    st.integers(1, 8),
    st.integers(1, 8 * MIB),
    st.integers(0, 8 * MIB),
)
machines = st.builds(
    lambda gpus, ram, cores, rotational: make_machine(
        *gpus,
        ram=ram,
        cores=cores,
        performance=cores,
        disk=Disk(path="/m", total_bytes=None, free_bytes=None, rotational=rotational),
    ),
    st.lists(
        st.builds(
            lambda free, kind, pcie: make_gpu(free, kind=kind, pcie=pcie),
            st.sampled_from([0, 64 * MIB, GIB, 8 * GIB]),
            st.sampled_from(list(GpuKind)),
            st.sampled_from([None, Pcie(generation=1, lanes=0, max_generation=9, max_lanes=16)]),
        ),
        max_size=1,
    ),
    st.sampled_from([0, 300 * MIB, 2 * GIB, 16 * GIB]),
    st.integers(1, 16),
    st.sampled_from([True, False, None]),
)


@settings(max_examples=150, deadline=None)
@given(
    facts=models,
    machine=machines,
    pool=st.sampled_from([0, 1, 8 * MIB, GIB]),
    stream=st.sampled_from(["off", "auto", "always"]),
    calibrated=st.booleans(),
    prompt=st.integers(1, 5000),
)
def test_every_prediction_is_an_ordered_range_of_real_speeds(facts, machine, pool, stream, calibrated, prompt):
    plan = plan_of(facts, machine, pool_bytes=pool, policy=CachePolicy(stream=stream))
    calibration = rates() if calibrated else None
    speed = predict_speed(facts, machine, plan, calibration=calibration, prompt_tokens=prompt)
    for found in (speed.decode, speed.prompt):
        assert 0 < found.low <= found.likely <= found.high < math.inf
    assert {speed.decode_bound, speed.prompt_bound} <= set(BOUNDS)
    assert 0 <= speed.hit_rate <= 1
    assert all(part.seconds > 0 for part in (*speed.decode_parts, *speed.prompt_parts))
    assert speed == predict_speed(facts, machine, plan, calibration=calibration, prompt_tokens=prompt)


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 16 * 1024), min_size=2, max_size=6, unique=True),
    hit=st.floats(0.0, 1.0),
    stream=st.sampled_from(["off", "auto", "always"]),
    gpu=st.floats(500 * GB, 5000 * GB),
)
def test_a_larger_pool_is_never_slower_where_the_gpu_waits_for_the_processor(sizes, hit, stream, gpu):
    facts = qwen3_30b()
    machine = make_machine(make_gpu(40 * GIB))
    found = curve((0, 0.0), (8 * GIB, hit * 0.9), (17 * GIB, 0.95))
    plan = plan_of(facts, machine, policy=CachePolicy(stream=stream))
    plan = msgspec.structs.replace(plan, expert_lanes=dict.fromkeys(facts.moe_layers, CPU_LANE), staging_bytes=64 * MIB)
    speeds = [
        predict_speed(
            facts,
            machine,
            msgspec.structs.replace(plan, pool_bytes=size * MIB),
            calibration=rates(gpu=gpu),
            hit_curve=found,
        ).decode.likely
        for size in sorted(sizes)
    ]
    assert all(later >= earlier * (1 - 1e-9) for earlier, later in itertools.pairwise(speeds))


@settings(max_examples=60, deadline=None)
@given(first=st.floats(2 * GB, 200 * GB), factor=st.floats(1.0, 10.0), pool=st.sampled_from([0, 2 * GIB]))
def test_a_faster_processor_is_never_slower(first, factor, pool):
    facts = qwen3_30b()
    plan = plan_of(facts, LAPTOP, pool_bytes=pool)
    slow = predict_speed(facts, LAPTOP, plan, calibration=rates(cpu=first))
    fast = predict_speed(facts, LAPTOP, plan, calibration=rates(cpu=first * factor))
    assert fast.decode.likely >= slow.decode.likely * (1 - 1e-9)


# ---- the formula -------------------------------------------------------------------------------


def test_decoding_on_the_processor_is_bytes_over_bandwidth_and_the_overhead():
    facts, machine = qwen3_30b(), make_machine()
    plan = plan_of(facts, machine, threads=8)
    speed = predict_speed(facts, machine, plan, calibration=rates(), context_tokens=100)
    parts = {part.name: part.seconds for part in speed.decode_parts}
    assert parts["cpu experts"] == pytest.approx(facts.token_cycle_bytes / (20 * GB))
    dense = 48 * 11_953_152 + 255_260_672 + 100 * 98304
    assert parts["attention"] == pytest.approx(dense / (20 * GB))
    assert 1 / speed.decode.likely == pytest.approx(sum(parts.values()))


def test_a_thread_count_between_two_measured_ones_is_on_the_line_between_them():
    facts, machine = qwen3_30b(), make_machine()
    slow, fast = (
        predict_speed(facts, machine, plan_of(facts, machine, threads=n), calibration=rates()) for n in (3, 6)
    )
    seconds = [next(part.seconds for part in s.decode_parts if part.name == "cpu experts") for s in (slow, fast)]
    assert seconds[0] == pytest.approx(2 * seconds[1])


def test_a_thread_count_that_was_measured_badly_does_not_widen_the_range_of_another():
    facts, machine = qwen3_30b(), make_machine()
    shaky = tuple(msgspec.structs.replace(rate, spread=0.9 * (rate.threads == 2)) for rate in rates().compute)
    calm, beside, at = (
        predict_speed(facts, machine, plan_of(facts, machine, threads=threads), calibration=rates(compute=compute))
        for threads, compute in ((8, rates().compute), (8, shaky), (2, shaky))
    )
    assert beside == calm
    assert at.decode.high / at.decode.low > 1.5


def test_a_layers_cost_that_other_programs_made_is_not_believed():
    facts, machine = qwen3_30b(), make_machine()
    plan = plan_of(facts, machine, threads=8)
    disturbed = rates(layer_costs=(LayerCost(device="CPU", seconds=0.07, spread=0.99),))
    unmeasured = predict_speed(facts, machine, plan, calibration=rates(layer_costs=()))
    assert predict_speed(facts, machine, plan, calibration=disturbed) == unmeasured


def test_hits_and_misses_are_computed_at_the_same_time():
    facts, machine = qwen3_30b(), make_machine(make_gpu(40 * GIB))
    plan = plan_of(facts, machine, threads=8, policy=CachePolicy(stream="off"))
    lanes = dict.fromkeys(facts.moe_layers, CPU_LANE)
    plan = msgspec.structs.replace(plan, expert_lanes=lanes, pool_bytes=4 * GIB, n_ctx=8192)
    cycle = facts.token_cycle_bytes
    for hit in (0.0, 0.5, 0.9, 1.0):
        flat = curve((0, hit), (17 * GIB, hit))
        speed = predict_speed(facts, machine, plan, calibration=rates(), hit_curve=flat)
        parts = {part.name: part.seconds for part in speed.decode_parts}
        cpu, gpu = cycle * (1 - hit) / (20 * GB), cycle * hit / (200 * GB)
        assert 1 / speed.decode.likely == pytest.approx(parts["overhead"] + parts["attention"] + max(cpu, gpu))
        assert speed.hit_rate == pytest.approx(hit)


def test_what_stays_of_each_rate_while_both_work_makes_the_token_longer():
    facts, machine = qwen3_30b(), LAPTOP
    plan = plan_of(facts, machine, pool_bytes=3 * GIB)
    shared = rates(overlaps=(Overlap(device="CUDA0", cpu_share=0.6, device_share=0.7, copy_share=None),))
    alone = predict_speed(facts, machine, plan, calibration=rates())
    assert predict_speed(facts, machine, plan, calibration=shared).decode.likely < alone.decode.likely


def test_experts_that_main_memory_cannot_hold_are_read_from_disk():
    facts, machine = qwen3_30b(), make_machine(ram=5 * GIB)
    plan = plan_of(facts, machine)
    assert DISK_LANE in plan.expert_lanes.values()
    speed = predict_speed(facts, machine, plan, calibration=rates())
    assert speed.decode_bound == "disk"
    assert "disk" in {part.name for part in speed.prompt_parts}
    assert "not in main memory" in speed.sentence
    roomy = predict_speed(facts, make_machine(), plan_of(facts, make_machine()), calibration=rates())
    assert roomy.decode.likely > 2 * speed.decode.likely


def test_a_plan_that_does_not_fit_main_memory_at_all_still_has_a_speed():
    facts, machine = qwen3_30b(), make_machine(ram=1 * GIB)
    plan = plan_of(facts, make_machine())
    assert DISK_LANE not in plan.expert_lanes.values()
    assert predict_speed(facts, machine, plan, calibration=rates()).decode_bound == "disk"


def test_long_contexts_are_slower():
    facts = qwen3_30b()
    plan = plan_of(facts, LAPTOP, n_ctx=32768)
    speeds = [predict_speed(facts, LAPTOP, plan, context_tokens=cells).decode.likely for cells in (1, 4096, 32768)]
    assert speeds == sorted(speeds, reverse=True)
    window = gpt_oss_20b()
    plan = plan_of(window, LAPTOP, n_ctx=32768)
    speeds = [predict_speed(window, LAPTOP, plan, context_tokens=cells).decode.likely for cells in (1, 32768)]
    assert speeds[0] > speeds[1]


def test_a_long_prompt_streams_its_experts_where_copying_is_faster_than_computing():
    facts = qwen3_30b()
    plan = plan_of(facts, LAPTOP)
    assert plan.staging_bytes
    calibration = rates()
    streamed = predict_speed(facts, LAPTOP, plan, calibration=calibration)
    kept = msgspec.structs.replace(plan, policy=CachePolicy(stream="off"))
    computed = predict_speed(facts, LAPTOP, kept, calibration=calibration)
    assert streamed.prompt.likely > computed.prompt.likely
    assert computed.prompt_bound == "CPU"
    assert {"copies", "gpu experts"} <= {part.name for part in streamed.prompt_parts}
    always = msgspec.structs.replace(plan, policy=CachePolicy(stream="always"))
    assert predict_speed(facts, LAPTOP, always, calibration=calibration).prompt_bound == "PCIe"


def test_llama_cpp_itself_copies_weights_over_for_prompts_without_the_expert_device():
    engine = msgspec.structs.replace(LAPTOP.engine, expert_device=False)
    machine = msgspec.structs.replace(LAPTOP, engine=engine)
    facts = qwen3_30b()
    plan = plan_of(facts, machine)
    speed = predict_speed(facts, machine, plan, calibration=rates())
    assert "copies" in {part.name for part in speed.prompt_parts}
    assert "copies" not in {part.name for part in speed.decode_parts}
    short = predict_speed(facts, machine, plan, calibration=rates(), prompt_tokens=8)
    assert "copies" not in {part.name for part in short.prompt_parts}


def test_manual_pools_hit_what_is_pinned():
    facts = qwen3_30b()
    plan = plan_of(facts, LAPTOP, pool_bytes=2 * GIB, policy=CachePolicy(kind="manual"))
    lanes = dict.fromkeys(facts.moe_layers, CPU_LANE)
    empty = msgspec.structs.replace(plan, expert_lanes=lanes)
    pins = tuple(ExpertPin(layer=layer, expert=0, pin="gpu") for layer in facts.moe_layers)
    pinned = msgspec.structs.replace(empty, pins=pins)
    assert predict_speed(facts, LAPTOP, empty).hit_rate == 0
    assert predict_speed(facts, LAPTOP, pinned).hit_rate == pytest.approx(1 / 128)


# ---- basis, bound and words --------------------------------------------------------------------


def test_rates_of_this_machine_make_it_calibrated_and_its_range_narrower():
    facts, machine = qwen3_30b(), make_machine()
    plan = plan_of(facts, machine, threads=8)
    assumed = predict_speed(facts, machine, plan)
    calibrated = predict_speed(facts, machine, plan, calibration=rates(machine=machine))
    assert (assumed.basis, calibrated.basis) == ("assumed", "calibrated")
    assert calibrated.decode.high / calibrated.decode.low < assumed.decode.high / assumed.decode.low
    assert calibrated.decode.high / calibrated.decode.low < 1.3


def test_a_calibration_without_the_gpu_that_decides_is_not_called_calibrated():
    facts, machine = qwen3_30b(), make_machine(make_gpu(23 * GIB))
    plan = plan_of(facts, machine)
    only_cpu = tuple(rate for rate in rates().compute if rate.device == "CPU")
    assert predict_speed(facts, machine, plan, calibration=rates(compute=only_cpu)).basis == "assumed"
    assert predict_speed(facts, machine, plan, calibration=rates()).basis == "calibrated"


def test_another_machines_calibration_is_refused():
    other = make_machine(cores=4)
    plan = plan_of(demo(), LAPTOP)
    with pytest.raises(AppError, match="another machine"):
        predict_speed(demo(), LAPTOP, plan, calibration=rates(machine=other))


def test_no_tokens_have_no_speed():
    plan = plan_of(demo(), LAPTOP)
    with pytest.raises(AppError):
        predict_speed(demo(), LAPTOP, plan, prompt_tokens=0)
    with pytest.raises(AppError):
        predict_speed(demo(), LAPTOP, plan, context_tokens=0)


def test_a_type_that_was_not_measured_takes_the_nearest_ones_rate_with_more_doubt():
    facts, machine = qwen3_30b(), make_machine()
    plan = plan_of(facts, machine, threads=8)
    same = predict_speed(facts, machine, plan, calibration=rates())
    other = predict_speed(msgspec.structs.replace(facts, quantization="Q5_K"), machine, plan, calibration=rates())
    assert other.decode.likely == same.decode.likely
    assert other.decode.low < same.decode.low


def test_a_rate_below_what_memory_gives_is_bound_by_the_processor():
    facts, machine = qwen3_30b(), make_machine()
    plan = plan_of(facts, machine, threads=8)
    speed = predict_speed(facts, machine, plan, calibration=rates())
    assert speed.decode_bound == "RAM bandwidth"
    assert speed.sentence == (
        "Bound by RAM bandwidth: the processor reads 1.0 GiB of experts a token at 20.0 GB/s (calibrated). "
        "Prompts are bound by the processor."
    )
    faster = ComputeRate(device="CPU", type="q8_0", threads=8, bytes_per_second=40 * GB, flops_per_second=1.0)
    mixed = predict_speed(facts, machine, plan, calibration=rates(compute=(*rates().compute, faster)))
    assert mixed.decode_bound == "CPU"
    assert mixed.sentence.startswith("Bound by the processor: its threads compute with 1.0 GiB of experts a token")


def test_everything_on_a_card_is_bound_by_the_card():
    facts, machine = qwen3_30b(), make_machine(make_gpu(23 * GIB))
    speed = predict_speed(facts, machine, plan_of(facts, machine), calibration=rates())
    assert speed.decode_bound == "GPU"
    assert speed.sentence.startswith("Bound by the GPU: CUDA0 reads 1.0 GiB of experts a token at 200.0 GB/s")
    assert speed.hit_rate == 1


def test_a_gpu_that_shares_main_memory_gains_nothing_from_reading_at_the_same_time():
    facts = qwen3_30b()
    integrated = make_machine(make_gpu(20 * GIB, device="Vulkan0", kind=GpuKind.INTEGRATED), ram=60 * GIB)
    plan = plan_of(facts, integrated, pool_bytes=4 * GIB, threads=8)
    lanes = dict.fromkeys(facts.moe_layers, CPU_LANE)
    plan = msgspec.structs.replace(plan, expert_lanes=lanes, staging_bytes=0)
    speeds = [
        predict_speed(facts, integrated, plan, hit_curve=curve((0, hit), (17 * GIB, hit))).decode.likely
        for hit in (0.1, 0.5, 0.9)
    ]
    assert max(speeds) / min(speeds) < 1.02
    assert predict_speed(facts, integrated, plan).decode_bound == "RAM bandwidth"


def test_a_dense_model_has_no_experts_to_speak_of():
    facts = make_facts(experts=0)
    speed = predict_speed(facts, LAPTOP, plan_of(facts, LAPTOP))
    assert speed.hit_rate == 0
    assert {part.name for part in speed.decode_parts} == {"attention", "overhead"}
