"""What bounds a plan on its machine, and which single change of it would help most: predictions with their evidence.

Nothing is measured here. What was measured (the last answer, the cache's own counts) is told beside what is predicted,
and every gain is a range: `speed.gain`.
"""

from collections.abc import Iterable

import msgspec

from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.cache.facts import CacheTotals
from app.placement.cache.recorded_hits import PlanCurves
from app.placement.evidence import NO_EVIDENCE, Evidence, evidence_for, speed_law
from app.placement.explain_beyond import beyond_words
from app.placement.explain_changes import Change, changes_of
from app.placement.explain_words import LEAST_GAIN, consequence_words, evidence_words, measured_words, percent_range
from app.placement.memory import predict
from app.placement.plan import Plan
from app.placement.speed.gain import predict_gain
from app.placement.speed.prediction import predict_speed
from app.placement.speed.types import Range, SpeedPrediction
from app.placement.tuner.duel import LEAST_PROMPT
from app.units import format_share

MUCH = 0.05
"""Share of the decode speed from which a change would help much."""
_LEAST_PROMPT_GAIN = 0.1
_MOST_DECODE_LOSS = 0.02
_MOST_TOLD = 3


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of the plan, as far as it was.

    Attributes:
        decode: Tokens a second of the last answer.
        hits, misses: Routed experts of the last answer that were and were not in the pool; None where nobody counts.
        totals: What the expert cache counted of decoding since the load.
    """

    decode: float | None = None
    hits: int | None = None
    misses: int | None = None
    totals: CacheTotals | None = None


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """A single change, and what is predicted of it.

    Attributes:
        words: The change as an imperative: "Compute with 4 threads instead of 2".
        kind: What is changed, as `Change` has it.
        plan: The plan with that change.
        decode, prompt: Predicted gain as shares of the speed now.
        gain: Both in words; says that it is predicted.
        evidence: Why that is expected, with figures.
        costs: What else changes: memory, context; empty for nothing.
        changes_answers: The model answers differently with it.
    """

    words: str
    kind: str
    plan: Plan
    decode: Range
    prompt: Range
    gain: str
    evidence: str
    costs: str
    changes_answers: bool = False

    @property
    def helps(self) -> bool:
        """Whether it is predicted to make decoding much faster, and to leave prompts about as fast."""
        return self.decode.likely >= MUCH and self.prompt.likely >= LEAST_PROMPT - 1


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds a plan now, and what would help.

    Attributes:
        bound: What its speed depends on most, with figures, predicted.
        measured: What was measured beside it, one sentence each; empty where nothing was.
        verdict: Which single change would help most, or that none would help much.
        advice: Changes that are predicted to help, the best first; those that change answers come last.
        doubts: What makes the predictions unsure, one sentence each.
        beyond: What no change of the plan gives: more main memory, a smaller file; one sentence each.
    """

    bound: str
    measured: tuple[str, ...]
    verdict: str
    advice: tuple[Advice, ...]
    doubts: tuple[str, ...]
    beyond: tuple[str, ...] = ()


def explain(
    facts: ModelFacts,
    machine: Machine,
    plan: Plan,
    *,
    evidence: Evidence = NO_EVIDENCE,
    seen: Seen | None = None,
) -> Explanation:
    """Explain the speed of `plan`.

    Args:
        facts: The model.
        machine: Where it runs, as it is with nothing loaded.
        plan: The plan; its memory is predicted anew.
        evidence: What was measured of machine and model.
        seen: What was measured of the plan; None where it is not loaded.
    """
    evidence = evidence_for(machine, evidence)
    plan = msgspec.structs.replace(plan, memory=predict(facts, machine, plan))
    curves = PlanCurves(facts, evidence.recorded)
    speed = predict_speed(
        facts,
        machine,
        plan,
        calibration=evidence.calibration,
        hit_curve=curves.of(plan),
        learned=evidence.learned,
    )
    advice = _ranked(
        _advice(facts, machine, plan, change, evidence, curves) for change in changes_of(facts, machine, plan)
    )
    measured: tuple[str, ...] = ()
    if seen is not None:
        measured = measured_words(seen.decode, speed, _rate(seen.hits, seen.misses), seen.totals)
    return Explanation(
        bound=speed.sentence,
        measured=measured,
        verdict=_verdict(advice),
        advice=advice,
        doubts=_doubts(speed, plan, evidence, recorded=curves.of(plan) is not None),
        beyond=beyond_words(facts, machine, plan, speed, evidence, curves),
    )


def _advice(
    facts: ModelFacts, machine: Machine, plan: Plan, change: Change, evidence: Evidence, curves: PlanCurves
) -> Advice | None:
    """What a change is predicted to do; None where that is nothing worth telling."""
    after = change.plan
    gain = predict_gain(
        facts, machine, plan, after, calibration=evidence.calibration, curves=curves, learned=evidence.learned
    )
    for_prompts = gain.prompt.likely >= _LEAST_PROMPT_GAIN and gain.decode.likely >= -_MOST_DECODE_LOSS
    if gain.decode.likely < LEAST_GAIN and not for_prompts:
        return None
    # By the machine's rates alone, as the gain is: what answers taught holds for plans like those that gave them.
    speed_of = speed_law(facts, machine, evidence)
    before_speed, after_speed = speed_of(plan), speed_of(after)
    return Advice(
        words=change.words,
        kind=change.kind,
        plan=msgspec.structs.replace(after, speed=after_speed),
        decode=gain.decode,
        prompt=gain.prompt,
        gain=_gain_words(gain.decode, gain.prompt),
        evidence=evidence_words(before_speed, after_speed, pool=plan.pool_bytes != after.pool_bytes),
        costs=consequence_words(plan, after, machine),
        changes_answers=change.changes_answers,
    )


def _ranked(found: Iterable[Advice | None]) -> tuple[Advice, ...]:
    """The best first; of changes of the same thing the best alone; those that change answers last."""
    best: dict[str, Advice] = {}
    for advice in found:
        if advice is None:
            continue
        there = best.get(advice.kind)
        if there is None or _rank(advice) < _rank(there):
            best[advice.kind] = advice
    ranked = sorted(best.values(), key=_rank)
    harmless = [advice for advice in ranked if not advice.changes_answers]
    return (*harmless[:_MOST_TOLD], *(advice for advice in ranked if advice.changes_answers))


def _rank(advice: Advice) -> tuple[bool, float, float]:
    return advice.changes_answers, -advice.decode.likely, -advice.prompt.likely


def _verdict(advice: tuple[Advice, ...]) -> str:
    helping = [its for its in advice if its.helps and not its.changes_answers]
    if helping:
        return f"What would help most: {_small(helping[0].words)}."
    if any(its.changes_answers for its in advice):
        return (
            "Nothing that leaves answers as they are would help decoding much: no such change is predicted to gain "
            f"{format_share(MUCH)}."
        )
    return f"Nothing would help decoding much: no single change is predicted to gain {format_share(MUCH)}."


def _small(words: str) -> str:
    return words[:1].lower() + words[1:]


def _gain_words(decode: Range, prompt: Range) -> str:
    """Example: "Predicted: decoding +12 % (+5 % to +21 %), prompts −4 % (−6 % to −2 %)"."""
    words = f"Predicted: decoding {percent_range(decode)}"
    return f"{words}, prompts {percent_range(prompt)}" if abs(prompt.likely) >= LEAST_GAIN else words


def _rate(hits: int | None, misses: int | None) -> float | None:
    return hits / (hits + misses) if hits is not None and misses is not None and hits + misses else None


def _doubts(speed: SpeedPrediction, plan: Plan, evidence: Evidence, *, recorded: bool) -> tuple[str, ...]:
    doubts = []
    if evidence.calibration is None:
        # It may have been measured, and set aside: the evidence's notes say why.
        learned = speed.basis == "measured"
        used = "only answers here corrected them" if learned else "no measurement of this machine is used"
        doubts.append(f"Gains follow from typical rates of such hardware: {used}.")
    elif speed.basis == "assumed":
        doubts.append("Most of this plan's time follows from typical rates: this machine's were not all measured.")
    if plan.pool_bytes and not recorded:
        doubts.append("This model's routing was not recorded: what a pool hits is assumed from other models.")
    elif speed.cold_experts and not recorded:
        doubts.append("This model's routing was not recorded: what memory finds there is assumed from other models.")
    return tuple(doubts)
