"""Plans of the benchmark: stock llama.cpp's for the same graphics memory, and a plan changed for one case."""

import msgspec

from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.lanes import gpu_lanes, with_gpu_lanes
from app.placement.memory import Shortfall, fits, predicted_use
from app.placement.plan import DISK_LANE, CachePolicy, Plan
from app.placement.scenarios.schedule import Case


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
        plan, pool_bytes=0, staging_bytes=0, pool_device=None, pins=(), policy=CachePolicy(), steps=()
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


def case_plan(plan: Plan, case: Case, facts: ModelFacts, machine: Machine) -> tuple[Plan, tuple[Shortfall, ...]]:
    """`plan` changed to what `case` asks for, and where that is predicted not to fit although `plan` does.

    Larger micro-batches and more sequences take memory: as many whole layers leave the GPUs, the last ones first.
    `machine` must be `stock_machine`'s for a stock plan.
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
    already = {shortfall.device for shortfall in fits(plan, machine)}
    on_gpu = gpu_lanes(plan)
    while True:
        placed = with_gpu_lanes(changed, facts, machine, on_gpu)
        if DISK_LANE in placed.expert_lanes.values():
            placed = msgspec.structs.replace(placed, residency="mapped")  # as the planner: no room for copies
        lacking = tuple(shortfall for shortfall in fits(placed, machine) if shortfall.device not in already)
        short = {shortfall.device for shortfall in lacking}
        droppable = [layer for layer, lane in on_gpu.items() if lane in short]
        if not droppable:
            return placed, lacking
        del on_gpu[droppable[-1]]
