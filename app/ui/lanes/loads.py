"""What a plan puts into each lane, and where it does not fit."""

from dataclasses import replace

from app.engine.protocol import Loaded
from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.memory import expert_bytes, fits, predicted_use
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.ui.lanes.header import LaneLoad
from app.ui.lanes.words import translate
from app.ui.machine_words import borrowed_bytes, borrowed_text
from app.ui.words import in_bytes, part_in_words

MAPPED = "mapped"
"""What an engine's report calls an address range: it is no memory of its own."""


def shortages(plan: Plan | None, machine: Machine | None) -> dict[str, str]:
    """Device to why the plan's prediction does not fit there; empty when all fits."""
    if plan is None or machine is None:
        return {}
    return {short.device: short.sentence for short in fits(plan, machine)}


def lane_load(
    lane: str,
    plan: Plan | None,
    facts: ModelFacts | None,
    machine: Machine | None,
    reported: Loaded | None = None,
) -> LaneLoad:
    """What `plan` puts into `lane`.

    Args:
        lane: The plan's word for the lane.
        plan: The plan.
        facts: Its model.
        machine: Where it is to run.
        reported: What the engine allocated, where `plan` is the loaded one.
    """
    if plan is None or facts is None:
        return LaneLoad()
    layers = [layer for layer, its in plan.expert_lanes.items() if its == lane]
    contents = LaneLoad(layers=len(layers), expert_bytes=expert_bytes(facts, layers))
    if lane == DISK_LANE or machine is None:
        return contents
    borrowed = borrowed_bytes(plan, machine) if lane == CPU_LANE else {}
    return replace(
        contents,
        predicted_bytes=predicted_use(plan, lane) + sum(borrowed.values()),
        borrowed=borrowed_text(borrowed),
        predicted_expert_bytes=_bytes_of(plan, lane, "experts"),
        pool_bytes=_bytes_of(plan, lane, "pool"),
        breakdown=_breakdown(lane, plan, machine, reported),
        shortage=shortages(plan, machine).get(lane, ""),
    )


def _bytes_of(plan: Plan, lane: str, what: str) -> int:
    return sum(part.bytes for part in plan.memory if part.device == lane and part.part == what)


def _breakdown(lane: str, plan: Plan, machine: Machine, reported: Loaded | None) -> str:
    lines = [translate("Lanes", "Predicted:")]
    lines += [f"{part_in_words(part.part)}: {in_bytes(part.bytes)}" for part in plan.memory if part.device == lane]
    for device, size in borrowed_bytes(plan, machine).items() if lane == CPU_LANE else ():
        words = translate("Lanes", "{device}, whose memory is main memory: {size}")
        lines.append(words.format(device=device, size=in_bytes(size)))
    here = [buffer for buffer in reported.buffers if buffer.device == lane] if reported else []
    allocated = sum(buffer.bytes for buffer in here if buffer.part != MAPPED)
    mapped = sum(buffer.bytes for buffer in here if buffer.part == MAPPED)
    if allocated:
        lines.append(translate("Lanes", "The engine reports {size} allocated here.").format(size=in_bytes(allocated)))
    if mapped:
        words = translate("Lanes", "It maps {size} of the model file, which takes memory only as it is read.")
        lines.append(words.format(size=in_bytes(mapped)))
    return "\n".join(lines)
