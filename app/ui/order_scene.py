"""How things are when the user orders something: lanes, slots, pins and room, by which an order is judged."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.cache.facts import IN_POOL, LayerExperts, MemoryFacts
from app.placement.cache.guard import divide_pool
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.ui.controller import Controller
from app.ui.lanes.memory_room import MemoryRoom, memory_room
from app.ui.lanes.pool import PoolRoom, pool_room
from app.ui.live_plan import GPU_PIN, Pins, pins_of


@dataclass(frozen=True)
class Scene:
    """What decides whether an expert can be kept somewhere.

    Attributes:
        facts: The model. plan: The plan as it is edited.
        lanes: The lane of each layer as a whole: as loaded, or as planned while it is not loaded.
        slots: Slots of each layer in the pool.
        pins: Pins as they are, by (layer, expert).
        room: What the pool may take.
        routed: Times each expert was routed to, by layer; empty where nobody counted.
        told: What the engine tells of single experts, by layer.
        in_memory: What main memory has of mapped experts; None while nobody tells.
        memory_room: What mapped experts may take of it.
        budgeting: Whether the engine has another budget of it to take yet: the plan's, which is not in `in_memory`.
        blind: Why the engine cannot tell experts apart, else empty.
    """

    facts: ModelFacts
    plan: Plan
    machine: Machine
    lanes: Mapping[int, str]
    slots: Mapping[int, int]
    pins: Pins
    room: PoolRoom
    routed: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    told: Mapping[int, LayerExperts] = field(default_factory=dict)
    in_memory: MemoryFacts | None = None
    memory_room: MemoryRoom = field(default_factory=MemoryRoom)
    budgeting: bool = False
    blind: str = ""

    @property
    def pooled(self) -> dict[int, int]:
        """Bytes of one expert of every layer that a pool would hold experts of."""
        return {
            layer: self.facts.expert_bytes[layer]
            for layer, lane in sorted(self.lanes.items())
            if lane in (CPU_LANE, DISK_LANE) and layer in self.facts.expert_bytes
        }

    @cached_property
    def _kept(self) -> dict[int, set[int]]:
        kept: dict[int, set[int]] = {}
        if GPU_PIN not in self.pins.values():
            return kept
        for (layer, expert), pin in self.pins.items():
            if pin == GPU_PIN:
                kept.setdefault(layer, set()).add(expert)
        return kept

    def kept_on_gpu(self, layer: int) -> set[int]:
        """The experts of a layer that the user keeps on the GPU."""
        return self._kept.get(layer, set())

    def computed_from(self, cell: tuple[int, int]) -> str:
        """Where the CPU has an expert from: r (main memory) or d (the disk); empty for the pool, or if nobody tells."""
        its, expert = self.told.get(cell[0]), cell[1]
        if its is None or not 0 <= expert < len(its.memory) or its.lanes[expert] == IN_POOL:
            return ""
        return its.memory[expert]

    def heat(self, cell: tuple[int, int]) -> tuple[int, int]:
        """Sorts the hottest expert first."""
        layer, expert = cell
        counts = self.routed.get(layer, ())
        return (-counts[expert] if expert < len(counts) else 0, expert)


def planned_slots(lanes: Mapping[int, str], facts: ModelFacts, plan: Plan, pins: Pins) -> dict[int, int]:
    """Slots that a load of `plan` would give each layer: pins first, then as many for every layer."""
    sizes = {
        layer: facts.expert_bytes[layer]
        for layer, lane in sorted(lanes.items())
        if lane in (CPU_LANE, DISK_LANE) and layer in facts.expert_bytes
    }
    even = divide_pool(sizes, facts.expert_count, plan.pool_bytes)
    on_gpu = GPU_PIN in pins.values()  # else none of thousands is looked at
    kept = Counter([layer for (layer, _expert), pin in pins.items() if pin == GPU_PIN] if on_gpu else ())
    if all(kept[layer] <= even.get(layer, 0) for layer in sizes):
        return even
    slots, left = {}, plan.pool_bytes
    for layer, size in sizes.items():
        slots[layer] = min(kept[layer], left // size)
        left -= slots[layer] * size
    for level in range(1, facts.expert_count + 1):
        for layer, size in sizes.items():
            if slots[layer] < level and size <= left:
                slots[layer] += 1
                left -= size
    return slots


def scene_of(controller: Controller, plan: Plan | None, *, live: bool) -> Scene | None:
    """How things are now; None without a model, a plan or a machine.

    Args:
        controller: Model, machine, and what the engine says.
        plan: The plan as it is edited.
        live: Whether the model shown is the one that is loaded.
    """
    facts, machine = controller.facts, controller.machine
    if facts is None or plan is None or machine is None:
        return None
    report = controller.loaded_report if live else None
    cache = controller.cache.facts if live else None
    lanes = report.expert_layers if report else plan.expert_lanes
    layers = cache.layers if cache else {}
    pins = pins_of(plan)
    loaded = controller.loaded_plan if report else None
    in_memory, chosen = cache.memory if cache else None, controller.cache.memory_chosen
    return Scene(
        facts=facts,
        plan=plan,
        machine=machine,
        lanes=lanes,
        slots={layer: its.slots for layer, its in layers.items()} or planned_slots(lanes, facts, plan, pins),
        pins=pins,
        room=pool_room(facts, loaded or plan, report, machine, cache.pool if cache else None),
        routed={layer: its.routed for layer, its in layers.items()},
        told=layers,
        in_memory=in_memory,
        memory_room=memory_room(facts, loaded or plan, report, machine, in_memory, chosen if live else 0),
        budgeting=live and controller.cache.budgeting,
        blind=report.reason if report is not None and not report.expert_device else "",
    )
