"""Whether a plan that came from elsewhere can be loaded here: against the model, and against the machine."""

from collections.abc import Iterable

import msgspec

from app.errors import AppError, ErrorCode
from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.active_experts import check_experts_used
from app.placement.cache.orders import check_pins, check_pool, check_resident
from app.placement.exchange.formats import Imported
from app.placement.memory import copies_weights, fits, predict
from app.placement.overrides import load_arguments
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.placement.pool import missing_device
from app.placement.wishes import Wishes, check_wishes
from app.placement.words import named_layers
from app.units import format_bytes

MOST_THREADS = 512
"""llama.cpp's own limit, as that of the sequences."""
MOST_SEQUENCES = 256


def checked(plan: Plan, facts: ModelFacts, machine: Machine, remarks: Iterable[str] = ()) -> Imported:
    """`plan` with its memory predicted for `machine`, and where that is short.

    Raises:
        AppError: bad_usage, the plan names what the model does not have or llama.cpp refuses; device_missing, it
            names a device that this machine does not have.
    """
    _check_layers(plan, facts)
    check_devices((plan.gpu, *plan.expert_lanes.values(), plan.pool_device), machine)
    _check_numbers(plan, facts, machine)
    check_pool(plan.pool_bytes, plan.staging_bytes)
    check_resident(plan.resident_bytes or 0)
    check_experts_used(facts, plan.experts_used)
    check_pins(plan.pins, dict.fromkeys(facts.moe_layers, facts.expert_count))
    load_arguments(plan)
    if (plan.pool_bytes or plan.staging_bytes) and plan.pool_on is None:
        raise AppError(ErrorCode.BAD_USAGE, "The plan has a pool for single experts and no GPU that could hold it.")
    plan = msgspec.structs.replace(plan, memory=predict(facts, machine, plan))
    shortfalls = tuple(shortfall.sentence for shortfall in fits(plan, machine))
    remarks = (*remarks, *_resident_remarks(plan, machine))
    return Imported(plan=plan, remarks=remarks, shortfalls=shortfalls)


def _resident_remarks(plan: Plan, machine: Machine) -> tuple[str, ...]:
    """Why the budget of main memory does nothing here, or is not had."""
    if not plan.resident_bytes:
        return ()
    budget = f"The plan's {format_bytes(plan.resident_bytes)} of main memory for experts in the file"
    if plan.residency == "repacked":
        return (f"{budget} do nothing for those that are copied into the processor's faster layout.",)
    if copies_weights(machine):
        return (f"{budget} are not kept here. {missing_device(machine)}",)
    if plan.resident_bytes > machine.ram.available_bytes:
        return (
            f"{budget} are more than the {format_bytes(machine.ram.available_bytes)} that are available here: the "
            "engine keeps what fits.",
        )
    return ()


def check_devices(names: Iterable[str | None], machine: Machine) -> None:
    """Refuse devices that the machine does not have; the CPU, the disk and None are always there.

    Raises:
        AppError: device_missing, naming the first and those there are.
    """
    there = [gpu.device for gpu in machine.gpus]
    for name in names:
        if name not in (None, CPU_LANE, DISK_LANE, *there):
            raise AppError(
                ErrorCode.DEVICE_MISSING, f"There is no device '{name}' here; there are: {', '.join(there) or 'none'}."
            )


def _check_layers(plan: Plan, facts: ModelFacts) -> None:
    strange = [layer for layer in plan.expert_lanes if layer not in facts.expert_bytes]
    if strange:
        raise AppError(
            ErrorCode.BAD_USAGE, f"The plan places experts of {named_layers(strange)}, where there are none."
        )
    missing = [layer for layer in facts.moe_layers if layer not in plan.expert_lanes]
    if missing:
        raise AppError(ErrorCode.BAD_USAGE, f"The plan does not say where the experts of {named_layers(missing)} go.")


def _check_numbers(plan: Plan, facts: ModelFacts, machine: Machine) -> None:
    wishes = Wishes(
        n_ctx=plan.n_ctx, kv_type=plan.kv_type, residency=plan.residency, policy=plan.policy, goal=plan.goal
    )
    check_wishes(facts, wishes)
    for what, value, most in (
        ("threads", plan.threads, MOST_THREADS),
        ("threads for prompts", plan.threads_batch, MOST_THREADS),
        ("conversations decoded together", plan.n_seq_max, MOST_SEQUENCES),
    ):
        if not 1 <= value <= most:
            raise AppError(ErrorCode.BAD_USAGE, f"{value} {what} are impossible: 1 to {most}.")
    if not 1 <= plan.n_ubatch <= plan.n_batch <= 2**31 - 1:
        raise AppError(
            ErrorCode.BAD_USAGE,
            f"Batches of {plan.n_ubatch:,} tokens in {plan.n_batch:,} are impossible: both are at least 1, and the "
            "micro-batch is not the larger.",
        )
    wrong = [core for core in plan.cpu_cores if not 0 <= core < machine.cpu.logical_cores]
    if wrong:
        raise AppError(
            ErrorCode.BAD_USAGE,
            f"There is no logical processor {wrong[0]} here; there are 0 to {machine.cpu.logical_cores - 1}.",
        )
