"""The rates of experts on the processor by their layout: as they lie in the file, or in the faster one."""

import msgspec
import pytest
from factories import GIB, make_gpu, make_machine, qwen3_30b

from app.placement.planner import Wishes, make_plan
from app.placement.speed.calibration import Calibration, ComputeRate
from app.placement.speed.rates import rates_for

LAPTOP = make_machine(make_gpu(7 * GIB))
PLAIN, FASTER = 10e9, 20e9
LAYOUTS = Calibration(
    machine="",
    engine="0.3.36",
    measured_at="2026-01-01T00:00:00Z",
    seconds=20.0,
    compute=tuple(
        ComputeRate(device="CPU", type="q4_0", layout=layout, threads=2, bytes_per_second=rate, flops_per_second=rate)
        for layout, rate in (("plain", PLAIN), ("repacked", FASTER))
    ),
    copies=(),
    overlaps=(),
    layer_costs=(),
    disk=(),
)


def experts_cpu(kind, residency, *, threads=2, machine=None, what="experts CPU", calibration=None):
    facts = qwen3_30b(quantization=kind)
    machine = machine or make_machine(cores=threads, performance=threads)
    plan = msgspec.structs.replace(
        make_plan(facts, machine, Wishes(residency=residency)), threads=threads, threads_batch=threads
    )
    return rates_for(facts, machine, plan, calibration).values[what].value


@pytest.mark.parametrize(
    ("kind", "decode", "prompt"), [("Q4_0", 0.72, 0.73), ("Q4_K", 0.77, 1.43), ("Q8_0", 1, 1), ("MXFP4", 0.7, 0.67)]
)
def test_without_a_calibration_mapped_experts_are_told_from_repacked_ones_by_type(kind, decode, prompt):
    for what, factor in (("experts CPU", decode), ("flops CPU", prompt), ("dense CPU", 1)):
        mapped, repacked = (experts_cpu(kind, residency, what=what) for residency in ("mapped", "repacked"))
        assert mapped == pytest.approx(repacked * factor)


def test_where_main_memory_is_what_is_waited_for_the_layout_makes_no_difference():
    assert experts_cpu("Q4_0", "mapped", threads=8) == experts_cpu("Q4_0", "repacked", threads=8)


def test_stock_llama_cpp_keeps_experts_mapped_beside_a_gpu_whatever_the_plan_says():
    engine = msgspec.structs.replace(LAPTOP.engine, expert_device=False)
    card = make_gpu(7 * GIB)
    for machine, same in ((make_machine(card, engine=engine), True), (make_machine(card), False)):
        mapped, repacked = (
            experts_cpu("Q4_K", residency, machine=machine) for residency in ("mapped", "repacked")
        )  # fmt: skip
        assert (mapped == repacked) is same
    alone = make_machine(engine=engine)
    assert experts_cpu("Q4_K", "mapped", machine=alone) < experts_cpu("Q4_K", "repacked", machine=alone)


def test_a_type_without_a_faster_layout_is_not_taken_for_one_that_has_it():
    measured = {
        (kind, residency): experts_cpu(kind, residency, calibration=LAYOUTS)
        for kind in ("Q4_0", "Q4_1")
        for residency in ("mapped", "repacked")
    }
    assert measured["Q4_0", "repacked"] == FASTER
    assert {rate for key, rate in measured.items() if key != ("Q4_0", "repacked")} == {PLAIN}


def test_each_layout_has_its_own_rate_of_prompts_though_it_was_measured_with_another_batch():
    """The faster one leaves time for larger batches; the other's rate is not to be taken for it."""
    batches = (("plain", 256, 240e9), ("repacked", 512, 150e9))
    compute = tuple(
        ComputeRate(
            device="CPU",
            type="q4_K",
            layout=layout,
            threads=2,
            tokens=tokens,
            bytes_per_second=1e9,
            flops_per_second=rate,
        )
        for layout, tokens, rate in batches
    )
    known = msgspec.structs.replace(LAYOUTS, compute=LAYOUTS.compute + compute)
    for layout, residency in (("plain", "mapped"), ("repacked", "repacked")):
        measured = next(rate for its, _tokens, rate in batches if its == layout)
        assert experts_cpu("Q4_K", residency, what="flops CPU", calibration=known) == measured
