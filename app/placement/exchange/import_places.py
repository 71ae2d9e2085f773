"""Where a llama.cpp command line puts layers and experts: its devices, split and overrides, tensor by tensor.

The rules are llama.cpp's own (`llama-model.cpp`: layers to devices; `llama-model-loader.cpp`: overrides).
"""

import math
import re
from collections.abc import Sequence

import msgspec

from app.errors import AppError, ErrorCode
from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.model.roles import is_expert, parse_name
from app.placement.exchange.check_plan import check_devices
from app.placement.exchange.llama_flags import LlamaLine, Override, number
from app.placement.plan import CPU_LANE
from app.placement.wishes import AUTO_GPU, wished_gpus
from app.placement.words import named_layers

_SPLIT_MODES = ("none", "layer", "row", "tensor")


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """The device of the attention (None for the CPU), the lane of each MoE layer, and what differs from the line."""

    gpu: str | None
    expert_lanes: dict[int, str]
    remarks: tuple[str, ...]


def read_places(line: LlamaLine, facts: ModelFacts, machine: Machine, tensors: Sequence[str]) -> Places:
    """Where the line puts attention and experts, as far as a plan can say it.

    Raises:
        AppError: device_missing, or bad_usage for an impossible number.
    """
    remarks: list[str] = []
    devices = _devices(line, machine, remarks)
    check_devices((override.buffer for override in line.overrides), machine)
    layer_devices = _layer_devices(line, facts, machine, devices)
    gpu = _attention(layer_devices, facts, remarks)
    loaded = [name for name in tensors if parse_name(name).layer not in facts.draft_layers]
    winners = _winners(line.overrides, loaded, facts, remarks)
    lanes = _expert_lanes(winners, layer_devices, facts, loaded, remarks)
    if gpu is None and (with_experts := next((lane for lane in lanes.values() if lane != CPU_LANE), None)):
        gpu = with_experts
        remarks.append(f"The line keeps the attention on the CPU; here {gpu}, which has experts, holds it too.")
    _remark_others(winners, gpu, remarks)
    return Places(gpu=gpu, expert_lanes=lanes, remarks=tuple(remarks))


# ---- devices and layers ----------------------------------------------------------------------


def _devices(line: LlamaLine, machine: Machine, remarks: list[str]) -> tuple[str, ...]:
    """The devices that layers are divided among, in order."""
    mode = line.split_mode or "layer"
    if mode not in _SPLIT_MODES:
        raise AppError(ErrorCode.BAD_USAGE, f"-sm takes one of {', '.join(_SPLIT_MODES)}, not '{mode}'.")
    if line.devices == "none":
        return ()
    if line.devices is None:
        chosen = wished_gpus(machine, AUTO_GPU)
        devices = tuple(gpu.device for gpu in machine.gpus if gpu in chosen)
    else:
        devices = tuple(filter(None, line.devices.split(",")))
        check_devices(devices, machine)
    if mode in ("row", "tensor") and len(devices) > 1:
        remarks.append(f"-sm {mode} divides every tensor; here layers lie whole on a device, as with -sm layer.")
    if mode != "none" or not devices:
        return devices
    main = line.main_gpu or 0
    if main < 0:
        return ()
    if main >= len(devices):
        raise AppError(
            ErrorCode.BAD_USAGE, f"-mg {main} is impossible: the devices are numbered 0 to {len(devices) - 1}."
        )
    return (devices[main],)


def _layer_devices(
    line: LlamaLine, facts: ModelFacts, machine: Machine, devices: tuple[str, ...]
) -> tuple[str | None, ...]:
    """The device of every layer, None for the CPU; the last layers go to devices, in the order of these."""
    most = facts.layers + 1  # the output counts as one
    offloaded = min(_gpu_layers(line.gpu_layers, most), most) if devices else 0
    first = most - offloaded
    shares = _shares(line, machine, devices)
    return tuple(
        None
        if layer < first
        else next(device for device, share in zip(devices, shares, strict=True) if (layer - first) / offloaded < share)
        for layer in range(facts.layers)
    )


def _gpu_layers(text: str | None, most: int) -> int:
    if text in (None, "auto", "all"):
        return most
    count = number("-ngl", text or "")
    return most if count < 0 else count


def _shares(line: LlamaLine, machine: Machine, devices: tuple[str, ...]) -> list[float]:
    """Up to which share of the layers each device takes, the last up to all."""
    sizes = _tensor_split(line.tensor_split, len(devices)) if line.tensor_split else []
    if not any(sizes):
        free = {gpu.device: gpu.free_bytes for gpu in machine.gpus}
        sizes = [float(max(free[device], 1)) for device in devices]
    total = sum(sizes)
    return [*(sum(sizes[: count + 1]) / total for count in range(len(sizes) - 1)), math.inf][: len(sizes)]


def _tensor_split(text: str, devices: int) -> list[float]:
    try:
        sizes = [float(part) for part in re.split(r"[,/]+", text)]
    except ValueError:
        sizes = [-1.0]
    if not all(0 <= size < math.inf for size in sizes):
        raise AppError(ErrorCode.BAD_USAGE, f"-ts takes shares such as 3,1, not '{text}'.")
    return (sizes + [0.0] * devices)[:devices]


def _attention(layer_devices: tuple[str | None, ...], facts: ModelFacts, remarks: list[str]) -> str | None:
    used = [device for device in layer_devices if device is not None]
    if not used:
        return None
    gpu = max(dict.fromkeys(used), key=used.count)
    elsewhere = [device for device in dict.fromkeys(used) if device != gpu]
    if elsewhere:
        remarks.append(
            f"llama.cpp spreads attention and KV cache over {', '.join((gpu, *elsewhere))}; here {gpu} has all."
        )
    if left := [layer for layer in range(facts.layers) if layer_devices[layer] is None]:
        remarks.append(
            f"The line leaves attention and KV cache of {named_layers(left)} on the CPU; here {gpu} has all of them."
        )
    return gpu


# ---- overrides -------------------------------------------------------------------------------


def _winners(
    overrides: Sequence[Override], tensors: Sequence[str], facts: ModelFacts, remarks: list[str]
) -> dict[str, Override]:
    """The override that decides for each tensor: the first whose pattern is found in its name."""
    winners: dict[str, Override] = {}
    for override in overrides:
        pattern = re.compile(override.pattern)
        matched = [name for name in tensors if pattern.search(name)]
        before = [name for name in matched if name in winners]
        for name in matched:
            winners.setdefault(name, override)
        if words := _idle(override, matched, before, winners):
            remarks.append(words)
        if override.flag.startswith(("-ncmoe", "--n-cpu-moe")):
            count = int(override.flag.split()[1])
            if matched and count > facts.layers:
                remarks.append(f"{override.flag}: the model has {facts.layers} layers; all experts are meant.")
    return winners


def _idle(override: Override, matched: Sequence[str], before: Sequence[str], winners: dict[str, Override]) -> str:
    """What to say of an override that decides nothing, or less than its pattern says."""
    if not matched:
        return f"{override.flag} matches no tensor of this model: it does nothing."
    if len(before) == len(matched):
        first = winners[before[0]].flag
        return f"{override.flag} does nothing: {first}, which comes before it, decides for all {len(matched)} tensors."
    if against := [name for name in before if winners[name].buffer != override.buffer]:
        first = winners[against[0]].flag
        return (
            f"{override.flag}: for {len(against)} of its {len(matched)} tensors {first} decides, which comes before it."
        )
    return ""


def _expert_lanes(
    winners: dict[str, Override],
    layer_devices: tuple[str | None, ...],
    facts: ModelFacts,
    tensors: Sequence[str],
    remarks: list[str],
) -> dict[int, str]:
    found: dict[int, set[str]] = {layer: set() for layer in facts.moe_layers}
    for name in tensors:
        parsed = parse_name(name)
        if parsed.layer in found and is_expert(parsed.base):
            override = winners.get(name)
            found[parsed.layer].add(override.buffer if override else layer_devices[parsed.layer] or CPU_LANE)
    lanes = {
        layer: next(iter(its)) if len(its) == 1 else CPU_LANE if not its or CPU_LANE in its else sorted(its)[0]
        for layer, its in found.items()
    }
    divided = [layer for layer, its in found.items() if len(its) > 1]
    if divided:
        goes = " and ".join(sorted({lanes[layer] for layer in divided}))
        remarks.append(
            f"The line divides the expert tensors of {named_layers(divided)} between devices; here a layer's experts "
            f"move together: to {goes}."
        )
    return lanes


def _remark_others(winners: dict[str, Override], gpu: str | None, remarks: list[str]) -> None:
    moved: dict[str, list[str]] = {}
    for name, override in winners.items():
        parsed = parse_name(name)
        # The input embeddings are the CPU's whatever is offloaded.
        lies = CPU_LANE if parsed.layer is None and parsed.base.startswith("token_embd") else gpu or CPU_LANE
        if not is_expert(parsed.base) and override.buffer != lies:
            moved.setdefault(override.flag, []).append(name)
    remarks += [
        f"{flag} also moves {len(names)} tensors that are no experts, such as {names[0]}; here they stay with the "
        "attention."
        for flag, names in moved.items()
    ]
