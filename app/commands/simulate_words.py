"""A simulated trace as text: what was recorded, LRU by pool size, and a table of pools and policies."""

from collections.abc import Iterator, Sequence

from app import terminal
from app.placement.cache.simulation import FORESIGHT, CurvePoint, PartResult, PoolResult, Simulation
from app.placement.cache.trace import Trace
from app.placement.plan import CachePolicy
from app.units import format_bytes, format_share

# Shares of the experts at which the curve is told; the JSON has all of it.
_SHARES = (1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4)


def describe(trace: Trace, found: Simulation, policy: CachePolicy, seconds: float) -> Iterator[str]:
    """Lines of text. `seconds` is what the simulation took."""
    yield from _recorded(trace, found)
    yield ""
    yield "Plain LRU (no window, no cap) with as many slots in every layer, exact"
    yield from _table(
        ("slots a layer", "experts", "hits", "first quarter", "second half"),
        [_point(point, found) for point in _told(found)],
    )
    if found.pools:
        yield ""
        by = "experts" if found.cycle_bytes is None else "bytes"
        yield (
            f"Pools, hits by {by}; at most {policy.insert_cap} copies a layer and token, "
            f"lru with a window of {policy.window:,} tokens"
        )
        yield from _table(
            ("pool", "slots", "policy", "hits", "first quarter", "second half", "copied a token", "evictions"),
            [row for pool in found.pools for row in _rows(pool, found.tokens)],
        )
        for kind in dict.fromkeys(told.policy for pool in found.pools for told in pool.policies):
            if kind in FORESIGHT:
                yield f"{kind}: {FORESIGHT[kind]}"
        for pool in found.pools:
            if not pool.holds_token_cycle:
                yield f"{pool.words}: less than one token cycle, which is {found.cycle_slots} slots a layer"
    yield ""
    yield (
        f"All of this is simulated from the recording, as if every copy were done before the next token. "
        f"{found.replayed:,} routings were simulated in {seconds:.2f} s."
    )


def _recorded(trace: Trace, found: Simulation) -> Iterator[str]:
    header = trace.header
    counts = sorted(set(header.experts.values()))
    experts = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    lost = f"; {trace.lost:,} more were lost" if trace.lost else ""
    yield (
        f"{terminal.printable(header.name)}: {found.tokens:,} tokens, {found.routings:,} routings in "
        f"{len(header.experts)} layers of {experts} experts, top-{header.experts_used}{lost}"
    )
    if found.cycle_bytes is not None:
        yield f"One token cycle is {format_bytes(found.cycle_bytes)} over these layers"


def _point(point: CurvePoint, found: Simulation) -> tuple[str, ...]:
    mark = " (token cycle)" if point.slots == found.cycle_slots else ""
    rates = (point.slots / (len(found.curve) - 1), point.whole, point.transient, point.steady)
    return f"{point.slots}{mark}", *map(_percent, rates)


def _told(found: Simulation) -> list[CurvePoint]:
    most = len(found.curve) - 1
    slots = {round(most * share) for share in _SHARES} | {min(found.cycle_slots, most), most}
    return [found.curve[count] for count in sorted(slots - {0})]


def _rows(pool: PoolResult, tokens: int) -> Iterator[tuple[str, ...]]:
    words = pool.words if pool.bytes is None else f"{pool.words} ({format_bytes(pool.bytes)})"
    for told in pool.policies:
        parts = (told.whole, told.transient, told.steady)
        yield (
            words, f"{pool.slots:,}", told.policy, *(_percent(_best_rate(part)) for part in parts),
            _copied(told.whole, tokens), f"{told.whole.evictions:,}",
        )  # fmt: skip


def _best_rate(part: PartResult) -> float:
    """By bytes where that is known: it is what saves time."""
    return part.hit_rate if part.byte_hit_rate is None else part.byte_hit_rate


def _copied(part: PartResult, tokens: int) -> str:
    if part.copied_bytes_per_token is not None:
        return format_bytes(round(part.copied_bytes_per_token))
    return f"{part.inserts / tokens:.2f} experts"


def _percent(share: float) -> str:
    return format_share(share, decimals=1)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    for row in (heads, *rows):
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
