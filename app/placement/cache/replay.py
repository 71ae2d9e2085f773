"""The expert cache simulated: a recorded routing replayed through the policy, with every copy done at once."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from app.placement.cache.policy import Insert, LayerPolicy
from app.placement.plan import CachePolicy, ExpertPin

BEFORE_THE_TRACE = -1


class LayerPool(msgspec.Struct, frozen=True):
    """How many experts a layer has, and how many of them its pool has slots for."""

    experts: int
    slots: int


class Decision(msgspec.Struct, frozen=True):
    """An insert of a replay; `token` is BEFORE_THE_TRACE for those that pins and saved heat made at the start."""

    token: int
    insert: Insert


class LayerReplay(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy made of one layer's part of a trace.

    Attributes:
        hits: Routed experts that were in the pool when their token came. misses: those that were not.
        evictions: Experts that lost their slot to another.
        decisions: Every insert, in order.
    """

    hits: int
    misses: int
    evictions: int
    decisions: tuple[Decision, ...]

    @property
    def hit_rate(self) -> float:
        """Share of the routed experts that were in the pool, 0 where nothing was routed."""
        return self.hits / max(self.hits + self.misses, 1)


def replay(
    trace: Iterable[tuple[int, int, int, float]],
    pools: Mapping[int, LayerPool],
    policy: CachePolicy,
    *,
    pins: Iterable[ExpertPin] = (),
    heat: Mapping[int, Sequence[float]] | None = None,
) -> dict[int, LayerReplay]:
    """What `policy` would have kept of a recorded routing, were every copy done before the layer's next token.

    Args:
        trace: (token, layer, expert, weight) in the order recorded; NaN for an unknown weight. Successive entries
            of a layer with the same token are one step of that layer.
        pools: Each layer's experts and slots. Layers without an entry are passed over.
        policy: The settings; `stream` is without effect here.
        pins: The user's pins.
        heat: Saved heat by layer, one value for each expert. Pins and heat fill slots before the first token.

    Returns:
        For every layer of `pools`, in its order.
    """
    tokens: dict[int, list[tuple[int, list[int], list[float]]]] = {layer: [] for layer in pools}
    for token, layer, expert, weight in trace:
        if layer not in tokens:
            continue
        steps = tokens[layer]
        if not steps or steps[-1][0] != token:
            steps.append((token, [], []))
        steps[-1][1].append(expert)
        steps[-1][2].append(weight)
    pins = tuple(pins)
    return {
        layer: _replay_layer(
            pool, policy, tokens[layer], [pin for pin in pins if pin.layer == layer], (heat or {}).get(layer)
        )
        for layer, pool in pools.items()
    }


def _replay_layer(
    pool: LayerPool,
    policy: CachePolicy,
    steps: Iterable[tuple[int, Sequence[int], Sequence[float]]],
    pins: Iterable[ExpertPin],
    heat: Sequence[float] | None,
) -> LayerReplay:
    layer = LayerPolicy(pool.experts)
    layer.resize(policy, pool.slots)
    for pin in pins:
        layer.set_pin(pin.expert, pin.pin)
    if heat is not None:
        layer.set_heat(heat)
    decisions: list[Decision] = []

    def copy(token: int, inserts: Iterable[Insert]) -> None:
        for insert in inserts:
            decisions.append(Decision(token, insert))
            layer.complete(insert.slot, insert.expert)

    copy(BEFORE_THE_TRACE, layer.fill(policy, pool.slots))
    hits = misses = 0
    for token, routed, weights in steps:
        ready = sum(layer.ready_slot(expert) is not None for expert in routed)
        hits += ready
        misses += len(routed) - ready
        copy(token, layer.step(policy, routed, weights))
    return LayerReplay(hits=hits, misses=misses, evictions=layer.evictions, decisions=tuple(decisions))
