"""Plans of the benchmark: stock llama.cpp's for the same graphics memory, and a plan changed for one case."""

import msgspec

from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.active_experts import facts_with
from app.placement.lanes import gpu_lanes, with_gpu_lanes
from app.placement.memory import Shortfall, expert_bytes, fits, predicted_use
from app.placement.plan import DISK_LANE, CachePolicy, Plan, Step
from app.placement.pool import STEP_NO_POOL, STEP_POOL, least_staging
from app.placement.resident import again_undecided, with_memory_again
from app.placement.scenarios.schedule import Case
from app.units import format_bytes


def stock_machine(machine: Machine) -> Machine:
    """`machine` as an engine without the expert device sees it."""
    if machine.engine is None:
        return machine
    return msgspec.structs.replace(machine, engine=msgspec.structs.replace(machine.engine, expert_device=False))


def stock_plan(plan: Plan, facts: ModelFacts, machine: Machine) -> Plan:
    """`plan` for stock llama.cpp, which has no pool: what the pool takes goes to whole layers, the first ones first.

    By prediction it takes no more of the pool's GPU than `plan` does. Where llama.cpp's own buffers alone take more
    there than in `plan`, because it copies experts over for large batches, the layers are those of `plan`.
    """
    machine = stock_machine(machine)
    bare = msgspec.structs.replace(
        plan, pool_bytes=0, staging_bytes=0, pool_device=None, resident_bytes=0, pins=(), policy=CachePolicy(), steps=()
    )
    on_gpu = gpu_lanes(plan)
    best = with_gpu_lanes(bare, facts, machine, on_gpu)
    device = plan.pool_on
    if device is None or device not in (gpu.device for gpu in machine.gpus):
        return best
    most = predicted_use(plan, device)
    for layer in facts.moe_layers:
        if layer not in on_gpu:
            more = with_gpu_lanes(bare, facts, machine, {**on_gpu, layer: device})
            if predicted_use(more, device) <= most:
                on_gpu[layer] = device
                best = more
    return best


def case_plan(
    plan: Plan, case: Case, facts: ModelFacts, machine: Machine, *, pool_wished: bool = False
) -> tuple[Plan, tuple[Shortfall, ...]]:
    """`plan` changed to what `case` asks for, and where that is predicted not to fit although `plan` does.

    Larger micro-batches and more sequences take memory of the GPUs. A pool of the planner's size gets smaller by
    that, as long as it holds one token cycle; then as many whole layers leave, the last ones first; then what is
    left of the pool goes, and most or all of the staging area. A step tells of the pool.

    Args:
        plan: The plan.
        case: What is measured.
        facts: The model.
        machine: What is free where; `stock_machine`'s for a stock plan.
        pool_wished: The user asked for just this pool: it stays.
    """
    n_ubatch = case.n_ubatch or plan.n_ubatch
    changed = msgspec.structs.replace(
        plan,
        threads=case.threads or plan.threads,
        threads_batch=case.threads or plan.threads_batch,
        n_ubatch=n_ubatch,
        n_batch=max(plan.n_batch, n_ubatch, case.sequences),
        n_seq_max=max(plan.n_seq_max, case.sequences),
    )
    if changed == plan:
        return plan, ()
    changed = msgspec.structs.replace(changed, resident_bytes=again_undecided(plan))
    already = {shortfall.device for shortfall in fits(plan, machine)}
    on_gpu = gpu_lanes(plan)
    while True:
        placed = with_gpu_lanes(changed, facts, machine, on_gpu)
        if DISK_LANE in placed.expert_lanes.values():
            placed = msgspec.structs.replace(placed, residency="mapped")  # as the planner: no room for copies
        lacking = tuple(shortfall for shortfall in fits(placed, machine) if shortfall.device not in already)
        short = {shortfall.device: shortfall.lacking_bytes for shortfall in lacking}
        pool_short = 0 if pool_wished else short.get(changed.pool_on or "", 0)
        droppable = [layer for layer, lane in on_gpu.items() if lane in short]
        cycle = expert_bytes(facts, (layer for layer in facts.moe_layers if layer not in on_gpu))
        cycle = cycle // max(facts.expert_count, 1) * facts_with(facts, plan.experts_used).experts_used
        if pool_short and changed.pool_bytes - pool_short >= cycle:
            changed = msgspec.structs.replace(changed, pool_bytes=changed.pool_bytes - pool_short)
        elif droppable:
            del on_gpu[droppable[-1]]
        elif pool_short:
            changed = _with_less(changed, facts, pool_short)
        else:
            return _told(with_memory_again(placed, facts, machine), plan), lacking


def _with_less(plan: Plan, facts: ModelFacts, lacking: int) -> Plan:
    """`plan` with so much less for single experts on its GPU: the pool first, then the staging area."""
    if plan.pool_bytes:
        left = max(plan.pool_bytes - lacking, 0)
        return msgspec.structs.replace(plan, pool_bytes=left if left >= min(facts.expert_bytes.values()) else 0)
    least = least_staging(facts)
    return msgspec.structs.replace(plan, staging_bytes=least if least < plan.staging_bytes else 0)


def _told(placed: Plan, before: Plan) -> Plan:
    """`placed` with a step where its pool is smaller than before."""
    if placed.pool_bytes == before.pool_bytes:
        return placed
    reason = (
        f"The pool has {format_bytes(placed.pool_bytes)} instead of {format_bytes(before.pool_bytes)}: micro-batches "
        f"of {placed.n_ubatch} tokens and {placed.n_seq_max} conversations at once take the rest (predicted)."
    )
    step = Step(name=STEP_POOL if placed.pool_bytes else STEP_NO_POOL, reason=reason)
    return msgspec.structs.replace(placed, steps=(*placed.steps, step))
