"""The token-cycle guard: whether an expert pool of some size is large enough to help much, and what would."""

from collections.abc import Mapping

import msgspec

from app.units import format_bytes


class CycleGuard(msgspec.Struct, frozen=True, kw_only=True):
    """An expert pool held against one token cycle: what one token's experts take, over all layers of the pool.

    Attributes:
        pool_bytes: Bytes of the pool.
        cycle_bytes: Bytes of one token cycle.
        slots: Layer index to the slots that the pool has for it.
        sentence: Why the pool helps little or not at all and what would help; empty for one that may, and where
            none is asked for.
    """

    pool_bytes: int
    cycle_bytes: int
    slots: dict[int, int]
    sentence: str

    @property
    def helps(self) -> bool:
        """Whether the pool holds one token cycle: below it, most experts lose their slots before they are used again.

        Not all do: tokens that often share experts still hit a pool of half a cycle, one time in five as measured.
        """
        return 0 < self.cycle_bytes <= self.pool_bytes


def guard_pool(expert_bytes: Mapping[int, int], expert_count: int, experts_used: int, pool_bytes: int) -> CycleGuard:
    """Holds a pool of `pool_bytes` against one token cycle.

    Args:
        expert_bytes: Bytes of one expert in every layer that shares the pool.
        expert_count: Experts in each of these layers.
        experts_used: top-k, the experts one token is routed to in each layer.
        pool_bytes: Bytes for slots, without a staging area.
    """
    cycle = experts_used * sum(expert_bytes.values())
    return CycleGuard(
        pool_bytes=pool_bytes,
        cycle_bytes=cycle,
        slots=divide_pool(expert_bytes, expert_count, pool_bytes),
        sentence=_sentence(expert_bytes, expert_count, experts_used, pool_bytes) if 0 < pool_bytes < cycle else "",
    )


def divide_pool(expert_bytes: Mapping[int, int], expert_count: int, pool_bytes: int) -> dict[int, int]:
    """Slots of each layer in a pool of `pool_bytes`: as many in every layer, never more than it has experts.

    What is left over gives one more slot to each layer that it is enough for, the first layer first, and again
    until it is enough for none. The native pool divides alike, but for pins, which it serves first, and gaps that
    a device wants between tensors.
    """
    round_bytes = sum(expert_bytes.values())
    if not round_bytes:
        return {}
    everywhere = min(pool_bytes // round_bytes, expert_count)
    slots = dict.fromkeys(sorted(expert_bytes), everywhere)
    left = pool_bytes - everywhere * round_bytes
    growing = list(slots)
    while growing:
        growing = [layer for layer in growing if slots[layer] < expert_count and expert_bytes[layer] <= left]
        for layer in growing:
            if expert_bytes[layer] <= left:
                slots[layer] += 1
                left -= expert_bytes[layer]
    return slots


def _sentence(expert_bytes: Mapping[int, int], expert_count: int, experts_used: int, pool_bytes: int) -> str:
    everywhere = pool_bytes // sum(expert_bytes.values())
    has = f"{_count(everywhere, 'slot')} in each layer" if everywhere else "no slot in some layers"
    wants = _rounded_up(experts_used * sum(expert_bytes.values()))
    return (
        f"An expert pool of {format_bytes(pool_bytes)} helps little or not at all: it has {has}, but every token is "
        f"routed to {_count(experts_used, 'expert')} there, and most lose their slots before they are used again. What "
        f"would help: a pool of {wants} or more, or {_whole_layers(expert_bytes, expert_count, pool_bytes)}."
    )


def _whole_layers(expert_bytes: Mapping[int, int], expert_count: int, pool_bytes: int) -> str:
    """The stock way to use the memory instead: all experts of as many layers as fit, the smallest first.

    Never of all: what is below one token cycle is below that.
    """
    sizes = sorted(size * expert_count for size in expert_bytes.values())
    fitting, left = 0, pool_bytes
    for size in sizes:
        if size > left:
            break
        fitting += 1
        left -= size
    if not fitting:
        return f"all experts of single layers on the GPU, from {_rounded_up(sizes[0])} a layer"
    layers = _count(fitting, "layer")
    return f"all experts of {layers} (of {len(sizes)}) on the GPU, which that much memory is enough for"


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _rounded_up(count: int) -> str:
    """`count` bytes as format_bytes writes them, but never less: who asks for what is written gets enough."""
    unit = 1024 ** max((count.bit_length() - 1) // 10, 0)
    tenths = -(-count * 10 // unit)
    return format_bytes(-(-tenths * unit // 10))
