"""One moment of what engine and machine use, as plain data; None marks what could not be seen, never a zero."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

GPU_MEMORY, PROCESS, MAIN_MEMORY, MODEL_FILE = "gpu memory", "process", "main memory", "model file"
CPU_LOAD, GPU_LOAD = "processor load", "gpu load"
EVERYTHING = frozenset((GPU_MEMORY, PROCESS, MAIN_MEMORY, MODEL_FILE, CPU_LOAD, GPU_LOAD))
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


class GpuLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What a GPU does at one moment.

    Attributes:
        device: The engine's name for it.
        busy_percent: Share of the last moments (the driver's own stretch, a second at most) that it computed in.
        core_mhz, memory_mhz: Its clocks now; core_max_mhz and memory_max_mhz: at most.
        celsius: The chip's temperature.
        watts: What it draws.
        throttled: Why its driver keeps the clock down now, in words; empty where it does not. A card that is idle,
            or whose clocks somebody set, is not throttled.
        source: What was asked, in words.
        reasons: Name of a figure above to the sentence that says why it is None.
    """

    device: str
    busy_percent: float | None = None
    core_mhz: float | None = None
    core_max_mhz: float | None = None
    memory_mhz: float | None = None
    memory_max_mhz: float | None = None
    celsius: float | None = None
    watts: float | None = None
    throttled: tuple[str, ...] | None = None
    source: str
    reasons: Mapping[str, str] = {}


@dataclass(frozen=True)
class DevicesNow:
    """What one source tells of its devices, by the engine's names; empty for what was not wanted."""

    memory: Mapping[str, GpuSample]
    loads: Mapping[str, GpuLoad]


class CoreLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What the threads of one kind of cores do.

    Attributes:
        name: The kind, as in `facts.CoreClass`; empty for all threads of the machine together.
        busy_percent: Share of their time since the sample before that they were busy, with any program.
        clock_mhz: The clock of the busiest of them, as of a second ago at most.
    """

    name: str
    busy_percent: float | None = None
    clock_mhz: float | None = None


class CpuLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What the processor does.

    Attributes:
        kinds: All threads first; then each kind of cores, fastest first, where there are several.
        reasons: "busy_percent" and "clock_mhz" to why those are None.
    """

    kinds: tuple[CoreLoad, ...] = ()
    reasons: Mapping[str, str] = {}


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Engine and machine at one moment.

    Attributes:
        time_seconds: Monotonic clock.
        engine_rss_bytes: Main memory that the engine holds, resident pages of the mapped model included.
        engine_peak_bytes: The most of it since the engine was started.
        engine_major_faults: The engine's page faults that waited for the disk, since its start.
        engine_read_bytes: Bytes that were fetched from disks for the engine since its start.
        ram_available_bytes: As in `facts.Ram`, under the limits of the engine's own control group.
        model_share: Share of the model file that the operating system holds in memory, 0 to 1, by sampled pages
            where the file is large; on Windows the least that it can be (see `working_set`).
        gpus: One for each device, in the order given; empty where nobody asked for them.
        reasons: Name of a figure above to the sentence that says why it is None, or what it leaves out.
        cpu: What the processor does; None where nobody asked.
        gpu_loads: What each device does, in the order given; empty where nobody asked. Like `cpu` it has reasons of
            its own.
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
    cpu: CpuLoad | None = None
    gpu_loads: tuple[GpuLoad, ...] = ()

    @property
    def missing(self) -> tuple[str, ...]:
        """Every reason once."""
        return tuple(dict.fromkeys(self.reasons.values()))
