"""What a machine was measured to do: the rates that the speed model predicts with. Plain data.

Bounds are of what any machine can do: a damaged record is refused where it is read.
"""

from typing import Annotated

import msgspec

CALIBRATION_VERSION = 1
TO_DEVICE, FROM_DEVICE = "to_device", "from_device"
MOST_BUSY_SHARE = 0.25
"""Of the processor: where other programs took more meanwhile, rates say more of them than of the machine."""

Rate = Annotated[float, msgspec.Meta(ge=1.0, le=1e18)]
Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=1e6)]
Spread = Annotated[float, msgspec.Meta(ge=0.0, le=1e6)]
Part = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Count = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
CountOrNone = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class ComputeRate(msgspec.Struct, frozen=True, kw_only=True):
    """How fast one device computes products of expert weights (MUL_MAT_ID) of one quantisation.

    Attributes:
        device: Engine name, or "CPU".
        type: ggml's name of the weights' type ("q4_K").
        layout: "repacked" for the CPU's faster layout, else "plain".
        threads: Threads of the CPU; 0 for another device.
        tokens: Tokens of the batch: 1 for decoding, more for prompts.
        bytes_per_second: Bytes of weights of the routed experts, each counted once, over the time.
        flops_per_second: Two operations a weight and token.
        spread: (largest − least) / median over the repetitions.
    """

    device: str
    type: str
    layout: str = "plain"
    threads: CountOrNone = 0
    tokens: Count = 1
    bytes_per_second: Rate
    flops_per_second: Rate
    spread: Spread = 0.0


class CopyRate(msgspec.Struct, frozen=True, kw_only=True):
    """How fast bytes travel between main memory and a device; `pinned` from page-locked memory."""

    device: str
    direction: str
    pinned: bool
    bytes_per_second: Rate
    spread: Spread = 0.0


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of each rate while the processor, a device and a copy to it work at once, as shares of 1.

    A share is None where that part was not measured.
    """

    device: str
    cpu_share: Part | None
    device_share: Part | None
    copy_share: Part | None


class LayerCost(msgspec.Struct, frozen=True, kw_only=True):
    """What a layer costs on a device beside its products: launch and waiting for the end, in seconds."""

    device: str
    seconds: Seconds
    spread: Spread = 0.0


class DiskRate(msgspec.Struct, frozen=True, kw_only=True):
    """Random reads of whole slices of the model's disk, past the system's cache.

    Attributes:
        path: The folder whose disk was read.
        slice_bytes: Bytes of one read.
        parallel: Reads in flight at once.
        bytes_per_second: Over all of them.
    """

    path: str
    slice_bytes: Count
    parallel: Count
    bytes_per_second: Rate
    spread: Spread = 0.0


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """What one machine was measured to do, with one engine.

    Attributes:
        machine: `hardware.fingerprint.fingerprint` of the machine.
        engine: Version and build of the engine that measured.
        measured_at: ISO 8601, UTC.
        seconds: How long it took.
        skipped: What could not be measured and why, one sentence each.
        busy_share: Share of the processor, of 1, that other programs kept busy meanwhile; 0 in older records.
    """

    version: int = CALIBRATION_VERSION
    machine: str
    engine: str
    measured_at: str
    seconds: Seconds
    compute: tuple[ComputeRate, ...] = ()
    copies: tuple[CopyRate, ...] = ()
    overlaps: tuple[Overlap, ...] = ()
    layer_costs: tuple[LayerCost, ...] = ()
    disk: tuple[DiskRate, ...] = ()
    skipped: tuple[str, ...] = ()
    busy_share: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.0

    @property
    def misleads(self) -> bool:
        """Whether other programs took so much of the processor that nothing may be predicted from these rates."""
        return self.busy_share > MOST_BUSY_SHARE
