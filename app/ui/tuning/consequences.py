"""What a plan is predicted to take and to do, and what each knob that was turned has to do with it. No Qt."""

from dataclasses import dataclass

import msgspec

from app.errors import AppError
from app.placement.evidence import evidence_for, speed_law, with_speed
from app.placement.memory import fits, predict, predicted_use
from app.placement.plan import CPU_LANE, Plan
from app.placement.speed.learning import devices_of
from app.placement.speed.types import SpeedPrediction
from app.ui.tuning.knob_values import Situation, at_plan, changed, differing, followed, value_of


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """One plan's prediction.

    Attributes:
        memory: Predicted bytes by device, without the margins that are left free.
        speed: Predicted speed of decoding and prompts, by all that is known.
        by_rates: The same without what answers taught: for comparisons with plans that they taught nothing of.
        corrected_for: What answers taught of: `devices_of` the plan; empty where they taught nothing of it.
        shortage: Where it does not fit, in sentences; empty where it fits.
    """

    memory: dict[str, int]
    speed: SpeedPrediction
    by_rates: SpeedPrediction
    corrected_for: str
    shortage: str


def compared_speeds(one: Outlook, other: Outlook) -> tuple[SpeedPrediction, SpeedPrediction, bool]:
    """The two plans' speeds on the same evidence, and whether what answers taught had to be left out for that.

    What they taught holds for plans that use the same devices for the same things (`learning.devices_of`).
    """
    if one.corrected_for == other.corrected_for:
        return one.speed, other.speed, False
    return one.by_rates, other.by_rates, True


@dataclass(frozen=True, kw_only=True)
class Consequences:
    """All that is predicted for the plan being edited.

    Attributes:
        now: Of the plan being edited.
        before: Of the plan that it is compared with; None where there is none.
        without: By knob that was turned, the prediction with that knob alone turned back; None where there is none.
            A knob that the engine follows already is turned back to where it was at the load.
    """

    now: Outlook
    before: Outlook | None
    without: dict[str, Outlook | None]


def consequences(situation: Situation, before: Plan | None) -> Consequences:
    """Predict the plan being edited, `before`, and what each knob between them changes.

    Args:
        situation: Model, machine, the plan being edited, evidence.
        before: What it is compared with: what runs now, or the planner's plan.
    """
    without: dict[str, Outlook | None] = {}
    turned = dict.fromkeys(differing(situation.plan, before, situation.facts), before) if before is not None else {}
    for key, its in {**turned, **dict.fromkeys(followed(situation), situation.at_load)}.items():
        without[key] = None
        try:
            back = changed(situation, key, value_of(its, key, situation.facts))
            without[key] = outlook(at_plan(situation, back))
        except AppError:  # that value is impossible beside the others
            continue
    return Consequences(
        now=outlook(situation),
        before=outlook(at_plan(situation, before)) if before is not None else None,
        without=without,
    )


def outlook(situation: Situation) -> Outlook:
    """Predict one plan; its memory by the model alone, so that two plans are compared by one measure."""
    facts, machine, plan = situation.facts, situation.machine, situation.plan
    plan = msgspec.structs.replace(plan, memory=predict(facts, machine, plan))
    evidence = evidence_for(machine, situation.evidence)
    plan = with_speed(plan, facts, machine, evidence)
    assert plan.speed is not None
    by_rates = plan.speed
    taught = evidence.learned is not None and evidence.learned.of(plan) is not None
    if taught:
        by_rates = speed_law(facts, machine, evidence)(plan)
    devices = [*plan.gpus, *([plan.pool_on] if plan.pool_on else []), CPU_LANE]
    return Outlook(
        memory={device: predicted_use(plan, device) for device in dict.fromkeys(devices)},
        speed=plan.speed,
        by_rates=by_rates,
        corrected_for=devices_of(plan) if taught else "",
        shortage=" ".join(shortfall.sentence for shortfall in fits(plan, machine)),
    )
