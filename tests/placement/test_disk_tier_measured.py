"""The law of speed against a model larger than main memory (tests/bench/RESULTS.md, 2026-11-30, Q8_0).

6.4 GB of experts, of which the engine kept a part; a processor of two cores that both compute, 80 experts a token.
All in memory the model was measured with 48.7 tokens/s (experts mapped, median of seven).
"""

from typing import NamedTuple

import msgspec
import pytest
from factories import GIB, make_facts, make_machine

from app.hardware.facts import Cpu
from app.placement.cache.hit_rates import HitCurve, HitPoint
from app.placement.memory import predict
from app.placement.plan import CPU_LANE, Plan
from app.placement.speed.calibration import Calibration, ComputeRate, DiskRate
from app.placement.speed.curve import memory_curve
from app.placement.speed.prediction import predict_speed

EXPERT = 3 * 2048 * 768 * 34 // 32
FACTS = make_facts(
    architecture="qwen3moe",
    quantization="Q8_0",
    layers=10,
    experts=128,
    used=8,
    expert_sizes=EXPERT,
    layer_size=22_000_000,
    embeddings=8_900_000,
    output=8_900_000,
    embedding_length=2048,
    feed_forward=768,
    vocab=4096,
    context=4096,
)
MACHINE = msgspec.structs.replace(
    make_machine(ram=20 * GIB, ram_total=24 * GIB),
    cpu=Cpu(name="EPYC", physical_cores=2, performance_cores=2, logical_cores=2, isa=("avx2", "avx512f")),
)
# 1,285 µs a layer for 8 experts; 375 ms a layer for 512 tokens; the disk as the benchmark measured it beside.
CALIBRATION = Calibration(
    machine="",
    engine="0.3.36",
    measured_at="2026-11-30T00:00:00Z",
    seconds=20.0,
    compute=(
        ComputeRate(
            device="CPU", type="q8_0", threads=2, bytes_per_second=8 * EXPERT / 1285e-6, flops_per_second=59e9
        ),
        ComputeRate(
            device="CPU", type="q8_0", threads=2, tokens=512, bytes_per_second=1.7e9, flops_per_second=103e9
        ),
    ),
    disk=(
        DiskRate(path="/m", slice_bytes=1 << 20, parallel=1, bytes_per_second=19.5e6, spread=0.22),
        DiskRate(path="/m", slice_bytes=1 << 20, parallel=8, bytes_per_second=1.109e9, spread=0.24),
        DiskRate(path="/m", slice_bytes=4 << 20, parallel=1, bytes_per_second=1.194e9, spread=0.55),
        DiskRate(path="/m", slice_bytes=4 << 20, parallel=8, bytes_per_second=1.570e9, spread=0.34),
    ),
)  # fmt: skip
IN_MEMORY = 48.7
BUDGET = 3_493_900_000


class Run(NamedTuple):
    """One share of the file in memory: what the engine kept of the experts, read of them, and decoded (medians)."""

    budget: int
    cold_experts: int
    tokens: int
    tokens_per_second: float


RUNS = {
    "80 %": Run(4_785_000_000, 99, 64, 34.0),
    "60 %": Run(BUDGET, 186, 64, 27.0),
    "60 %, read-ahead of 8 MB": Run(BUDGET, 73, 32, 29.9),
    "40 %": Run(2_202_800_000, 433, 64, 16.4),
}
STOCK = {"128 KB": 19.1, "8 MB": 2.2}
"""Tokens a second with the system's own paging at 60 %, by the device's read-ahead."""


def plan_of(resident_bytes):
    plan = Plan(
        model_files=FACTS.files,
        gpu=None,
        expert_lanes=dict.fromkeys(FACTS.moe_layers, CPU_LANE),
        n_ctx=512,
        threads=2,
        threads_batch=2,
        residency="mapped",
        resident_bytes=resident_bytes,
    )
    return msgspec.structs.replace(plan, memory=predict(FACTS, MACHINE, plan))


def predicted(resident_bytes, cold_a_token=0.0, machine=MACHINE):
    """The speed with what was read as measured, whatever the size."""
    found = 1 - cold_a_token / 80
    curve = HitCurve(points=(HitPoint(0, found, found, found), HitPoint(1, found, found, found)), basis="trace")
    plan = plan_of(resident_bytes)
    return predict_speed(FACTS, machine, plan, calibration=CALIBRATION, hit_curve=curve, context_tokens=96)


def test_all_in_memory_is_predicted_within_a_tenth():
    assert predicted(None).decode.likely / IN_MEMORY == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_decoding_with_missing_experts_is_predicted_within_a_fifth_and_its_range_holds_what_was_measured(run):
    speed = predicted(run.budget, run.cold_experts / run.tokens)
    assert speed.decode.likely / run.tokens_per_second == pytest.approx(1, abs=0.2)
    assert speed.decode.low <= run.tokens_per_second <= speed.decode.high
    assert speed.cold_experts == pytest.approx(run.cold_experts / run.tokens)


def test_a_prediction_that_rests_on_an_assumed_part_of_reading_is_not_called_calibrated():
    """What bringing experts in takes the processor was not calibrated; the rate of the disk is told without it."""
    plan = plan_of(int(0.1 * 1280 * EXPERT))
    curve = HitCurve(points=(HitPoint(0, 0.2, 0.2, 0.2), HitPoint(1, 0.2, 0.2, 0.2)), basis="trace")
    busy, idle = (
        predict_speed(
            FACTS,
            MACHINE,
            msgspec.structs.replace(plan, threads=threads, threads_batch=threads),
            calibration=CALIBRATION,
            hit_curve=curve,
        )
        for threads in (2, 1)
    )
    assert (busy.basis, idle.basis) == ("assumed", "calibrated")
    for speed in (busy, idle):
        assert "and are read at 1.1 GB/s" in speed.sentence


def test_where_the_reads_are_hidden_it_is_told_what_bringing_experts_in_takes_the_processor():
    quick = msgspec.structs.replace(
        CALIBRATION, disk=(DiskRate(path="/m", slice_bytes=1 << 20, parallel=8, bytes_per_second=20e9),)
    )
    speed = predict_speed(FACTS, MACHINE, plan_of(int(0.05 * 1280 * EXPERT)), calibration=quick)
    assert speed.sentence.startswith("Bound by the disk: ")
    assert "are not in main memory; bringing them there takes the processor " in speed.sentence
    assert "(assumed)" in speed.sentence


def test_a_prompt_waits_for_readers_only_where_its_own_threads_take_every_core():
    plan = plan_of(BUDGET)
    both, prompt = (
        predict_speed(FACTS, MACHINE, msgspec.structs.replace(plan, threads_batch=threads)) for threads in (2, 1)
    )
    assert both.decode == prompt.decode
    seconds = [next(its.seconds for its in speed.prompt_parts if its.name == "disk") for speed in (both, prompt)]
    assert seconds[0] > seconds[1]


def left_to_the_system():
    """The speed where the system pages by itself, memory limited to 60 % of the file."""
    short = msgspec.structs.replace(
        MACHINE, ram=msgspec.structs.replace(MACHINE.ram, available_bytes=plan_of(0).bytes_on("CPU") - 2_923_000_000)
    )
    return predicted(0, RUNS["60 %"].cold_experts / 64, short).decode


@pytest.mark.parametrize("measured", STOCK.values(), ids=STOCK)
def test_what_the_system_pages_by_itself_is_within_a_range_that_is_as_wide_as_what_was_measured(measured):
    """How far it reads ahead is the device's setting, which nobody asked."""
    assert left_to_the_system().low <= measured <= left_to_the_system().high


def test_what_the_system_pages_by_itself_is_predicted_for_the_usual_read_ahead():
    assert left_to_the_system().likely / STOCK["128 KB"] == pytest.approx(1, abs=0.2)


def test_reading_what_is_missing_at_once_gains_what_was_measured():
    run = RUNS["60 %"]
    gain = predicted(run.budget, run.cold_experts / run.tokens).decode.likely / left_to_the_system().likely
    assert gain == pytest.approx(run.tokens_per_second / STOCK["128 KB"], rel=0.25)


def test_the_curve_over_main_memory_goes_through_what_was_measured_and_ends_where_nothing_is_read():
    everything = 1280 * EXPERT
    # What the benchmark's routing was made to hit, and what it did with the budget.
    known = {0.0625: 0.39, 0.19: 0.74, 0.38: 0.90, BUDGET / everything: 1 - 186 / (64 * 80), 1.0: 1.0}
    points = [HitPoint(int(share * everything), rate, rate, rate) for share, rate in known.items()]
    curve = HitCurve(points=(HitPoint(0, 0.0, 0.0, 0.0), *points), basis="trace")
    found = memory_curve(FACTS, MACHINE, plan_of(BUDGET), calibration=CALIBRATION, hit_curve=curve, context_tokens=96)
    assert found.axis == "memory"
    assert found.points[-1].decode.likely / IN_MEMORY == pytest.approx(1, abs=0.1)
    assert found.points[-1].hit_rate == 1
    assert found.running.pool_bytes == BUDGET
    assert found.running.decode.low <= RUNS["60 %"].tokens_per_second <= found.running.decode.high
    rates = [point.decode.likely for point in found.points]
    assert rates == sorted(rates)
