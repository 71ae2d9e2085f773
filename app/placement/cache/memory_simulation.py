"""What main memory would hold of a recorded routing, by its size: one cache of all layers, as the engine keeps it."""

from collections.abc import Mapping

import msgspec
import numpy as np

from app.placement.cache.simulator import STEADY, TRANSIENT, WHOLE, routed_by_quarter
from app.placement.cache.simulator_library import LayerTrace, simulator_library
from app.placement.cache.trace import Trace

_STEPS = 64
_MOST_EXPERTS = 2**15 - 1
"""Of one layer, and so of all together, that the native simulator can count."""


class MemoryPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Main memory with room for some experts: those that were used last stay, whatever their layer.

    Attributes:
        experts: Room, of all layers together.
        bytes: The same with experts of average size; None where their sizes are not known.
        whole, transient, steady: Share of the routed experts that need not be read from the disk: over the whole
            trace, its first quarter, its second half.
    """

    experts: int
    bytes: int | None
    whole: float
    transient: float
    steady: float


def memory_points(trace: Trace, expert_bytes: Mapping[int, int] | None = None) -> tuple[MemoryPoint, ...]:
    """Room for none to all experts; exact for experts of one size and without a pool, which takes its hits away.

    Args:
        trace: What was recorded; not empty.
        expert_bytes: Bytes of one expert in every recorded layer; None where they are not known.

    Returns:
        By rising room; empty where there are more experts than the simulator can count.

    Raises:
        AppError: engine_missing, the native simulator is not installed.
    """
    counts = trace.header.experts
    layers = sorted(counts)
    firsts = np.cumsum([0, *(counts[layer] for layer in layers)])
    most = int(firsts[-1])
    if most > _MOST_EXPERTS:
        return ()
    entries = trace.entries[np.isin(trace.entries["layer"], layers)]
    token, layer = entries["token"], entries["layer"]
    changes = np.flatnonzero((token[1:] != token[:-1]) | (layer[1:] != layer[:-1])) + 1
    together = LayerTrace(
        experts=most,
        starts=np.array([0, *changes, *([len(entries)] if len(entries) else [])], dtype=np.int64),
        routed=(firsts[np.searchsorted(layers, layer)] + entries["expert"]).astype(np.int32),
        weights=entries["weight"].astype(np.float32),
    )
    hits, routed = simulator_library().lru_curve(together, 1.0), routed_by_quarter(together)
    size = sum(expert_bytes[layer] * count for layer, count in counts.items()) if expert_bytes is not None else None

    def rate(room: int, part: slice) -> float:
        return float(hits[part, room].sum() / max(routed[part].sum(), 1))

    return tuple(
        MemoryPoint(
            experts=room,
            bytes=None if size is None else size * room // max(most, 1),
            whole=rate(room, WHOLE),
            transient=rate(room, TRANSIENT),
            steady=rate(room, STEADY),
        )
        for room in sorted({most * step // _STEPS for step in range(_STEPS + 1)})
    )
