"""Tokens a second against the size of the expert pool, and against the main memory that experts are kept in."""

import msgspec

from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.active_experts import facts_with
from app.placement.cache.hit_rates import HitCurve
from app.placement.memory import predict
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.placement.speed.calibration import Calibration
from app.placement.speed.demand import curve_for, kept_bytes
from app.placement.speed.learning import Learned
from app.placement.speed.prediction import predict_speed
from app.placement.speed.types import Range, SpeedPrediction

POINTS = 48


class SpeedPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Predicted decoding speed at one size, tokens a second.

    Attributes:
        pool_bytes: The size on the curve's axis: of the pool, or on a memory curve of the experts in main memory.
        decode: Tokens a second.
        hit_rate: Share of a token's expert bytes that a GPU computes; on a memory curve the share, of the layers off
            the GPUs, that need not be read from the disk.
        whole_layers: What the same memory gives with all experts of as many layers as it holds; None where the plan
            has no GPU, and on a memory curve.
    """

    pool_bytes: int
    decode: Range
    hit_rate: float
    whole_layers: float | None


class SpeedCurve(msgspec.Struct, frozen=True, kw_only=True):
    """The curve and its marks.

    Attributes:
        points: By rising size; the first has no pool, on a memory curve next to no experts in main memory.
        cycle_bytes: One token cycle of the layers off the GPUs, the least useful size; 0 where there are none.
        break_even_bytes: The smallest pool on the curve that is expected to be faster than whole layers in the
            same memory; on a memory curve the least memory from which on something else than the disk bounds
            decoding. None where there is none, or the disk never bounds it.
        axis: What the sizes are of: "pool", or "memory" for a memory curve.
        running: The plan as it is, on a memory curve; None for a pool's.
    """

    points: tuple[SpeedPoint, ...]
    cycle_bytes: int
    break_even_bytes: int | None
    axis: str = "pool"
    running: SpeedPoint | None = None


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
    sizes, cycle = _off_gpus(facts, plan)
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


def memory_curve(
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
    """Predicted tokens a second of `plan` by the main memory that its experts are kept in (`Plan.resident_bytes`).

    From next to none to all experts off the GPUs, whether or not this machine has so much: the curve tells what more
    memory would give. Experts are computed as they lie in the file; the pool is the plan's own.

    Args:
        facts: The model.
        machine: Where it runs.
        plan: Everything but that memory.
        calibration: As for `predict_speed`.
        hit_curve: As for `predict_speed`; its layers are those off the GPUs.
        learned: As for `predict_speed`.
        most_bytes: The most memory of interest; what all those experts take unless told.
        context_tokens: As for `predict_speed`.
        points: How many sizes about.

    Returns:
        A curve whose `axis` is "memory"; of one point where no experts are off the GPUs.
    """
    sizes, cycle = _off_gpus(facts, plan)
    largest = facts.expert_count * sum(sizes.values())
    most = largest if most_bytes is None else max(min(most_bytes, largest), 0)
    curve = hit_curve or curve_for(facts, plan)
    used = cycle // max(sum(sizes.values()), 1) * len(sizes)

    def predicted(changed: Plan, on: Machine) -> SpeedPrediction:
        return predict_speed(
            facts,
            on,
            msgspec.structs.replace(changed, memory=predict(facts, on, changed)),
            calibration=calibration,
            hit_curve=curve,
            learned=learned,
            context_tokens=context_tokens,
        )

    def point(size: int, speed: SpeedPrediction) -> SpeedPoint:
        held = 1 - speed.cold_experts / used if used else 1.0
        return SpeedPoint(pool_bytes=size, decode=speed.decode, hit_rate=held, whole_layers=None)

    roomy = _with_room(machine, facts.file_bytes + largest)
    found: list[SpeedPoint] = []
    free_from: int | None = None
    for size in _pool_sizes(most, cycle, points):
        # 0 would leave it to the system.
        speed = predicted(msgspec.structs.replace(plan, residency="mapped", resident_bytes=max(size, 1)), roomy)
        found.append(point(size, speed))
        if speed.decode_bound == "disk":
            free_from = None
        elif free_from is None:
            free_from = size
    bound_once = free_from is not None and free_from > 0
    return SpeedCurve(
        points=tuple(found),
        cycle_bytes=cycle,
        break_even_bytes=free_from if bound_once else None,
        axis="memory",
        running=point(kept_bytes(facts, machine, plan), predicted(plan, machine)),
    )


def _off_gpus(facts: ModelFacts, plan: Plan) -> tuple[dict[int, int], int]:
    """Bytes of one expert of every layer off the GPUs, and one token cycle of them."""
    sizes = {
        layer: facts.expert_bytes[layer]
        for layer, lane in plan.expert_lanes.items()
        if lane in (CPU_LANE, DISK_LANE) and layer in facts.expert_bytes
    }
    return sizes, facts_with(facts, plan.experts_used).experts_used * sum(sizes.values())


def _with_room(machine: Machine, more: int) -> Machine:
    """`machine` with so much more main memory available; what it is does not change."""
    ram = msgspec.structs.replace(machine.ram, available_bytes=machine.ram.available_bytes + more)
    return msgspec.structs.replace(machine, ram=ram)


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
