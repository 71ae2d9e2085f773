"""What a recorded routing tells of expert pools: hit rates, copies and evictions, by pool size and policy.

Everything here is simulated from a recording of what was routed; nothing of it was timed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from app.errors import AppError, ErrorCode
from app.model.facts import ModelFacts
from app.placement.cache import simulator
from app.placement.cache.guard import divide_pool
from app.placement.cache.hit_rates import HitCurve
from app.placement.cache.simulator import STEADY, TRANSIENT, WHOLE
from app.placement.cache.simulator_library import LayerCounts, LayerTrace
from app.placement.cache.trace import Trace
from app.placement.plan import CachePolicy, ExpertPin

ORACLE = "oracle"
FORESIGHT = {
    "frozen": "hindsight: filled beforehand with the experts that this trace is routed to most",
    ORACLE: "foresight: the most hits that any cache can have which copies in only what was just routed",
}


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """A pool to simulate.

    Attributes:
        words: How it was asked for.
        slots: Layer index to slots.
        bytes: Its size; None where the experts' sizes are not known.
    """

    words: str
    slots: dict[int, int]
    bytes: int | None


class PartResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a cache made of the trace or a part of it.

    Attributes:
        hit_rate: Share of the routed experts that were in the pool.
        byte_hit_rate: The same by bytes; None where the experts' sizes are not known.
        hits, misses: Routed experts that were in the pool, and that were not.
        inserts: Experts copied in. evictions: experts that lost their slot to another.
        copied_bytes_per_token: None where the experts' sizes are not known.
    """

    hit_rate: float
    byte_hit_rate: float | None
    hits: int
    misses: int
    inserts: int
    evictions: int
    copied_bytes_per_token: float | None


class LayerResult(msgspec.Struct, frozen=True, kw_only=True):
    """One layer over the whole trace; `steady_hit_rate` is of its second half."""

    layer: int
    slots: int
    hit_rate: float
    steady_hit_rate: float
    inserts: int
    evictions: int


class PolicyResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one policy made of the trace with one pool.

    Attributes:
        policy: One of plan.POLICIES, or ORACLE.
        note: What it knows beforehand that no running cache does; else empty.
        filled: Experts that were in the pool before the first token.
        whole: The whole trace. transient: its first quarter. steady: its second half.
        layers: Every recorded layer.
    """

    policy: str
    note: str
    filled: int
    whole: PartResult
    transient: PartResult
    steady: PartResult
    layers: tuple[LayerResult, ...]


class PoolResult(msgspec.Struct, frozen=True, kw_only=True):
    """One pool with every policy that was asked for.

    Attributes:
        words: How it was asked for.
        bytes: Its size; None where the experts' sizes are not known.
        slots: Over all layers. share: of all recorded experts that have a slot.
        holds_token_cycle: Whether every layer has a slot for each of a token's experts.
        policies: In the order asked for.
    """

    words: str
    bytes: int | None
    slots: int
    share: float
    holds_token_cycle: bool
    policies: tuple[PolicyResult, ...]


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """Plain LRU, exact, with as many slots in every layer: hit rates over all layers."""

    slots: int
    whole: float
    transient: float
    steady: float


class ByteCurves(msgspec.Struct, frozen=True, kw_only=True):
    """Plain LRU by bytes of the pool, divided between the layers as the cache does."""

    whole: HitCurve
    transient: HitCurve
    steady: HitCurve


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """A simulated trace.

    Attributes:
        tokens: Decoded tokens. routings: experts routed, over all of them and all layers.
        cycle_slots: Slots of each layer that hold one token's experts.
        cycle_bytes: One token cycle over the recorded layers; None where the experts' sizes are not known.
        curve: By slots, from 0 to all experts. byte_curves: None where the experts' sizes are not known.
        pools: In the order asked for.
        replayed: Routings that were run through a cache: all of them once for the curve and for each pool and policy.
    """

    tokens: int
    routings: int
    cycle_slots: int
    cycle_bytes: int | None
    curve: tuple[CurvePoint, ...]
    byte_curves: ByteCurves | None
    pools: tuple[PoolResult, ...]
    replayed: int


class Settings(NamedTuple):
    """How to simulate.

    Attributes:
        kinds: Of plan.POLICIES and ORACLE.
        policy: The settings of all but the oracle, whatever its `kind`.
        pins: For the policies, not for the oracle and not for the curve.
    """

    kinds: Sequence[str]
    policy: CachePolicy
    pins: tuple[ExpertPin, ...] = ()


def recorded_expert_bytes(trace: Trace, facts: ModelFacts) -> dict[int, int]:
    """Bytes of one expert in every layer that was recorded.

    Raises:
        AppError: bad_usage, the trace was recorded of another model.
    """
    if trace.header.fingerprint != facts.fingerprint:
        raise AppError(
            ErrorCode.BAD_USAGE,
            f"The trace was recorded of the model '{trace.header.name}', not of '{facts.name}': "
            "its fingerprint is another one.",
        )
    missing = [layer for layer in trace.header.experts if layer not in facts.expert_bytes]
    if missing or any(count != facts.expert_count for count in trace.header.experts.values()):
        raise AppError(
            ErrorCode.FILE_UNREADABLE, f"The trace is damaged: it speaks of other experts than '{facts.name}' has."
        )
    return {layer: facts.expert_bytes[layer] for layer in sorted(trace.header.experts)}


def pool_of_bytes(words: str, trace: Trace, expert_bytes: Mapping[int, int], pool_bytes: int) -> Pool:
    """A pool of so many bytes, divided between the recorded layers as the cache divides it."""
    return Pool(words=words, slots=_divided(trace, expert_bytes, pool_bytes), bytes=pool_bytes)


def pool_of_share(words: str, trace: Trace, expert_bytes: Mapping[int, int] | None, share: float) -> Pool:
    """A pool for so much of the recorded experts, from 0 to 1; by bytes where their sizes are known."""
    sizes = expert_bytes or dict.fromkeys(trace.header.experts, 1)
    wanted = int(share * sum(sizes[layer] * count for layer, count in trace.header.experts.items()))
    return Pool(words=words, slots=_divided(trace, sizes, wanted), bytes=wanted if expert_bytes else None)


def pool_of_slots(words: str, trace: Trace, expert_bytes: Mapping[int, int] | None, slots: int) -> Pool:
    """A pool of so many slots in each layer, or as many as the layer has experts."""
    given = {layer: min(slots, count) for layer, count in sorted(trace.header.experts.items())}
    size = sum(expert_bytes[layer] * count for layer, count in given.items()) if expert_bytes else None
    return Pool(words=words, slots=given, bytes=size)


def simulate(
    trace: Trace, pools: Iterable[Pool], settings: Settings, expert_bytes: Mapping[int, int] | None = None
) -> Simulation:
    """Run the trace through LRU caches of all sizes, and through every pool with every policy.

    Args:
        trace: What was recorded.
        pools: Sizes.
        settings: Policies.
        expert_bytes: Bytes of one expert in every recorded layer; None where they are not known.

    Raises:
        AppError: bad_usage, the trace is empty; file_unreadable, it is damaged; engine_missing, the native
            simulator is not installed.
    """
    if not len(trace.entries):
        raise AppError(ErrorCode.BAD_USAGE, f"The trace of '{trace.header.name}' is empty: no token was decoded.")
    layers = simulator.split_layers(trace)
    hits = simulator.lru_hits(layers, settings.policy.decay)
    curves = None
    if expert_bytes is not None:
        whole, transient, steady = (
            simulator.hit_curve(hits, layers, expert_bytes, part) for part in (WHOLE, TRANSIENT, STEADY)
        )
        curves = ByteCurves(whole=whole, transient=transient, steady=steady)
    used = trace.header.experts_used
    results = tuple(_pool_result(pool, layers, settings, expert_bytes, used) for pool in pools)
    return Simulation(
        tokens=max(layer.steps for layer in layers.values()),
        routings=len(trace.entries),
        cycle_slots=used,
        cycle_bytes=None if expert_bytes is None else used * sum(expert_bytes.values()),
        curve=_curve(hits, layers),
        byte_curves=curves,
        pools=results,
        replayed=len(trace.entries) * (1 + len(results) * len(settings.kinds)),
    )


def _divided(trace: Trace, sizes: Mapping[int, int], pool_bytes: int) -> dict[int, int]:
    experts = trace.header.experts
    slots = divide_pool(sizes, max(experts.values(), default=0), pool_bytes)
    return {layer: min(count, experts[layer]) for layer, count in slots.items()}


def _curve(hits: simulator.LayerHits, layers: Mapping[int, LayerTrace]) -> tuple[CurvePoint, ...]:
    routed = {layer: simulator.routed_by_quarter(routing) for layer, routing in layers.items()}

    def rate(slots: int, part: slice) -> float:
        found = sum(int(of_layer[part, min(slots, layers[layer].experts)].sum()) for layer, of_layer in hits.items())
        return found / max(sum(int(of_layer[part].sum()) for of_layer in routed.values()), 1)

    return tuple(
        CurvePoint(slots=slots, whole=rate(slots, WHOLE), transient=rate(slots, TRANSIENT), steady=rate(slots, STEADY))
        for slots in range(max(layer.experts for layer in layers.values()) + 1)
    )


def _pool_result(
    pool: Pool,
    layers: Mapping[int, LayerTrace],
    settings: Settings,
    expert_bytes: Mapping[int, int] | None,
    used: int,
) -> PoolResult:
    slots = sum(pool.slots.values())
    return PoolResult(
        words=pool.words,
        bytes=pool.bytes,
        slots=slots,
        share=slots / sum(layer.experts for layer in layers.values()),
        holds_token_cycle=all(count >= min(used, layers[layer].experts) for layer, count in pool.slots.items()),
        policies=tuple(
            _policy_result(kind, _run(kind, layers, pool.slots, settings), layers, pool.slots, expert_bytes)
            for kind in settings.kinds
        ),
    )


def _run(
    kind: str, layers: Mapping[int, LayerTrace], slots: Mapping[int, int], settings: Settings
) -> dict[int, LayerCounts]:
    if kind == ORACLE:
        return simulator.oracle(layers, slots)
    policy = msgspec.structs.replace(settings.policy, kind=kind)
    heat = simulator.hindsight_heat(layers) if kind == "frozen" else None
    return simulator.replay(layers, policy, slots, pins=settings.pins, heat=heat)


def _policy_result(
    kind: str,
    counts: Mapping[int, LayerCounts],
    layers: Mapping[int, LayerTrace],
    slots: Mapping[int, int],
    expert_bytes: Mapping[int, int] | None,
) -> PolicyResult:
    whole, transient, steady = (_part(counts, layers, part, expert_bytes) for part in (WHOLE, TRANSIENT, STEADY))
    return PolicyResult(
        policy=kind,
        note=FORESIGHT.get(kind, ""),
        filled=sum(told.filled for told in counts.values()),
        whole=whole,
        transient=transient,
        steady=steady,
        layers=tuple(
            LayerResult(
                layer=layer,
                slots=slots[layer],
                hit_rate=_rate(told, WHOLE),
                steady_hit_rate=_rate(told, STEADY),
                inserts=int(told.inserts.sum()),
                evictions=int(told.evictions.sum()),
            )
            for layer, told in counts.items()
        ),
    )


def _rate(told: LayerCounts, part: slice) -> float:
    hits, misses = int(told.hits[part].sum()), int(told.misses[part].sum())
    return hits / max(hits + misses, 1)


def _part(
    counts: Mapping[int, LayerCounts],
    layers: Mapping[int, LayerTrace],
    part: slice,
    expert_bytes: Mapping[int, int] | None,
) -> PartResult:
    hits, misses, inserts, evictions = (
        sum(int(array[part].sum()) for array in arrays)
        for arrays in zip(*(told[:4] for told in counts.values()), strict=True)
    )
    byte_rate = copied = None
    if expert_bytes is not None:
        hit_bytes = sum(expert_bytes[layer] * int(told.hits[part].sum()) for layer, told in counts.items())
        missed_bytes = sum(expert_bytes[layer] * int(told.misses[part].sum()) for layer, told in counts.items())
        byte_rate = hit_bytes / max(hit_bytes + missed_bytes, 1)
        copied = 0.0
        for layer, told in counts.items():
            starts = simulator.quarter_starts(layers[layer])
            steps = int(starts[part.stop] - starts[part.start])
            copied += expert_bytes[layer] * int(told.inserts[part].sum()) / max(steps, 1)
    return PartResult(
        hit_rate=hits / max(hits + misses, 1),
        byte_hit_rate=byte_rate,
        hits=hits,
        misses=misses,
        inserts=inserts,
        evictions=evictions,
        copied_bytes_per_token=copied,
    )
