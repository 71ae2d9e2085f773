"""Heat: how unevenly tokens were routed over the experts of each layer. Pure arithmetic, no Qt."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from app.placement.cache.facts import LayerExperts

Counts = NDArray[np.int64]
Fractions = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LayerHeat:
    """One layer's experts as the engine last reported them.

    Attributes:
        counts: Routings per expert since the load, of answers (prompts make no heat).
        fractions: Per expert 0 (never routed to) to 1 (the model's hottest expert), for colours.
        experts: The report itself: also each expert's lane, pin and decayed heat.
    """

    counts: Counts
    fractions: Fractions
    experts: LayerExperts

    @property
    def total(self) -> int:
        """Routings of the layer over all experts."""
        return int(self.counts.sum())

    def share(self, expert: int) -> float:
        """The part of the layer's routings that went to `expert`, 0 to 1."""
        return int(self.counts[expert]) / self.total if self.total else 0.0

    def hottest(self, how_many: int) -> list[int]:
        """The experts routed to most, hottest first; those never routed to are left out."""
        order = np.argsort(-self.counts, kind="stable")[:how_many]
        return [int(expert) for expert in order if self.counts[expert]]


@dataclass(frozen=True, eq=False)
class HeatMap:
    """The counted layers of a model on one common scale.

    Attributes:
        layers: Layer index to its heat; layers that nothing counts are absent.
        hottest_share: The largest share any expert has of its layer's routings; the scale's end.
        even_share: What each expert would have if routing were even; 0 when nothing is counted.
    """

    layers: dict[int, LayerHeat] = field(default_factory=dict)
    hottest_share: float = 0.0
    even_share: float = 0.0

    @property
    def is_empty(self) -> bool:
        """True while no routing at all was counted."""
        return self.hottest_share == 0.0

    @property
    def has_pool(self) -> bool:
        """True where a layer has slots in a GPU pool."""
        return any(layer.experts.slots for layer in self.layers.values())


def heat_fractions(counts: Counts, hottest_share: float) -> Fractions:
    """Place each expert on the colour scale from 0 (never) to 1 (`hottest_share` or more).

    The scale is logarithmic in multiples of the even share, log(1 + share / even), because a few hot
    experts would otherwise leave all others one colour. It does not depend on how many tokens were
    counted, so colours settle while an answer grows.

    Args:
        counts: Routings per expert, shape (experts,).
        hottest_share: The share that gets the hottest colour, 0 to 1.
    """
    total = counts.sum()
    if not total or hottest_share <= 0:
        return np.zeros(len(counts))
    multiples = counts / total * len(counts)
    return np.minimum(np.log1p(multiples) / np.log1p(hottest_share * len(counts)), 1.0)


def heat_map(layers: Mapping[int, LayerExperts]) -> HeatMap:
    """The heat of every layer that the expert device computes."""
    counts = {layer: np.asarray(layers[layer].routed, dtype=np.int64) for layer in sorted(layers)}
    shares = [values.max() / values.sum() for values in counts.values() if values.sum()]
    hottest = float(max(shares, default=0.0))
    experts = max((len(values) for values in counts.values()), default=0)
    return HeatMap(
        layers={
            layer: LayerHeat(counts=values, fractions=heat_fractions(values, hottest), experts=layers[layer])
            for layer, values in counts.items()
        },
        hottest_share=hottest,
        even_share=1 / experts if experts else 0.0,
    )
