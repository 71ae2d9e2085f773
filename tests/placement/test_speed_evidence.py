"""What predictions of a plan's speed rest on, and what of it may not be used."""

import msgspec
import pytest
from factories import GIB, MIB, make_gpu, make_machine, qwen3_30b

from app.errors import AppError, ErrorCode
from app.hardware.fingerprint import fingerprint
from app.placement.evidence import Evidence, evidence_for, planned, speed_law
from app.placement.placing import refuse_hopeless
from app.placement.planner import Wishes, make_plan
from app.placement.speed.calibration import Calibration, ComputeRate
from app.placement.speed.learning import Correction, Learned, devices_of

FACTS = qwen3_30b()
MACHINE = make_machine(make_gpu(7 * GIB))


def calibration_of(machine, cpu=20e9, gpu=150e9):
    rates = [("CPU", "repacked", 6, cpu), ("CPU", "plain", 6, cpu), ("CUDA0", "plain", 0, gpu)]
    return Calibration(
        machine=fingerprint(machine),
        engine="",
        measured_at="2026-01-01T00:00:00+00:00",
        seconds=20,
        compute=tuple(
            ComputeRate(
                device=device, type="q4_K", layout=layout, threads=threads, bytes_per_second=rate, flops_per_second=1e12
            )
            for device, layout, threads, rate in rates
        ),
    )


def test_a_calibration_of_this_machine_is_what_the_speed_rests_on():
    plan = planned(FACTS, MACHINE, Wishes(), Evidence(calibration=calibration_of(MACHINE)))
    assert plan.speed.basis == "calibrated"
    slower = planned(FACTS, MACHINE, Wishes(), Evidence(calibration=calibration_of(MACHINE, cpu=5e9)))
    assert slower.speed.decode.likely < plan.speed.decode.likely


def test_a_calibration_of_another_machine_is_not_used_and_that_is_said():
    other = make_machine(make_gpu(7 * GIB), cores=16)
    evidence = Evidence(calibration=calibration_of(other), notes=("Before.",))
    found = evidence_for(MACHINE, evidence)
    assert (found.calibration, found.learned) == (None, None)
    assert found.notes[0] == "Before."
    assert "another machine" in found.notes[1]
    assert planned(FACTS, MACHINE, Wishes(), evidence) == planned(FACTS, MACHINE)
    assert evidence_for(other, evidence) is evidence


def test_a_calibration_by_which_the_gpu_is_slow_keeps_experts_off_it():
    slow = Evidence(calibration=calibration_of(MACHINE, cpu=60e9, gpu=6e9))
    plan = planned(FACTS, MACHINE, Wishes(gpu="CUDA0"), slow)
    assert set(plan.expert_lanes.values()) == {"CPU"}


def test_answers_change_the_speed_that_is_told_and_not_the_choice():
    plain = planned(FACTS, MACHINE)
    twice = Correction(fixed=2.0, reading=2.0, prompt=2.0, decode_spread=0.1, prompt_spread=0.1, answers=5, prompts=5)
    told = planned(FACTS, MACHINE, Wishes(), Evidence(learned=Learned(corrections={devices_of(plain): twice})))
    assert told.speed.basis == "measured"
    assert told.speed.decode.likely == pytest.approx(plain.speed.decode.likely / 2)
    assert msgspec.structs.replace(told, speed=None) == msgspec.structs.replace(plain, speed=None)


def test_the_law_of_speed_tells_the_same_as_the_plan():
    plan = planned(FACTS, MACHINE)
    assert speed_law(FACTS, MACHINE)(plan) == plan.speed


# ---- what cannot be loaded -------------------------------------------------------------------


def test_a_plan_that_lacks_more_than_its_margin_is_refused_with_the_figures():
    machine = make_machine(ram=200 * MIB, ram_total=8 * GIB)
    with pytest.raises(AppError, match="Main memory would need") as caught:
        refuse_hopeless(make_plan(FACTS, machine), machine)
    assert caught.value.code is ErrorCode.OUT_OF_MEMORY


def test_a_plan_that_fits_or_only_cuts_into_its_margin_is_let_through():
    machine = make_machine()
    plan = make_plan(FACTS, machine)
    refuse_hopeless(plan, machine)
    margin = next(part.bytes for part in plan.memory if part.part == "margin")
    needed = plan.bytes_on("CPU")
    for free, lets in ((needed - margin, True), (needed - margin - 1, False)):
        tight = make_machine(ram=free)
        if lets:
            refuse_hopeless(plan, tight)
        else:
            with pytest.raises(AppError):
                refuse_hopeless(plan, tight)


# ---- rates measured beside other programs ----------------------------------------------------


def test_a_calibration_made_while_other_programs_were_busy_is_not_used_and_that_is_said():
    for share, used in ((0.0, True), (0.25, True), (0.26, False)):
        calibration = msgspec.structs.replace(calibration_of(MACHINE), busy_share=share)
        evidence = Evidence(calibration=calibration)
        assert (evidence_for(MACHINE, evidence).calibration is not None) == used
        assert planned(FACTS, MACHINE, Wishes(), evidence).speed.basis == ("calibrated" if used else "assumed")
    (note,) = evidence_for(MACHINE, evidence).notes
    assert note.endswith("measured while other programs were busy (with 26 % of the processor): measure again.")
