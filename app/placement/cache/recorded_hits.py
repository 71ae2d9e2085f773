"""What a recorded routing says of pools: hit rates by layer and slots, and the hit curve of any plan from them.

Which layers share a pool differs from plan to plan; what LRU hits in one layer depends on its own slots alone. So
hit rates are kept for each layer, and a plan's curve is made of the layers that are off its GPUs.
"""

from collections.abc import Iterable, Mapping

import msgspec

from app.model.facts import ModelFacts
from app.placement.cache.hit_rates import HitCurve, from_layers
from app.placement.plan import CPU_LANE, DISK_LANE, Plan

_LEAST_TOKENS = 64
# Every expert's first routing is a miss, for it was never in the pool. A recording in which each expert has come so
# often on average is long enough that these few hardly count in its later three quarters.
_LEAST_ROUTINGS = 8


class LayerRates(msgspec.Struct, frozen=True, array_like=True):
    """Hit rates of LRU in one layer with 0, 1, … and all of its experts in slots, never falling.

    `quarters` has the second, third and fourth quarter of the recording; in the first the pool was being filled.
    """

    quarters: tuple[tuple[float, ...], ...]


class RecordedHits(msgspec.Struct, frozen=True, kw_only=True):
    """What the recorded routing of one model says.

    Attributes:
        tokens: Decoded tokens that were recorded; of the layer of most.
        least_tokens: With fewer it says too little.
        layers: MoE layer index to its rates; only layers of which enough was recorded.
    """

    tokens: int
    least_tokens: int
    layers: dict[int, LayerRates]

    @property
    def enough(self) -> bool:
        """Whether curves may be made of it."""
        return self.tokens >= self.least_tokens


def least_tokens(experts: int, used: int) -> int:
    """Decoded tokens of a layer of `experts`, top-k `used`, from which on a recording says something."""
    return max(_LEAST_TOKENS, -(-_LEAST_ROUTINGS * experts // max(used, 1)))


def layers_off_gpus(plan: Plan) -> tuple[int, ...]:
    """The layers that share the plan's pool."""
    return tuple(sorted(layer for layer, lane in plan.expert_lanes.items() if lane in (CPU_LANE, DISK_LANE)))


def curve_of(recorded: RecordedHits, expert_bytes: Mapping[int, int], layers: Iterable[int]) -> HitCurve | None:
    """The hit curve of a pool that `layers` share; None where not all of them were recorded.

    Likeliest is the second half of the recording; the bounds are the highest and the lowest of its later quarters.

    Args:
        recorded: What was recorded.
        expert_bytes: Layer index to bytes of one expert.
        layers: Those that share the pool.
    """
    shared = tuple(layers)
    if not shared or not recorded.enough or any(layer not in recorded.layers for layer in shared):
        return None
    sizes = {layer: expert_bytes[layer] for layer in shared}
    rates = {layer: recorded.layers[layer].quarters for layer in shared}
    return from_layers(rates, sizes, recorded.tokens)


class PlanCurves:
    """The hit curves of plans of one model, each made once; the planner asks for the same ones again and again."""

    def __init__(self, facts: ModelFacts, recorded: RecordedHits | None) -> None:
        self._facts = facts
        self._recorded = recorded
        self._curves: dict[tuple[int, ...], HitCurve | None] = {}

    def of(self, plan: Plan) -> HitCurve | None:
        """The recorded curve of the plan's layers off the GPUs.

        None where there is none: not all of them were recorded, or the plan computes each token with another number
        of experts than the model's own, which is another routing.
        """
        if self._recorded is None or plan.experts_used not in (None, self._facts.experts_used):
            return None
        layers = layers_off_gpus(plan)
        if layers not in self._curves:
            self._curves[layers] = curve_of(self._recorded, self._facts.expert_bytes, layers)
        return self._curves[layers]
