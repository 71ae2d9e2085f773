"""One moment of memory use, as plain data; None marks what could not be seen, never a zero."""

import msgspec


class GpuSample(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU's memory at one moment.

    Attributes:
        device: The engine's name for it.
        used_bytes: In use by all programs.
        total_bytes: All there is.
        process_bytes: In use by the engine.
        source: What was asked, in words.
        missing: Why a figure above is None; empty where none is.
    """

    device: str
    used_bytes: int | None = None
    total_bytes: int | None = None
    process_bytes: int | None = None
    source: str
    missing: str = ""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The machine's memory at one moment.

    Attributes:
        time_seconds: Monotonic clock.
        engine_rss_bytes: Main memory that the engine holds, resident pages of the mapped model included.
        engine_major_faults: The engine's page faults that waited for the disk, since its start.
        ram_available_bytes: As in `facts.Ram`.
        gpus: One for each device, in the order given.
        missing: Why a figure of main memory or of the engine is None, one sentence each.
    """

    time_seconds: float
    engine_rss_bytes: int | None
    engine_major_faults: int | None
    ram_available_bytes: int | None
    gpus: tuple[GpuSample, ...]
    missing: tuple[str, ...] = ()
