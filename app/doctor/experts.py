"""The rule about hot experts: those that most tokens are routed to, computed by the slower device."""

from collections.abc import Iterable
from dataclasses import dataclass

from app.doctor.hints import SLOWER, Change, Hint, UnjudgedError
from app.doctor.observation import LEAST_TOKENS, Observation
from app.engine import protocol
from app.hardware.facts import GpuKind
from app.model.facts import ModelFacts
from app.placement.cache.facts import IN_POOL, LayerExperts, PoolFacts
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.units import format_bytes, format_share

HOT_EXPERTS = "hot-experts"

WORTH = 0.15
"""Share of routed experts that another placement must move to the card to be told of."""
LEFT_FREE = 512 * 1024**2
"""Bytes of a card that are left to other programs: what users of 8 to 24 GB cards leave."""

_MIB = 1024**2
_PINNED_AWAY = "c"


@dataclass(frozen=True)
class _Counts:
    """Routed pairs of all layers that the expert device computes.

    Attributes:
        all: All of them.
        placed: Those of experts that are in the pool now.
        possible: Those of the hottest experts, as many in each layer as there are in the pool now.
        pinned_away: Those of hottest experts that are pinned to the CPU.
    """

    all: int
    placed: int
    possible: int
    pinned_away: int


def hot_experts(seen: Observation) -> Hint | None:
    """Experts that most tokens need, though the pool holds others, or none while the card has room."""
    plan, facts = seen.needed_plan
    cache = seen.needed_cache
    if not any(lane in (CPU_LANE, DISK_LANE) for lane in plan.expert_lanes.values()):
        return None
    if cache.decode.tokens < LEAST_TOKENS:
        raise UnjudgedError(f"It is judged after {LEAST_TOKENS} tokens; there were {cache.decode.tokens}.")
    if not cache.layers:
        raise UnjudgedError("The engine was not asked how often each expert was routed to.")
    counts = _counted(cache.layers.values())
    if not counts.all:
        return None
    pool = cache.pool
    if pool is not None and pool.slots and (counts.possible - counts.placed) / counts.all >= WORTH:
        return _misplaced(cache, pool, counts)
    return _room(seen, plan, facts, cache, counts)


def _misplaced(cache: protocol.CacheFacts, pool: PoolFacts, counts: _Counts) -> Hint | None:
    kind = cache.policy.kind
    if kind not in ("frozen", "manual") and not counts.pinned_away:
        return None  # an automatic policy follows by itself
    pinned = f" {format_share(counts.pinned_away / counts.all)} are pinned to the CPU." if counts.pinned_away else ""
    manual = kind in ("frozen", "manual")
    return Hint(
        rule=HOT_EXPERTS,
        title="Hot experts are stuck on the CPU",
        evidence=f"Of {counts.all:,} routed experts in {cache.decode.tokens:,} tokens "
        f"{format_share(counts.placed / counts.all)} "
        f"are in the pool of {format_bytes(pool.allocated_bytes)} (policy “{kind}”); with the hottest in as many "
        f"slots it would have been {format_share(counts.possible / counts.all)}.{pinned}",
        action="Let the pool hold the most used experts." if manual else "Make the pinned experts automatic again.",
        severity=SLOWER,
        fix=(Change(key="kind", value="decay"),) if manual else (),
    )


def _room(seen: Observation, plan: Plan, facts: ModelFacts, cache: protocol.CacheFacts, counts: _Counts) -> Hint | None:
    """A pool that is small or missing while its card has free memory."""
    device = plan.pool_device or plan.gpu
    gpu = seen.gpu(device)
    if gpu is None or gpu.kind is not GpuKind.DISCRETE or device is None:
        return None
    sampled = seen.card_now(device)
    if sampled is None or sampled.used_bytes is None or sampled.total_bytes is None:
        return None
    free = sampled.total_bytes - sampled.used_bytes
    whole = sum(facts.expert_bytes.get(layer, 0) for layer in cache.layers) * facts.expert_count
    size = min(plan.pool_bytes + max(free - LEFT_FREE, 0), whole) // _MIB * _MIB
    misses = cache.decode.misses / max(cache.decode.hits + cache.decode.misses, 1)
    if size - plan.pool_bytes < max(LEFT_FREE // 2, plan.pool_bytes // 4) or misses < WORTH:
        return None
    of_layer = size / max(whole, 1) * facts.expert_count
    reached = _hottest(cache.layers.values(), int(of_layer)) / counts.all
    return Hint(
        rule=HOT_EXPERTS,
        title="Hot experts are computed by the CPU though the card has room",
        evidence=f"{format_share(misses)} of the routed experts in {cache.decode.tokens:,} tokens were computed "
        "by the CPU; the "
        f"pool has {format_bytes(plan.pool_bytes)}, and {format_bytes(free)} of {device} are free. Predicted from "
        f"these counts: a pool of {format_bytes(size)} with the hottest holds {format_share(reached)} of what "
        "is routed to.",
        action=f"Make the pool larger: {format_bytes(size)}.",
        fix=(Change(key="pool_bytes", value=size),),
    )


def _counted(layers: Iterable[LayerExperts]) -> _Counts:
    every = placed = possible = away = 0
    for layer in layers:
        inside = [lane == IN_POOL for lane in layer.lanes]
        room = sum(inside)
        ranked = sorted(range(len(layer.routed)), key=lambda expert: -layer.routed[expert])
        every += sum(layer.routed)
        placed += sum(count for count, there in zip(layer.routed, inside, strict=False) if there)
        possible += sum(layer.routed[expert] for expert in ranked[: max(room, layer.slots)])
        away += sum(
            layer.routed[expert] for expert in ranked[: max(room, layer.slots)] if layer.pins[expert] == _PINNED_AWAY
        )
    return _Counts(all=every, placed=placed, possible=possible, pinned_away=away)


def _hottest(layers: Iterable[LayerExperts], slots: int) -> int:
    """Routed pairs of the `slots` hottest experts of each layer."""
    return sum(sum(sorted(layer.routed, reverse=True)[:slots]) for layer in layers)
