"""A plan's predicted memory beside what the engine reports, row by row. No Qt."""

from dataclasses import dataclass

from app.engine.protocol import Loaded
from app.placement.plan import Plan


@dataclass(frozen=True)
class MemoryRow:
    """One part on one device.

    Attributes:
        predicted: Bytes by the plan; 0 for what it did not foresee.
        reported: Bytes by the engine; None for parts of which it says nothing (driver, margin).
    """

    device: str
    part: str
    predicted: int
    reported: int | None


def memory_rows(plan: Plan, report: Loaded, reported_parts: tuple[str, ...]) -> tuple[MemoryRow, ...]:
    """Every part that was predicted or reported, by device in the plan's order.

    Args:
        plan: What was loaded.
        report: What the engine says of it.
        reported_parts: The parts that the engine reports at all: of these, none reported means none there.
    """
    predicted: dict[tuple[str, str], int] = {}
    reported: dict[tuple[str, str], int] = {}
    for its in plan.memory:
        predicted[its.device, its.part] = predicted.get((its.device, its.part), 0) + its.bytes
    for buffer in report.buffers:
        reported[buffer.device, buffer.part] = reported.get((buffer.device, buffer.part), 0) + buffer.bytes
    keys = dict.fromkeys([*predicted, *reported])
    devices = list(dict.fromkeys(device for device, _ in keys))
    ordered = sorted(keys, key=lambda key: devices.index(key[0]))
    return tuple(
        MemoryRow(
            device=device,
            part=part,
            predicted=predicted.get((device, part), 0),
            reported=reported.get((device, part), 0) if part in reported_parts else None,
        )
        for device, part in ordered
    )
