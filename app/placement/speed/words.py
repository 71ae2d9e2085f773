"""A prediction of speed in words: what bounds it, with its figures, and what it rests on."""

from app.hardware.facts import GpuKind
from app.placement.plan import CPU_LANE
from app.placement.speed.times import Share
from app.units import format_bytes

_WHAT = {
    "cpu experts": "experts",
    "gpu experts": "experts",
    "attention": "attention, output and KV cache",
    "copies": "experts",
    "disk": "experts",
    "bringing": "experts",
}
_BOUND = {
    "RAM bandwidth": "RAM bandwidth",
    "CPU": "the processor",
    "PCIe": "PCIe",
    "GPU": "the GPU",
    "disk": "the disk",
    "overhead": "overhead",
}


def bound_of(share: Share, kind: GpuKind | None, *, cpu_waits_for_memory: bool) -> str:
    """One of BOUNDS: what the time of this part depends on.

    Args:
        share: The part.
        kind: The kind of its GPU; None on the processor.
        cpu_waits_for_memory: Whether reading weights keeps the processor waiting.
    """
    if share.name in ("overhead", "disk"):
        return share.name
    if share.name == "bringing":
        return "disk"
    if share.name == "copies":
        return "PCIe" if kind in (GpuKind.DISCRETE, None) else "RAM bandwidth"
    if share.device == CPU_LANE:
        return "RAM bandwidth" if cpu_waits_for_memory and not share.arithmetic else "CPU"
    if kind is GpuKind.SOFTWARE:
        return "CPU"
    return "RAM bandwidth" if kind is GpuKind.INTEGRATED and not share.arithmetic else "GPU"


def sentence(decode_bound: str, share: Share, layers: int, prompt_bound: str, basis: str) -> str:
    """What bounds decoding and prompts.

    Example: "Bound by RAM bandwidth: the processor reads 1.4 GiB of experts a token at 21.0 GB/s (calibrated).
    Prompts are bound by PCIe."

    Args:
        decode_bound: One of BOUNDS.
        share: The largest part of a token's time with that bound.
        layers: Of the model.
        prompt_bound: One of BOUNDS.
        basis: What the figures rest on, in words.
    """
    by_memory = decode_bound == "RAM bandwidth"
    prompts = "by the same" if prompt_bound == decode_bound else f"by {_BOUND[prompt_bound]}"
    figures = _figures(share, layers, by_memory=by_memory)
    return f"Bound by {_BOUND[decode_bound]}: {figures} ({basis}). Prompts are bound {prompts}."


def _figures(share: Share, layers: int, *, by_memory: bool) -> str:
    if share.name == "overhead":
        words = "1 layer" if layers == 1 else f"{layers} layers"
        return f"launching and waiting for {words} takes {share.seconds * 1000:.1f} ms a token"
    size = format_bytes(round(share.bytes))
    rate = f"{share.bytes / share.seconds / 1e9:.1f} GB/s" if share.seconds else "no time at all"
    what = _WHAT[share.name]
    if share.name == "copies":
        return f"{size} of {what} a token are copied to {share.device} at {rate}"
    if share.name == "disk":
        return f"{size} of {what} a token are not in main memory and are read at {rate}"
    if share.name == "bringing":
        took = f"{share.seconds * 1000:.1f} ms"
        return f"{size} of {what} a token are not in main memory; bringing them there takes the processor {took}"
    if share.device == CPU_LANE and not by_memory:
        return f"its threads compute with {size} of {what} a token at {rate}"
    who = "the processor" if share.device == CPU_LANE else share.device
    return f"{who} reads {size} of {what} a token at {rate}"
