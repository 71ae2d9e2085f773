"""A board that shows what a test tells it, without an engine: whole models of routings, lanes and pins at a stroke."""

from types import SimpleNamespace

import numpy as np
from PySide6.QtCore import QObject, Signal
from ui_factories import MIB, make_experts, make_facts, make_machine, make_pool

from app.engine import protocol
from app.placement.cache.facts import LayerExperts
from app.placement.plan import CPU_LANE, DISK_LANE, ExpertPin, Plan
from app.ui.lanes.board_state import BoardState

POOL_DEVICE = "Vulkan0"


class ToldCache(QObject):
    """Stands where the window's expert cache would."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.facts: SimpleNamespace | None = None
        self.ordered: dict[tuple[int, int], str] = {}

    def watch(self, watcher: QObject, *, experts: bool) -> None:
        """Nothing is asked for."""

    def unwatch(self, watcher: QObject) -> None:
        """Nothing is asked for."""


class ToldController(QObject):
    """Stands where the window's controller would: a model of plain figures, loaded or not.

    Args:
        layers, experts: The model's shape.
        pool: Bytes of the pool; 0 for none.
        whole: Layers that are wholly on the GPU.
        loaded: Whether the engine has it.
    """

    machine_changed = Signal()
    model_changed = Signal()
    plan_changed = Signal(object)
    loaded = Signal()
    state_changed = Signal(str)

    def __init__(
        self,
        layers: int = 4,
        experts: int = 8,
        *,
        pool: int = 8 * MIB,
        whole: tuple[int, ...] = (),
        loaded: bool = True,
    ) -> None:
        super().__init__()
        self.cache = ToldCache()
        self.machine = make_machine()
        self.facts = make_facts(layers=layers, experts=experts)
        lanes = {layer: POOL_DEVICE if layer in whole else CPU_LANE for layer in range(layers)}
        self.plan = Plan(
            model_files=("m.gguf",),
            gpu=POOL_DEVICE,
            n_ctx=512,
            expert_lanes=lanes,
            pool_bytes=pool,
            pool_device=POOL_DEVICE,
        )
        self.experts = experts
        self.single = tuple(layer for layer in range(layers) if layer not in whole)
        self.loaded_facts = self.loaded_plan = self.loaded_report = None
        if loaded:
            self.loaded_facts, self.loaded_plan = self.facts, self.plan
            self.loaded_report = protocol.Loaded(
                id=1, seconds=1.0, n_ctx=512, buffers=(), expert_layers=lanes, differences=(), expert_device=True
            )
            self.tell({layer: make_experts((0,) * experts) for layer in self.single})

    def tell(self, layers: dict[int, LayerExperts]) -> None:
        """The engine says this of its layers; others stay as they were."""
        before = self.cache.facts.layers if self.cache.facts is not None else {}
        self.cache.facts = SimpleNamespace(pool=make_pool(device=POOL_DEVICE), layers={**before, **layers})

    def tell_layer(self, layer: int, **fields: object) -> None:
        """The engine says this of a layer: `lanes`, `pins`, `routed` as in LayerExperts."""
        its = self.cache.facts.layers[layer]
        now = {name: fields.get(name, getattr(its, name)) for name in ("lanes", "pins", "slots", "heat", "routed")}
        self.tell({layer: make_experts(now.pop("routed"), **now)})

    def pin(self, layer: int, expert: int, pin: str) -> None:
        """The plan keeps an expert somewhere."""
        pins = (*self.plan.pins, ExpertPin(layer=layer, expert=expert, pin=pin))
        self.plan = Plan(**{**{name: getattr(self.plan, name) for name in self.plan.__struct_fields__}, "pins": pins})


def told_state(controller: ToldController) -> BoardState:
    """A board that has looked once."""
    state = BoardState(controller)
    state.set_active(True)
    return state


def routed_model(
    layers: int, experts: int, *, slots: int, seed: int = 1, tokens: int = 2000, used: int = 10
) -> dict[int, LayerExperts]:
    """Layers with skewed routings, the hottest experts in the pool, and some pins and copies: to be looked at."""
    random = np.random.default_rng(seed)
    made = {}
    for layer in range(layers):
        weights = random.permutation(1 / np.arange(1, experts + 1) ** (0.4 + 0.6 * layer / layers))
        routed = random.multinomial(tokens * used, weights / weights.sum())
        lanes, pins = np.full(experts, "c"), np.full(experts, "a")
        hottest = np.argsort(-routed)
        lanes[hottest[:slots]] = "g"
        lanes[hottest[slots : slots + 2]] = "m"
        pins[hottest[: slots // 6]] = "g"
        pins[random.choice(experts, experts // 16, replace=False)] = "c"
        made[layer] = make_experts(
            tuple(routed.tolist()), lanes="".join(lanes), pins="".join(pins), slots=slots, heat=tuple(routed.tolist())
        )
    return made


def next_token(layers: dict[int, LayerExperts], *, swapped: int, seed: int, used: int = 10) -> dict[int, LayerExperts]:
    """The same some tokens later: `used` more routings in every layer, and a swap in the pool of `swapped` layers."""
    random = np.random.default_rng(seed)
    swapping = set(random.choice(list(layers), swapped, replace=swapped > len(layers)).tolist())
    made = {}
    for layer, its in layers.items():
        routed, lanes = np.array(its.routed), np.array(list(its.lanes))
        np.add.at(routed, random.integers(0, len(routed), used), 1)
        if layer in swapping:
            lanes[random.choice(np.flatnonzero(lanes == "g"))] = "c"
            lanes[random.choice(np.flatnonzero(lanes == "c"))] = "g"
        made[layer] = make_experts(
            tuple(routed.tolist()), lanes="".join(lanes), pins=its.pins, slots=its.slots, heat=its.heat
        )
    return made


__all__ = ["DISK_LANE", "POOL_DEVICE", "ToldController", "next_token", "routed_model", "told_state"]
