"""Main memory for experts that stay in the model file: how much of it a plan takes, and what it says of that."""

import msgspec

from app.errors import AppError, ErrorCode
from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.memory import (
    asks_for_experts,
    bytes_off_gpus,
    copies_weights,
    expert_bytes,
    fits,
    keeps_budget,
    predict,
    spare_bytes,
)
from app.placement.plan import CPU_LANE, DISK_LANE, Plan, Step
from app.placement.pool import missing_device
from app.placement.wishes import Wishes
from app.units import format_bytes

# Names of the steps a plan may tell of.
STEP_DISK = "experts on disk"
STEP_LIMITED = "memory for experts as wished"
STEP_NO_BUDGET = "no memory for experts as wished"

_MIB = 1024**2


def possible_budget(wishes: Wishes, facts: ModelFacts, machine: Machine) -> tuple[Wishes, tuple[Step, ...]]:
    """`wishes` without a budget of main memory that nothing would keep, and a step that says why."""
    reason = ""
    if not facts.moe_layers:
        reason = "The model has no experts."
    elif copies_weights(machine):
        reason = missing_device(machine)
    if not wishes.resident_bytes or not reason:
        return wishes, ()
    reason = f"{format_bytes(wishes.resident_bytes)} of main memory were wished for experts. {reason}"
    return msgspec.structs.replace(wishes, resident_bytes=None), (Step(name=STEP_NO_BUDGET, reason=reason),)


def with_resident(plan: Plan, facts: ModelFacts, machine: Machine) -> Plan:
    """`plan` with the budget of main memory for its mapped experts, and a step where that is not all of them.

    Where main memory has no room for all, the budget is what the plan leaves of it. Where there is room for all and
    none was wished, there is no budget: the engine sees after the load what fits. Memory is not predicted anew.

    Args:
        plan: With its lanes, its residency and its memory; with the budget that was wished or is to be kept.
        facts: The model.
        machine: Where it is to be loaded.
    """
    everything = bytes_off_gpus(facts, plan)
    on_disk = [layer for layer, lane in plan.expert_lanes.items() if lane == DISK_LANE]
    if keeps_budget(plan):
        plan = msgspec.structs.replace(plan, resident_bytes=min(plan.resident_bytes or 0, everything) or None)
        if on_disk:
            reason = (
                f"{format_bytes(plan.resident_bytes or 0)} of main memory are kept for experts, as was wished, of "
                f"{format_bytes(everything)}{_where(plan)}. {_KEPT}"
            )
            return _with(plan, Step(name=STEP_LIMITED, reason=reason))
        return plan
    if not on_disk:
        return plan
    if plan.resident_bytes is None and asks_for_experts(plan, machine):
        held = expert_bytes(facts, (layer for layer, lane in plan.expert_lanes.items() if lane == CPU_LANE))
        spare = max(spare_bytes(plan, machine, CPU_LANE), 0) // _MIB * _MIB
        plan = msgspec.structs.replace(plan, resident_bytes=min(held + spare, everything) or None)
    step = Step(name=STEP_DISK, reason=_disk_reason(plan, machine, everything), chosen_bytes=plan.resident_bytes)
    return _with(plan, step)


def with_memory_again(plan: Plan, facts: ModelFacts, machine: Machine) -> Plan:
    """`plan` as `with_resident` makes it, its memory predicted anew; what its steps said of it before is left out."""
    steps = tuple(step for step in plan.steps if step.name not in (STEP_DISK, STEP_LIMITED))
    made = with_resident(msgspec.structs.replace(plan, steps=steps), facts, machine)
    return msgspec.structs.replace(made, memory=predict(facts, machine, made))


def stay_words(resident_bytes: int) -> str:
    """What a step says of the budget: "8.6 GiB of experts stay there"."""
    return f"{format_bytes(resident_bytes)} of experts stay there"


def again_undecided(plan: Plan) -> int | None:
    """The budget to begin with where a plan's lanes are decided anew: one that was chosen for them is chosen again.

    One that was changed by hand since is not the one that the plan's step names.
    """
    chosen = any(step.name == STEP_DISK and step.chosen_bytes == plan.resident_bytes for step in plan.steps)
    return None if plan.resident_bytes and chosen else plan.resident_bytes


def wished_again(plan: Plan) -> int | None:
    """The budget as a wish for a plan like this one; none beside copies, for which no budget can be wished."""
    resident = again_undecided(plan)
    return None if plan.residency == "repacked" and resident else resident


def refuse_too_much(plan: Plan, facts: ModelFacts, machine: Machine) -> None:
    """Refuse a wished budget that main memory has no room for beside the rest of the plan.

    Raises:
        AppError: out_of_memory, with what there is room for.
    """
    lacking = next((short.lacking_bytes for short in fits(plan, machine) if short.device == CPU_LANE), 0)
    if not keeps_budget(plan) or not lacking:
        return
    wished = min(plan.resident_bytes or 0, bytes_off_gpus(facts, plan))
    if lacking < wished:
        raise AppError(
            ErrorCode.OUT_OF_MEMORY,
            f"{format_bytes(wished)} of main memory cannot be kept for experts: beside the rest of the plan there is "
            f"room for {format_bytes(wished - lacking)} (predicted), and {format_bytes(machine.ram.available_bytes)} "
            "is available in all.",
        )


_KEPT = "Those that were used last stay, and the others are read from the file when they are needed."


def _disk_reason(plan: Plan, machine: Machine, everything: int) -> str:
    reason = (
        f"Main memory has {format_bytes(machine.ram.available_bytes)} available: beside the rest of the plan that is "
        f"too little for all {format_bytes(everything)} of experts{_where(plan)}. "
    )
    if keeps_budget(plan):
        return f"{reason}{stay_words(plan.resident_bytes or 0)}. {_KEPT}"
    return (
        f"{reason}The system keeps what was used last of them, and reads the others from the file when they are needed."
    )


def _where(plan: Plan) -> str:
    return " off the GPUs" if plan.gpus else ""


def _with(plan: Plan, step: Step) -> Plan:
    return msgspec.structs.replace(plan, steps=(*plan.steps, step))
