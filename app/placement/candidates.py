"""Where experts could go: whole layers, a pool for single ones, both, on one GPU or several, or none of it.

What is tried depends on the model alone, and each of it takes no less of a larger memory than of a smaller
one: so the best of them never gets worse with more memory.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from app.hardware.facts import Gpu, GpuKind, Machine
from app.model.facts import ModelFacts
from app.placement.lanes import gpu_order, most_on_gpu, room_for_layers, with_gpu_lanes
from app.placement.memory import copies_weights, expert_bytes, fits, spare_bytes, working_bytes
from app.placement.plan import Plan, Step
from app.placement.pool import keeping_pool_full, may_stage, staging_beside, staging_need
from app.placement.wishes import Wishes
from app.units import format_bytes

# Names of the steps a plan may tell of.
STEP_SOFTWARE_GPU = "experts off the software GPU"
STEP_ONE_MEMORY = "experts in one memory"
STEP_FEWER_LAYERS = "fewer whole layers"

_MOST_MIXES = 24
"""Mixed plans have from none to all but one of the layers whole, in at most so many even steps, and single experts of
the others in the pool."""


class Candidate(NamedTuple):
    """Layers that have all their experts on a GPU, and the pool beside them.

    `steps` tells why not more. A pool that nobody wished may also be smaller, down to `least_pool_bytes`; 0 for none.
    """

    on_gpu: dict[int, str]
    pool_bytes: int
    steps: tuple[Step, ...] = ()
    least_pool_bytes: int = 0


def candidates(
    plan: Plan, facts: ModelFacts, machine: Machine, gpus: tuple[Gpu, ...], wishes: Wishes, *, conceded: bool
) -> Iterator[Candidate]:
    """Everything worth comparing, the simplest first; the first is the one to take where speeds are not known.

    Args:
        plan: Attention and cache, with every expert on disk, and with the pool that was wished.
        facts: The model.
        machine: What is free where.
        gpus: The GPUs the plan may use, the attention's first; empty without one.
        wishes: What the user asks.
        conceded: Something was given up to make attention fit. Its GPU then takes no experts: memory that
            could hold them belongs to what was conceded.
    """
    nothing = Candidate({}, plan.pool_bytes)
    if not gpus or not facts.moe_layers:
        yield nothing._replace(steps=_no_layers_steps(wishes))
    elif wishes.whole_layers is not None:
        yield from _wished_layers(plan, facts, machine, gpus, wishes)
    elif gpus[0].kind is GpuKind.SOFTWARE:
        yield nothing._replace(steps=(_software_step(gpus[0]),))
    elif gpus[0].kind is GpuKind.INTEGRATED:
        yield from _in_one_memory(plan, facts, machine, gpus[0])
    else:
        for used in (gpus[:1], gpus) if len(gpus) > 1 else (gpus,):
            if not conceded:
                yield from _on_cards(plan, facts, machine, used, wishes)
            if len(used) > 1:
                yield Candidate(_on_others(plan, facts, machine, used, {}), plan.pool_bytes)
        yield nothing


def _on_cards(
    plan: Plan, facts: ModelFacts, machine: Machine, gpus: tuple[Gpu, ...], wishes: Wishes
) -> Iterator[Candidate]:
    """Whole layers alone; unless a pool was wished or refused, the pool alone and both."""
    yield Candidate(_whole_layers(plan, facts, machine, gpus), plan.pool_bytes)
    if wishes.pool_bytes is not None:
        return
    layers = gpu_order(facts, facts.moe_layers)
    for count in _whole_counts(len(layers)):
        on_gpu = dict.fromkeys(layers[:count], gpus[0].device)
        found = list(_with_pool(plan, facts, machine, _on_others(plan, facts, machine, gpus, on_gpu)))
        if not found:
            break  # nor is there room with more of them
        yield from found


def _whole_counts(layers: int) -> list[int]:
    """How many of so many layers may be whole beside a pool."""
    return sorted({layers * part // _MOST_MIXES for part in range(_MOST_MIXES)})


def _whole_layers(plan: Plan, facts: ModelFacts, machine: Machine, gpus: tuple[Gpu, ...]) -> dict[int, str]:
    """As many whole layers as fit beside the pool, and beside a staging area where some stay off the GPUs."""
    gpu = gpus[0].device
    on_gpu = _on_others(plan, facts, machine, gpus, most_on_gpu(plan, facts, machine, gpu))
    if len(on_gpu) < len(facts.moe_layers) and may_stage(plan, facts, machine):
        room = room_for_layers(plan, facts, machine, gpu)
        if plan.pool_bytes:  # one that was wished left the staging area its place
            need = staging_need(facts)
            left_free = need if room >= need else 0
        else:
            left_free = staging_beside(staging_need(facts) + working_bytes(facts), room)
        own = most_on_gpu(plan, facts, machine, gpu, left_free=left_free)
        on_gpu = _on_others(plan, facts, machine, gpus, own)
    return keeping_pool_full(plan, facts, on_gpu)


def _on_others(
    plan: Plan, facts: ModelFacts, machine: Machine, gpus: tuple[Gpu, ...], on_gpu: dict[int, str]
) -> dict[int, str]:
    """`on_gpu`, and whole layers on every GPU but the first."""
    for gpu in gpus[1:]:
        on_gpu = most_on_gpu(plan, facts, machine, gpu.device, beside=on_gpu)
    return on_gpu


def _with_pool(plan: Plan, facts: ModelFacts, machine: Machine, on_gpu: dict[int, str]) -> Iterator[Candidate]:
    """The largest pool beside these layers, if it holds one token cycle of the others."""
    left = [layer for layer in facts.moe_layers if layer not in on_gpu]
    if copies_weights(machine) or not left:
        return
    cycle = facts.experts_used * sum(facts.expert_bytes[layer] for layer in left)
    least = msgspec.structs.replace(plan, pool_bytes=cycle)
    spare = spare_bytes(with_gpu_lanes(least, facts, machine, on_gpu), machine, plan.gpu or "")
    if spare < 0:
        return
    room = cycle + spare
    pool = min(room - staging_beside(staging_need(facts), room), expert_bytes(facts, left))
    yield Candidate(on_gpu, pool, least_pool_bytes=min(cycle, pool))


def _in_one_memory(plan: Plan, facts: ModelFacts, machine: Machine, gpu: Gpu) -> Iterator[Candidate]:
    """All experts or none: what the GPU calls its memory is main memory, so that a part there wins no room."""
    nothing = Candidate({}, plan.pool_bytes)
    if plan.pool_bytes:
        yield nothing
        return
    everything = dict.fromkeys(facts.moe_layers, gpu.device)
    placed = with_gpu_lanes(plan, facts, machine, everything)
    if shortfalls := fits(placed, machine):
        reason = (
            f"{gpu.device} has no memory of its own, so experts are not divided between it and the processor. "
            f"With all of them there: {' '.join(short.sentence for short in shortfalls)}"
        )
        yield nothing._replace(steps=(Step(name=STEP_ONE_MEMORY, reason=reason),))
        return
    yield Candidate(everything, 0)
    yield nothing


def _wished_layers(
    plan: Plan, facts: ModelFacts, machine: Machine, gpus: tuple[Gpu, ...], wishes: Wishes
) -> Iterator[Candidate]:
    """So many of the wished layers as fit, and unless it was wished or refused a pool beside them."""
    wished = facts.moe_layers[: wishes.whole_layers]
    on_gpu: dict[int, str] = {}
    for gpu in gpus:
        on_gpu = most_on_gpu(plan, facts, machine, gpu.device, beside=on_gpu, among=wished)
        if not set(wished) - set(on_gpu):
            break
    steps = []
    if len(on_gpu) < len(wished):
        size = format_bytes(expert_bytes(facts, wished))
        there = ", ".join(f"{format_bytes(gpu.free_bytes)} on {gpu.device}" for gpu in gpus)
        reason = (
            f"The experts of {len(wished)} whole layers were wished, {size}; beside the rest of the plan there is "
            f"room for {len(on_gpu)} (free: {there})."
        )
        steps.append(Step(name=STEP_FEWER_LAYERS, reason=reason))
    yield Candidate(on_gpu, plan.pool_bytes, tuple(steps))
    if wishes.pool_bytes is None and gpus[0].kind is GpuKind.DISCRETE:
        for found in _with_pool(plan, facts, machine, on_gpu):
            yield found._replace(steps=tuple(steps))


def _no_layers_steps(wishes: Wishes) -> tuple[Step, ...]:
    if not wishes.whole_layers:
        return ()
    reason = f"The experts of {wishes.whole_layers} whole layers were wished; there is no GPU in this plan for them."
    return (Step(name=STEP_FEWER_LAYERS, reason=reason),)


def _software_step(gpu: Gpu) -> Step:
    return Step(
        name=STEP_SOFTWARE_GPU,
        reason=f"{gpu.device} computes on the processor and in main memory: experts there would only be slower.",
    )
