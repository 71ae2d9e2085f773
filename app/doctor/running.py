"""Rules about a loaded model: experts that are not where they were meant, an idle pool, graphics memory that spills."""

from app.doctor.hints import PROBLEM, Change, Hint, UnjudgedError
from app.doctor.observation import LEAST_TOKENS, NO_ANSWER, Observation
from app.hardware.facts import GpuKind
from app.hardware.samples import GpuSample
from app.placement.cache.facts import PoolFacts
from app.placement.plan import CPU_LANE, DISK_LANE
from app.units import format_bytes

MISSING_EXPERTS, IDLE_POOL, SPILL = "missing-experts", "idle-pool", "spill"

SPILLED, FULL = 512 * 1024**2, 0.95
"""Main memory used through a card counts as spilled from so many bytes on, while the card itself is so full: drivers
keep some hundreds of MiB there at all times."""

_MIB = 1024**2


def missing_experts(seen: Observation) -> Hint | None:
    """Layers of experts that a plan has on a GPU and the load put elsewhere."""
    plan, facts = seen.needed_plan
    loaded = seen.needed_load
    meant = {layer: lane for layer, lane in plan.expert_lanes.items() if lane not in (CPU_LANE, DISK_LANE)}
    elsewhere = {
        layer: loaded.expert_layers.get(layer, "nowhere that the engine tells of")
        for layer, lane in meant.items()
        if loaded.expert_layers.get(layer) != lane
    }
    if not elsewhere:
        return None
    size = sum(facts.expert_bytes[layer] for layer in elsewhere) * facts.expert_count
    where = ", ".join(sorted(set(elsewhere.values())))
    told = f" The engine says: {' '.join(loaded.differences)}" if loaded.differences else ""
    devices = ", ".join(sorted({meant[layer] for layer in elsewhere}))
    return Hint(
        rule=MISSING_EXPERTS,
        title="Experts are not on the GPU they were meant for",
        evidence=f"The plan has {len(meant)} expert layers on {devices}; {len(elsewhere)} of them, "
        f"{format_bytes(size)}, are on {where}.{told}",
        action="Load the model again, and tell us if it repeats: a rule of the load matched nothing.",
        severity=PROBLEM,
    )


def idle_pool(seen: Observation) -> Hint | None:
    """A pool that was asked for and is not there, or is there and computes nothing."""
    plan, facts = seen.needed_plan
    loaded = seen.needed_load
    if not plan.pool_bytes or not facts.moe_layers:
        return None
    asked = f"A pool of {format_bytes(plan.pool_bytes)} was asked for"
    if not loaded.expert_device:
        return _idle(f"{asked}; experts are not computed one by one: {loaded.reason}")
    if seen.cache is None:
        raise UnjudgedError(NO_ANSWER)
    pool, done = seen.cache.pool, seen.cache.decode
    if pool is None or not pool.allocated_bytes:
        return _idle(f"{asked}, and nothing was allocated. {pool.reason if pool is not None else ''}".rstrip())
    if not done.tokens:
        raise UnjudgedError(NO_ANSWER)
    given = f"{asked} and {format_bytes(pool.allocated_bytes)} were allocated"
    manual = seen.cache.policy.kind == "manual"
    if not pool.used or not done.hits:
        if not manual and done.tokens < LEAST_TOKENS:
            raise UnjudgedError(f"It is judged after {LEAST_TOKENS} tokens; there were {done.tokens}.")
        routed = done.hits + done.misses
        evidence = f"{given}; of {routed:,} routed experts in {done.tokens:,} tokens {done.hits:,} were computed in it."
        return _idle(f"{evidence} {pool.reason}".rstrip(), manual=manual)
    return _without_slot(pool) if pool.unplaced_pins else None


def _without_slot(pool: PoolFacts) -> Hint:
    return Hint(
        rule=IDLE_POOL,
        title="Pinned experts have no room in the pool",
        evidence=f"{pool.unplaced_pins} experts that are to stay on {pool.device} have no slot: the pool of "
        f"{format_bytes(pool.allocated_bytes)} has {pool.slots}.",
        action="Pin fewer experts to the card.",
    )


def _idle(evidence: str, *, manual: bool = False) -> Hint:
    action = "Do without the pool, so that its memory serves something else."
    if manual:
        action = "Let the pool hold the last used experts."
    return Hint(
        rule=IDLE_POOL,
        title="The expert pool is not used",
        evidence=evidence,
        action=action,
        severity=PROBLEM,
        fix=(Change(key="kind", value="lru"),) if manual else (Change(key="pool_bytes", value=0),),
    )


def spill(seen: Observation) -> tuple[Hint, ...]:
    """A driver that moved a card's memory into main memory, which is about ten times as slow."""
    plan, _ = seen.needed_plan
    _ = seen.needed_load
    if seen.latest is None:
        raise UnjudgedError("Graphics memory was not looked at since the load.")
    cards = {gpu.device for gpu in seen.machine.gpus if gpu.kind is GpuKind.DISCRETE}
    sampled = [its for device in sorted(cards) if (its := seen.card_now(device)) is not None]
    if not sampled and cards.intersection((*plan.gpus, plan.pool_on)):
        raise UnjudgedError("Nothing tells how much of the card's memory is in use.")
    counted = [its for its in sampled if its.shared_bytes is not None]
    if sampled and not counted:
        raise UnjudgedError("Only Windows counts what a driver moves into main memory.")
    locked = seen.cache.pool.locked_bytes if seen.cache is not None and seen.cache.pool is not None else 0
    hints = []
    for its in counted:
        spilled = (its.shared_bytes or 0) - locked
        if spilled >= SPILLED and its.used_bytes and its.total_bytes and its.used_bytes >= FULL * its.total_bytes:
            pool = plan.pool_bytes if plan.pool_on == its.device else 0
            layers = sum(lane == its.device for lane in plan.expert_lanes.values())
            hints.append(_spilled(its, spilled, pool, layers))
    return tuple(hints)


def _spilled(its: GpuSample, spilled: int, pool: int, layers: int) -> Hint:
    smaller = max(pool - spilled, 0) // _MIB * _MIB
    action = (
        "Load the model with fewer expert layers on this card" if layers else "Load the model with a shorter context"
    )
    if pool:
        action = f"Make the pool smaller: {format_bytes(smaller)}" if smaller else "Do without the pool"
    return Hint(
        rule=SPILL,
        title="Graphics memory spills into main memory",
        evidence=f"{its.device} is full ({format_bytes(its.used_bytes or 0)} of {format_bytes(its.total_bytes or 0)}), "
        f"and the engine uses {format_bytes(spilled)} of main memory through it: the driver moved it there.",
        action=f"{action}.",
        severity=PROBLEM,
        fix=(Change(key="pool_bytes", value=smaller),) if pool else (),
        about=its.device,
    )
