"""A calibration in plain words with units, for the command line and the window."""

from collections.abc import Sequence

from app.placement.plan import CPU_LANE
from app.placement.speed.calibration import TO_DEVICE, Calibration, ComputeRate, CopyRate, DiskRate, LayerCost, Overlap
from app.units import format_bytes, format_share


def gigabytes(bytes_per_second: float) -> str:
    """A rate as "21.3 GB/s"."""
    return f"{bytes_per_second / 1e9:.1f} GB/s"


def compute_words(rate: ComputeRate) -> str:
    """Example: "Q4_K on 2 threads, faster layout: 35.4 GB/s (±3 %)"."""
    parts = [rate.type.upper()]
    if rate.device == CPU_LANE:
        parts.append(f"on {rate.threads} thread{'s' if rate.threads > 1 else ''}")
    words = " ".join(parts) + (", faster layout" if rate.layout == "repacked" else "")
    if rate.tokens == 1:
        return f"{words}: {gigabytes(rate.bytes_per_second)}{_spread(rate.spread)}"
    flops = (
        f"{rate.flops_per_second / 1e12:.2f} TFLOPS"
        if rate.flops_per_second >= 1e12
        else (f"{rate.flops_per_second / 1e9:.0f} GFLOPS")
    )
    return f"{words}, prompts of {rate.tokens} tokens: {flops}{_spread(rate.spread)}"


def copy_words(rate: CopyRate) -> str:
    """Example: "to CUDA0 from page-locked memory: 20.1 GB/s"."""
    memory = "page-locked" if rate.pinned else "ordinary"
    way = f"to {rate.device} from" if rate.direction == TO_DEVICE else f"from {rate.device} to"
    return f"{way} {memory} memory: {gigabytes(rate.bytes_per_second)}{_spread(rate.spread)}"


def overlap_words(overlap: Overlap) -> str:
    """Example: "at once: the processor keeps 80 %, CUDA0 keeps 97 %, copies to it keep 71 %"."""
    shares = [
        (name, share)
        for name, share in (
            ("the processor keeps", overlap.cpu_share),
            (f"{overlap.device} keeps", overlap.device_share),
            ("copies to it keep", overlap.copy_share),
        )
        if share is not None
    ]
    return "at once: " + ", ".join(f"{name} {format_share(share)}" for name, share in shares)


def layer_words(cost: LayerCost) -> str:
    """Example: "a layer on CUDA0 costs 18 µs beside its products"."""
    where = "the processor" if cost.device == CPU_LANE else cost.device
    return f"a layer on {where} costs {cost.seconds * 1e6:.0f} µs beside its products{_spread(cost.spread)}"


def disk_words(rate: DiskRate) -> str:
    """Example: "1.0 MiB at a time, 8 at once: 1.3 GB/s"."""
    at_once = f", {rate.parallel} at once" if rate.parallel > 1 else ""
    return (
        f"{format_bytes(rate.slice_bytes)} at a time{at_once}: {gigabytes(rate.bytes_per_second)}{_spread(rate.spread)}"
    )


def busy_note(calibration: Calibration) -> str:
    """Why a calibration that misleads is not used, and what to do."""
    return (
        f"The calibration is not used: it was measured while other programs were busy (with "
        f"{format_share(calibration.busy_share)} of the processor): measure again."
    )


def best_sentences(calibration: Calibration) -> tuple[str, ...]:
    """The few figures that say most: for each device its fastest type of weights, copies, and the disk.

    Example: "RAM 21.3 GB/s on 2 threads for Q4_K."
    """
    said = []
    decoding = [rate for rate in calibration.compute if rate.tokens == 1]
    for device in dict.fromkeys(rate.device for rate in decoding):
        first = next(rate.type for rate in decoding if rate.device == device)
        best = _fastest([rate for rate in decoding if rate.device == device and rate.type == first])
        if device == CPU_LANE:
            threads = f"{best.threads} thread{'s' if best.threads > 1 else ''}"
            said.append(f"RAM {gigabytes(best.bytes_per_second)} on {threads} for {best.type.upper()}.")
        else:
            said.append(f"{device} {gigabytes(best.bytes_per_second)} for {best.type.upper()}.")
    for device in dict.fromkeys(rate.device for rate in calibration.copies):
        way = [rate for rate in calibration.copies if rate.device == device and rate.direction == TO_DEVICE]
        if way:
            rate = max(way, key=lambda found: found.bytes_per_second)
            said.append(f"Copies to {device} {gigabytes(rate.bytes_per_second)}.")
    if calibration.disk:
        rate_of_disk = max(calibration.disk, key=lambda found: found.bytes_per_second)
        said.append(f"Disk {gigabytes(rate_of_disk.bytes_per_second)} in slices.")
    return tuple(said)


def _fastest(rates: Sequence[ComputeRate]) -> ComputeRate:
    return max(rates, key=lambda rate: rate.bytes_per_second)


def _spread(spread: float) -> str:
    """Half of it to either side, where it is worth saying."""
    return f" (±{format_share(spread / 2)})" if spread >= 0.02 else ""
