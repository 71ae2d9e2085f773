"""A plan with its lanes: staging area, disk lane, residency and memory follow from where experts are."""

from collections.abc import Iterable, Mapping

import msgspec

from app.errors import AppError, ErrorCode
from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.active_experts import facts_with
from app.placement.cache.guard import guard_pool
from app.placement.candidates import STEP_ONE_MEMORY, STEP_SOFTWARE_GPU
from app.placement.concessions import STEP_CPU_ONLY, figures
from app.placement.lanes import gpu_lanes, with_gpu_lanes
from app.placement.locking import STEP_NOT_LOCKED, checked_lock
from app.placement.memory import fits, keeps_budget, predict, spare_bytes, working_bytes
from app.placement.plan import CPU_LANE, DISK_LANE, Plan, Step
from app.placement.pool import least_staging, may_stage, staging_need, with_staging
from app.placement.resident import STEP_DISK, STEP_LIMITED, again_undecided, with_resident

# Names of the steps a plan may tell of.
STEP_DOES_NOT_FIT = "does not fit"
STEP_GPU_CHOSEN = "attention on the GPU"
STEP_MAPPED = "experts stay mapped"
STEP_CYCLE = "pool below one token cycle"

_MAPPED_REASON = (
    "Main memory has no room for a copy of every CPU-lane expert in the processor's faster layout, so experts "
    "are computed as they lie in the file"
)
_DROPPED = ", whose pages the system may drop and read again"


def placed(plan: Plan, facts: ModelFacts, machine: Machine, on_gpu: Mapping[int, str]) -> Plan:
    """`plan` with exactly the layers `on_gpu` on GPUs, and with all that follows from it.

    That is a staging area where there is room for one, the CPU's and the disk's lanes, residency, predicted
    memory, and steps that tell of them. The result may exceed a memory: then its last step says so.
    """
    facts = facts_with(facts, plan.experts_used)
    result = with_gpu_lanes(msgspec.structs.replace(plan, staging_bytes=0), facts, machine, on_gpu)
    to_compute_in = 0 if result.pool_bytes else working_bytes(facts)  # a pool has it already
    if may_stage(result, facts, machine):
        staging = min(spare_bytes(result, machine, result.gpu or "") - to_compute_in, staging_need(facts))
        if staging >= least_staging(facts):
            result = with_staging(result, facts, machine, staging)
    steps = list(result.steps)
    off_gpu = {layer: size for layer, size in facts.expert_bytes.items() if layer not in on_gpu}
    guard = guard_pool(off_gpu, facts.expert_count, facts.experts_used, result.pool_bytes)
    if guard.sentence:
        steps.append(Step(name=STEP_CYCLE, reason=guard.sentence))
    on_disk = DISK_LANE in result.expert_lanes.values()
    shortfalls = fits(result, machine)
    to_map = result.residency == "repacked" and (on_disk or any(short.device == CPU_LANE for short in shortfalls))
    result = msgspec.structs.replace(result, residency="mapped" if to_map else result.residency, steps=tuple(steps))
    result = checked_lock(with_resident(result, facts, machine), facts, machine)
    steps = list(result.steps)
    if to_map and facts.moe_layers:
        dropped = "" if keeps_budget(result) else _DROPPED
        steps.append(Step(name=STEP_MAPPED, reason=f"{_MAPPED_REASON}{dropped}."))
    if shortfalls:
        steps.append(Step(name=STEP_DOES_NOT_FIT, reason=figures(shortfalls)))
    return msgspec.structs.replace(result, steps=tuple(steps), memory=predict(facts, machine, result))


def with_lanes(plan: Plan, facts: ModelFacts, machine: Machine, layers: Iterable[int], lane: str) -> Plan:
    """`plan` with the experts of `layers` moved to `lane`, and its memory predicted anew.

    Which of the CPU's layers are left on disk follows from main memory and is decided again after every
    move. A plan that used no GPU also gets its attention on the GPU that experts are moved to, and says
    so in a step. The result may exceed a GPU's memory: `fits` tells. Its speed is not predicted, and what tuning
    measured of the plan before is not said of it.

    Raises:
        AppError: bad_usage, the lane is none of this machine's or is the disk, or a layer has no experts.
    """
    layers = tuple(layers)
    _check_move(facts, machine, layers, lane)
    on_gpu = {layer: its for layer, its in gpu_lanes(plan).items() if layer not in layers}
    decided_again = (STEP_CYCLE, STEP_DISK, STEP_LIMITED, STEP_MAPPED, STEP_NOT_LOCKED, STEP_DOES_NOT_FIT)
    steps = [step for step in plan.steps if step.name not in decided_again]
    # What was mapped for want of memory is tried again; what was wished to be mapped stays so.
    resident = again_undecided(plan)
    residency = "repacked" if any(step.name == STEP_MAPPED for step in plan.steps) and not resident else plan.residency
    gpu = plan.gpu
    if lane != CPU_LANE:
        on_gpu |= dict.fromkeys(layers, lane)
        steps = [step for step in steps if step.name not in (STEP_SOFTWARE_GPU, STEP_ONE_MEMORY)]
        if gpu is None and layers:
            gpu = lane
            steps = [step for step in steps if step.name != STEP_CPU_ONLY]
            steps.append(
                Step(
                    name=STEP_GPU_CHOSEN,
                    reason=f"Experts on {lane} need that GPU, so attention, KV cache and output are there too.",
                )
            )
    undecided = msgspec.structs.replace(plan, gpu=gpu, residency=residency, resident_bytes=resident, steps=tuple(steps))
    moved = placed(undecided, facts, machine, on_gpu)
    same = msgspec.structs.replace(moved, steps=plan.steps) == plan
    return moved if same else msgspec.structs.replace(moved, speed=None, tuned="")


def refuse_hopeless(plan: Plan, machine: Machine) -> None:
    """Refuse a plan for which memory is too small even if nothing is left free.

    One that only cuts into the margin is let through: predictions err, and a load says what happens.

    Raises:
        AppError: out_of_memory, with what is needed and what is there.
    """
    margins = {part.device: part.bytes for part in plan.memory if part.part == "margin"}
    hopeless = tuple(short for short in fits(plan, machine) if short.lacking_bytes > margins.get(short.device, 0))
    if hopeless:
        raise AppError(ErrorCode.OUT_OF_MEMORY, f"This model cannot be loaded here. {figures(hopeless)}")


def _check_move(facts: ModelFacts, machine: Machine, layers: tuple[int, ...], lane: str) -> None:
    gpus = [gpu.device for gpu in machine.gpus]
    if lane == DISK_LANE:
        raise AppError(
            ErrorCode.BAD_USAGE,
            "Layers cannot be moved to disk by hand: those that main memory has no room for are read from there.",
        )
    if lane not in (CPU_LANE, *gpus):
        raise AppError(ErrorCode.BAD_USAGE, f"There is no lane '{lane}'; there are: {', '.join((CPU_LANE, *gpus))}.")
    if strange := [str(layer) for layer in layers if layer not in facts.expert_bytes]:
        raise AppError(ErrorCode.BAD_USAGE, f"These layers have no experts: {', '.join(strange)}.")
