"""Predictions and measurements of an explanation in words, each figure with what it is."""

from app.hardware.facts import Machine
from app.placement.cache.facts import CacheTotals
from app.placement.memory import predicted_use
from app.placement.plan import CPU_LANE, Plan
from app.placement.speed.types import Range, SpeedPrediction, TimePart
from app.units import format_bytes, format_share

LEAST_GAIN = 0.03
"""As a share of the decoding speed: what is predicted to gain less is not told."""
_LEAST_BYTES = 32 * 1024**2
"""What less than this changes of a memory is not told."""
_LEAST_MILLISECONDS = 0.05

_PARTS = {
    "cpu experts": "experts on the processor",
    "gpu experts": "experts on the GPU",
    "attention": "attention, output and KV cache",
    "copies": "copies of experts to the GPU",
    "disk": "reads of experts from the disk",
    "overhead": "launching and waiting for layers",
}


def percent_range(share: Range) -> str:
    """Example: "+12 % (+5 % to +21 %)"."""
    return f"{_percent(share.likely)} ({_percent(share.low)} to {_percent(share.high)})"


def evidence_words(before: SpeedPrediction, after: SpeedPrediction, *, pool: bool) -> str:
    """Which part of the time is expected to shrink, and by the pool's hits if it is another `pool`.

    Example: "Experts on the processor would take 14.1 ms of a token instead of 21.3 ms".
    """
    words = _shrunk(before.decode_parts, after.decode_parts, "a token")
    words = words or _shrunk(before.prompt_parts, after.prompt_parts, "a token of a prompt")
    if pool:
        hits = (
            f"{format_share(after.hit_rate)} of a token's expert bytes would be computed on the GPU instead of "
            f"{format_share(before.hit_rate)}"
        )
        words = f"{words}; {hits}" if words else hits
    return f"{words} ({after.basis})." if words else ""


def consequence_words(before: Plan, after: Plan, machine: Machine) -> str:
    """What else changes: "Takes 0.7 GiB more of CUDA0 (predicted)"; empty for nothing worth telling."""
    taken = []
    for device in (*(gpu.device for gpu in machine.gpus), CPU_LANE):
        more = predicted_use(after, device) - predicted_use(before, device)
        if abs(more) >= _LEAST_BYTES:
            where = "main memory" if device == CPU_LANE else device
            taken.append(f"{format_bytes(abs(more))} {'more' if more > 0 else 'less'} of {where}")
    words = [f"Takes {', '.join(taken)} (predicted)."] if taken else []
    if after.n_ctx < before.n_ctx:
        words.append("Long conversations end sooner.")
    if after.kv_type not in (before.kv_type, "f16"):
        words.append("Keys and values are rounded, so answers differ a little.")
    return " ".join(words)


def measured_words(
    decode: float | None, speed: SpeedPrediction, hit_rate: float | None, totals: CacheTotals | None
) -> tuple[str, ...]:
    """What was measured, beside what was predicted of it.

    Args:
        decode: Tokens a second of the last answer; None before the first one.
        speed: The prediction.
        hit_rate: Share of routed experts that were in the pool in the last answer; None where nobody counted.
        totals: What the cache counted of decoding since the load.
    """
    words = []
    if decode is not None:
        low, high = speed.decode.low, speed.decode.high
        told = f"The last answer came with {decode:.1f} tokens/s (measured); {low:.1f} to {high:.1f} are predicted."
        if not low <= decode <= high:
            told += " That is outside the prediction: other programs may be at work, or the prediction is wrong here."
        words.append(told)
    if hit_rate is not None:
        words.append(f"The pool held {format_share(hit_rate)} of the experts that the last answer needed (measured).")
    if totals is not None and totals.seconds > 0:
        cpu, waited = totals.cpu_seconds / totals.seconds, totals.wait_seconds / totals.seconds
        words.append(
            f"Of the time in expert layers the processor computed {format_share(min(cpu, 1.0))} and waited for the GPU "
            f"{format_share(min(waited, 1.0))} (measured since the load)."
        )
    if totals is not None and totals.cold_experts and totals.tokens and totals.seconds > 0:
        read = f"{totals.cold_experts / totals.tokens:.1f} experts ({format_bytes(totals.cold_bytes // totals.tokens)})"
        idle = format_share(min(totals.stall_seconds / totals.seconds, 1.0))
        words.append(
            f"A token had {read} read from the disk, and {idle} of that time went by waiting for it "
            "(measured since the load)."
        )
    return tuple(words)


def _shrunk(before: tuple[TimePart, ...], after: tuple[TimePart, ...], of_what: str) -> str:
    """The part that shrinks most."""
    then = {part.name: part.seconds for part in after}
    saved = {part.name: part.seconds - then.get(part.name, 0.0) for part in before}
    name = max(saved, key=lambda its: saved[its], default="")
    if not name or saved[name] * 1000 < _LEAST_MILLISECONDS:
        return ""
    was = next(part.seconds for part in before if part.name == name)
    what = _PARTS[name]
    return (
        f"{what[:1].upper()}{what[1:]} would take {then.get(name, 0.0) * 1000:.1f} ms of {of_what} instead of "
        f"{was * 1000:.1f} ms"
    )


def _percent(share: float) -> str:
    return format_share(share, signed=True)
