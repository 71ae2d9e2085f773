"""Every graph there is: what it shows, in which unit, and what has to be measured for it."""

from PySide6.QtGui import QColor

from app.hardware.cores import EFFICIENCY, LOW_POWER, PERFORMANCE
from app.hardware.samples import CPU_LOAD, GPU_LOAD, GPU_MEMORY, MAIN_MEMORY, MODEL_FILE, PROCESS
from app.ui.graphs.cache_rates import (
    COLD,
    COPIED,
    HITS,
    RESIDENT,
    SPLIT_ALL,
    SPLIT_CPU,
    SPLIT_GPU,
    SPLIT_WAIT,
    STALL,
)
from app.ui.graphs.gpu_parts import BANDS, BUDGET, DRIVER, OTHERS, REST, SPILL, figure_key
from app.ui.graphs.graph_spec import ColorOf, GraphSpec, Line, color, tr
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
from app.ui.graphs.memory_specs import memory_specs
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
GROUPS = (
    GPU, DECODE, HITS, RAM, RESIDENT, COLD, STALL, SPLIT, PROMPT, COPIED, FILE, FAULTS, DISK, LOAD, CLOCK, HEAT
)  # fmt: skip
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
OF_CACHE = frozenset((GPU, HITS, RESIDENT, COLD, STALL, SPLIT, COPIED))
"""Groups that need the expert cache's facts."""


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
        GPU: tr("GPU memory"),
        LOAD: tr("Load of CPU and GPU"),
        CLOCK: tr("Clock of CPU and GPU"),
        HEAT: tr("GPU temperature and power"),
    }
    return {group: titles[group] for group in GROUPS}


def fixed_specs() -> tuple[GraphSpec, ...]:
    """Every graph that does not belong to a GPU."""
    return (
        GraphSpec(
            DECODE,
            DECODE,
            tr("Decoding speed"),
            tr("tokens/s"),
            (Line(DECODE, "", color(0)),),
            decimals=1,
        ),
        GraphSpec(
            HITS,
            HITS,
            tr("Routed experts found in the GPU pool"),
            "%",
            (Line(HITS, "", color(1)),),
            decimals=0,
            limit=100.0,
        ),
        GraphSpec(
            RAM,
            RAM,
            tr("Main memory"),
            "GiB",
            (
                Line(ENGINE_RAM, tr("engine"), color(3)),
                Line(PEAK_RAM, tr("its peak"), color(2), dashed=True),
                Line(AVAILABLE_RAM, tr("available"), color(5), dashed=True),
            ),
        ),
        GraphSpec(
            SPLIT,
            SPLIT,
            tr("Time per token in expert layers"),
            "ms",
            (
                Line(SPLIT_CPU, "CPU", color(3)),
                Line(SPLIT_GPU, "GPU", color(1)),
                Line(SPLIT_WAIT, tr("waiting for the GPU"), color(2)),
                Line(SPLIT_ALL, tr("all of it"), _muted, dashed=True),
            ),
            about=tr("CPU and GPU compute at the same time: their times overlap and do not add up."),
        ),
        GraphSpec(
            PROMPT,
            PROMPT,
            tr("Prompt speed"),
            tr("tokens/s"),
            (Line(PROMPT, "", color(4)),),
            decimals=0,
        ),
        GraphSpec(
            COPIED,
            COPIED,
            tr("Experts copied to the GPU"),
            "MiB/s",
            (Line(COPIED, "", color(2)),),
            decimals=0,
        ),
        *memory_specs(),
        GraphSpec(
            FILE,
            FILE,
            tr("Model file in memory"),
            "%",
            (Line(FILE, "", color(0)),),
            decimals=0,
            limit=100.0,
            about=tr("The share of the model file that the system keeps in memory; of a large file by sampled pages."),
        ),
        GraphSpec(
            FAULTS,
            FAULTS,
            tr("Page faults that waited for the disk"),
            tr("per second"),
            (Line(FAULTS, "", color(4)),),
            decimals=0,
            smallest_top=10.0,
        ),
        GraphSpec(
            DISK,
            DISK,
            tr("Read from disk by the engine"),
            "MB/s",
            (Line(DISK, "", color(5)),),
            decimals=1,
        ),
        GraphSpec(
            LOAD,
            LOAD,
            tr("CPU load"),
            "%",
            _cpu_lines(LOAD),
            decimals=0,
            limit=100.0,
            about=tr("How busy all threads of the machine are, with any program, and those of each kind of cores."),
        ),
        GraphSpec(
            CLOCK,
            CLOCK,
            tr("CPU clock"),
            "MHz",
            _cpu_lines(CLOCK),
            decimals=0,
            smallest_top=1000.0,
            about=tr("The clock of the busiest thread, and of the busiest one of each kind of cores, once a second."),
        ),
    )


def _cpu_lines(graph: str) -> tuple[Line, ...]:
    return (
        Line(cpu_key(graph, ALL), tr("all threads") if graph == LOAD else tr("busiest thread"), color(3)),
        Line(cpu_key(graph, PERFORMANCE), tr("performance cores"), color(0)),
        Line(cpu_key(graph, EFFICIENCY), tr("efficiency cores"), color(1)),
        Line(cpu_key(graph, LOW_POWER), tr("low-power cores"), color(5)),
    )


def device_specs(device: str) -> tuple[GraphSpec, ...]:
    """Every graph of one GPU."""
    return (gpu_spec(device), *_load_specs(device))


def _load_specs(device: str) -> tuple[GraphSpec, ...]:
    return (
        GraphSpec(
            LOAD,
            load_key(LOAD, device),
            tr("GPU load · {device}").format(device=device),
            "%",
            (Line(load_key(LOAD, device, BUSY), tr("busy"), color(1)),),
            (Line(load_key(LOAD, device, THROTTLED), tr("throttled"), _throttled_color),),
            decimals=0,
            limit=100.0,
            about=tr("With any program. Throttled: the driver keeps the clock down, for heat or power."),
        ),
        GraphSpec(
            CLOCK,
            load_key(CLOCK, device),
            tr("GPU clock · {device}").format(device=device),
            "MHz",
            (
                Line(load_key(CLOCK, device, CORE), tr("core"), color(1)),
                Line(load_key(CLOCK, device, CORE_MOST), tr("core at most"), color(1), dashed=True),
                Line(load_key(CLOCK, device, MEMORY), tr("memory"), color(2)),
                Line(load_key(CLOCK, device, MEMORY_MOST), tr("memory at most"), color(2), dashed=True),
            ),
            decimals=0,
            smallest_top=1000.0,
        ),
        GraphSpec(
            HEAT,
            load_key(HEAT, device),
            tr("GPU temperature · {device}").format(device=device),
            "°C",
            (Line(load_key(HEAT, device), "", color(4)),),
            decimals=0,
            smallest_top=100.0,
        ),
        GraphSpec(
            HEAT,
            load_key(POWER, device),
            tr("GPU power · {device}").format(device=device),
            "W",
            (Line(load_key(POWER, device), "", color(2)),),
            decimals=0,
            smallest_top=10.0,
        ),
    )


def gpu_spec(device: str) -> GraphSpec:
    """The memory of one GPU, stacked by part."""
    names = {
        "weights": tr("weights"),
        "experts": tr("experts"),
        "kv": tr("KV cache"),
        "compute": tr("compute buffers"),
        "pool": tr("expert pool"),
        "staging": tr("staging"),
        DRIVER: tr("driver context"),
        OTHERS: tr("other programs"),
        REST: tr("driver and other programs"),
        SPILL: tr("shared memory (spill)"),
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
        tr("GPU memory · {device}").format(device=device),
        "GiB",
        (Line(figure_key(device, BUDGET), tr("plan (predicted)"), _muted, dashed=True),),
        bands,
        about=tr("The engine's parts as it reports them; the driver's and other programs' share as measured."),
    )
