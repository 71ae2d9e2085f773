"""Hit rate against pool size: what share of a token's expert bytes a pool of so many bytes will hold.

From a recorded routing it is what LRU would have reached on that very trace. Without one it is assumed, between
bounds, from hit rates that were published for a few models.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import accumulate

import msgspec

from app.model.facts import ModelFacts
from app.placement.speed.types import Range

BASES = ("trace", "assumed")

# By number of experts, share of them in the pool to hit rate, as published for Qwen3-30B-A3B (128 experts; the first
# point is one token cycle, 8 of them), for DeepSeek-V4-Flash (24, 32 and 40 of 256) and, further up, Qwen3.6-35B-A3B
# (5.3 and 7.1 of 18.2 GiB), and for Qwen3.8-Flash-Next (64 and 128 of 512). Where a line's own points end, it goes
# on through the next ones of Qwen3-30B-A3B: past a third of the experts all of them lie together.
_PUBLISHED = {
    128: ((0.0, 0.0), (0.0625, 0.37), (0.19, 0.74), (0.38, 0.89), (0.64, 0.96), (1.0, 1.0)),
    256: (
        (0.0, 0.0), (24 / 256, 0.69), (32 / 256, 0.73), (40 / 256, 0.75), (5.3 / 18.2, 0.84), (7.1 / 18.2, 0.89),
        (0.64, 0.96), (1.0, 1.0),
    ),
    512: ((0.0, 0.0), (64 / 512, 0.67), (128 / 512, 0.81), (0.38, 0.89), (0.64, 0.96), (1.0, 1.0)),
}  # fmt: skip
# A model that is none of these may lie outside their lines: a judgement, not a measurement. The bounds are so much
# of the way from the lowest line to uniform routing, and from the highest to no misses at all.
_DOUBT = 0.25
# Points of a recorded curve, about: with fewer experts than that, a round of one slot more in each layer gets several.
_POINTS = 512
# A curve made of layers' rates is made for each set of layers that the planner asks for: fewer points are enough.
_CLOSE_SLOTS, _FAR_SLOTS = 32, 64


class HitPoint(msgspec.Struct, frozen=True, array_like=True):
    """Hit rate with a pool of `pool_bytes`: likeliest and the bounds it is expected within, each from 0 to 1."""

    pool_bytes: int
    low: float
    likely: float
    high: float


class HitCurve(msgspec.Struct, frozen=True, kw_only=True):
    """Byte hit rate by pool size: share of the routed expert bytes that are in the pool when they are needed.

    Attributes:
        points: By rising pool bytes, the first is a pool of 0; hit rates never fall from one to the next.
        basis: One of BASES: "trace", LRU on a recorded routing; or "assumed", from published figures of other models.
        tokens: Decoded tokens that were recorded; 0 where nobody counted them.
    """

    points: tuple[HitPoint, ...]
    basis: str
    tokens: int = 0

    def at(self, pool_bytes: int) -> float:
        """Likeliest hit rate with a pool of `pool_bytes`: exact at the points, a straight line between them."""
        return self.range_at(pool_bytes).likely

    def range_at(self, pool_bytes: int) -> Range:
        """Hit rate with a pool of `pool_bytes` and its bounds; beyond the last point it stays what it is there."""
        after = bisect_right(self.points, pool_bytes, key=lambda point: point.pool_bytes)
        below = self.points[max(after - 1, 0)]
        above = self.points[min(after, len(self.points) - 1)]
        width = above.pool_bytes - below.pool_bytes
        part = (pool_bytes - below.pool_bytes) / width if width else 0.0
        return Range(
            low=_between(below.low, above.low, part),
            likely=_between(below.likely, above.likely, part),
            high=_between(below.high, above.high, part),
        )


def from_trace(
    hits: Mapping[int, Sequence[int]], routed: Mapping[int, int], expert_bytes: Mapping[int, int]
) -> HitCurve:
    """The curve of a recorded routing, with the pool divided between the layers as the cache divides it.

    Args:
        hits: Layer index to the hits of LRU with 0, 1, … and all of the layer's experts in slots: never falling.
        routed: Layer index to the experts routed there, hits and misses.
        expert_bytes: Layer index to bytes of one expert, for every layer that shares the pool; a layer that was
            not recorded takes its part of the pool and counts no further.
    """
    layers = sorted(expert_bytes)
    counts = {layer: hits[layer] for layer in layers if layer in hits}
    experts = max((len(found) - 1 for found in counts.values()), default=0)
    all_bytes = sum(expert_bytes[layer] * routed[layer] for layer in counts)
    points = []
    for pool_bytes, slots in _divisions(layers, expert_bytes, experts):
        hit_bytes = sum(expert_bytes[layer] * found[slots[layer]] for layer, found in counts.items())
        rate = hit_bytes / all_bytes if all_bytes else 0.0
        points.append(HitPoint(pool_bytes, rate, rate, rate))
    return HitCurve(points=tuple(points), basis="trace")


def from_layers(
    rates: Mapping[int, Sequence[Sequence[float]]], expert_bytes: Mapping[int, int], tokens: int
) -> HitCurve:
    """The curve of a recorded routing from each layer's hit rates, with as many slots in every layer at its points.

    Args:
        rates: Layer index to parts of the recording, the same number of them everywhere, two at least: in each the
            hit rate of LRU with 0, 1, … and all of the layer's experts in slots. The likeliest is the mean of the
            last two parts, the bounds are the highest and the lowest of all.
        expert_bytes: Layer index to bytes of one expert, for the same layers.
        tokens: Decoded tokens that were recorded.
    """
    layers = sorted(rates)
    round_bytes = sum(expert_bytes[layer] for layer in layers)
    experts = max((len(rates[layer][0]) - 1 for layer in layers), default=0)
    points = []
    for slots in _slots_of_interest(experts):
        parts = [
            sum(
                expert_bytes[layer] * of_layer[min(slots, len(of_layer) - 1)]
                for layer, of_layer in zip(layers, of_part, strict=True)
            )
            / round_bytes
            for of_part in zip(*(rates[layer] for layer in layers), strict=True)
        ]
        points.append(HitPoint(slots * round_bytes, min(parts), (parts[-2] + parts[-1]) / 2, max(parts)))
    return HitCurve(points=tuple(points), basis="trace", tokens=tokens)


def _slots_of_interest(experts: int) -> list[int]:
    """Every number of slots up to where curves get flat, then about as many again up to all experts."""
    close = range(min(experts, _CLOSE_SLOTS) + 1)
    return sorted({*close, *(experts * part // _FAR_SLOTS for part in range(_FAR_SLOTS + 1))})


def assumed(facts: ModelFacts, layers: Iterable[int] | None = None) -> HitCurve:
    """What a pool may be expected to hit where no routing of the model was recorded.

    Below one token cycle it is 0: experts lose their slots before they are used again. From there on it is never
    below the share of the experts that is in the pool, which is what uniform routing gives.

    Args:
        facts: The model.
        layers: MoE layers that share the pool; all of them unless told.
    """
    shared = facts.moe_layers if layers is None else tuple(layers)
    round_bytes = sum(facts.expert_bytes[layer] for layer in shared)
    points = [HitPoint(0, 0.0, 0.0, 0.0)]
    if round_bytes:
        cycle = facts.experts_used * round_bytes
        points.append(HitPoint(cycle - 1, 0.0, 0.0, 0.0))
        # A point for every slot more in each layer.
        for slots in range(facts.experts_used, facts.expert_count + 1):
            points.append(HitPoint(slots * round_bytes, *_assumed_rates(slots, facts.expert_count)))
    return HitCurve(points=tuple(points), basis="assumed")


@cache
def _assumed_rates(slots: int, experts: int) -> tuple[float, float, float]:
    """Low, likely and high hit rate with `slots` of `experts` in the pool."""
    uniform = slots / experts
    published = {count: _on_line(line, uniform) for count, line in _PUBLISHED.items()}
    lowest, highest = min(published.values()), max(published.values())
    high = _between(highest, 1.0, _DOUBT)
    if experts < min(_PUBLISHED):
        # Fewer experts than any of them has, larger ones and routed to more evenly: from uniform on anything may be.
        return uniform, _between(uniform, lowest, 0.5), high
    nearest = min(published, key=lambda count: abs(count - experts))
    return _between(lowest, uniform, _DOUBT), published[nearest], high


def _on_line(line: Sequence[tuple[float, float]], share: float) -> float:
    after = min(bisect_right(line, share, key=lambda point: point[0]), len(line) - 1)
    (left, below), (right, above) = line[after - 1], line[after]
    return _between(below, above, (share - left) / (right - left))


def _between(start: float, end: float, part: float) -> float:
    """The value `part` of the way from `start` to `end`; never past either for a part from 0 to 1."""
    return start if start == end else start * (1.0 - part) + end * part


def _divisions(
    layers: Sequence[int], expert_bytes: Mapping[int, int], experts: int
) -> Iterable[tuple[int, Mapping[int, int]]]:
    """Pool sizes, rising, with the slots that `cache_guard.divide_pool` gives each layer then.

    They are those that are used up to the last byte, when the first layers have one slot more than the others: so
    no layer has fewer slots in a larger pool, which does not hold of all sizes where layers' experts differ.
    """
    yield 0, dict.fromkeys(layers, 0)
    stops = max(min(_POINTS // max(experts, 1), len(layers)), 1)
    places = sorted({len(layers) * (stop + 1) // stops for stop in range(stops)})
    filled = [0, *accumulate(expert_bytes[layer] for layer in layers)]
    for everywhere in range(experts if filled[-1] else 0):
        for place in places:
            slots = {layer: everywhere + (index < place) for index, layer in enumerate(layers)}
            yield everywhere * filled[-1] + filled[place], slots
