"""What is known of a machine's and a model's speed, and the law of speed that plans are compared by with it."""

import msgspec

from app.hardware.facts import Machine
from app.hardware.fingerprint import fingerprint
from app.model.facts import ModelFacts
from app.placement.plan import Plan
from app.placement.planner import NO_WISHES, SpeedOf, Wishes, make_plan
from app.placement.speed.calibration import Calibration
from app.placement.speed.learning import Learned
from app.placement.speed.prediction import predict_speed
from app.placement.speed.types import SpeedPrediction


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What predictions of speed rest on, beside typical rates.

    Attributes:
        calibration: What the machine was measured to do.
        learned: What answers of the model on the machine taught.
        notes: What is not used and why, one sentence each.
    """

    calibration: Calibration | None = None
    learned: Learned | None = None
    notes: tuple[str, ...] = ()


NO_EVIDENCE = Evidence()


def planned(facts: ModelFacts, machine: Machine, wishes: Wishes = NO_WISHES, evidence: Evidence = NO_EVIDENCE) -> Plan:
    """The planner's plan with its speed, and the places of its experts chosen by predicted speed.

    Plans are compared by the machine's rates alone. What answers taught holds for plans like those that gave
    them, and would set such plans apart from all others; it goes into the speed that is told.

    Raises:
        AppError: as `make_plan`.
    """
    evidence = evidence_for(machine, evidence)
    plan = make_plan(facts, machine, wishes, speed_law(facts, machine, evidence))
    return with_speed(plan, facts, machine, evidence)


def evidence_for(machine: Machine, evidence: Evidence) -> Evidence:
    """`evidence` without a calibration of another machine, and what answers taught beside it."""
    calibration = evidence.calibration
    if calibration is None or calibration.machine == fingerprint(machine):
        return evidence
    note = (
        "The calibration is not used: it was measured on another machine than the one that is planned for. "
        "Speeds are predicted from typical rates of such hardware."
    )
    return Evidence(notes=(*evidence.notes, note))


def speed_law(facts: ModelFacts, machine: Machine, evidence: Evidence = NO_EVIDENCE) -> SpeedOf:
    """The speed of any plan by the machine's rates."""

    def speed_of(plan: Plan) -> SpeedPrediction:
        return predict_speed(facts, machine, plan, calibration=evidence.calibration)

    return speed_of


def with_speed(plan: Plan, facts: ModelFacts, machine: Machine, evidence: Evidence = NO_EVIDENCE) -> Plan:
    """`plan` with the speed that is expected of it, by all that is known."""
    speed = predict_speed(facts, machine, plan, calibration=evidence.calibration, learned=evidence.learned)
    return msgspec.structs.replace(plan, speed=speed)
