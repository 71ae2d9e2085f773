"""What a machine was measured to do: the rates that the speed model predicts with. Plain data."""

import msgspec

CALIBRATION_VERSION = 1
TO_DEVICE, FROM_DEVICE = "to_device", "from_device"


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
    threads: int = 0
    tokens: int = 1
    bytes_per_second: float
    flops_per_second: float
    spread: float = 0.0


class CopyRate(msgspec.Struct, frozen=True, kw_only=True):
    """How fast bytes travel between main memory and a device; `pinned` from page-locked memory."""

    device: str
    direction: str
    pinned: bool
    bytes_per_second: float
    spread: float = 0.0


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of each rate while the processor, a device and a copy to it work at once, as shares of 1.

    A share is None where that part was not measured.
    """

    device: str
    cpu_share: float | None
    device_share: float | None
    copy_share: float | None


class LayerCost(msgspec.Struct, frozen=True, kw_only=True):
    """What a layer costs on a device beside its products: launch and waiting for the end, in seconds."""

    device: str
    seconds: float
    spread: float = 0.0


class DiskRate(msgspec.Struct, frozen=True, kw_only=True):
    """Random reads of whole slices of the model's disk, past the system's cache.

    Attributes:
        path: The folder whose disk was read.
        slice_bytes: Bytes of one read.
        parallel: Reads in flight at once.
        bytes_per_second: Over all of them.
    """

    path: str
    slice_bytes: int
    parallel: int
    bytes_per_second: float
    spread: float = 0.0


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """What one machine was measured to do, with one engine.

    Attributes:
        machine: `hardware.fingerprint.fingerprint` of the machine.
        engine: Version and build of the engine that measured.
        measured_at: ISO 8601, UTC.
        seconds: How long it took.
        skipped: What could not be measured and why, one sentence each.
    """

    version: int = CALIBRATION_VERSION
    machine: str
    engine: str
    measured_at: str
    seconds: float
    compute: tuple[ComputeRate, ...] = ()
    copies: tuple[CopyRate, ...] = ()
    overlaps: tuple[Overlap, ...] = ()
    layer_costs: tuple[LayerCost, ...] = ()
    disk: tuple[DiskRate, ...] = ()
    skipped: tuple[str, ...] = ()
