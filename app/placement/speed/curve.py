"""Tokens a second against the size of the expert pool, with the marks that tell where a pool begins to pay."""

import msgspec

from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.active_experts import facts_with
from app.placement.cache.hit_rates import HitCurve
from app.placement.memory import predict
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.placement.speed.calibration import Calibration
from app.placement.speed.demand import curve_for
from app.placement.speed.learning import Learned
from app.placement.speed.prediction import predict_speed
from app.placement.speed.types import Range, SpeedPrediction

POINTS = 48


class SpeedPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted decoding speed with a pool of `pool_bytes`, tokens a second.

    `whole_layers` is what the same memory gives with all experts of as many layers as it holds; None where
    the plan has no GPU.
    """

    pool_bytes: int
    decode: Range
    hit_rate: float
    whole_layers: float | None


class SpeedCurve(msgspec.Struct, frozen=True, kw_only=True):
    """The curve and its marks.

    Attributes:
        points: By rising pool bytes; the first has no pool.
        cycle_bytes: One token cycle of the layers that share the pool; 0 where none do.
        break_even_bytes: The smallest pool on the curve that is expected to be faster than whole layers in the
            same memory; None where none is.
    """

    points: tuple[SpeedPoint, ...]
    cycle_bytes: int
    break_even_bytes: int | None


def speed_curve(
    facts: ModelFacts,
    machine: Machine,
    plan: Plan,
    *,
    calibration: Calibration | None = None,
    hit_curve: HitCurve | None = None,
    learned: Learned | None = None,
    most_bytes: int | None = None,
    context_tokens: int | None = None,
    points: int = POINTS,
) -> SpeedCurve:
    """Predicted tokens a second of `plan` with pools from none to all experts off the GPUs.

    Args:
        facts: The model.
        machine: Where it runs.
        plan: Everything but the pool's size.
        calibration: As for `predict_speed`.
        hit_curve: As for `predict_speed`; its layers are those off the GPUs.
        learned: As for `predict_speed`.
        most_bytes: The largest pool of interest; what all those experts take unless told.
        context_tokens: As for `predict_speed`.
        points: How many sizes about.
    """
    sizes = {
        layer: facts.expert_bytes[layer]
        for layer, lane in plan.expert_lanes.items()
        if lane in (CPU_LANE, DISK_LANE) and layer in facts.expert_bytes
    }
    cycle = facts_with(facts, plan.experts_used).experts_used * sum(sizes.values())
    largest = facts.expert_count * sum(sizes.values())
    most = largest if most_bytes is None else max(min(most_bytes, largest), 0)
    curve = hit_curve or curve_for(facts, plan)

    def predicted(changed: Plan) -> SpeedPrediction:
        return predict_speed(
            facts,
            machine,
            msgspec.structs.replace(changed, memory=predict(facts, machine, changed)),
            calibration=calibration,
            hit_curve=curve,
            learned=learned,
            context_tokens=context_tokens,
        )

    found: list[SpeedPoint] = []
    whole: dict[int, float] = {}
    for pool_bytes in _pool_sizes(most, cycle, points):
        speed = predicted(msgspec.structs.replace(plan, pool_bytes=pool_bytes))
        moved = _whole_layers(facts, sizes, pool_bytes)
        if plan.gpu and len(moved) not in whole:
            lanes = plan.expert_lanes | dict.fromkeys(moved, plan.gpu)
            instead = msgspec.structs.replace(plan, pool_bytes=0, expert_lanes=lanes)
            whole[len(moved)] = predicted(instead).decode.likely
        found.append(
            SpeedPoint(
                pool_bytes=pool_bytes,
                decode=speed.decode,
                hit_rate=speed.hit_rate,
                whole_layers=whole.get(len(moved)),
            )
        )
    paying = (
        point.pool_bytes
        for point in found
        if point.pool_bytes and point.whole_layers is not None and point.decode.likely > point.whole_layers
    )
    return SpeedCurve(points=tuple(found), cycle_bytes=cycle, break_even_bytes=next(paying, None))


def _pool_sizes(most: int, cycle: int, points: int) -> list[int]:
    """Evenly spaced, and both sides of the token cycle, where the curve has its step."""
    sizes = {0, most, *(most * step // max(points - 1, 1) for step in range(points))}
    if 0 < cycle <= most:
        sizes |= {cycle - 1, cycle}
    return sorted(sizes)


def _whole_layers(facts: ModelFacts, sizes: dict[int, int], room: int) -> list[int]:
    """The first layers whose experts fit into `room` bytes."""
    fitting = []
    for layer in sorted(sizes):
        room -= sizes[layer] * facts.expert_count
        if room < 0:
            break
        fitting.append(layer)
    return fitting
