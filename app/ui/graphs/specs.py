"""Every graph there is: what it shows, in which unit, and what has to be measured for it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from PySide6.QtCore import QCoreApplication
from PySide6.QtGui import QColor

from app.hardware.cores import EFFICIENCY, LOW_POWER, PERFORMANCE
from app.hardware.samples import CPU_LOAD, GPU_LOAD, GPU_MEMORY, MAIN_MEMORY, MODEL_FILE, PROCESS
from app.ui.graphs.cache_rates import COPIED, HITS, SPLIT_ALL, SPLIT_CPU, SPLIT_GPU, SPLIT_WAIT
from app.ui.graphs.gpu_parts import BANDS, BUDGET, DRIVER, OTHERS, REST, SPILL, figure_key
from app.ui.graphs.load_figures import (
    ALL,
    BUSY,
    CLOCK,
    CORE,
    CORE_MOST,
    HEAT,
    LOAD,
    MEMORY,
    MEMORY_MOST,
    POWER,
    THROTTLED,
    cpu_key,
    load_key,
)
from app.ui.theme import Colors, mix
from app.ui.wizard.bars import part_color

GPU, RAM, DECODE, PROMPT, SPLIT, FILE, FAULTS, DISK = (
    "gpu",
    "ram",
    "decode",
    "prompt",
    "split",
    "file",
    "faults",
    "disk",
)
GROUPS = (GPU, DECODE, HITS, RAM, SPLIT, PROMPT, COPIED, FILE, FAULTS, DISK, LOAD, CLOCK, HEAT)
"""Graphs that are shown and hidden together, in the order they are arranged."""
ENGINE_RAM, PEAK_RAM, AVAILABLE_RAM = "ram.engine", "ram.peak", "ram.available"
ALWAYS = (GPU, DECODE, RAM)
"""Groups that are there before anything was measured for them, and say then why nothing is."""
SAMPLED = {
    GPU: frozenset((GPU_MEMORY,)),
    RAM: frozenset((PROCESS, MAIN_MEMORY)),
    FILE: frozenset((MODEL_FILE,)),
    FAULTS: frozenset((PROCESS,)),
    DISK: frozenset((PROCESS,)),
    LOAD: frozenset((CPU_LOAD, GPU_LOAD)),
    CLOCK: frozenset((CPU_LOAD, GPU_LOAD)),
    HEAT: frozenset((GPU_LOAD,)),
}
"""What a group needs of the machine's samples."""
OF_CACHE = frozenset((GPU, HITS, SPLIT, COPIED))
"""Groups that need the expert cache's facts."""

ColorOf = Callable[[Colors], QColor]


@dataclass(frozen=True)
class Line:
    """One line of a graph.

    Attributes:
        key: Its figure in the history.
        name: What it shows; empty where the title says it.
        color: Its colour in the look in force.
        dashed: For a line that is a limit or a prediction rather than a use.
    """

    key: str
    name: str
    color: ColorOf
    dashed: bool = False


@dataclass(frozen=True)
class GraphSpec:
    """One graph.

    Attributes:
        group: One of GROUPS.
        key: Its own name: the group's, and the device's for one of several.
        title: What it shows.
        unit: Of every figure in it.
        bands: Stretches that are stacked, from the bottom; each as a `Line`.
        lines: Lines over them.
        decimals: Of the figures in text.
        smallest_top: The least that the scale reaches.
        limit: What there is in all, where that is the same for everyone; the scale's top.
        about: One sentence more, for who points at the title.
    """

    group: str
    key: str
    title: str
    unit: str
    lines: tuple[Line, ...] = ()
    bands: tuple[Line, ...] = ()
    decimals: int = 2
    smallest_top: float = 1.0
    limit: float | None = None
    about: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """Every figure it shows."""
        return tuple(line.key for line in (*self.bands, *self.lines))


def _tr(text: str) -> str:
    return QCoreApplication.translate("graphs", text)


def _graph_color(place: int, colors: Colors) -> QColor:
    return colors.graph[place % len(colors.graph)]


def _color(place: int) -> ColorOf:
    return partial(_graph_color, place)


def _muted(colors: Colors) -> QColor:
    return colors.muted_text


def _staging_color(colors: Colors) -> QColor:
    return mix(colors.graph[4], colors.surface, 0.45)


def _rest_color(colors: Colors) -> QColor:
    return mix(colors.raised, colors.muted_text, 0.35)


def _throttled_color(colors: Colors) -> QColor:
    return mix(colors.surface, colors.error, 0.3)


def _error_color(colors: Colors) -> QColor:
    return colors.error


def group_titles() -> dict[str, str]:
    """What each group is called in the menu."""
    titles = {spec.group: spec.title for spec in fixed_specs()} | {
        GPU: _tr("GPU memory"),
        LOAD: _tr("Load of CPU and GPU"),
        CLOCK: _tr("Clock of CPU and GPU"),
        HEAT: _tr("GPU temperature and power"),
    }
    return {group: titles[group] for group in GROUPS}


def fixed_specs() -> tuple[GraphSpec, ...]:
    """Every graph that does not belong to a GPU."""
    return (
        GraphSpec(
            DECODE,
            DECODE,
            _tr("Decoding speed"),
            _tr("tokens/s"),
            (Line(DECODE, "", _color(0)),),
            decimals=1,
        ),
        GraphSpec(
            HITS,
            HITS,
            _tr("Routed experts found in the GPU pool"),
            "%",
            (Line(HITS, "", _color(1)),),
            decimals=0,
            limit=100.0,
        ),
        GraphSpec(
            RAM,
            RAM,
            _tr("Main memory"),
            "GiB",
            (
                Line(ENGINE_RAM, _tr("engine"), _color(3)),
                Line(PEAK_RAM, _tr("its peak"), _color(2), dashed=True),
                Line(AVAILABLE_RAM, _tr("available"), _color(5), dashed=True),
            ),
        ),
        GraphSpec(
            SPLIT,
            SPLIT,
            _tr("Time per token in expert layers"),
            "ms",
            (
                Line(SPLIT_CPU, "CPU", _color(3)),
                Line(SPLIT_GPU, "GPU", _color(1)),
                Line(SPLIT_WAIT, _tr("waiting for the GPU"), _color(2)),
                Line(SPLIT_ALL, _tr("all of it"), _muted, dashed=True),
            ),
            about=_tr("CPU and GPU compute at the same time: their times overlap and do not add up."),
        ),
        GraphSpec(
            PROMPT,
            PROMPT,
            _tr("Prompt speed"),
            _tr("tokens/s"),
            (Line(PROMPT, "", _color(4)),),
            decimals=0,
        ),
        GraphSpec(
            COPIED,
            COPIED,
            _tr("Experts copied to the GPU"),
            "MiB/s",
            (Line(COPIED, "", _color(2)),),
            decimals=0,
        ),
        GraphSpec(
            FILE,
            FILE,
            _tr("Model file in memory"),
            "%",
            (Line(FILE, "", _color(0)),),
            decimals=0,
            limit=100.0,
            about=_tr("The share of the model file that the system keeps in memory; of a large file by sampled pages."),
        ),
        GraphSpec(
            FAULTS,
            FAULTS,
            _tr("Page faults that waited for the disk"),
            _tr("per second"),
            (Line(FAULTS, "", _color(4)),),
            decimals=0,
            smallest_top=10.0,
        ),
        GraphSpec(
            DISK,
            DISK,
            _tr("Read from disk by the engine"),
            "MB/s",
            (Line(DISK, "", _color(5)),),
            decimals=1,
        ),
        GraphSpec(
            LOAD,
            LOAD,
            _tr("CPU load"),
            "%",
            _cpu_lines(LOAD),
            decimals=0,
            limit=100.0,
            about=_tr("How busy all threads of the machine are, with any program, and those of each kind of cores."),
        ),
        GraphSpec(
            CLOCK,
            CLOCK,
            _tr("CPU clock"),
            "MHz",
            _cpu_lines(CLOCK),
            decimals=0,
            smallest_top=1000.0,
            about=_tr("The clock of the busiest thread, and of the busiest one of each kind of cores, once a second."),
        ),
    )


def _cpu_lines(graph: str) -> tuple[Line, ...]:
    return (
        Line(cpu_key(graph, ALL), _tr("all threads") if graph == LOAD else _tr("busiest thread"), _color(3)),
        Line(cpu_key(graph, PERFORMANCE), _tr("performance cores"), _color(0)),
        Line(cpu_key(graph, EFFICIENCY), _tr("efficiency cores"), _color(1)),
        Line(cpu_key(graph, LOW_POWER), _tr("low-power cores"), _color(5)),
    )


def device_specs(device: str) -> tuple[GraphSpec, ...]:
    """Every graph of one GPU."""
    return (gpu_spec(device), *_load_specs(device))


def _load_specs(device: str) -> tuple[GraphSpec, ...]:
    return (
        GraphSpec(
            LOAD,
            load_key(LOAD, device),
            _tr("GPU load · {device}").format(device=device),
            "%",
            (Line(load_key(LOAD, device, BUSY), _tr("busy"), _color(1)),),
            (Line(load_key(LOAD, device, THROTTLED), _tr("throttled"), _throttled_color),),
            decimals=0,
            limit=100.0,
            about=_tr("With any program. Throttled: the driver keeps the clock down, for heat or power."),
        ),
        GraphSpec(
            CLOCK,
            load_key(CLOCK, device),
            _tr("GPU clock · {device}").format(device=device),
            "MHz",
            (
                Line(load_key(CLOCK, device, CORE), _tr("core"), _color(1)),
                Line(load_key(CLOCK, device, CORE_MOST), _tr("core at most"), _color(1), dashed=True),
                Line(load_key(CLOCK, device, MEMORY), _tr("memory"), _color(2)),
                Line(load_key(CLOCK, device, MEMORY_MOST), _tr("memory at most"), _color(2), dashed=True),
            ),
            decimals=0,
            smallest_top=1000.0,
        ),
        GraphSpec(
            HEAT,
            load_key(HEAT, device),
            _tr("GPU temperature · {device}").format(device=device),
            "°C",
            (Line(load_key(HEAT, device), "", _color(4)),),
            decimals=0,
            smallest_top=100.0,
        ),
        GraphSpec(
            HEAT,
            load_key(POWER, device),
            _tr("GPU power · {device}").format(device=device),
            "W",
            (Line(load_key(POWER, device), "", _color(2)),),
            decimals=0,
            smallest_top=10.0,
        ),
    )


def gpu_spec(device: str) -> GraphSpec:
    """The memory of one GPU, stacked by part."""
    names = {
        "weights": _tr("weights"),
        "experts": _tr("experts"),
        "kv": _tr("KV cache"),
        "compute": _tr("compute buffers"),
        "pool": _tr("expert pool"),
        "staging": _tr("staging"),
        DRIVER: _tr("driver context"),
        OTHERS: _tr("other programs"),
        REST: _tr("driver and other programs"),
        SPILL: _tr("shared memory (spill)"),
    }
    colors: dict[str, ColorOf] = {
        "staging": _staging_color,
        DRIVER: part_color("context"),
        OTHERS: _rest_color,
        REST: _rest_color,
        SPILL: _error_color,
    }
    bands = tuple(Line(figure_key(device, part), names[part], colors.get(part) or part_color(part)) for part in BANDS)
    return GraphSpec(
        GPU,
        f"{GPU}.{device}",
        _tr("GPU memory · {device}").format(device=device),
        "GiB",
        (Line(figure_key(device, BUDGET), _tr("plan (predicted)"), _muted, dashed=True),),
        bands,
        about=_tr("The engine's parts as it reports them; the driver's and other programs' share as measured."),
    )
