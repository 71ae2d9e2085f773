"""Experts as they lie in the file, where that answers sooner than the processor's own layout."""

import msgspec
import pytest
from factories import GIB, make_gpu, make_machine, qwen3_30b

from app.hardware.fingerprint import fingerprint
from app.placement.evidence import Evidence, planned
from app.placement.planner import STEP_AS_IN_FILE, Wishes
from app.placement.speed.calibration import Calibration, ComputeRate
from app.placement.speed.rates import both_layouts_measured

FACTS = qwen3_30b()
MACHINE = make_machine(cores=2, performance=2)


def rate(layout, tokens, factor):
    """As measured with Q4_K on two cores, the plain layout by `factor`."""
    decode, prompt = (22e9, 1e11) if layout == "repacked" else (22e9 * factor[0], 1e11 * factor[1])
    return ComputeRate(
        device="CPU", type="q4_K", layout=layout, threads=2, tokens=tokens,
        bytes_per_second=decode if tokens == 1 else 3e9, flops_per_second=prompt,
    )  # fmt: skip


def evidence(decode, prompt, machine=MACHINE, layouts=("repacked", "plain")):
    compute = tuple(rate(layout, tokens, (decode, prompt)) for layout in layouts for tokens in (1, 512))
    return Evidence(
        calibration=Calibration(
            machine=fingerprint(machine), engine="0.3.36", measured_at="2026-01-01T00:00:00Z", seconds=20.0,
            compute=compute,
        )
    )  # fmt: skip


def seconds_of_an_answer(plan):
    return 512 / plan.speed.prompt.likely + 256 / plan.speed.decode.likely


@pytest.mark.parametrize(("decode", "prompt"), [(0.9, 1.67), (0.77, 1.43), (0.77, 3.0), (0.5, 1.1), (1.0, 1.0)])
def test_the_layout_that_answers_sooner_is_taken_and_told(decode, prompt):
    known = evidence(decode, prompt)
    plan = planned(FACTS, MACHINE, evidence=known)
    both = {name: planned(FACTS, MACHINE, Wishes(residency=name), known) for name in ("repacked", "mapped")}
    sooner = seconds_of_an_answer(both["mapped"]) < 0.95 * seconds_of_an_answer(both["repacked"])
    assert plan.residency == ("mapped" if sooner else "repacked")
    assert (STEP_AS_IN_FILE in [step.name for step in plan.steps]) is sooner
    assert plan.speed == both[plan.residency].speed
    assert plan.resident_bytes is None
    assert plan == planned(FACTS, MACHINE, evidence=known)
    if sooner:
        rates = [both[name].speed.decode.likely for name in ("mapped", "repacked")]
        assert f"{rates[0]:.1f} instead of {rates[1]:.1f}" in plan.steps[-1].reason


def test_both_happen():
    chosen = {planned(FACTS, MACHINE, evidence=evidence(*its)).residency for its in ((0.9, 1.67), (0.5, 1.1))}
    assert chosen == {"mapped", "repacked"}


def test_only_where_both_layouts_of_this_type_were_measured():
    assert both_layouts_measured(evidence(0.9, 1.7).calibration, "Q4_K")
    assert not both_layouts_measured(evidence(0.9, 1.7).calibration, "Q4_0")
    assert not both_layouts_measured(evidence(0.9, 1.7).calibration, "Q4_1"), "it has no faster layout"
    assert not both_layouts_measured(None, "Q4_K")
    for layouts in (("repacked",), ("plain",)):
        known = evidence(0.9, 9.0, layouts=layouts)
        assert not both_layouts_measured(known.calibration, "Q4_K")
        assert planned(FACTS, MACHINE, evidence=known).residency == "repacked"


@pytest.mark.parametrize("wishes", [Wishes(goal="quiet"), Wishes(goal="context"), Wishes(residency="repacked")])
def test_other_goals_and_a_wish_leave_the_layout_that_decodes_faster(wishes):
    assert planned(FACTS, MACHINE, wishes, evidence(0.9, 9.0)).residency == "repacked"


def test_a_model_that_is_whole_on_a_card_has_no_layout_to_choose():
    machine = make_machine(make_gpu(23 * GIB), cores=2, performance=2)
    plan = planned(FACTS, machine, evidence=evidence(0.9, 9.0, machine))
    assert STEP_AS_IN_FILE not in [step.name for step in plan.steps]
    stock = msgspec.structs.replace(MACHINE, engine=msgspec.structs.replace(MACHINE.engine, expert_device=False))
    assert planned(FACTS, stock, evidence=evidence(0.9, 9.0, stock)).residency == "repacked"
