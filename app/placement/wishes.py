"""What a user asks of a plan, whether that is possible, and the devices and threads that follow from it."""

import msgspec

from app.errors import AppError, ErrorCode
from app.hardware.facts import Cpu, Gpu, GpuKind, Machine
from app.model.facts import ModelFacts
from app.placement.active_experts import check_experts_used
from app.placement.cache.orders import check_policy, check_pool, check_residency, check_resident
from app.placement.cards import one_device_a_card
from app.placement.kv_cache import CONTEXT_BLOCK, usable_kv_types
from app.placement.plan import GOALS, KV_TYPES, CachePolicy, Step
from app.units import format_bytes, format_share

AUTO_GPU = "auto"

# Names of the steps a plan may tell of.
STEP_THREADS = "fewer threads"
STEP_QUIET = "room for other programs"

_QUIET_SHARE = 0.1
"""Of all memory of a device: what a quiet plan leaves free beside the usual margin."""


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asks of a plan; what is not wished is the planner's to choose.

    Attributes:
        gpu: A GPU's engine name, which is then the only one used; None for the CPU; "auto" for the
            planner's choice.
        n_ctx: Context length in tokens.
        kv_type: Cache type, one of KV_TYPES.
        threads: Threads for decoding and prompts.
        whole_layers: So many of the first layers have all their experts on the GPU.
        pool_bytes: Size of the pool for single experts; 0 for none.
        residency: How CPU-lane experts are kept, one of RESIDENCIES.
        resident_bytes: Most bytes of experts in the file mapping that are kept in main memory; 0: the system decides.
        policy: How the pool is filled.
        lock_bytes: Most bytes of main memory that are page-locked for copies; 0 for none.
        experts_used: Experts that compute each token; another number than the model's own changes answers.
        goal: What the plan is best at, one of GOALS.
        tuned: Whether a plan that tuning kept may be taken in place of the planner's.
    """

    gpu: str | None = AUTO_GPU
    n_ctx: int | None = None
    kv_type: str | None = None
    threads: int | None = None
    whole_layers: int | None = None
    pool_bytes: int | None = None
    residency: str | None = None
    resident_bytes: int | None = None
    policy: CachePolicy | None = None
    lock_bytes: int | None = None
    experts_used: int | None = None
    goal: str = GOALS[0]
    tuned: bool = True


NO_WISHES = Wishes()


def check_wishes(facts: ModelFacts, wishes: Wishes) -> None:
    """Refuse wishes that no plan of this model can meet.

    Raises:
        AppError: bad_usage, naming the wish and what is possible.
    """
    most = longest_context(facts)
    if wishes.n_ctx is not None and not 0 < wishes.n_ctx <= most:
        raise _refusal(f"A context of {wishes.n_ctx:,} tokens is impossible: this model takes 1 to {most:,}.")
    if wishes.threads is not None and wishes.threads <= 0:
        raise _refusal(f"{wishes.threads} threads are impossible: it takes at least 1.")
    if wishes.whole_layers is not None and not 0 <= wishes.whole_layers <= len(facts.moe_layers):
        raise _refusal(
            f"The experts of {wishes.whole_layers:,} whole layers cannot be on a GPU: "
            f"this model has {len(facts.moe_layers)} layers with experts."
        )
    if wishes.goal not in GOALS:
        raise _refusal(f"There is no goal '{wishes.goal}'; there are: {', '.join(GOALS)}.")
    check_pool(wishes.pool_bytes or 0, 0)
    if wishes.residency is not None:
        check_residency(wishes.residency)
    check_resident(wishes.resident_bytes or 0)
    if wishes.resident_bytes and wishes.residency == "repacked":
        raise _refusal(
            "Main memory can be given to single experts only while they stay in the model file: that is impossible "
            "with the residency 'repacked'."
        )
    if wishes.policy is not None:
        check_policy(wishes.policy)
    check_policy(CachePolicy(lock_bytes=wishes.lock_bytes or 0))
    check_experts_used(facts, wishes.experts_used)
    if wishes.kv_type is None:
        return
    usable = usable_kv_types(facts)
    if wishes.kv_type not in KV_TYPES:
        raise _refusal(f"There is no KV cache type '{wishes.kv_type}'; there are: {', '.join(KV_TYPES)}.")
    if wishes.kv_type not in usable:
        raise _refusal(
            f"This model's heads do not divide into the blocks of a {wishes.kv_type} KV cache; "
            f"possible: {', '.join(usable)}."
        )


def wished_residency(wishes: Wishes) -> str:
    """How CPU-lane experts are kept where there is room for both: a budget is for those that stay in the file."""
    return wishes.residency or ("mapped" if wishes.resident_bytes else "repacked")


def longest_context(facts: ModelFacts) -> int:
    """Tokens of the model's own context; llama.cpp takes no less than one block."""
    return max(facts.context_length, CONTEXT_BLOCK)


def wished_gpus(machine: Machine, wished: str | None) -> tuple[Gpu, ...]:
    """The GPUs that a plan may use, the attention's first; empty for the CPU alone.

    Without a name they are all discrete ones, most free memory first, else one integrated. A software GPU
    is used only when named, and a named GPU is used alone.

    Raises:
        AppError: device_missing, the wished GPU is not there.
    """
    if wished is None:
        return ()
    if wished != AUTO_GPU:
        for gpu in machine.gpus:
            if gpu.device == wished:
                return (gpu,)
        there = ", ".join(gpu.device for gpu in machine.gpus) or "none"
        raise AppError(ErrorCode.DEVICE_MISSING, f"There is no device '{wished}'; there are: {there}.")
    for kind in (GpuKind.DISCRETE, GpuKind.INTEGRATED):
        of_kind = one_device_a_card([gpu for gpu in machine.gpus if gpu.kind is kind])
        if of_kind:
            # Sorting keeps the engine's order among equals.
            best_first = sorted(of_kind, key=lambda gpu: -gpu.free_bytes)
            return tuple(best_first if kind is GpuKind.DISCRETE else best_first[:1])
    return ()


def wished_threads(cpu: Cpu, wishes: Wishes) -> tuple[int, tuple[Step, ...]]:
    """Threads and what was conceded: more than one a physical core only makes them wait for each other."""
    most = max(cpu.physical_cores, 1)
    wished = wishes.threads
    if wished is None:
        allowed = cpu.allowed_threads or most
        fast = max(min(cpu.performance_cores, most, allowed), 1)
        return (max(fast // 2, 1) if wishes.goal == "quiet" else fast), ()
    if wished <= most:
        return wished, ()
    reason = f"{wished} threads were wished; the processor has {most} physical cores, and more threads only slow it."
    return most, (Step(name=STEP_THREADS, reason=reason),)


def wished_budget(machine: Machine, wishes: Wishes) -> tuple[Machine, tuple[Step, ...]]:
    """The machine with what a plan may take of its memory: for a quiet plan less than is free."""
    if wishes.goal != "quiet":
        return machine, ()
    ram = machine.ram
    left = {gpu.device: round(gpu.total_bytes * _QUIET_SHARE) for gpu in machine.gpus}
    budget = msgspec.structs.replace(
        machine,
        ram=msgspec.structs.replace(
            ram, available_bytes=max(ram.available_bytes - round(ram.total_bytes * _QUIET_SHARE), 0)
        ),
        gpus=tuple(
            msgspec.structs.replace(gpu, free_bytes=max(gpu.free_bytes - left[gpu.device], 0)) for gpu in machine.gpus
        ),
    )
    reason = (
        f"A quiet plan leaves {format_share(_QUIET_SHARE)} of every memory to other programs: it may take "
        f"{format_bytes(budget.ram.available_bytes)} of main memory"
    )
    reason += "".join(f", {format_bytes(gpu.free_bytes)} of {gpu.device}" for gpu in budget.gpus)
    return budget, (Step(name=STEP_QUIET, reason=f"{reason}."),)


def _refusal(message: str) -> AppError:
    return AppError(ErrorCode.BAD_USAGE, message)
