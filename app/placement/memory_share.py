"""What main memory and the disk hold together: experts of the same layers, and which of them is where follows from use.

A plan places whole layers. Where main memory has no room for all that are off the GPUs, none of them is known to be in
memory or on the disk: what was used last stays, of whatever layer.
"""

import msgspec

from app.model.facts import ModelFacts
from app.placement.memory import bytes_off_gpus, expert_bytes, keeps_budget
from app.placement.plan import CPU_LANE, DISK_LANE, Plan

ENGINE, SYSTEM = "engine", "system"


class MemoryShare(msgspec.Struct, frozen=True, kw_only=True):
    """Experts that main memory has no room for all of; predicted.

    Attributes:
        layers: The layers that they are of.
        total_bytes: What all of them are.
        kept_bytes: What of that stays in main memory: the plan's budget, or where the system decides what there is room
            for, counted in whole layers.
        decides: Who chooses which experts stay: the "engine", or the "system".
    """

    layers: tuple[int, ...]
    total_bytes: int
    kept_bytes: int
    decides: str


def memory_share(plan: Plan, facts: ModelFacts) -> MemoryShare | None:
    """What `plan` leaves to main memory and disk together; None where main memory has room for all, or holds none."""
    lanes = {layer: lane for layer, lane in plan.expert_lanes.items() if lane in (CPU_LANE, DISK_LANE)}
    everything = bytes_off_gpus(facts, plan)
    if keeps_budget(plan):
        kept, decides = min(plan.resident_bytes or 0, everything), ENGINE
    elif DISK_LANE in lanes.values():
        on_cpu = (layer for layer, lane in lanes.items() if lane == CPU_LANE)
        kept, decides = expert_bytes(facts, (layer for layer in on_cpu if layer in facts.expert_bytes)), SYSTEM
    else:
        return None
    if kept >= everything:
        return None
    return MemoryShare(layers=tuple(sorted(lanes)), total_bytes=everything, kept_bytes=kept, decides=decides)
