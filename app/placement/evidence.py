"""What is known of a machine's and a model's speed, and the plan and the law of speed that follow from it."""

import msgspec

from app.hardware.facts import Machine
from app.hardware.fingerprint import fingerprint
from app.model.facts import ModelFacts
from app.placement.cache.recorded_hits import PlanCurves, RecordedHits
from app.placement.locking import lock_gains
from app.placement.plan import Plan, Step
from app.placement.planner import NO_WISHES, SpeedOf, Wishes, make_plan
from app.placement.speed.calibration import Calibration
from app.placement.speed.calibration_words import busy_note
from app.placement.speed.learning import Learned
from app.placement.speed.prediction import predict_speed
from app.placement.speed.rates import both_layouts_measured
from app.placement.speed.types import SpeedPrediction
from app.placement.tuner.kept import STEP_NOT_TUNED, kept_plan
from app.placement.tuner.types import TunedPlan
from app.placement.wishes import check_wishes


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of a machine and a model: what predictions of speed rest on, and what tuning found.

    Attributes:
        calibration: What the machine was measured to do.
        learned: What answers of the model on the machine taught.
        tuned: The plan that tuning kept of the model on the machine.
        recorded: What the recorded routing of the model says of pools; without it hit rates are assumed.
        notes: What is not used and why, one sentence each.
    """

    calibration: Calibration | None = None
    learned: Learned | None = None
    tuned: TunedPlan | None = None
    recorded: RecordedHits | None = None
    notes: tuple[str, ...] = ()


NO_EVIDENCE = Evidence()


def planned(facts: ModelFacts, machine: Machine, wishes: Wishes = NO_WISHES, evidence: Evidence = NO_EVIDENCE) -> Plan:
    """The plan to load, with its speed: the one that tuning kept, else the planner's.

    A kept plan must keep to the wishes and fit now; where it does not, the first step says why. The planner
    chooses the places of experts by predicted speed.

    Plans are compared by the machine's rates alone. What answers taught holds for plans like those that gave
    them, and would set such plans apart from all others; it goes into the speed that is told.

    Raises:
        AppError: as `make_plan`.
    """
    evidence = evidence_for(machine, evidence)
    steps: tuple[Step, ...] = ()
    if evidence.tuned is not None and wishes.tuned:
        check_wishes(facts, wishes)
        kept = kept_plan(evidence.tuned, facts, machine, wishes)
        if isinstance(kept, Plan):
            return with_speed(kept, facts, machine, evidence)
        steps = (Step(name=STEP_NOT_TUNED, reason=kept),)
    gains = lock_gains(evidence.calibration)
    layouts = both_layouts_measured(evidence.calibration, facts.quantization)
    speed_of = speed_law(facts, machine, evidence, bounds=False)
    plan = make_plan(facts, machine, wishes, speed_of, gains, layouts=layouts)
    plan = msgspec.structs.replace(plan, steps=(*steps, *plan.steps))
    return with_speed(plan, facts, machine, evidence)


def evidence_for(machine: Machine, evidence: Evidence) -> Evidence:
    """`evidence` without what may not be used for `machine`, each with a note.

    That is a plan tuned on another machine, a calibration of another one and what answers taught beside it, and
    a calibration that other programs made useless.
    """
    notes = list(evidence.notes)
    calibration, learned, tuned = evidence.calibration, evidence.learned, evidence.tuned
    if calibration is not None and calibration.machine != fingerprint(machine):
        calibration = learned = None
        notes.append(
            "The calibration is not used: it was measured on another machine than the one that is planned for. "
            "Speeds are predicted from typical rates of such hardware."
        )
    elif calibration is not None and calibration.misleads:
        notes.append(busy_note(calibration))
        calibration = learned = None
    if tuned is not None and tuned.machine != fingerprint(machine):
        tuned = None
        notes.append("The tuned plan is not used: it was tuned on another machine than the one that is planned for.")
    if (calibration, tuned) == (evidence.calibration, evidence.tuned):
        return evidence
    return msgspec.structs.replace(evidence, calibration=calibration, learned=learned, tuned=tuned, notes=tuple(notes))


def speed_law(facts: ModelFacts, machine: Machine, evidence: Evidence = NO_EVIDENCE, *, bounds: bool = True) -> SpeedOf:
    """The speed of any plan by the machine's rates and the recorded routing; `bounds` as for `predict_speed`."""
    curves = PlanCurves(facts, evidence.recorded)

    def speed_of(plan: Plan) -> SpeedPrediction:
        curve = curves.of(plan)
        return predict_speed(facts, machine, plan, calibration=evidence.calibration, hit_curve=curve, bounds=bounds)

    return speed_of


def with_speed(plan: Plan, facts: ModelFacts, machine: Machine, evidence: Evidence = NO_EVIDENCE) -> Plan:
    """`plan` with the speed that is expected of it, by all that is known."""
    speed = predict_speed(
        facts,
        machine,
        plan,
        calibration=evidence.calibration,
        hit_curve=PlanCurves(facts, evidence.recorded).of(plan),
        learned=evidence.learned,
    )
    return msgspec.structs.replace(plan, speed=speed)
