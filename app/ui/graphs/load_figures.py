"""What processor and GPUs do, as figures of the history and words for their graphs."""

from collections.abc import Iterable, Mapping

from PySide6.QtCore import QCoreApplication

from app.hardware.cores import EFFICIENCY, LOW_POWER, PERFORMANCE
from app.hardware.cpu_load import FIRST
from app.hardware.samples import CpuLoad, GpuLoad, Sample

LOAD, CLOCK, HEAT = "load", "clock", "heat"
"""Groups of graphs. Those of the processor have the group's name; those of a device have that and the device's."""
POWER = "power"
"""The second graph of a device in the group HEAT."""
ALL = "all"
KINDS = (ALL, PERFORMANCE, EFFICIENCY, LOW_POWER)
BUSY, THROTTLED, CORE, CORE_MOST, MEMORY, MEMORY_MOST = (
    "busy",
    "throttled",
    "core",
    "core-most",
    "memory",
    "memory-most",
)
GRAPHS_OF_FIGURES = {
    LOAD: ("busy_percent", "throttled"),
    CLOCK: ("core_mhz", "memory_mhz"),
    HEAT: ("celsius",),
    POWER: ("watts",),
}
"""Graph of a device to the figures of `GpuLoad` that it cannot do without."""


def load_key(graph: str, device: str, part: str = "") -> str:
    """The name of a figure of a device in the history."""
    return f"{graph}.{device}.{part}" if part else f"{graph}.{device}"


def cpu_key(graph: str, kind: str) -> str:
    """The name of a figure of a kind of cores in the history."""
    return f"{graph}.cpu.{kind}"


def load_figures(sample: Sample) -> dict[str, float | None]:
    """A row's figures: percent, MHz, °C and watts. Throttling is 100 percent of a sample or none."""
    figures: dict[str, float | None] = {}
    for kind in sample.cpu.kinds if sample.cpu else ():
        figures[cpu_key(LOAD, kind.name or ALL)] = kind.busy_percent
        figures[cpu_key(CLOCK, kind.name or ALL)] = kind.clock_mhz
    for load in sample.gpu_loads:
        device = load.device
        throttled = None if load.throttled is None else 100.0 * bool(load.throttled)
        figures |= {
            load_key(LOAD, device, BUSY): load.busy_percent,
            load_key(LOAD, device, THROTTLED): throttled,
            load_key(CLOCK, device, CORE): load.core_mhz,
            load_key(CLOCK, device, CORE_MOST): load.core_max_mhz,
            load_key(CLOCK, device, MEMORY): load.memory_mhz,
            load_key(CLOCK, device, MEMORY_MOST): load.memory_max_mhz,
            load_key(HEAT, device): load.celsius,
            load_key(POWER, device): load.watts,
        }
    return figures


def load_reasons(sample: Sample) -> dict[str, str]:
    """Graph's key to what is said with it: that the clock is kept down and why, and what cannot be seen."""
    reasons: dict[str, str] = {}
    if sample.cpu is not None:
        reasons |= _cpu_reasons(sample.cpu)
    for load in sample.gpu_loads:
        for graph, names in GRAPHS_OF_FIGURES.items():
            missing = (load.reasons.get(name, "") for name in names)
            throttled = throttled_words(load) if graph in (LOAD, CLOCK) else ""
            reasons[load_key(graph, load.device)] = _joined((throttled, *missing))
    if sample.gpu_loads:
        # There is no graph of the machine as a whole in this group: it is said where none of a device is shown.
        reasons[HEAT] = _joined(reasons[load_key(HEAT, load.device)] for load in sample.gpu_loads)
    return reasons


def throttled_words(load: GpuLoad) -> str:
    """That a GPU's clock is kept down, and why; empty where it is not."""
    if not load.throttled:
        return ""
    words = QCoreApplication.translate("graphs", "The driver keeps its clock down: {why}.")
    return words.format(why=", ".join(load.throttled))


def _cpu_reasons(cpu: CpuLoad) -> Mapping[str, str]:
    told = {LOAD: cpu.reasons.get("busy_percent", ""), CLOCK: cpu.reasons.get("clock_mhz", "")}
    # Not worth words that are gone in a fifth of a second.
    return {graph: "" if why == FIRST else why for graph, why in told.items()}


def _joined(words: Iterable[str]) -> str:
    return " ".join(dict.fromkeys(filter(None, words)))
