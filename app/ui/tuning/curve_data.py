"""The figures of the tuning curve: what is asked, what is predicted, what was measured. No Qt, for a pool thread."""

import statistics
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.cache.recorded_hits import PlanCurves, layers_off_gpus
from app.placement.evidence import Evidence
from app.placement.memory import expert_bytes, predict, predicted_use
from app.placement.plan import Plan
from app.placement.speed.curve import SpeedCurve, SpeedPoint, memory_curve, speed_curve
from app.placement.speed.learning import Learned, Observation, devices_of
from app.placement.speed.types import Range

GPU_TIER, MEMORY_TIER = "gpu", "memory"
"""What sizes are of: the pool in the GPU's memory, or the experts of a mapped file in main memory."""
POINTS = 48
MOST_ANSWERS = 8
"""The newest so many answers with one pool are shown together."""
_DOUBTS = 2.0
"""What answers with other devices taught leaves so many times the spread that it left for them."""


@dataclass(frozen=True)
class Question:
    """What a curve is computed of.

    Attributes:
        facts, machine, evidence: What predictions rest on.
        plan: Everything but the pool's size and what does not change the speed; see `essence`.
        card: The GPU that would hold the pool, as words call it.
        most_bytes: The largest pool to draw.
        card_bytes: The pool with which the card would be full to its last byte, were no other program there.
        all_bytes: What all experts that a pool could hold take.
        tier: What the sizes are of, GPU_TIER or MEMORY_TIER.
    """

    facts: ModelFacts
    machine: Machine
    evidence: Evidence
    plan: Plan
    card: str
    most_bytes: int
    card_bytes: int
    all_bytes: int
    tier: str = GPU_TIER


@dataclass(frozen=True)
class Measured:
    """What answers reached with one size of the pool: tokens a second, the latest last."""

    pool_bytes: int
    rates: tuple[float, ...]

    @property
    def median(self) -> float:
        """Of all of them."""
        return statistics.median(self.rates)

    @property
    def least(self) -> float:
        """The slowest."""
        return min(self.rates)

    @property
    def most(self) -> float:
        """The fastest."""
        return max(self.rates)


def essence(plan: Plan) -> Plan:
    """`plan` without the pool's size and all that speed does not depend on: two with the same have one curve."""
    pins = plan.pins if plan.policy.kind == "manual" else ()
    return msgspec.structs.replace(
        plan, pool_bytes=0, pins=pins, model_files=(), steps=(), memory=(), speed=None, tuned="", goal="speed"
    )


def memory_essence(plan: Plan) -> Plan:
    """`plan` without the budget of memory and what speed does not depend on: two with the same have one curve."""
    return msgspec.structs.replace(essence(plan), pool_bytes=plan.pool_bytes, resident_bytes=None)


def card_bytes(facts: ModelFacts, machine: Machine, plan: Plan, device: str) -> int:
    """The pool with which the card would be full to its last byte; 0 without the card."""
    gpu = next((gpu for gpu in machine.gpus if gpu.device == device), None)
    if gpu is None:
        return 0
    bare = msgspec.structs.replace(plan, pool_bytes=0)
    bare = msgspec.structs.replace(bare, memory=predict(facts, machine, bare))
    return max(gpu.total_bytes - predicted_use(bare, device), 0)


def pooled_bytes(facts: ModelFacts, plan: Plan) -> int:
    """Bytes of all experts that the plan's pool could hold: a larger one would be of no use."""
    return expert_bytes(facts, (layer for layer in layers_off_gpus(plan) if layer in facts.expert_bytes))


def compute(question: Question) -> SpeedCurve:
    """The curve; takes some tenths of a second."""
    facts, plan, evidence = question.facts, question.plan, question.evidence
    curve_of = memory_curve if question.tier == MEMORY_TIER else speed_curve
    return curve_of(
        facts,
        question.machine,
        plan,
        calibration=evidence.calibration,
        hit_curve=PlanCurves(facts, evidence.recorded).of(plan),
        learned=_for_all_sizes(evidence.learned, plan),
        most_bytes=question.most_bytes,
        points=POINTS,
    )


def _for_all_sizes(learned: Learned | None, plan: Plan) -> Learned | None:
    """What answers taught, applied to every point of the curve and to whole layers alike.

    Answers teach something of plans that use the same devices for the same things. Beside a curve that is corrected
    by them, whole layers that are not would seem faster or slower than they are; so those that no answer was like
    borrow the correction, with more doubt.
    """
    if learned is None:
        return None
    pooled = msgspec.structs.replace(plan, pool_bytes=1)
    on_gpu = dict.fromkeys(plan.expert_lanes, plan.gpu) if plan.gpu else plan.expert_lanes
    some = dict(list(on_gpu.items())[:1]) if plan.gpu else {}
    kinds = {
        devices_of(kind)
        for kind in (
            pooled,
            plan,
            msgspec.structs.replace(plan, expert_lanes={**plan.expert_lanes, **some}),
            msgspec.structs.replace(plan, expert_lanes=on_gpu),
        )
    }
    base = learned.of(pooled) or learned.of(plan)
    if base is None or not base.answers:
        return learned
    borrowed = msgspec.structs.replace(
        base, decode_spread=base.decode_spread * _DOUBTS, prompt_spread=base.prompt_spread * _DOUBTS
    )
    return Learned(corrections={**dict.fromkeys(kinds, borrowed), **learned.corrections})


def point_at(curve: SpeedCurve, pool_bytes: int) -> SpeedPoint:
    """The curve at any size: a straight line between its points, the last one beyond."""
    sizes = [point.pool_bytes for point in curve.points]
    after = bisect_left(sizes, pool_bytes)
    if after >= len(sizes):
        return msgspec.structs.replace(curve.points[-1], pool_bytes=pool_bytes)
    right = curve.points[after]
    if right.pool_bytes == pool_bytes or after == 0:
        return msgspec.structs.replace(right, pool_bytes=pool_bytes)
    left = curve.points[after - 1]
    part = (pool_bytes - left.pool_bytes) / (right.pool_bytes - left.pool_bytes)

    def between(below: float, above: float) -> float:
        return below + (above - below) * part

    return SpeedPoint(
        pool_bytes=pool_bytes,
        decode=Range(
            low=between(left.decode.low, right.decode.low),
            likely=between(left.decode.likely, right.decode.likely),
            high=between(left.decode.high, right.decode.high),
        ),
        hit_rate=between(left.hit_rate, right.hit_rate),
        whole_layers=left.whole_layers,  # it rises in steps, where one layer more fits
    )


def measured_sizes(observations: Iterable[Observation], plan: Plan, tier: str = GPU_TIER) -> tuple[Measured, ...]:
    """Answers of plans that differ from `plan` in the size alone, by that size; the latest size first.

    Of memory those count that were loaded with a budget: what the engine chose is not told by a plan.
    """

    def size_and_rest(its: Plan) -> tuple[int | None, Plan]:
        if tier == GPU_TIER:
            return its.pool_bytes, essence(its)
        return its.resident_bytes or None, memory_essence(its)

    wanted = size_and_rest(plan)[1]
    by_size: dict[int, list[float]] = {}
    for seen in observations:
        size, rest = size_and_rest(seen.plan)
        if size is not None and seen.decode_tokens_per_second > 0 and rest == wanted:
            by_size[size] = [*by_size.pop(size, []), seen.decode_tokens_per_second]  # to the end: the latest last
    return tuple(Measured(size, tuple(rates[-MOST_ANSWERS:])) for size, rates in reversed(by_size.items()))
