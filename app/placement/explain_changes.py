"""Single changes of a plan that may make it faster: the tuner's, sizes of pool and memory, fewer active experts."""

from collections.abc import Callable, Iterator

import msgspec

from app.hardware.facts import GpuKind, Machine
from app.model.facts import ModelFacts
from app.placement.active_experts import may_change
from app.placement.kv_cache import full_cells, usable_kv_types
from app.placement.lanes import gpu_lanes
from app.placement.memory import (
    bytes_off_gpus,
    copies_weights,
    expert_bytes,
    fits,
    keeps_budget,
    predict,
    spare_bytes,
    working_bytes,
)
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.placement.tuner.candidates import LEAST_CONTEXT, Candidates
from app.placement.tuner.types import Choice
from app.placement.wishes import AUTO_GPU, Wishes
from app.units import format_bytes

_LEAST_POOL_CHANGE = 1.05
"""Times: a pool that is hardly larger changes nothing that could be told from noise."""
_SMALLER_POOL = 0.75
_FEWER_EXPERTS = 0.75
_CACHE = frozenset({"kv_type", "n_ctx"})
"""What the tuner changes together with the places of all experts."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a plan.

    Attributes:
        kind: What is changed, a field of `Plan` or its policy: of several changes of one kind the best is told.
        words: As an imperative.
        plan: The plan with it, its memory predicted; it fits where the first one does.
        changes_answers: The model answers differently with it.
    """

    kind: str
    words: str
    plan: Plan
    changes_answers: bool = False


def changes_of(facts: ModelFacts, machine: Machine, plan: Plan) -> tuple[Change, ...]:
    """Every single change of `plan` that is worth predicting, each another plan."""
    wishes = Wishes(gpu=AUTO_GPU if len(plan.gpus) > 1 else plan.gpu, goal=plan.goal)
    candidates = Candidates(facts, machine, plan, wishes)
    found = [*candidates.single_changes(), *candidates.micro_batches(Choice())]
    changes = [
        Change(kind=_kind(its.choice), words=change_words(plan, its.plan, facts), plan=its.plan)
        for its in found
        if _predictable(its.choice, machine) and its.choice.changes.isdisjoint(_CACHE)
    ]
    return (
        *changes,
        *_caches(facts, machine, plan),
        *_pools(facts, machine, plan),
        *_memories(facts, machine, plan),
        *_fewer_experts(facts, machine, plan),
    )


def change_words(before: Plan, after: Plan, facts: ModelFacts) -> str:
    """What `after` changes, as an imperative: "Compute with 4 threads instead of 2, on the performance cores"."""
    said = [words for tell in _TOLD if (words := tell(before, after, facts))]
    text = ", and ".join(said)
    return text[:1].upper() + text[1:]


def _predictable(choice: Choice, machine: Machine) -> bool:
    """Whether the law of speed knows what a change does: it takes every thread for a fast core of its own."""
    return choice.cpu_cores is None and (choice.threads or 0) <= machine.cpu.performance_cores


def _kind(choice: Choice) -> str:
    """The one thing that a choice is about; a smaller KV cache gives its memory to the pool besides."""
    changed = choice.changes - {"pool_bytes"} if len(choice.changes) > 1 else choice.changes
    return "threads" if "threads" in changed else min(changed, default="")


def _caches(facts: ModelFacts, machine: Machine, plan: Plan) -> Iterator[Change]:
    """A smaller KV cache; what it leaves is for the pool, or for experts in main memory. Layers stay where they are."""
    smaller: list[Plan] = []
    if plan.kv_type == "f16" and "q8_0" in usable_kv_types(facts):
        smaller.append(msgspec.structs.replace(plan, kv_type="q8_0"))
    half = full_cells(plan.n_ctx // 2)
    if half >= LEAST_CONTEXT:
        smaller.append(msgspec.structs.replace(plan, n_ctx=half))
    off = expert_bytes(facts, (layer for layer, lane in plan.expert_lanes.items() if lane in (CPU_LANE, DISK_LANE)))
    for made in smaller:
        changed = made
        if plan.pool_bytes:
            size = max(min(plan.pool_bytes + _freed(facts, machine, plan, made, plan.pool_on), off), plan.pool_bytes)
            changed = msgspec.structs.replace(changed, pool_bytes=size)
        if keeps_budget(plan):
            held = (plan.resident_bytes or 0) + max(_freed(facts, machine, plan, made, CPU_LANE), 0)
            changed = msgspec.structs.replace(changed, resident_bytes=min(held, off))
        fitting = _fitting(changed, plan, facts, machine)
        if fitting is not None:
            kind = "kv_type" if made.kv_type != plan.kv_type else "n_ctx"
            yield Change(kind=kind, words=change_words(plan, fitting, facts), plan=fitting)


def _pools(facts: ModelFacts, machine: Machine, plan: Plan) -> Iterator[Change]:
    """The largest pool that there is room for, and a smaller one."""
    device = plan.pool_device or plan.gpu
    gpu = next((gpu for gpu in machine.gpus if gpu.device == device), None)
    off = [layer for layer, lane in plan.expert_lanes.items() if lane in (CPU_LANE, DISK_LANE)]
    if gpu is None or not off or copies_weights(machine):
        return
    if gpu.kind is GpuKind.SOFTWARE and not plan.pool_bytes:
        return
    now = plan.pool_bytes
    room = now + spare_bytes(plan, machine, gpu.device)
    if not now and not plan.staging_bytes:
        room -= working_bytes(facts)
    most = min(room, expert_bytes(facts, off))
    one_each = sum(facts.expert_bytes[layer] for layer in off)
    for size in (most, round(now * _SMALLER_POOL)):
        larger = size > now * _LEAST_POOL_CHANGE
        if size >= one_each and (larger or size < now):
            made = _fitting(msgspec.structs.replace(plan, pool_bytes=size), plan, facts, machine)
            if made is not None:
                yield Change(kind="pool_bytes", words=change_words(plan, made, facts), plan=made)


def _freed(facts: ModelFacts, machine: Machine, before: Plan, after: Plan, device: str | None) -> int:
    """Bytes that `after` takes less of a device."""
    then, now = (
        sum(part.bytes for part in predict(facts, machine, plan) if part.device == device) for plan in (before, after)
    )
    return then - now


def _memories(facts: ModelFacts, machine: Machine, plan: Plan) -> Iterator[Change]:
    """All the main memory that there is room for, for experts that may have to be read from the disk."""
    everything = bytes_off_gpus(facts, plan)
    limited = plan.resident_bytes == 0 or (keeps_budget(plan) and (plan.resident_bytes or 0) < everything)
    if plan.residency != "mapped" or not limited or not everything or copies_weights(machine):
        return
    bare = msgspec.structs.replace(plan, resident_bytes=1)
    bare = msgspec.structs.replace(bare, memory=predict(facts, machine, bare))
    most = min(spare_bytes(bare, machine, CPU_LANE), everything)
    if most > (plan.resident_bytes or 0) * _LEAST_POOL_CHANGE:
        made = _fitting(msgspec.structs.replace(plan, resident_bytes=most), plan, facts, machine)
        if made is not None:
            yield Change(kind="resident_bytes", words=change_words(plan, made, facts), plan=made)


def _fewer_experts(facts: ModelFacts, machine: Machine, plan: Plan) -> Iterator[Change]:
    used = plan.experts_used or facts.experts_used
    fewer = int(used * _FEWER_EXPERTS)
    if not may_change(facts) or not 1 <= fewer < used:
        return
    made = _fitting(msgspec.structs.replace(plan, experts_used=fewer), plan, facts, machine)
    if made is not None:
        yield Change(kind="experts_used", words=change_words(plan, made, facts), plan=made, changes_answers=True)


def _fitting(made: Plan, base: Plan, facts: ModelFacts, machine: Machine) -> Plan | None:
    made = msgspec.structs.replace(made, memory=predict(facts, machine, made), speed=None, tuned="")
    return None if fits(made, machine) and not fits(base, machine) else made


# ---- words -----------------------------------------------------------------------------------


def _threads(before: Plan, after: Plan, _facts: ModelFacts) -> str:
    words = ""
    if before.threads != after.threads:
        count = "1 thread" if after.threads == 1 else f"{after.threads} threads"
        words = f"compute with {count} instead of {before.threads}"
    if before.cpu_cores != after.cpu_cores and after.cpu_cores:
        words = f"{words or 'compute'} on the performance cores only"
    return words


def _residency(before: Plan, after: Plan, _facts: ModelFacts) -> str:
    if before.residency == after.residency:
        return ""
    if after.residency == "repacked":
        return "keep the processor's experts in its faster layout, a copy in main memory"
    return "keep the processor's experts as they lie in the file"


def _kv_type(before: Plan, after: Plan, _facts: ModelFacts) -> str:
    if before.kv_type == after.kv_type:
        return ""
    return f"store the KV cache as {after.kv_type} instead of {before.kv_type}"


def _context(before: Plan, after: Plan, _facts: ModelFacts) -> str:
    if before.n_ctx == after.n_ctx:
        return ""
    return f"have a context of {after.n_ctx:,} tokens instead of {before.n_ctx:,}"


def _pool(before: Plan, after: Plan, _facts: ModelFacts) -> str:
    old, new = before.pool_bytes, after.pool_bytes
    if old == new:
        return ""
    if not new:
        return "give up the expert pool"
    if not old:
        return f"have an expert pool of {format_bytes(new)}"
    return f"{'enlarge' if new > old else 'shrink'} the expert pool from {format_bytes(old)} to {format_bytes(new)}"


def _resident(before: Plan, after: Plan, _facts: ModelFacts) -> str:
    old, new = before.resident_bytes, after.resident_bytes
    if old == new or new is None or "repacked" in (before.residency, after.residency):
        return ""
    if not new:
        return "leave it to the system which experts stay in main memory"
    if old is None:
        return f"keep {format_bytes(new)} of experts in main memory instead of all that there is room for"
    if not old:
        return f"keep {format_bytes(new)} of experts in main memory by use, instead of leaving that to the system"
    return f"keep {format_bytes(new)} of experts in main memory instead of {format_bytes(old)}"


def _layers(before: Plan, after: Plan, facts: ModelFacts) -> str:
    old, new = len(gpu_lanes(before)), len(gpu_lanes(after))
    if old == new:
        return ""
    return f"hold {new} of {len(facts.moe_layers)} layers whole on the GPU instead of {old}"


def _policy(before: Plan, after: Plan, _facts: ModelFacts) -> str:
    if before.policy.kind == after.policy.kind:
        return ""
    kinds = {"lru": "recent use", "decay": "heat that fades", "frozen": "saved heat", "manual": "your pins alone"}
    return f"fill the pool by {kinds.get(after.policy.kind, after.policy.kind)}"


def _stream(before: Plan, after: Plan, _facts: ModelFacts) -> str:
    if before.policy.stream == after.policy.stream:
        return ""
    return {
        "off": "never copy missing experts over to the GPU for one batch",
        "auto": "copy missing experts over to the GPU where that is faster",
        "always": "always copy missing experts over to the GPU",
    }[after.policy.stream]


def _lock(before: Plan, after: Plan, _facts: ModelFacts) -> str:
    if before.policy.lock_bytes == after.policy.lock_bytes:
        return ""
    if not after.policy.lock_bytes:
        return "lock no main memory for copies"
    return f"lock {format_bytes(after.policy.lock_bytes)} of main memory for faster copies"


def _micro_batch(before: Plan, after: Plan, _facts: ModelFacts) -> str:
    if before.n_ubatch == after.n_ubatch:
        return ""
    return f"read prompts in micro-batches of {after.n_ubatch:,} tokens instead of {before.n_ubatch:,}"


def _experts(before: Plan, after: Plan, facts: ModelFacts) -> str:
    old, new = (plan.experts_used or facts.experts_used for plan in (before, after))
    if old == new:
        return ""
    return f"compute each token with {'1 expert' if new == 1 else f'{new} experts'} instead of {old}"


_TOLD: tuple[Callable[[Plan, Plan, ModelFacts], str], ...] = (
    _kv_type,
    _context,
    _threads,
    _residency,
    _pool,
    _resident,
    _layers,
    _policy,
    _stream,
    _lock,
    _micro_batch,
    _experts,
)
