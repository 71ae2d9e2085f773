"""What was loaded beside what the plan said: where experts and caches are, and predicted against reported bytes."""

from collections.abc import Mapping, Sequence

import msgspec

from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.placement.report import BufferReport
from app.placement.words import named_layers
from app.units import format_bytes

_WEIGHTS = ("weights", "mapped")


class MemoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One part of one device's memory, predicted and reported.

    Attributes:
        device: A GPU's engine name, or "CPU" for main memory.
        part: As in the plan's memory; "weights and experts" on a GPU, where llama.cpp reports them as
            one; "mapped" for the stretch of the file that is mapped, which takes memory only as it is read.
        predicted_bytes: None where the plan predicts no such part.
        reported_bytes: None where the engine reports no such part (driver context, margin).
    """

    device: str
    part: str
    predicted_bytes: int | None
    reported_bytes: int | None


def differences(plan: Plan, expert_layers: Mapping[int, str], buffers: Sequence[BufferReport]) -> tuple[str, ...]:
    """One sentence for each point where what was loaded is not what `plan` said.

    Args:
        plan: The plan.
        expert_layers: MoE layer to the device that its experts were seen on; CPU for the disk lane too.
        buffers: What the engine reports to have allocated.
    """
    return (*_layer_differences(plan, expert_layers), *_buffer_differences(plan, buffers))


def expert_differences(plan: Plan, experts_used: int | None) -> tuple[str, ...]:
    """A sentence where each token is not computed by as many experts as `plan` says.

    Args:
        plan: The plan.
        experts_used: How many llama.cpp says that they are; None where it does not.
    """
    if plan.experts_used in (None, experts_used):
        return ()
    seen = "an unknown number of" if experts_used is None else str(experts_used)
    return (f"llama.cpp computes each token with {seen} experts; the plan said {plan.experts_used}.",)


def memory_table(plan: Plan, buffers: Sequence[BufferReport]) -> tuple[MemoryRow, ...]:
    """Predicted and reported bytes of every device and part, the plan's devices first."""
    predicted: dict[tuple[str, str], int] = {}
    for part in plan.memory:
        key = (part.device, _common_part(part.device, part.part))
        predicted[key] = predicted.get(key, 0) + part.bytes
    reported: dict[tuple[str, str], int] = {}
    for buffer in buffers:
        key = (buffer.device, _common_part(buffer.device, buffer.part))
        reported[key] = reported.get(key, 0) + buffer.bytes
    return tuple(
        MemoryRow(
            device=device,
            part=part,
            predicted_bytes=predicted.get((device, part)),
            reported_bytes=reported.get((device, part)),
        )
        for device, part in dict.fromkeys((*predicted, *reported))
    )


def _common_part(device: str, part: str) -> str:
    if part == "output":  # the logits handed out: predicted with the compute buffers
        return "compute"
    return "weights and experts" if device != CPU_LANE and part in ("experts", *_WEIGHTS) else part


def _layer_differences(plan: Plan, expert_layers: Mapping[int, str]) -> list[str]:
    elsewhere: dict[tuple[str, str | None], list[int]] = {}
    for layer, lane in sorted(plan.expert_lanes.items()):
        planned = CPU_LANE if lane == DISK_LANE else lane
        seen = expert_layers.get(layer)
        if seen != planned:
            elsewhere.setdefault((planned, seen), []).append(layer)
    return [
        f"The experts of {named_layers(layers)} are on {seen}; the plan said {planned}."
        if seen is not None
        else f"Where the experts of {named_layers(layers)} are is unknown; the plan said {planned}."
        for (planned, seen), layers in elsewhere.items()
    ]


def _buffer_differences(plan: Plan, buffers: Sequence[BufferReport]) -> list[str]:
    attention = plan.gpu or CPU_LANE
    found = [
        f"{format_bytes(buffer.bytes)} of KV cache are on {buffer.device}; the plan said {attention}."
        for buffer in buffers
        if buffer.part == "kv" and buffer.device != attention
    ]
    if plan.gpu and not any(buffer.device == plan.gpu and buffer.part in _WEIGHTS for buffer in buffers):
        found.append(f"No weights are on {plan.gpu}; the plan said attention and output.")
    unplanned = dict.fromkeys(buffer.device for buffer in buffers if buffer.device not in (CPU_LANE, *plan.gpus))
    for device in unplanned:
        size = sum(buffer.bytes for buffer in buffers if buffer.device == device)
        found.append(f"{format_bytes(size)} are on {device}, which the plan does not use.")
    return found
