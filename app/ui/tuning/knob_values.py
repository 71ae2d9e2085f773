"""What each knob sets of a plan: its value there, which values are possible, and the plan with another one.

Imports no Qt, so that it can run beside the window and is tested without one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import msgspec

from app.errors import AppError, ErrorCode
from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.active_experts import check_experts_used, may_change
from app.placement.cache.orders import check_policy
from app.placement.evidence import Evidence, planned
from app.placement.kv_cache import CONTEXT_BLOCK, full_cells, usable_kv_types
from app.placement.memory import copies_weights, expert_bytes, fits, needed_bytes
from app.placement.placing import STEP_MAPPED, with_lanes
from app.placement.plan import CPU_LANE, DISK_LANE, POLICIES, RESIDENCIES, STREAMS, Plan
from app.placement.wishes import Wishes, longest_context
from app.ui.live_plan import MemoryBudget, with_memory_budget, with_pool_bytes

SECTIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("conversation", ("n_ctx", "kv_type")),
    ("processor", ("threads", "threads_batch", "residency", "resident_bytes")),
    ("prompts", ("n_ubatch", "n_batch")),
    ("gpu", ("gpu", "pool_bytes", "lock_bytes")),
    ("filling", ("kind", "window", "decay", "insert_cap", "threshold", "stream")),
    ("answers", ("experts_used",)),
)
"""The knobs in the order they stand, by subject."""

POLICY = frozenset({"kind", "window", "decay", "insert_cap", "threshold", "stream", "lock_bytes"})
LIVE = POLICY | {"pool_bytes", "resident_bytes"}
"""Knobs that a loaded model follows without a reload."""
NUMBERS = frozenset(
    {"n_ctx", "threads", "threads_batch", "n_ubatch", "n_batch", "pool_bytes", "lock_bytes", "window", "insert_cap"}
)

Value = int | float | str | None

_MIB = 1024**2
_MOST_WINDOW = 100_000
_LEAST_CONTEXT = CONTEXT_BLOCK


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What knobs are turned in.

    Attributes:
        facts: The model.
        machine: The machine.
        plan: The plan being edited.
        evidence: What was measured of both.
        at_load: The plan as it was loaded; None while the model is not.
        running: What the engine runs now: the same with what it followed since; None while the model is not loaded.
        chosen: Budget of main memory in bytes that the engine chose at the load; 0 where it chose none or nobody has
            seen it. No prediction rests on it, so it makes no other situation.
    """

    facts: ModelFacts
    machine: Machine
    plan: Plan
    evidence: Evidence
    at_load: Plan | None = None
    running: Plan | None = None
    chosen: int = field(default=0, compare=False)


@dataclass(frozen=True, kw_only=True)
class Turned:
    """What came of a knob's new value.

    Attributes:
        plan: The plan with it; None where it was refused.
        refusal: Why it was refused, in a sentence; else empty.
        nearest: The nearest value that fits; None where there is none, or nothing was refused.
    """

    plan: Plan | None = None
    refusal: str = ""
    nearest: Value = None


def value_of(plan: Plan, key: str, facts: ModelFacts) -> Value:
    """What the knob `key` stands at in `plan`."""
    if key in POLICY:
        return getattr(plan.policy, key)
    if key == "experts_used":
        return plan.experts_used or facts.experts_used
    return getattr(plan, key)


def automatic(situation: Situation) -> Plan:
    """The planner's own choices, with attention where the plan being edited has it.

    Raises:
        AppError: as the planner.
    """
    wishes = Wishes(gpu=situation.plan.gpu, tuned=False)
    return planned(situation.facts, situation.machine, wishes, situation.evidence)


def automatic_gpu(situation: Situation) -> str | None:
    """Where the planner has the attention.

    Raises:
        AppError: as the planner.
    """
    return planned(situation.facts, situation.machine, Wishes(tuned=False), situation.evidence).gpu


def bounds(key: str, situation: Situation) -> tuple[float, float]:
    """The least and the most that a number may be; what is there already is always within."""
    facts, machine, plan = situation.facts, situation.machine, situation.plan
    cores = max(machine.cpu.logical_cores, 1)
    on_cpu = [layer for layer, lane in plan.expert_lanes.items() if lane in (CPU_LANE, DISK_LANE)]
    held = max(expert_bytes(facts, on_cpu), plan.pool_bytes)
    limits: dict[str, tuple[float, float]] = {
        "n_ctx": (_LEAST_CONTEXT, longest_context(facts)),
        "threads": (1, cores),
        "threads_batch": (1, cores),
        "n_ubatch": (1, plan.n_ctx),
        "n_batch": (1, plan.n_ctx),
        "pool_bytes": (0, held),
        "resident_bytes": (0, max(expert_bytes(facts, on_cpu), plan.resident_bytes or 0)),
        "lock_bytes": (0, max(expert_bytes(facts, on_cpu), plan.policy.lock_bytes)),
        "window": (0, _MOST_WINDOW),
        "insert_cap": (1, max(facts.expert_count, 1)),
        "decay": (0.001, 1.0),
        "threshold": (0.0, 1.0),
        "experts_used": (1, max(facts.expert_count, 1)),
    }
    least, most = limits[key]
    now = value_of(plan, key, facts)
    return (min(least, now), max(most, now)) if isinstance(now, int | float) else (least, most)


def choices(key: str, situation: Situation) -> tuple[str | None, ...]:
    """What a knob of words may stand at."""
    if key == "kv_type":
        return usable_kv_types(situation.facts)
    if key == "residency":
        return RESIDENCIES
    if key == "kind":
        return POLICIES
    if key == "stream":
        return STREAMS
    there = tuple(gpu.device for gpu in situation.machine.gpus)
    now = situation.plan.gpu
    return (*there, *(() if now in (None, *there) else (now,)), None)


def turned(situation: Situation, key: str, value: Value) -> Turned:
    """The plan with the knob `key` at `value`, or why not and what would fit.

    A plan that lacks memory already may be made smaller, though it still lacks some.
    """
    try:
        plan = changed(situation, key, value)
    except AppError as error:
        return Turned(refusal=error.message)
    if key == "residency" and plan.residency != value:
        return Turned(refusal=next(step.reason for step in plan.steps if step.name == STEP_MAPPED))
    refusal = _lacking(situation, plan)
    return Turned(refusal=refusal, nearest=_nearest(situation, key, value)) if refusal else Turned(plan=plan)


def changed(situation: Situation, key: str, value: Value) -> Plan:
    """The plan with the knob `key` at `value`, whether it fits or not, and what follows from that.

    Raises:
        AppError: bad_usage, the value is impossible.
    """
    facts, machine, plan = situation.facts, situation.machine, situation.plan
    if key in POLICY:
        policy = msgspec.structs.replace(plan.policy, **{key: value})
        check_policy(policy)
        return msgspec.structs.replace(plan, policy=policy, speed=None, tuned="")
    if key == "gpu":
        return _on_other_gpu(situation, value)
    if key == "pool_bytes":
        assert isinstance(value, int)
        return with_pool_bytes(plan, value, facts, machine)
    if key == "resident_bytes":
        assert value is None or isinstance(value, int)
        return with_memory_budget(plan, MemoryBudget(value), facts, machine)
    fields: dict[str, object] = {key: value}
    if key == "experts_used":
        assert isinstance(value, int)
        check_experts_used(facts, value)
        fields[key] = None if value == facts.experts_used else value
    elif key == "n_ctx":
        assert isinstance(value, int)
        n_ctx = min(full_cells(value), longest_context(facts))
        fields = {"n_ctx": n_ctx, "n_batch": min(plan.n_batch, n_ctx), "n_ubatch": min(plan.n_ubatch, n_ctx)}
    elif key == "n_ubatch":
        assert isinstance(value, int)
        fields["n_batch"] = max(plan.n_batch, value)
    elif key == "n_batch":
        assert isinstance(value, int)
        fields["n_ubatch"] = min(plan.n_ubatch, value)
    elif key == "residency":
        fields["steps"] = tuple(step for step in plan.steps if step.name != STEP_MAPPED)
        if value != "mapped":
            fields["resident_bytes"] = None  # copies are in memory, all of them
    after = msgspec.structs.replace(plan, **fields, speed=None, tuned="")
    if key in ("threads", "threads_batch"):
        return after  # takes no memory
    return with_lanes(after, facts, machine, (), CPU_LANE)  # moves nothing, and predicts anew


def why_not(key: str, situation: Situation) -> str:
    """The name of the reason why this knob cannot be turned now; empty where it can.

    The names are the keys of `knob_words.why_not_text`.
    """
    facts, plan = situation.facts, situation.plan
    of_single_experts, of_pool = key in LIVE, key in LIVE - {"resident_bytes"}
    whole = all(lane not in (CPU_LANE, DISK_LANE) for lane in plan.expert_lanes.values())
    unused = {"window": "lru", "decay": "decay"}
    reasons = (
        ("no experts", not facts.moe_layers and key in LIVE | {"residency", "experts_used"}),
        ("one number", key == "experts_used" and not may_change(facts)),
        ("one cache type", key == "kv_type" and len(usable_kv_types(facts)) == 1),
        ("no gpu", of_pool and plan.gpu is None and plan.pool_device is None),
        ("nothing off the gpu", whole and key in LIVE | {"residency"}),
        ("no device", of_single_experts and copies_weights(situation.machine)),
        ("not this policy", key in unused and plan.policy.kind != unused[key]),
        ("not mapped", key == "resident_bytes" and plan.residency != "mapped"),
        ("no staging", key == "stream" and not plan.staging_bytes),
    )
    return next((reason for reason, holds in reasons if holds), "")


def follows(key: str, situation: Situation) -> bool:
    """Whether the loaded model follows the knob without a reload: a pool stays on the device of the load.

    Main memory has a budget only where the load left the experts in the file.
    """
    plan, loaded = situation.plan, situation.at_load
    if key == "resident_bytes" and loaded is not None and loaded.residency != "mapped":
        return False
    moved = loaded is not None and (plan.pool_device or plan.gpu) != (loaded.pool_device or loaded.gpu)
    return key in LIVE and not (key == "pool_bytes" and moved)


def differing(plan: Plan, before: Plan, facts: ModelFacts) -> tuple[str, ...]:
    """The knobs that stand elsewhere in `plan` than in `before`."""
    return tuple(key for key in all_keys() if value_of(plan, key, facts) != value_of(before, key, facts))


def followed(situation: Situation) -> tuple[str, ...]:
    """The knobs that the engine follows already: where they are wanted, and not where they were at the load."""
    running, at_load = situation.running, situation.at_load
    if running is None or at_load is None:
        return ()
    since = differing(running, at_load, situation.facts)
    waiting = differing(situation.plan, running, situation.facts)
    return tuple(key for key in since if key not in waiting)


def back_value(situation: Situation, key: str) -> Value:
    """Where a knob goes back to: what runs now where it waits for a reload, else what was loaded."""
    plan = situation.at_load if key in followed(situation) else situation.running or situation.at_load
    assert plan is not None, "nothing is loaded to go back to"
    return value_of(plan, key, situation.facts)


def all_keys() -> Iterator[str]:
    """Every knob in order."""
    for _, keys in SECTIONS:
        yield from keys


def _on_other_gpu(situation: Situation, value: Value) -> Plan:
    """The plan with attention on that device and the other knobs where they stand.

    Experts are where the planner has them then; back on the device of the load they are where they are now.
    """
    facts, machine, plan = situation.facts, situation.machine, situation.plan
    before = situation.running or situation.at_load
    if before is not None and value == before.gpu:
        again = msgspec.structs.replace(
            plan,
            gpu=before.gpu,
            expert_lanes=before.expert_lanes,
            pool_bytes=before.pool_bytes,
            pool_device=before.pool_device,
            steps=before.steps,
            speed=None,
            tuned="",
        )
        return with_lanes(again, facts, machine, (), CPU_LANE)
    if value is not None and not isinstance(value, str):
        raise AppError(ErrorCode.BAD_USAGE, "A GPU is chosen by its name.")
    wishes = Wishes(
        gpu=value,
        n_ctx=plan.n_ctx,
        kv_type=plan.kv_type,
        threads=min(plan.threads, max(machine.cpu.physical_cores, 1)),
        residency=plan.residency,
        policy=plan.policy,
        lock_bytes=plan.policy.lock_bytes,
        experts_used=plan.experts_used,
        goal=plan.goal,
        tuned=False,
    )
    made = planned(facts, machine, wishes, situation.evidence)
    n_batch = min(plan.n_batch, made.n_ctx)
    made = msgspec.structs.replace(
        made,
        threads=plan.threads,
        threads_batch=plan.threads_batch,
        cpu_cores=plan.cpu_cores,
        n_seq_max=plan.n_seq_max,
        n_batch=n_batch,
        n_ubatch=min(plan.n_ubatch, n_batch),
        pins=plan.pins,
        resident_bytes=plan.resident_bytes if made.residency == "mapped" else None,
    )
    return with_lanes(made, facts, machine, (), CPU_LANE)


def _lacking(situation: Situation, plan: Plan) -> str:
    """Where `plan` lacks memory, and more than the plan being edited does; empty where nowhere."""
    machine, before = situation.machine, situation.plan
    lacking = {shortfall.device for shortfall in fits(before, machine)}
    return " ".join(
        shortfall.sentence
        for shortfall in fits(plan, machine)
        if shortfall.device not in lacking or shortfall.needed_bytes > needed_bytes(before, machine, shortfall.device)
    )


def _nearest(situation: Situation, key: str, value: Value) -> Value:
    """The value nearest to `value` that fits, between it and where the knob stands; None where there is none."""
    now = value_of(situation.plan, key, situation.facts)

    def fitting(wanted: Value) -> bool:
        try:
            return not _lacking(situation, changed(situation, key, wanted))
        except AppError:
            return False

    if key == "kv_type":
        usable = usable_kv_types(situation.facts)
        smaller = usable[usable.index(str(value)) + 1 :]
        return next((kind for kind in smaller if kind != now and fitting(kind)), None)
    if key not in NUMBERS | {"experts_used"} or not isinstance(now, int) or not isinstance(value, int):
        return None
    # Sizes are offered as they are chosen: whole blocks of tokens, whole MiB.
    unit = {"n_ctx": CONTEXT_BLOCK, "pool_bytes": _MIB, "lock_bytes": _MIB}.get(key, 1)
    good, bad = now // unit, value // unit
    while abs(bad - good) > 1:
        middle = (good + bad) // 2
        if fitting(middle * unit):
            good = middle
        else:
            bad = middle
    return good * unit if good * unit != now and good * unit >= unit else None


def at_plan(situation: Situation, plan: Plan) -> Situation:
    """The same model and machine with another plan."""
    return replace(situation, plan=plan)
