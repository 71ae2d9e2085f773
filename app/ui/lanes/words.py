"""Lanes, layers and plans in words and figures: every sentence of the lanes dock that is not a label."""

import math
from collections.abc import Iterable
from functools import lru_cache

from PySide6.QtCore import QCoreApplication

from app.placement.memory import predicted_use
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.placement.words import layer_runs
from app.ui.words import in_bytes, number

NAMED_RUNS = 4
"""Runs of layers that a sentence spells out."""

translate = QCoreApplication.translate


def layers_text(count: int) -> str:
    """How many layers: "no layers", "1 layer", "12 layers"."""
    if count == 0:
        return translate("Lanes", "no layers")
    if count == 1:
        return translate("Lanes", "1 layer")
    return translate("Lanes", "{count} layers").format(count=number(count))


def lane_name(lane: str) -> str:
    """A lane inside a sentence: the GPU's engine name, "CPU" or "disk"."""
    if lane == CPU_LANE:
        return translate("Lanes", "CPU")
    if lane == DISK_LANE:
        return translate("Lanes", "disk")
    return lane


def runs_text(layers: Iterable[int]) -> str:
    """Layers as runs, the first few of them: "3", "1, 4–6", "0, 2, 4, 6, …"."""
    runs = layer_runs(layers).split(", ")
    return ", ".join([*runs[:NAMED_RUNS], "…"] if len(runs) > NAMED_RUNS else runs)


def no_room_text(layers: Iterable[int]) -> str:
    """Why layers that were moved to the CPU are in the disk lane."""
    layers = tuple(layers)
    text = (
        translate("Lanes", "Main memory has no room for layer {layers}: it is in the disk lane, read from the file.")
        if len(layers) == 1
        else translate(
            "Lanes", "Main memory has no room for layers {layers}: they are in the disk lane, read from the file."
        )
    )
    return text.format(layers=runs_text(layers))


def moved_layers(loaded: Plan, edited: Plan) -> dict[tuple[str, str], tuple[int, ...]]:
    """Layers that `edited` places elsewhere than `loaded`, by (from, to)."""
    moved: dict[tuple[str, str], list[int]] = {}
    for layer, lane in sorted(edited.expert_lanes.items()):
        before = loaded.expert_lanes.get(layer, lane)
        if before != lane:
            moved.setdefault((before, lane), []).append(layer)
    return {lanes: tuple(layers) for lanes, layers in moved.items()}


def other_differences(loaded: Plan, edited: Plan) -> tuple[str, ...]:
    """Load-time choices besides the lanes that differ, one short sentence each."""
    none = translate("Lanes", "none")
    pairs = (
        (translate("Lanes", "attention on"), loaded.gpu or CPU_LANE, edited.gpu or CPU_LANE),
        (translate("Lanes", "context"), number(loaded.n_ctx), number(edited.n_ctx)),
        (translate("Lanes", "KV cache type"), loaded.kv_type, edited.kv_type),
        (translate("Lanes", "batch"), number(loaded.n_batch), number(edited.n_batch)),
        (translate("Lanes", "micro-batch"), number(loaded.n_ubatch), number(edited.n_ubatch)),
        (translate("Lanes", "threads"), number(loaded.threads), number(edited.threads)),
        (translate("Lanes", "prompt threads"), number(loaded.threads_batch), number(edited.threads_batch)),
        (
            translate("Lanes", "expert pool"),
            in_bytes(loaded.pool_bytes) if loaded.pool_bytes else none,
            in_bytes(edited.pool_bytes) if edited.pool_bytes else none,
        ),
        (translate("Lanes", "CPU experts"), residency_word(loaded.residency), residency_word(edited.residency)),
        (
            translate("Lanes", "memory for experts"),
            budget_text(loaded.resident_bytes),
            budget_text(edited.resident_bytes),
        ),
        (translate("Lanes", "active experts"), _active(loaded), _active(edited)),
        (translate("Lanes", "pins"), number(len(loaded.pins)), number(len(edited.pins))),
    )
    return tuple(f"{name} {before} → {after}" for name, before, after in pairs if before != after)


def budget_text(budget_bytes: int | None) -> str:
    """A budget of main memory inside a sentence: "14.0 GiB", "what fits", "left to the system"."""
    if budget_bytes is None:
        return translate("Lanes", "what fits")
    return in_bytes(budget_bytes) if budget_bytes else translate("Lanes", "left to the system")


def _active(plan: Plan) -> str:
    return translate("Lanes", "as trained") if plan.experts_used is None else number(plan.experts_used)


def residency_word(residency: str) -> str:
    """How CPU-lane experts are kept, inside a sentence."""
    if residency == "repacked":
        return translate("Lanes", "in the processor's faster layout")
    return translate("Lanes", "as they lie in the file")


def difference_text(loaded: Plan, edited: Plan) -> str:
    """What `edited` changes in one line; empty when it would load the same.

    Example: "3 layers change lane: 4–6 from CPU to Vulkan0 · context 4096 → 8192".
    """
    moved = moved_layers(loaded, edited)
    sentences = list(other_differences(loaded, edited))
    if moved:
        count = sum(len(layers) for layers in moved.values())
        change = (
            translate("Lanes", "1 layer changes lane")
            if count == 1
            else translate("Lanes", "{count} layers change lane").format(count=number(count))
        )
        where = ", ".join(
            translate("Lanes", "{layers} from {before} to {after}").format(
                layers=runs_text(layers), before=lane_name(before), after=lane_name(after)
            )
            for (before, after), layers in moved.items()
        )
        sentences.insert(0, f"{change}: {where}")
    return " · ".join(sentences)


def memory_change_text(before: Plan | None, after: Plan, devices: Iterable[str]) -> str:
    """Predicted memory per device, before → after: "Vulkan0 3.1 → 3.4 GiB, CPU 9.0 → 8.7 GiB"."""
    parts = []
    for device in devices:
        new = in_bytes(predicted_use(after, device))
        old = in_bytes(predicted_use(before, device)) if before else new
        parts.append(f"{device} {new}" if old == new else f"{device} {old} → {new}")
    return ", ".join(parts)


def percent(share: float) -> str:
    """A share as a percentage, never rounded to a false zero: "2.1", "0.78", "< 0.01"."""
    value = share * 100
    if value == 0 or value >= 10:
        return _figure(math.floor(value + 0.5), 0)
    if value >= 1:
        return _figure(math.floor(10 * value + 0.5), 1)
    return _figure(math.floor(100 * value + 0.5), 2) if value >= 0.01 else f"< {_figure(1, 2)}"


@lru_cache(maxsize=2048)
def _figure(last_digits: int, decimals: int) -> str:
    """So many of the last digit as `number` writes it; kept, for a hundred cards are written anew with every token."""
    return number(last_digits / 10**decimals, decimals)
