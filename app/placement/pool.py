"""How much of a GPU a plan sets aside for single experts: the pool they stay in and the staging area they pass."""

import msgspec

from app.hardware.facts import Gpu, GpuKind, Machine
from app.model.facts import ModelFacts
from app.placement.lanes import gpu_lanes, with_gpu_lanes
from app.placement.memory import copies_weights, expert_bytes, predict, spare_bytes, working_bytes
from app.placement.plan import Plan, Step
from app.units import format_bytes

# Names of the steps a plan may tell of.
STEP_POOL = "smaller pool"
STEP_NO_POOL = "no pool"

# Two halves, one being copied into while the other is computed from; each takes some experts, so that
# copies are large enough for a bus to be fast.
_STAGED_EXPERTS = 2 * 4
_PADDING = 64 * 1024


def staging_need(facts: ModelFacts) -> int:
    """Bytes of a staging area that brings all experts of any layer together: the fastest way to compute a prompt.

    The expert device wants one place more than there are experts, and room between tensors.
    """
    return (facts.expert_count + 1) * max(facts.expert_bytes.values(), default=0) + _PADDING


def least_staging(facts: ModelFacts) -> int:
    """Bytes of the smallest staging area that is worth having: some experts are copied while others are computed."""
    return min(_STAGED_EXPERTS, facts.expert_count) * max(facts.expert_bytes.values(), default=0)


def staging_beside(need: int, room: int) -> int:
    """How much of `room` bytes for experts is left to a staging area that needs `need` bytes.

    It is taken from what is beyond the same again, so that experts never get less of a larger room.
    """
    return min(max(room - need, 0), need)


def wished_pool(plan: Plan, facts: ModelFacts, machine: Machine, wished: int) -> tuple[int, tuple[Step, ...]]:
    """The pool that `plan` can have on its attention's GPU, at most `wished` bytes, and why it has less.

    It gets what is free beside weights, KV cache and compute buffers, and beside a staging area unless too
    little for one token would be left of it. On a GPU without memory of its own it does not push experts of
    the CPU's lane to disk.

    Args:
        plan: The plan without pool, staging area and experts on GPUs.
        facts: The model.
        machine: What is free where.
        wished: Bytes; 0 for none.
    """
    if not wished:
        return 0, ()
    if reason := _impossible(plan, facts, machine):
        return 0, (Step(name=STEP_NO_POOL, reason=reason),)
    spare = spare_bytes(with_gpu_lanes(plan, facts, machine, {}), machine, plan.gpu or "")
    room = max(spare - working_bytes(facts), 0)
    everything = expert_bytes(facts, facts.moe_layers)
    most = min(wished, everything)
    useful = min(most, facts.token_cycle_bytes)
    fitting = (need for need in (staging_need(facts), least_staging(facts)) if room - need >= useful)
    staging = next(fitting, 0)
    size = min(most, room - staging)
    if size < min(facts.expert_bytes.values()):
        size = 0  # not a single expert has room
    if size == wished:
        return size, ()
    asked = f"A pool of {format_bytes(wished)} was wished; "
    if size == everything:
        reason = f"{asked}all experts together are {format_bytes(everything)}."
    else:
        beside = "weights, KV cache, compute buffers and staging area" if staging else "weights, KV cache and buffers"
        reason = f"{asked}{plan.gpu} has {format_bytes(room - staging)} free beside {beside} (predicted)."
    return size, (Step(name=STEP_POOL if size else STEP_NO_POOL, reason=reason),)


def with_staging(plan: Plan, facts: ModelFacts, machine: Machine, staging_bytes: int) -> Plan:
    """`plan` with a staging area of that size, and its memory predicted anew."""
    staged = msgspec.structs.replace(plan, staging_bytes=staging_bytes)
    return msgspec.structs.replace(staged, memory=predict(facts, machine, staged))


def may_stage(plan: Plan, facts: ModelFacts, machine: Machine) -> bool:
    """Whether a staging area would be of use: layers off the GPUs, a GPU, the expert device to stream with.

    A GPU that computes on the processor gets one only beside a pool that was wished.
    """
    gpu = _gpu(plan, machine)
    if gpu is None or copies_weights(machine) or len(gpu_lanes(plan)) == len(facts.moe_layers):
        return False
    return gpu.kind is not GpuKind.SOFTWARE or plan.pool_bytes > 0


def keeping_pool_full(plan: Plan, facts: ModelFacts, on_gpu: dict[int, str]) -> dict[int, str]:
    """`on_gpu` without the last layers whose experts a pool would have to hold to be full.

    Whole layers beside a pool may not take so many experts that less is left than the pool has room for.
    """
    kept = dict(on_gpu)
    while kept:
        left = expert_bytes(facts, (layer for layer in facts.moe_layers if layer not in kept))
        if left >= plan.pool_bytes:
            break
        kept.popitem()
    return kept


def missing_device(machine: Machine) -> str:
    """Why this machine's engine, which has no expert device, has none."""
    why = machine.engine.expert_device_reason if machine.engine else "the engine was not asked."
    return f"The expert device is missing: {why}"


def _impossible(plan: Plan, facts: ModelFacts, machine: Machine) -> str:
    """Why there can be no pool of any size, or an empty text."""
    if not facts.moe_layers:
        return "The model has no experts."
    if plan.gpu is None:
        return "There is no GPU in this plan that could hold it."
    return missing_device(machine) if copies_weights(machine) else ""


def _gpu(plan: Plan, machine: Machine) -> Gpu | None:
    return next((gpu for gpu in machine.gpus if gpu.device == plan.gpu), None)
