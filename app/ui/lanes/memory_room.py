"""How much main memory the experts of a mapped file may have, and why there is nothing to choose."""

from dataclasses import dataclass

from app.engine.protocol import Loaded
from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.active_experts import facts_with
from app.placement.cache.facts import MemoryFacts
from app.placement.memory import copies_weights, expert_bytes, spare_bytes
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.ui.lanes.words import translate
from app.ui.words import in_bytes


@dataclass(frozen=True)
class MemoryRoom:
    """What the experts of a mapped file may take of main memory.

    Attributes:
        total_bytes: What all of them are.
        most_bytes: What is free for them beside the rest of the plan (predicted), and no more than all are.
        cycle_bytes: What one token is routed to of them: with less hardly any is still there when it is needed again.
        why_not: Why there is no budget to choose, else empty.
    """

    total_bytes: int = 0
    most_bytes: int = 0
    cycle_bytes: int = 0
    why_not: str = ""


def memory_room(
    facts: ModelFacts | None,
    plan: Plan | None,
    report: Loaded | None,
    machine: Machine | None,
    memory: MemoryFacts | None,
    chosen: int = 0,
) -> MemoryRoom:
    """The room for mapped experts beside what `plan` loads.

    Args:
        facts: The model; None for none.
        plan: The plan it was loaded with, or the one being edited while it is not loaded.
        report: What the engine loaded; None while the model is not loaded.
        machine: The latest probe.
        memory: What the engine tells of main memory, if it does.
        chosen: The budget that the engine chose at the load, by what was available then.
    """
    why_not = _why_none(facts, plan, report, machine)
    if why_not or facts is None or plan is None or machine is None:
        return MemoryRoom(why_not=why_not)
    layers = _mapped_layers(facts, plan, report)
    total = memory.total_bytes if memory is not None else expert_bytes(facts, layers)
    used = facts_with(facts, plan.experts_used).experts_used
    return MemoryRoom(
        total_bytes=total,
        most_bytes=min(total, max(free_for_experts(plan, machine), memory.budget_bytes if memory else 0, chosen)),
        cycle_bytes=used * sum(facts.expert_bytes[layer] for layer in layers),
    )


def free_for_experts(plan: Plan, machine: Machine) -> int:
    """Main memory that `plan` leaves for experts on the CPU, those it has planned there included; predicted."""
    planned = sum(part.bytes for part in plan.memory if (part.device, part.part) == (CPU_LANE, "experts"))
    return max(spare_bytes(plan, machine, CPU_LANE) + planned, 0)


def judge_memory(room: MemoryRoom, budget_bytes: int) -> tuple[int, str]:
    """The budget that can be had of what is wanted, and why it is not that; an empty text for all of it."""
    if room.why_not:
        return 0, room.why_not
    if budget_bytes <= room.most_bytes:
        return max(budget_bytes, 0), ""
    if room.most_bytes >= room.total_bytes:
        words = translate("Lanes", "A budget of {most} is enough: that is all experts in the file.")
        return room.most_bytes, words.format(most=in_bytes(room.most_bytes))
    words = translate(
        "Lanes",
        "The experts can have {most} of main memory, not {wanted}: that is what is free beside the rest (predicted).",
    )
    return room.most_bytes, words.format(most=in_bytes(room.most_bytes), wanted=in_bytes(budget_bytes))


def _mapped_layers(facts: ModelFacts, plan: Plan, report: Loaded | None) -> list[int]:
    lanes = report.expert_layers if report else plan.expert_lanes
    return [layer for layer, lane in lanes.items() if lane in (CPU_LANE, DISK_LANE) and layer in facts.expert_bytes]


def _why_none(facts: ModelFacts | None, plan: Plan | None, report: Loaded | None, machine: Machine | None) -> str:
    if facts is None or plan is None or machine is None:
        return translate("Lanes", "Choose a model to give its experts main memory.")
    if not _mapped_layers(facts, plan, report):
        return translate("Lanes", "All experts are on a GPU: none is read from the file while it answers.")
    if plan.residency != "mapped":
        return translate(
            "Lanes",
            "The experts were copied into the processor's faster layout, so all of them are in memory. Have them “as "
            "they lie in the file” (Knobs) to choose how much memory they take.",
        )
    off = translate("Lanes", "The expert device is off: the system decides what of the file stays in memory.")
    if report is not None and not report.expert_device:
        return f"{off} {report.reason}".rstrip()
    if report is None and copies_weights(machine):
        return off
    return ""
