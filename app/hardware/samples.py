"""One moment of what engine and machine use, as plain data; None marks what could not be seen, never a zero."""

from collections.abc import Mapping

import msgspec

GPU_MEMORY, PROCESS, MAIN_MEMORY, MODEL_FILE = "gpu memory", "process", "main memory", "model file"
EVERYTHING = frozenset((GPU_MEMORY, PROCESS, MAIN_MEMORY, MODEL_FILE))
"""What a sample may be asked for; what nobody wants is not read."""


class GpuSample(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU's memory at one moment.

    Attributes:
        device: The engine's name for it.
        used_bytes: In use by all programs.
        total_bytes: All there is.
        process_bytes: In use by the engine.
        shared_bytes: Main memory that the engine uses through this GPU: on Windows, where the driver moves there
            what no longer fits into the card's own. None where nobody counts it.
        source: What was asked, in words.
        missing: Why a figure above is None; empty where none is, `shared_bytes` aside.
    """

    device: str
    used_bytes: int | None = None
    total_bytes: int | None = None
    process_bytes: int | None = None
    shared_bytes: int | None = None
    source: str
    missing: str = ""

    @property
    def others_bytes(self) -> int | None:
        """What programs other than the engine use; None where one of the two figures is not known."""
        if self.used_bytes is None or self.process_bytes is None:
            return None
        return max(0, self.used_bytes - self.process_bytes)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Engine and machine at one moment.

    Attributes:
        time_seconds: Monotonic clock.
        engine_rss_bytes: Main memory that the engine holds, resident pages of the mapped model included.
        engine_peak_bytes: The most of it since the engine was started.
        engine_major_faults: The engine's page faults that waited for the disk, since its start.
        engine_read_bytes: Bytes that were fetched from disks for the engine since its start.
        ram_available_bytes: As in `facts.Ram`.
        model_share: Share of the model file that the operating system holds in memory, 0 to 1, by sampled pages
            where the file is large.
        gpus: One for each device, in the order given; empty where nobody asked for them.
        reasons: Name of a figure above to the sentence that says why it is None, or what it leaves out.
    """

    time_seconds: float
    engine_rss_bytes: int | None = None
    engine_peak_bytes: int | None = None
    engine_major_faults: int | None = None
    engine_read_bytes: int | None = None
    ram_available_bytes: int | None = None
    model_share: float | None = None
    gpus: tuple[GpuSample, ...] = ()
    reasons: Mapping[str, str] = {}

    @property
    def missing(self) -> tuple[str, ...]:
        """Every reason once."""
        return tuple(dict.fromkeys(self.reasons.values()))
