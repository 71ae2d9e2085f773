"""Which lane the experts of each layer get: whole layers, as memory allows."""

from collections.abc import Iterable, Mapping

import msgspec

from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.memory import expert_bytes, fits, keeps_budget, predict, spare_bytes
from app.placement.plan import CPU_LANE, DISK_LANE, Plan

_OFF_GPU = (CPU_LANE, DISK_LANE)


def gpu_lanes(plan: Plan) -> dict[int, str]:
    """The layers whose experts are on a GPU, and on which."""
    return {layer: lane for layer, lane in plan.expert_lanes.items() if lane not in _OFF_GPU}


def with_gpu_lanes(plan: Plan, facts: ModelFacts, machine: Machine, on_gpu: Mapping[int, str]) -> Plan:
    """`plan` with exactly the layers `on_gpu` on GPUs, the others on the CPU as far as main memory goes.

    The last layers that main memory has no room for get the disk lane: they are read through the file
    mapping. A budget of main memory for mapped experts is room for no more than it says. Memory is predicted anew;
    whether the GPUs' share fits is not looked at.
    """
    least = _with_lanes(msgspec.structs.replace(plan, resident_bytes=None), facts, machine, on_gpu)
    rest = [layer for layer in facts.moe_layers if layer not in on_gpu]
    room = spare_bytes(least, machine, CPU_LANE)
    if keeps_budget(plan):
        room = min(room, plan.resident_bytes or 0)
    on_cpu = _first_that_fit(facts, rest, room)
    return _with_lanes(plan, facts, machine, {**dict(on_gpu), **dict.fromkeys(on_cpu, CPU_LANE)})


def gpu_order(facts: ModelFacts, layers: Iterable[int]) -> list[int]:
    """`layers` in the order in which they go whole to GPUs: small ones before much larger ones, then the first.

    Early layers are routed to almost uniformly, so that a cache of single experts gains least there: what lies
    whole on a GPU is better an early layer than a late one. But each layer that stays off it costs a hand-over
    however small it is, and one that is twice as large or more may keep several smaller ones out.
    """
    layers = list(layers)
    smallest = max(min((facts.expert_bytes[layer] for layer in layers), default=1), 1)
    # bit_length: 1 below twice the smallest, 2 below four times, …
    return sorted(layers, key=lambda layer: ((facts.expert_bytes[layer] // smallest).bit_length(), layer))


def most_on_gpu(
    plan: Plan,
    facts: ModelFacts,
    machine: Machine,
    gpu: str,
    *,
    beside: Mapping[int, str] | None = None,
    among: Iterable[int] | None = None,
    left_free: int = 0,
) -> dict[int, str]:
    """`beside`, and as many whole layers on `gpu` as fit beside the rest of `plan`, in the order of `gpu_order`.

    None is passed over for a later one, so that more free memory adds layers and takes none away.

    Args:
        plan: The plan, whatever its lanes.
        facts: The model.
        machine: What is free where.
        gpu: Engine name.
        beside: Layers that are on GPUs in any case, and on which; none unless told.
        among: Layers that may go there; all unless told.
        left_free: Bytes of `gpu` that they leave to something else, unless nothing is short at all.
    """
    there = dict(beside or {})
    layers = gpu_order(facts, facts.moe_layers if among is None else among)
    layers = [layer for layer in layers if layer not in there]
    everything = there | dict.fromkeys(layers, gpu)
    if not layers or not fits(_with_lanes(plan, facts, machine, everything), machine):  # nothing is short
        return everything
    room = room_for_layers(plan, facts, machine, gpu, there) - left_free
    return there | dict.fromkeys(_leading(facts, layers, room), gpu)


def room_for_layers(
    plan: Plan, facts: ModelFacts, machine: Machine, gpu: str, beside: Mapping[int, str] | None = None
) -> int:
    """Bytes of experts that `gpu` has room for beside the rest of `plan` and the layers `beside`."""
    there = dict(beside or {})
    layer = next(layer for layer in facts.moe_layers if layer not in there)
    # With one layer there the GPU has all it needs for experts besides their weights.
    first = _with_lanes(plan, facts, machine, {**there, layer: gpu})
    return spare_bytes(first, machine, gpu) + expert_bytes(facts, (layer,))


def _with_lanes(plan: Plan, facts: ModelFacts, machine: Machine, lanes: Mapping[int, str]) -> Plan:
    """`plan` with these lanes, every other layer on the disk lane, and its memory."""
    placed = msgspec.structs.replace(
        plan, expert_lanes={layer: lanes.get(layer, DISK_LANE) for layer in facts.moe_layers}
    )
    return msgspec.structs.replace(placed, memory=predict(facts, machine, placed))


def _first_that_fit(facts: ModelFacts, layers: Iterable[int], room: int) -> list[int]:
    """The layers, in order, that fit into `room` bytes; one that is too large is passed over."""
    fitting = []
    for layer in layers:
        size = expert_bytes(facts, (layer,))
        if size <= room:
            fitting.append(layer)
            room -= size
    return fitting


def _leading(facts: ModelFacts, layers: Iterable[int], room: int) -> list[int]:
    """The layers, in order, up to the first that does not fit into what is left of `room` bytes."""
    fitting = []
    for layer in layers:
        room -= expert_bytes(facts, (layer,))
        if room < 0:
            break
        fitting.append(layer)
    return fitting
