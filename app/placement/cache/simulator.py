"""A recorded routing run through caches: plain LRU of all sizes at once, the cache's policies, the best possible.

Pure functions over arrays; the loops are native (`engine/native/simulate.h`). `cache_replay` does the same for the
policies in Python and tells every single decision.

In all of them a token's hits are judged before its misses are copied in, and copies are done before the layer's
next token: what a cache hits that copies as fast as the model decodes.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from app.placement.cache import hit_rates
from app.placement.cache.hit_rates import HitCurve
from app.placement.cache.recorded_hits import LayerRates, RecordedHits, least_tokens
from app.placement.cache.simulator_library import QUARTERS, LayerCounts, LayerTrace, simulator_library
from app.placement.cache.trace import Trace
from app.placement.plan import PINS, CachePolicy, ExpertPin

# Which quarters of a layer's steps: before the pool has filled, when it has, and all.
TRANSIENT = slice(0, 1)
STEADY = slice(2, QUARTERS)
WHOLE = slice(0, QUARTERS)

LayerHits = Mapping[int, npt.NDArray[np.int64]]


def split_layers(trace: Trace) -> dict[int, LayerTrace]:
    """The routing of every layer of the trace's header, in the order of layers.

    Successive entries of a layer with the same token are one step.
    """
    entries = trace.entries
    order = np.argsort(entries["layer"], kind="stable")
    layers = sorted(trace.header.experts)
    sorted_layers = entries["layer"][order]
    firsts = np.searchsorted(sorted_layers, layers, side="left")
    ends = np.searchsorted(sorted_layers, layers, side="right")
    return {
        layer: _layer(trace.header.experts[layer], entries[order[first:end]])
        for layer, first, end in zip(layers, firsts, ends, strict=True)
    }


def _layer(experts: int, entries: npt.NDArray[np.void]) -> LayerTrace:
    token = entries["token"]
    changes = np.flatnonzero(token[1:] != token[:-1]) + 1
    ends = [len(entries)] if len(entries) else []
    return LayerTrace(
        experts=experts,
        starts=np.array([0, *changes, *ends], dtype=np.int64),
        routed=entries["expert"].astype(np.int32),
        weights=entries["weight"].astype(np.float32),
    )


def lru_hits(layers: Mapping[int, LayerTrace], decay: float = CachePolicy().decay) -> dict[int, npt.NDArray[np.int64]]:
    """Hits of a plain LRU cache of each layer, exact for every number of slots.

    Plain: every miss is copied in and the least recently routed expert goes, whatever window, cap and threshold.

    Args:
        layers: The routing.
        decay: Of the heat that decides which of the experts of one token goes first, above 0 to 1.

    Returns:
        By layer, int64 [QUARTERS, experts + 1]: by quarter of the layer's steps, and by slots from 0 on.

    Raises:
        AppError: engine_missing, the native simulator is not installed.
    """
    library = simulator_library()
    return {layer: library.lru_curve(routing, decay) for layer, routing in layers.items()}


def hit_curve(
    hits: LayerHits, layers: Mapping[int, LayerTrace], expert_bytes: Mapping[int, int], part: slice = STEADY
) -> HitCurve:
    """Byte hit rate by pool size, from `lru_hits`.

    Args:
        hits: What `lru_hits` gave for `layers`.
        layers: The routing.
        expert_bytes: Layer index to bytes of one expert, for every layer that shares the pool.
        part: TRANSIENT, STEADY or WHOLE.
    """
    return hit_rates.from_trace(
        {layer: found[part].sum(axis=0).tolist() for layer, found in hits.items()},
        {layer: int(routed_by_quarter(routing)[part].sum()) for layer, routing in layers.items()},
        expert_bytes,
    )


def recorded_hits(trace: Trace, expert_bytes: Mapping[int, int]) -> RecordedHits:
    """Hit rates of LRU by layer and slots, for curves of any plan of the model that was recorded.

    Layers with too few tokens are left out.

    Args:
        trace: The recording.
        expert_bytes: The model's layers that have experts.

    Raises:
        AppError: file_unreadable, the trace is damaged; engine_missing, the native simulator is not installed.
    """
    layers = {layer: its for layer, its in split_layers(trace).items() if layer in expert_bytes}
    used = trace.header.experts_used
    least = max((least_tokens(its.experts, used) for its in layers.values()), default=least_tokens(1, 1))
    long_enough = {layer: its for layer, its in layers.items() if its.steps >= least}
    rates = {}
    for layer, hits in lru_hits(long_enough).items():
        routed = routed_by_quarter(long_enough[layer])
        quarters = [(hits[part] / routed[part]).tolist() for part in range(1, QUARTERS)]
        rates[layer] = LayerRates(tuple(tuple(quarter) for quarter in quarters))
    return RecordedHits(tokens=max((its.steps for its in layers.values()), default=0), least_tokens=least, layers=rates)


def routed_by_quarter(layer: LayerTrace) -> npt.NDArray[np.int64]:
    """Routed experts in each quarter of the layer's steps: int64 [QUARTERS]."""
    return np.diff(layer.starts[quarter_starts(layer)])


def quarter_starts(layer: LayerTrace) -> npt.NDArray[np.int64]:
    """The first step of every quarter as the native simulator divides them, and the end: int64 [QUARTERS + 1]."""
    quarters = np.arange(QUARTERS + 1)
    return layer.steps // QUARTERS * quarters + layer.steps % QUARTERS * quarters // QUARTERS


def replay(
    layers: Mapping[int, LayerTrace],
    policy: CachePolicy,
    slots: Mapping[int, int],
    *,
    pins: Iterable[ExpertPin] = (),
    heat: Mapping[int, npt.NDArray[np.float32]] | None = None,
) -> dict[int, LayerCounts]:
    """What `policy` would have made of the routing.

    Args:
        layers: The routing.
        policy: The settings, valid.
        slots: Slots of every layer.
        pins: The user's pins, of experts that exist; those of other layers are passed over.
        heat: Saved heat by layer, float32 [experts]. Pins and heat fill slots before the first token.

    Raises:
        AppError: engine_missing, the native simulator is not installed.
    """
    library = simulator_library()
    pinned: dict[int, npt.NDArray[np.uint8]] = {}
    for pin in pins:
        if pin.layer in layers:
            numbers = pinned.setdefault(pin.layer, np.zeros(layers[pin.layer].experts, dtype=np.uint8))
            numbers[pin.expert] = PINS.index(pin.pin)
    return {
        layer: library.replay(routing, policy, slots[layer], pinned.get(layer), (heat or {}).get(layer))
        for layer, routing in layers.items()
    }


def oracle(
    layers: Mapping[int, LayerTrace], slots: Mapping[int, int], *, prefilled: bool = True
) -> dict[int, LayerCounts]:
    """The most hits possible by knowing the future, for any cache that copies in only what was just routed.

    Args:
        layers: The routing.
        slots: Slots of every layer.
        prefilled: It starts with the experts that are routed to first: a bound also for policies that are filled
            beforehand. Otherwise it starts empty.

    Raises:
        AppError: engine_missing, the native simulator is not installed.
    """
    library = simulator_library()
    return {
        layer: library.oracle(routing, slots[layer], prefilled=prefilled) for layer, routing in layers.items()
    }  # fmt: skip


def hindsight_heat(layers: Mapping[int, LayerTrace]) -> dict[int, npt.NDArray[np.float32]]:
    """How often each expert was routed to over the whole trace, float32 [experts] by layer.

    As heat of the frozen policy it gives the best placement that never changes, which no one can know beforehand.
    """
    return {
        layer: np.bincount(routing.routed, minlength=routing.experts).astype(np.float32)
        for layer, routing in layers.items()
    }
