"""The law of speed: from a plan's work and a machine's rates to the time of one token, part by part.

Decoding: T = T_fixed + dense/BW + max(B·(1 − h)/BW_cpu, B·h/BW_gpu) + T_disk, with B bytes of routed experts and h
the share of them in the pool. Of a prompt the experts that a micro-batch touches are read once for all its tokens, so
that arithmetic decides, or the bus. T_disk is what reading missing experts takes beyond computing those that are there.
"""

import math
from collections.abc import Mapping

import msgspec

from app.placement.plan import CPU_LANE
from app.placement.speed.calibration import Overlap
from app.placement.speed.demand import LEAST_OFFLOADED_TOKENS, Demand, Group, Hits

Values = Mapping[str, float]
"""A value for every name of `speed_rates.Rates`."""

# Bytes of experts that the expert device waits for before it computes a prompt with them, while it reads the next ones:
# `prompt_wave` of `app/engine/native/disk_lane.cpp`.
_PROMPT_WAVE = 64 * 1024**2

# What copying misses over costs beyond its own time; the cache wants this much gain before it does so.
_COPY_DISTURBS = 0.9


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the time.

    Attributes:
        name: As in `TimePart`, or "bringing" for that part of "disk" which the processor takes.
        device: Whose time it is; what the copies go to.
        seconds: How long it is at work.
        waited: How much of it the token waits for: less where it runs beside something that takes longer.
        bytes: Bytes that are read or copied in that time; 0 where bytes say nothing.
        arithmetic: Whether operations, not bytes, make the time.
    """

    name: str
    device: str
    seconds: float
    waited: float
    bytes: float = 0.0
    arithmetic: bool = False


class _Divided(msgspec.Struct, frozen=True, kw_only=True):
    """A layer's experts divided between two devices: seconds in all and of each side."""

    total: float
    cpu: float
    gpu: float
    copies: float
    streamed: float


def total(shares: tuple[Share, ...]) -> float:
    """Seconds in all."""
    return sum(share.waited for share in shares)


def decode_shares(demand: Demand, values: Values, overlap: Overlap | None, hits: Hits) -> tuple[Share, ...]:
    """The time of one decoded token."""
    dense = demand.dense_bytes + demand.kv_bytes
    shares = [
        _share("overhead", demand.attention, _overhead(demand, values) + values["token"]),
        _share("attention", demand.attention, dense / values[f"dense {demand.attention}"], dense),
    ]
    shares += [
        _share("gpu experts", group.device, group.routed_bytes / values[f"experts {group.device}"], group.routed_bytes)
        for group in demand.whole
    ]
    off = demand.off
    if not off.routed_bytes:
        return tuple(shares)
    cpu = off.routed_bytes * (1 - hits.pool) / values["experts CPU"]
    if demand.pool is None:
        shares.append(_share("cpu experts", CPU_LANE, cpu, off.routed_bytes))
    else:
        gpu = off.routed_bytes / values[f"experts {demand.pool}"]
        copy = off.routed_bytes / values[f"copy {demand.pool}"]
        missed = 1 - hits.pool
        divided = _divide(
            demand.stream,
            cpu,
            gpu * hits.pool,
            (gpu + copy) * missed,
            copy * missed,
            overlap,
            missed_experts=demand.touched_tokens[1] * missed,
        )
        shares += _divided_shares(demand, divided, off.routed_bytes * missed, off.routed_bytes * hits.pool)
    if hits.cold:
        shares += _decode_reads(demand, values, hits, _on_processor(shares))
    return tuple(shares)


def prompt_shares(
    demand: Demand, values: Values, overlap: Overlap | None, tokens: int, n_ubatch: int
) -> tuple[Share, ...]:
    """The time of one token of a prompt of `tokens`, computed `n_ubatch` at a time."""
    tokens, n_ubatch = max(tokens, 1), max(n_ubatch, 1)
    whole, rest = divmod(tokens, n_ubatch)
    batches = [(n_ubatch, whole), (rest, 1)]
    parts: dict[tuple[str, str], Share] = {}
    for size, times in batches:
        if not size or not times:
            continue
        for share in _batch_shares(demand, values, overlap, size, tokens / 2):
            key = (share.name, share.device)
            before = parts.get(key)
            factor = times / tokens
            parts[key] = Share(
                name=share.name,
                device=share.device,
                seconds=share.seconds * factor + (before.seconds if before else 0.0),
                waited=share.waited * factor + (before.waited if before else 0.0),
                bytes=share.bytes * factor + (before.bytes if before else 0.0),
                arithmetic=share.arithmetic or bool(before and before.arithmetic),
            )
    return tuple(parts.values())


def _batch_shares(demand: Demand, values: Values, overlap: Overlap | None, tokens: int, context: float) -> list[Share]:
    """The time of one micro-batch."""
    touched = demand.touched(tokens)
    dense = demand.dense_bytes - demand.output_bytes
    flops = 2 * tokens * dense / demand.weight_bytes + tokens * context * demand.score_flops
    shares = [
        _share("overhead", demand.attention, _overhead(demand, values)),
        _roofline("attention", demand.attention, "dense", values, dense + demand.output_bytes, flops),
    ]
    for group in demand.whole:
        shares.append(
            _roofline(
                "gpu experts",
                group.device,
                "experts",
                values,
                group.all_bytes * touched,
                _expert_flops(demand, group, tokens),
            )
        )
    off = demand.off
    if not off.routed_bytes:
        return shares
    size, flops = off.all_bytes * touched, _expert_flops(demand, off, tokens)
    cpu = _roofline("cpu experts", CPU_LANE, "experts", values, size, flops)
    if demand.stream == "stock" and tokens >= LEAST_OFFLOADED_TOKENS:
        gpu = _roofline("gpu experts", demand.attention, "experts", values, size, flops)
        shares += [gpu, _share("copies", demand.attention, size / values[f"pageable copy {demand.attention}"], size)]
    elif demand.pool is None:
        shares.append(cpu)
    else:
        gpu = _roofline("gpu experts", demand.pool, "experts", values, size, flops)
        copy = size / values[f"copy {demand.pool}"]
        held, missed = demand.pool_share, 1 - demand.pool_share
        # One half of the staging area is copied into while the other is computed from.
        streamed = max(copy, gpu.seconds) * missed
        divided = _divide(demand.stream, cpu.seconds * missed, gpu.seconds * held, streamed, copy * missed, overlap)
        if demand.stream == "auto" and cpu.seconds < divided.total:
            divided = _Divided(total=cpu.seconds, cpu=cpu.seconds, gpu=0.0, copies=0.0, streamed=0.0)
        shares += _divided_shares(demand, divided, size * missed, size * held, arithmetic=cpu.arithmetic)
    if cold := size * (1 - max(demand.warm_share, demand.pool_share)):
        shares += _prompt_reads(demand, values, cold, _on_processor(shares))
    return shares


def _on_processor(shares: list[Share]) -> float:
    """Seconds that the processor computes experts."""
    return sum(share.seconds for share in shares if share.name == "cpu experts")


def _decode_reads(demand: Demand, values: Values, hits: Hits, computing: float) -> list[Share]:
    """The disk's part of a decoded token, and the processor's part of bringing in what it reads.

    In a layer that lacks experts, those that are there are computed while the others are read. It lacks some with the
    probability 1 − (1 − c)^k, where c is the share that is missing.
    """
    cold = demand.off.routed_bytes * hits.cold
    visited = 1 - (1 - hits.cold) ** max(demand.touched_tokens[1], 1)
    of_missed = hits.cold / (1 - hits.pool) if hits.pool < 1 else 1.0
    here = max(visited - of_missed, 0.0) * computing
    return _reads(demand, values, cold, beside=(here,), readers_wait=demand.readers_wait)


def _prompt_reads(demand: Demand, values: Values, cold: float, computing: float) -> list[Share]:
    """The same of a micro-batch: experts are read in waves, each while those that came before are computed."""
    here = computing * demand.warm_share
    return _reads(
        demand,
        values,
        cold,
        beside=(here, computing - here),
        first=demand.off.layers * _PROMPT_WAVE,
        readers_wait=demand.prompt_readers_wait,
    )


def _reads(
    demand: Demand,
    values: Values,
    cold: float,
    *,
    beside: tuple[float, ...],
    first: float = math.inf,
    readers_wait: bool,
) -> list[Share]:
    """Reads of `cold` bytes; `first` of them beside so many seconds of computing, the rest beside the next so many."""
    seconds = cold / values["disk"]
    if not demand.asks:
        return [_share("disk", CPU_LANE, seconds, cold)]
    parts = (min(cold, first), max(cold - first, 0.0))
    waited = sum(max(part / values["disk"] - least, 0.0) for part, least in zip(parts, beside, strict=False))
    shares = [Share(name="disk", device=CPU_LANE, seconds=seconds, waited=waited, bytes=cold)]
    if readers_wait:
        shares.append(_share("bringing", CPU_LANE, cold / values["bringing"], cold))
    return shares


def _overhead(demand: Demand, values: Values) -> float:
    """What layers cost beside weights: their small operations, and experts handed to another device and back."""
    seconds = demand.layers * values[f"layer {demand.attention}"]
    for group in (*demand.whole, demand.off):
        if group.device != CPU_LANE and group.device == demand.attention:
            continue  # computed with the rest of the layer
        waits = group.device if demand.attention == CPU_LANE else demand.attention
        seconds += group.layers * values[f"sync {waits}"]
    if demand.pool is not None and (demand.pool_share or demand.stream == "always"):
        seconds += demand.off.layers * values[f"sync {demand.pool}"]
    return seconds


def _expert_flops(demand: Demand, group: Group, tokens: int) -> float:
    return 2 * tokens * group.routed_bytes / demand.weight_bytes


def _roofline(name: str, device: str, what: str, values: Values, size: float, flops: float) -> Share:
    by_bytes, by_flops = size / values[f"{what} {device}"], flops / values[f"flops {device}"]
    return _share(name, device, max(by_bytes, by_flops), size, arithmetic=by_flops > by_bytes)


def _share(name: str, device: str, seconds: float, size: float = 0.0, *, arithmetic: bool = False) -> Share:
    return Share(name=name, device=device, seconds=seconds, waited=seconds, bytes=size, arithmetic=arithmetic)


def _divide(
    stream: str,
    cpu: float,
    gpu: float,
    streamed: float,
    copies: float,
    overlap: Overlap | None,
    *,
    missed_experts: float = math.inf,
) -> _Divided:
    """Misses on the processor beside hits on the GPU, and as many misses copied over as is worth it.

    Args:
        stream: "off", "auto" or "always".
        cpu: Seconds of all misses on the processor.
        gpu: Seconds of the hits on the GPU.
        streamed: Seconds of all misses copied over and computed there; `copies` of them copying.
        copies: See `streamed`.
        overlap: What is left of each rate while both work.
        missed_experts: Of one layer. Experts are copied whole, so that where few are missing, half of one less than
            would be best goes over, on average.
    """
    cpu_share = (overlap.cpu_share if overlap else None) or 1.0
    gpu_share = (overlap.device_share if overlap else None) or 1.0
    copy_share = (overlap.copy_share if overlap else None) or 1.0
    if stream == "always":
        return _Divided(total=gpu + streamed, cpu=0.0, gpu=gpu + streamed - copies, copies=copies, streamed=1.0)
    plain = _both(cpu, gpu, cpu_share, gpu_share)
    slow_cpu, slow_gpu, slow_streamed = cpu / cpu_share, gpu / gpu_share, streamed / copy_share
    if stream == "auto" and slow_cpu > slow_gpu:
        part = (slow_cpu - slow_gpu) / (slow_cpu + slow_streamed)
        part = max(part - 0.5 / missed_experts, 0.0)
        balanced = (1 - part) * slow_cpu / _COPY_DISTURBS
        if balanced < plain:
            beside = max(streamed - copies, 0.0) * part
            return _Divided(total=balanced, cpu=cpu * (1 - part), gpu=gpu + beside, copies=copies * part, streamed=part)
    return _Divided(total=plain, cpu=cpu, gpu=gpu, copies=0.0, streamed=0.0)


def _both(cpu: float, gpu: float, cpu_share: float, gpu_share: float) -> float:
    """Seconds until both are done that work at once: each slower as long as the other works, then alone."""
    slow_cpu, slow_gpu = cpu / cpu_share, gpu / gpu_share
    if slow_cpu >= slow_gpu:
        return cpu + slow_gpu * (1 - cpu_share)
    return gpu + slow_cpu * (1 - gpu_share)


def _divided_shares(
    demand: Demand, divided: _Divided, missed: float, held: float, *, arithmetic: bool = False
) -> list[Share]:
    """The parts of a divided layer; the token waits for the one that takes longest."""
    assert demand.pool is not None
    part = divided.streamed
    sides = (
        ("cpu experts", CPU_LANE, divided.cpu, missed * (1 - part), arithmetic),
        ("copies", demand.pool, divided.copies, missed * part, False),
        ("gpu experts", demand.pool, divided.gpu, held + missed * part, False),
    )
    longest = max(side[2] for side in sides)
    shares = []
    left = divided.total
    for name, device, seconds, size, by_arithmetic in sides:
        waited = left if seconds == longest else 0.0
        left -= waited
        if seconds:
            shares.append(
                Share(name=name, device=device, seconds=seconds, waited=waited, bytes=size, arithmetic=by_arithmetic)
            )
    return shares
