"""Rules about a loaded model: experts that are not where they were meant, an idle pool, spilling, thrashing."""

from dataclasses import dataclass

from app.doctor.hints import NOTE, PROBLEM, SLOWER, Change, Hint, UnjudgedError
from app.doctor.observation import NO_ANSWER, Observation
from app.hardware.facts import GpuKind
from app.hardware.samples import GpuSample, Sample
from app.placement.cache.facts import PoolFacts
from app.placement.plan import CPU_LANE, DISK_LANE
from app.units import format_bytes

MISSING_EXPERTS, IDLE_POOL, SPILL, THRASHING = "missing-experts", "idle-pool", "spill", "thrashing"

SPILLED, FULL = 512 * 1024**2, 0.95
"""Main memory used through a card counts as spilled from so many bytes on, while the card itself is so full: drivers
keep some hundreds of MiB there at all times."""
THRASHING_SECONDS = 4.0
"""Shortest stretch of decoding that is judged."""
FAULTS_A_SECOND, READ_A_SECOND = 20.0, 10e6
"""Less is no thrashing: a busy system reads a page now and then."""
FALLING = 0.5
"""Reading that falls to this share from the first half to the second is a warm-up."""
STAYING = 0.5
"""So is reading of which at least this share stays in the page cache."""

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
    if not pool.used or not done.hits:
        routed = done.hits + done.misses
        evidence = f"{given}; of {routed:,} routed experts in {done.tokens:,} tokens {done.hits:,} were computed in it."
        return _idle(f"{evidence} {pool.reason}".rstrip(), manual=seen.cache.policy.kind == "manual")
    return _without_slot(pool) if pool.unplaced_pins else None


def _without_slot(pool: PoolFacts) -> Hint:
    return Hint(
        rule=IDLE_POOL,
        title="Pinned experts have no room in the pool",
        evidence=f"{pool.unplaced_pins} experts that are to stay on {pool.device} have no slot: the pool of "
        f"{format_bytes(pool.allocated_bytes)} has {pool.slots}.",
        action="Make the pool larger, or pin fewer experts.",
    )


def _idle(evidence: str, *, manual: bool = False) -> Hint:
    action = "Choose another pool size or device, or none, so that its memory serves something."
    if manual:
        action = "Let the pool hold the last used experts, or pin some to the GPU."
    return Hint(
        rule=IDLE_POOL,
        title="The expert pool is not used",
        evidence=evidence,
        action=action,
        severity=PROBLEM,
        fix=(Change(key="kind", value="lru"),) if manual else (),
    )


def spill(seen: Observation) -> tuple[Hint, ...]:
    """A driver that moved a card's memory into main memory, which is about ten times as slow."""
    plan, _ = seen.needed_plan
    _ = seen.needed_load
    if seen.latest is None:
        raise UnjudgedError("Graphics memory was not looked at since the load.")
    cards = {gpu.device for gpu in seen.machine.gpus if gpu.kind is GpuKind.DISCRETE}
    sampled = [its for its in seen.latest.gpus if its.device in cards]
    counted = [its for its in sampled if its.shared_bytes is not None]
    if sampled and not counted:
        raise UnjudgedError("Only Windows counts what a driver moves into main memory.")
    locked = seen.cache.pool.locked_bytes if seen.cache is not None and seen.cache.pool is not None else 0
    hints = []
    for its in counted:
        spilled = (its.shared_bytes or 0) - locked
        if spilled >= SPILLED and its.used_bytes and its.total_bytes and its.used_bytes >= FULL * its.total_bytes:
            pool = plan.pool_bytes if plan.pool_on == its.device else 0
            hints.append(_spilled(its, spilled, pool))
    return tuple(hints)


def _spilled(its: GpuSample, spilled: int, pool: int) -> Hint:
    smaller = max(pool - spilled, 0) // _MIB * _MIB
    action = "Load the model with fewer expert layers on this card, or a shorter context"
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


@dataclass(frozen=True)
class _Half:
    """What was read in one half of a stretch."""

    seconds: float
    faults: int
    read_bytes: int


def thrashing(seen: Observation) -> Hint | None:
    """Experts that are read again and again while answering, because main memory cannot hold them."""
    plan, facts = seen.needed_plan
    _ = seen.needed_load
    samples = [
        its for its in seen.decoding if its.engine_major_faults is not None and its.engine_read_bytes is not None
    ]
    if seen.decoding and not samples:
        reasons = seen.decoding[-1].reasons
        why = reasons.get("engine_major_faults") or reasons.get("engine_read_bytes")
        raise UnjudgedError(why or "Page faults and disk reads of the engine are not counted here.")
    if len(samples) < 3 or samples[-1].time_seconds - samples[0].time_seconds < THRASHING_SECONDS:
        raise UnjudgedError(f"It is judged over at least {THRASHING_SECONDS:g} seconds of one answer.")
    first, second = _halves(samples)
    faults, read = second.faults / second.seconds, second.read_bytes / second.seconds
    if faults < FAULTS_A_SECOND or read < READ_A_SECOND:
        return None
    if read < FALLING * first.read_bytes / first.seconds or _stays(samples, second, facts.file_bytes):
        return None
    seconds = samples[-1].time_seconds - samples[0].time_seconds
    evidence = (
        f"In {seconds:.0f} seconds of answering the engine read {first.read_bytes / 1e6:,.0f} MB and then "
        f"{second.read_bytes / 1e6:,.0f} MB from the disk: at last {read / 1e6:,.0f} MB/s, with {faults:,.0f} page "
        "faults a second that waited for it, and no less as a warm-up would"
    )
    share, available = samples[-1].model_share, samples[-1].ram_available_bytes
    if share is not None:
        evidence += f"; {share:.0%} of the file's {format_bytes(facts.file_bytes)} are in memory"
    if available is not None:
        evidence += f", {format_bytes(available)} are available"
    on_disk = sum(lane == DISK_LANE for lane in plan.expert_lanes.values())
    if on_disk:
        evidence += f". The plan reads {on_disk} of {len(plan.expert_lanes)} expert layers from the file"
    locked = plan.policy.lock_bytes
    action = "Choose a smaller quantisation of this model, or close programs that take main memory"
    fix: tuple[Change, ...] = ()
    if plan.residency == "repacked" and not on_disk:
        action, fix = (
            "Leave the experts in the mapped file, so that they are not there twice",
            (Change(key="residency", value="mapped"),),
        )
    elif locked:
        action, fix = (
            "Lock no memory, so that the system can keep the experts that are used",
            (Change(key="lock_bytes", value=0),),
        )
    return Hint(
        rule=THRASHING,
        title="The model does not fit into main memory",
        evidence=f"{evidence}.",
        action=f"{action}.",
        severity=NOTE if on_disk else SLOWER,
        fix=fix,
    )


def _halves(samples: list[Sample]) -> tuple[_Half, _Half]:
    middle_time = (samples[0].time_seconds + samples[-1].time_seconds) / 2
    inner = samples[1:-1]
    middle = min(inner, key=lambda its: abs(its.time_seconds - middle_time))
    return _between(samples[0], middle), _between(middle, samples[-1])


def _between(one: Sample, other: Sample) -> _Half:
    return _Half(
        seconds=max(other.time_seconds - one.time_seconds, 1e-9),
        faults=(other.engine_major_faults or 0) - (one.engine_major_faults or 0),
        read_bytes=(other.engine_read_bytes or 0) - (one.engine_read_bytes or 0),
    )


def _stays(samples: list[Sample], second: _Half, file_bytes: int) -> bool:
    """Whether most of what was read in the second half stayed in the page cache: then it is read once only."""
    middle_time = samples[-1].time_seconds - second.seconds
    before = min(samples, key=lambda its: abs(its.time_seconds - middle_time)).model_share
    after = samples[-1].model_share
    if before is None or after is None or not file_bytes:
        return False
    return (after - before) * file_bytes >= STAYING * second.read_bytes
