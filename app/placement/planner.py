"""The planner: from a model, a machine and wishes to a plan that loads, with a reason for every concession."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from app.errors import AppError, ErrorCode
from app.hardware.facts import Cpu, Gpu, GpuKind, Machine
from app.model.facts import ModelFacts
from app.placement.cache_guard import guard_pool
from app.placement.cache_orders import check_policy, check_pool, check_residency
from app.placement.kv_cache import CONTEXT_BLOCK, full_cells, usable_kv_types
from app.placement.lanes import gpu_lanes, most_on_gpu, with_gpu_lanes
from app.placement.memory import Shortfall, expert_bytes, fits, predict, spare_bytes
from app.placement.plan import CPU_LANE, DISK_LANE, KV_TYPES, CachePolicy, Plan, Step
from app.placement.pool import keeping_pool_full, may_stage, staging_need, wished_pool, with_staging
from app.units import format_bytes

AUTO_GPU = "auto"

# Names of the steps a plan may tell of.
STEP_CONTEXT = "smaller context"
STEP_KV = {"q8_0": "q8_0 KV cache", "q4_0": "q4_0 KV cache"}
STEP_CPU_ONLY = "cpu only"
STEP_DISK = "experts on disk"
STEP_DOES_NOT_FIT = "does not fit"
STEP_ROUNDED = "rounded context"
STEP_THREADS = "fewer threads"
STEP_SOFTWARE_GPU = "experts off the software GPU"
STEP_GPU_CHOSEN = "attention on the GPU"
STEP_MAPPED = "experts stay mapped"
STEP_CYCLE = "pool below one token cycle"

_DEFAULT_CONTEXT = 8192
_LEAST_CONTEXT = 2048
"""Tokens: a conversation of some turns."""
_LEAST_CONTEXT_AT_ALL = 512
"""Tokens: a question and its answer; taken only where nothing larger fits in any way."""
_BATCH = 512
_MAPPED_REASON = (
    "Main memory has no room for a copy of every CPU-lane expert in the processor's faster layout, so experts "
    "are computed as they lie in the file, whose pages the system may drop and read again."
)


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asks of a plan; what is not wished is the planner's to choose.

    Attributes:
        gpu: A GPU's engine name; None for the CPU; "auto" for the planner's choice.
        n_ctx: Context length in tokens.
        kv_type: Cache type, one of KV_TYPES.
        threads: Threads for decoding and prompts.
        pool_bytes: Size of the pool for single experts; 0 for none. Without a wish there is none.
        residency: How CPU-lane experts are kept, one of RESIDENCIES.
        policy: How the pool is filled.
    """

    gpu: str | None = AUTO_GPU
    n_ctx: int | None = None
    kv_type: str | None = None
    threads: int | None = None
    pool_bytes: int | None = None
    residency: str | None = None
    policy: CachePolicy | None = None


NO_WISHES = Wishes()


class _Choice(NamedTuple):
    """What a plan may concede: where attention is computed, and how large the KV cache is."""

    gpu: str | None
    n_ctx: int
    kv_type: str


_Rejected = dict[_Choice, tuple[Shortfall, ...]]


def make_plan(facts: ModelFacts, machine: Machine, wishes: Wishes = NO_WISHES) -> Plan:
    """The best plan that is predicted to fit.

    Attention, shared experts, router, output and KV cache go to the GPU first, and the experts of as many
    whole layers as still fit. Where not even the first part fits, the plan concedes in this order: a
    smaller context, a q8_0 and a q4_0 KV cache, attention on the CPU. Wishes are kept as long as anything
    else can be conceded; after that a wished context or cache type shrinks too. After a concession no
    experts go to the GPU: memory that could hold them belongs to what was conceded. If nothing fits, the
    plan that lacks least says so in a step.

    A wished pool comes before whole layers, and is as large as what attention and cache leave free. Where
    experts stay off the GPU and memory allows, a staging area lets the expert device copy them over for a
    prompt; it comes before the last whole layer.

    Raises:
        AppError: device_missing, the wished GPU is not there; bad_usage, a wish that no plan can meet.
    """
    _check(facts, wishes)
    gpu = _gpu(machine, wishes.gpu)
    choices = _choices(facts, gpu.device if gpu else None, wishes)
    chosen, rejected = _first_that_fits(facts, machine, choices)
    threads, steps = _threads(machine.cpu, wishes.threads)
    steps += _rounding_steps(choices[0], wishes)
    steps += _concessions(choices[0], chosen, rejected)
    plan = msgspec.structs.replace(
        _bare_plan(facts, chosen),
        threads=threads,
        threads_batch=threads,
        residency=wishes.residency or "repacked",
        policy=wishes.policy or CachePolicy(),
    )
    pool, pool_steps = wished_pool(plan, facts, machine, wishes.pool_bytes or 0)
    steps += pool_steps
    plan = msgspec.structs.replace(plan, pool_bytes=pool)
    on_gpu: dict[int, str] = {}
    if gpu and facts.moe_layers and not rejected:
        if gpu.kind is GpuKind.SOFTWARE:
            steps.append(_software_step(gpu))
        else:
            on_gpu = _layers_on_gpu(plan, facts, machine, gpu.device)
    return _placed(msgspec.structs.replace(plan, steps=tuple(steps)), facts, machine, on_gpu)


def _layers_on_gpu(plan: Plan, facts: ModelFacts, machine: Machine, gpu: str) -> dict[int, str]:
    """Whole layers that go to the GPU beside the pool, and beside a staging area where some stay off it."""
    on_gpu = keeping_pool_full(plan, facts, most_on_gpu(plan, facts, machine, gpu))
    if len(on_gpu) == len(facts.moe_layers) or not may_stage(plan, facts, machine):
        return on_gpu
    staged = with_staging(plan, facts, machine, staging_need(facts))
    if spare_bytes(staged, machine, gpu) < 0:
        return on_gpu
    return keeping_pool_full(plan, facts, most_on_gpu(staged, facts, machine, gpu))


def with_lanes(plan: Plan, facts: ModelFacts, machine: Machine, layers: Iterable[int], lane: str) -> Plan:
    """`plan` with the experts of `layers` moved to `lane`, and its memory predicted anew.

    Which of the CPU's layers are left on disk follows from main memory and is decided again after every
    move. A plan that used no GPU also gets its attention on the GPU that experts are moved to, and says
    so in a step. The result may exceed a GPU's memory: `fits` tells.

    Raises:
        AppError: bad_usage, the lane is none of this machine's or is the disk, or a layer has no experts.
    """
    gpus = [gpu.device for gpu in machine.gpus]
    if lane == DISK_LANE:
        raise AppError(
            ErrorCode.BAD_USAGE,
            "Layers cannot be moved to disk by hand: those that main memory has no room for are read from there.",
        )
    if lane not in (CPU_LANE, *gpus):
        raise AppError(ErrorCode.BAD_USAGE, f"There is no lane '{lane}'; there are: {', '.join((CPU_LANE, *gpus))}.")
    layers = tuple(layers)
    if strange := [str(layer) for layer in layers if layer not in facts.expert_bytes]:
        raise AppError(ErrorCode.BAD_USAGE, f"These layers have no experts: {', '.join(strange)}.")
    on_gpu = {layer: its for layer, its in gpu_lanes(plan).items() if layer not in layers}
    decided_again = (STEP_CYCLE, STEP_DISK, STEP_MAPPED, STEP_DOES_NOT_FIT)
    steps = [step for step in plan.steps if step.name not in decided_again]
    # What was mapped for want of memory is tried again; what was wished to be mapped stays so.
    residency = "repacked" if any(step.name == STEP_MAPPED for step in plan.steps) else plan.residency
    gpu = plan.gpu
    if lane != CPU_LANE:
        on_gpu |= dict.fromkeys(layers, lane)
        steps = [step for step in steps if step.name != STEP_SOFTWARE_GPU]
        if gpu is None and layers:
            gpu = lane
            steps = [step for step in steps if step.name != STEP_CPU_ONLY]
            steps.append(
                Step(
                    name=STEP_GPU_CHOSEN,
                    reason=f"Experts on {lane} need that GPU, so attention, KV cache and output are there too.",
                )
            )
    moved = msgspec.structs.replace(plan, gpu=gpu, residency=residency, steps=tuple(steps))
    return _placed(moved, facts, machine, on_gpu)


# ---- wishes ----------------------------------------------------------------------------------


def _check(facts: ModelFacts, wishes: Wishes) -> None:
    most = max(facts.context_length, CONTEXT_BLOCK)
    if wishes.n_ctx is not None and not 0 < wishes.n_ctx <= most:
        raise AppError(
            ErrorCode.BAD_USAGE,
            f"A context of {wishes.n_ctx:,} tokens is impossible: this model takes 1 to {most:,}.",
        )
    if wishes.threads is not None and wishes.threads <= 0:
        raise AppError(ErrorCode.BAD_USAGE, f"{wishes.threads} threads are impossible: it takes at least 1.")
    check_pool(wishes.pool_bytes or 0, 0)
    if wishes.residency is not None:
        check_residency(wishes.residency)
    if wishes.policy is not None:
        check_policy(wishes.policy)
    if wishes.kv_type is None:
        return
    usable = usable_kv_types(facts)
    if wishes.kv_type not in KV_TYPES:
        raise AppError(
            ErrorCode.BAD_USAGE, f"There is no KV cache type '{wishes.kv_type}'; there are: {', '.join(KV_TYPES)}."
        )
    if wishes.kv_type not in usable:
        raise AppError(
            ErrorCode.BAD_USAGE,
            f"This model's heads do not divide into the blocks of a {wishes.kv_type} KV cache; "
            f"possible: {', '.join(usable)}.",
        )


def _gpu(machine: Machine, wished: str | None) -> Gpu | None:
    if wished is None:
        return None
    if wished != AUTO_GPU:
        for gpu in machine.gpus:
            if gpu.device == wished:
                return gpu
        there = ", ".join(gpu.device for gpu in machine.gpus) or "none"
        raise AppError(ErrorCode.DEVICE_MISSING, f"There is no device '{wished}'; there are: {there}.")
    for kind in (GpuKind.DISCRETE, GpuKind.INTEGRATED):
        candidates = [gpu for gpu in machine.gpus if gpu.kind is kind]
        # A card that its maker's backend offers is offered by Vulkan once more; the maker's is faster.
        native = {gpu.pci_id for gpu in candidates if gpu.backend != "Vulkan" and gpu.pci_id}
        candidates = [gpu for gpu in candidates if gpu.backend != "Vulkan" or gpu.pci_id not in native]
        if candidates:
            return max(candidates, key=lambda gpu: gpu.free_bytes)
    return None


def _threads(cpu: Cpu, wished: int | None) -> tuple[int, list[Step]]:
    """Threads and what was conceded: more than one a physical core only makes them wait for each other."""
    most = max(cpu.physical_cores, 1)
    if wished is None:
        allowed = cpu.allowed_threads or most
        return max(min(cpu.performance_cores, most, allowed), 1), []
    if wished <= most:
        return wished, []
    reason = f"{wished} threads were wished; the processor has {most} physical cores, and more threads only slow it."
    return most, [Step(name=STEP_THREADS, reason=reason)]


# ---- concessions -----------------------------------------------------------------------------


def _choices(facts: ModelFacts, gpu: str | None, wishes: Wishes) -> list[_Choice]:
    """Every choice in the order of preference; the first is the one without concessions."""
    devices = (gpu, None) if gpu else (None,)
    usable = usable_kv_types(facts)
    most = max(facts.context_length, CONTEXT_BLOCK)
    context = _whole_blocks(wishes.n_ctx or min(most, _DEFAULT_CONTEXT), most)
    contexts = [context] if wishes.n_ctx else list(_halvings(context, _LEAST_CONTEXT))
    kv_types = (wishes.kv_type,) if wishes.kv_type else usable
    choices = [_Choice(device, *cache) for device in devices for cache in _ladder(contexts, kv_types)]
    # Rather less than was wished than a plan that does not load.
    contexts = list(_halvings(contexts[-1], _LEAST_CONTEXT_AT_ALL))
    kv_types = usable[usable.index(kv_types[-1]) :]
    choices += [_Choice(device, *cache) for device in devices for cache in _ladder(contexts, kv_types)]
    return list(dict.fromkeys(choices))


def _ladder(contexts: list[int], kv_types: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """First the context shrinks, then the cache type."""
    for context in contexts:
        yield context, kv_types[0]
    for kv_type in kv_types[1:]:
        yield contexts[-1], kv_type


def _halvings(context: int, least: int) -> Iterator[int]:
    yield context
    while context > least:
        context = max(_whole_blocks(context // 2, context), least)
        yield context


def _whole_blocks(n_ctx: int, most: int) -> int:
    """The next context that llama.cpp takes as it is: up, unless that exceeds `most`."""
    rounded = full_cells(n_ctx)
    return rounded if rounded <= most else max(most // CONTEXT_BLOCK * CONTEXT_BLOCK, CONTEXT_BLOCK)


def _first_that_fits(facts: ModelFacts, machine: Machine, choices: list[_Choice]) -> tuple[_Choice, _Rejected]:
    """The first choice whose plan fits with all experts on disk, and why those before it did not.

    If none fits it is the one that lacks least, and every choice is among the rejected.
    """
    rejected: _Rejected = {}
    for choice in choices:
        plan = _bare_plan(facts, choice)
        shortfalls = fits(msgspec.structs.replace(plan, memory=predict(facts, machine, plan)), machine)
        if not shortfalls:
            return choice, rejected
        rejected[choice] = shortfalls
    return min(rejected, key=lambda choice: sum(short.lacking_bytes for short in rejected[choice])), rejected


def _bare_plan(facts: ModelFacts, choice: _Choice) -> Plan:
    """The plan of a choice with every expert in the disk lane, where it takes no memory."""
    batch = min(_BATCH, choice.n_ctx)
    return Plan(
        model_files=facts.files,
        gpu=choice.gpu,
        expert_lanes=dict.fromkeys(facts.moe_layers, DISK_LANE),
        n_ctx=choice.n_ctx,
        kv_type=choice.kv_type,
        n_batch=batch,
        n_ubatch=batch,
    )


def _concessions(first: _Choice, chosen: _Choice, rejected: _Rejected) -> list[Step]:
    """What `chosen` concedes against `first`, each with the figures that forced it."""
    steps = []
    if first.gpu and not chosen.gpu:
        last = [choice for choice in rejected if choice.gpu][-1]
        reason = f"Even with {last.n_ctx:,} tokens of {last.kv_type} KV cache: {_figures(rejected[last])}"
        steps.append(Step(name=STEP_CPU_ONLY, reason=reason))
    tried = [choice for choice in rejected if choice.gpu == chosen.gpu and choice != chosen]
    if chosen.n_ctx < first.n_ctx:
        larger = [choice for choice in tried if choice.n_ctx > chosen.n_ctx]
        reason = f"With a context of {larger[0].n_ctx:,} tokens: {_figures(rejected[larger[0]])}"
        steps.append(Step(name=STEP_CONTEXT, reason=reason))
    for kv_type in KV_TYPES[KV_TYPES.index(first.kv_type) + 1 : KV_TYPES.index(chosen.kv_type) + 1]:
        before = KV_TYPES[KV_TYPES.index(kv_type) - 1]
        last = [choice for choice in tried if choice.kv_type == before][-1]
        reason = f"With a {before} KV cache of {last.n_ctx:,} tokens: {_figures(rejected[last])}"
        steps.append(Step(name=STEP_KV[kv_type], reason=reason))
    return steps


def _figures(shortfalls: tuple[Shortfall, ...]) -> str:
    return " ".join(shortfall.sentence for shortfall in shortfalls)


def _rounding_steps(first: _Choice, wishes: Wishes) -> list[Step]:
    if wishes.n_ctx is None or wishes.n_ctx == first.n_ctx:
        return []
    reason = f"llama.cpp keeps whole blocks of {CONTEXT_BLOCK} tokens: {wishes.n_ctx:,} become {first.n_ctx:,}."
    return [Step(name=STEP_ROUNDED, reason=reason)]


def _software_step(gpu: Gpu) -> Step:
    return Step(
        name=STEP_SOFTWARE_GPU,
        reason=f"{gpu.device} computes on the processor and in main memory: experts there would only be slower.",
    )


def _placed(plan: Plan, facts: ModelFacts, machine: Machine, on_gpu: dict[int, str]) -> Plan:
    """`plan` with its lanes, staging area, residency and memory, and the steps that follow from them."""
    placed = with_gpu_lanes(msgspec.structs.replace(plan, staging_bytes=0), facts, machine, on_gpu)
    need = staging_need(facts)
    if may_stage(placed, facts, machine) and spare_bytes(placed, machine, placed.gpu or "") >= need:
        placed = with_staging(placed, facts, machine, need)
    steps = list(placed.steps)
    off_gpu = {layer: size for layer, size in facts.expert_bytes.items() if layer not in on_gpu}
    guard = guard_pool(off_gpu, facts.expert_count, facts.experts_used, placed.pool_bytes)
    if guard.sentence:
        steps.append(Step(name=STEP_CYCLE, reason=guard.sentence))
    on_disk = [layer for layer, lane in placed.expert_lanes.items() if lane == DISK_LANE]
    if on_disk:
        reason = (
            f"Main memory has {format_bytes(machine.ram.available_bytes)} available; the experts of "
            f"{len(on_disk)} of {len(facts.moe_layers)} layers ({format_bytes(expert_bytes(facts, on_disk))}) "
            "are read from the file when they are needed."
        )
        steps.append(Step(name=STEP_DISK, reason=reason))
    residency = placed.residency
    shortfalls = fits(placed, machine)
    if residency == "repacked" and (on_disk or any(short.device == CPU_LANE for short in shortfalls)):
        residency = "mapped"
        if facts.moe_layers:
            steps.append(Step(name=STEP_MAPPED, reason=_MAPPED_REASON))
    if shortfalls:
        steps.append(Step(name=STEP_DOES_NOT_FIT, reason=_figures(shortfalls)))
    return msgspec.structs.replace(placed, residency=residency, steps=tuple(steps))
