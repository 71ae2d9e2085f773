"""Measures five times a second, off the UI thread, and keeps the last hour of every figure."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine.protocol import PromptProgress, Token
from app.errors import AppError
from app.hardware.facts import Gpu
from app.hardware.samples import EVERYTHING, GpuSample, Sample
from app.hardware.sampling import Sampler
from app.ui.background import Background
from app.ui.controller import ANSWERING, Controller
from app.ui.graphs.absences import OF_ANSWERS, Absences, engine_reasons
from app.ui.graphs.cache_rates import RESIDENT, CacheRates
from app.ui.graphs.gpu_parts import gpu_figures, reported_parts
from app.ui.graphs.graph_spec import GraphSpec
from app.ui.graphs.history import History
from app.ui.graphs.load_figures import GRAPHS_OF_FIGURES, load_figures, load_key, load_reasons
from app.ui.graphs.rate import CounterRate, PromptRate, TokenRate
from app.ui.graphs.specs import (
    AVAILABLE_RAM,
    DECODE,
    DISK,
    ENGINE_RAM,
    FAULTS,
    FILE,
    GPU,
    GROUPS,
    OF_CACHE,
    PEAK_RAM,
    PROMPT,
    RAM,
    SAMPLED,
)

log = logging.getLogger(__name__)

GIB = 1024**3
MEGABYTE = 1_000_000
INTERVAL_MILLISECONDS = 200
KEPT_SECONDS = 3600
CAPACITY = KEPT_SECONDS * 1000 // INTERVAL_MILLISECONDS
_STOPPED = "stopped"
"""What is said of every graph while nothing is measured; no graph has this key."""


@dataclass(frozen=True)
class Target:
    """Whom to sample: the engine's process, the machine's GPUs, the loaded model's files."""

    pid: int
    gpus: tuple[Gpu, ...]
    model_files: tuple[str, ...]


MakeSampler = Callable[[int, tuple[Gpu, ...], tuple[str, ...]], Sampler]


class Recorder(QObject):
    """The measurements behind the graphs. It costs nothing until `start` and after `stop`.

    A row is kept for every sample, and one without the sampled figures where a source is slow.

    Attributes:
        history: The rows.
        reasons: Graph's key to why something of it is not measured now, or what it leaves out.
        devices: The GPUs that the machine lists now.
        known: Every GPU that it listed since the start: the rows keep the figures of one that is gone.

    Signals:
        recorded: There is something new to draw.
        gpus_changed: Other GPUs are measured now.
    """

    recorded = Signal()
    gpus_changed = Signal()

    def __init__(
        self,
        controller: Controller,
        parent: QObject | None = None,
        *,
        make_sampler: MakeSampler = Sampler,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(parent)
        self._controller = controller
        self._make_sampler = make_sampler
        self._clock = clock
        self._background = Background(self)
        self._lock = threading.Lock()
        self._sampler: Sampler | None = None
        self._target: Target | None = None
        self._measuring = False
        self._active = False
        self._told = ""
        self._groups: frozenset[str] = frozenset(GROUPS)
        self._rate = TokenRate()
        self._prompt = PromptRate()
        self._cache_rates = CacheRates()
        self._faults, self._reads = CounterRate(), CounterRate()
        self._counted = 0  # the process whose counters were read last
        self.history = History(CAPACITY)
        self.reasons: dict[str, str] = {}
        self._engine_reasons = engine_reasons(controller)
        self._absences = Absences(KEPT_SECONDS)
        self._hidden = dict.fromkeys(map(_hidden_key, GROUPS), "")
        self.totals: dict[str, int] = {}
        self.devices: tuple[str, ...] = ()
        self.known: tuple[str, ...] = ()
        self._timer = QTimer(self)
        self._timer.setInterval(INTERVAL_MILLISECONDS)
        self._timer.timeout.connect(self._tick)
        controller.answer_started.connect(self._answer_started)
        controller.engine.event.connect(self._take)
        controller.cache.changed.connect(self._take_cache)
        controller.machine_changed.connect(self._set_gpus)
        self._set_gpus()

    @property
    def running(self) -> bool:
        """True between `start` and `stop`."""
        return self._timer.isActive()

    @property
    def now(self) -> float:
        """The time on the clock of every row, in seconds."""
        return self._clock()

    @property
    def wanted(self) -> frozenset[str]:
        """What samples are asked for, of `samples.EVERYTHING`."""
        return EVERYTHING & frozenset().union(*(SAMPLED.get(group, frozenset()) for group in self._groups))

    def why(self, spec: GraphSpec) -> str:
        """Why a graph has no value now, or what it leaves out; empty where nothing is missing."""
        if spec.group in OF_ANSWERS and self.history.latest(spec.lines[0].key) is not None:
            return ""
        return self._engine_reasons.get(spec.key) or self.reasons.get(spec.key, "")

    def why_at(self, spec: GraphSpec, time_seconds: float) -> str:
        """Why a graph has no value in the row of a time; empty where nobody said."""
        keys = (_STOPPED, _hidden_key(spec.group), spec.key)
        return next(filter(None, (self._absences.at(key, time_seconds) for key in keys)), "")

    def set_groups(self, groups: Iterable[str]) -> None:
        """Measure what these graphs show, and nothing else."""
        self._groups = frozenset(groups)
        hidden = self.tr("This graph was hidden: nothing was measured for it.")
        self._hidden = {_hidden_key(group): "" if group in self._groups else hidden for group in GROUPS}
        self._counted = 0  # what was not read for a while has no rate over that time
        if self.running:
            self._watch_cache()

    def start(self) -> None:
        """Begin to measure; what lies between the last `stop` and now is a gap."""
        if self.running:
            return
        if len(self.history):
            self.history.append(self.now, {})
        self._active = True
        self._timer.start()
        self._counted = 0
        self._cache_rates.reset()
        self._watch_cache()
        self._tick()

    def stop(self) -> None:
        """Measure nothing any more and let the sources go, off the UI thread."""
        if self.running:
            self._active = False
            self._timer.stop()
            self._controller.cache.unwatch(self)
            self._absences.tell(self.now, {_STOPPED: self.tr("The graphs were hidden: nothing was measured.")})
            if len(self.history):
                self.history.append(self.now, {})  # the gap begins here, for who points into it
            self._background.run(self._release)

    def shutdown(self) -> None:
        """Stop and wait for what still runs; for the end of the window."""
        self._active = False
        self._timer.stop()
        self._controller.cache.unwatch(self)
        self._background.wait()
        self._release()

    # ---- on the UI thread ---------------------------------------------------------------------

    def _watch_cache(self) -> None:
        if self._groups & OF_CACHE:
            self._controller.cache.watch(self, experts=False)
        else:
            self._controller.cache.unwatch(self)

    def _tick(self) -> None:
        wanted = self.wanted
        if self._measuring or not wanted:
            # A slow driver makes fewer samples, never a queue of them; the rest goes on.
            self._record(None)
            return
        self._measuring = True
        facts = self._controller.loaded_facts
        target = Target(self._controller.engine.pid, self._machine_gpus(), facts.files if facts else ())
        self._background.run(lambda: self._measure_or_tell(target, wanted)).success(
            lambda measured: self._take_measured(target, measured)
        )

    def _take_measured(self, target: Target, measured: Sample | Exception) -> None:
        # Whatever happened, the next tick measures again: one surprise must not end the graphs for good.
        self._measuring = False
        if not self.running:
            return
        if isinstance(measured, Sample):
            self._told = ""
            if target.pid != self._counted:
                self._counted = target.pid
                self._faults.reset()
                self._reads.reset()
            self._record(measured)
        else:
            self._not_measured(measured)
            self._record(None)

    def _record(self, sample: Sample | None) -> None:
        now = self.now
        figures: dict[str, float | None] = {}
        answering = self._controller.state == ANSWERING
        if answering:
            figures[DECODE] = self._rate.tokens_per_second(now)
        else:
            self._prompt.ended()  # stopped before its first token, perhaps
        figures[PROMPT] = self._prompt.take()
        figures.update(self._cache_rates.figures(now, answering=answering))
        if RESIDENT in self._groups and self._cache_rates.should_look(now):
            self._controller.cache.look()
        if sample is not None:
            figures.update(self._sampled(sample))
            figures.update(load_figures(sample))
            self.reasons |= load_reasons(sample)
        self._record_gpus(figures, sample)
        self._engine_reasons = reasons = engine_reasons(self._controller)
        if not reasons[RESIDENT] and figures.get(RESIDENT) is None:
            reasons[RESIDENT] = self.tr("The engine has not told it yet.")
        self._absences.tell(now, {**self.reasons, **self._engine_reasons, **self._hidden, _STOPPED: ""})
        self.history.append(now, figures)
        self.recorded.emit()

    def _sampled(self, sample: Sample) -> dict[str, float | None]:
        why = sample.reasons.get
        running = bool(self._controller.engine.pid)
        gone = "" if running else self.tr("The engine is not running.")
        ram = " ".join(filter(None, (gone or why("engine_rss_bytes"), why("ram_available_bytes"))))
        ended = gone or why("engine_rss_bytes", "")
        self.reasons |= {
            RAM: ram,
            FAULTS: ended or why("engine_major_faults", ""),
            DISK: ended or why("engine_read_bytes", ""),
            FILE: why("model_share", "") if self._controller.loaded_facts else self.tr("No model is loaded."),
        }
        share = sample.model_share
        time_seconds = sample.time_seconds
        figures: dict[str, float | None] = {
            AVAILABLE_RAM: _in(GIB, sample.ram_available_bytes),
            FILE: None if share is None else 100 * share,
        }
        if running:
            figures |= {
                ENGINE_RAM: _in(GIB, sample.engine_rss_bytes),
                PEAK_RAM: _in(GIB, sample.engine_peak_bytes),
                FAULTS: self._faults.take(time_seconds, sample.engine_major_faults),
                DISK: _in(MEGABYTE, self._reads.take(time_seconds, sample.engine_read_bytes)),
            }
        return figures

    def _record_gpus(self, figures: dict[str, float | None], sample: Sample | None) -> None:
        if GPU not in self._groups:
            return
        controller = self._controller
        cache = controller.cache.facts
        samples = {measured.device: measured for measured in (sample.gpus if sample else ())}
        for device in self.devices:
            measured: GpuSample | None = samples.get(device)
            if measured is not None:
                self.reasons[f"{GPU}.{device}"] = measured.missing
                if measured.total_bytes is not None:
                    self.totals[device] = measured.total_bytes
            parts = reported_parts(
                device, controller.loaded_report, controller.loaded_facts, cache.pool if cache else None
            )
            figures |= gpu_figures(device, parts, measured, controller.loaded_plan)

    def _not_measured(self, error: Exception) -> None:
        why = error.message if isinstance(error, AppError) else self.tr("Measuring failed: {why}").format(why=error)
        if why != self._told:  # once, not five times a second
            self._told = why
            log.warning("not measured: %s", why, exc_info=error)
        keys = [*(group for group in SAMPLED if group != GPU), *_keys_of(self.devices)]
        self.reasons |= dict.fromkeys(keys, why)

    def _answer_started(self) -> None:
        self._rate.start()
        self._prompt.start()

    def _take(self, event: object) -> None:
        if isinstance(event, Token):
            self._prompt.ended()
            self._rate.arrived(self.now, event.count)
        elif isinstance(event, PromptProgress):
            self._prompt.progressed(self.now, event.done)

    def _take_cache(self) -> None:
        if self.running:
            self._cache_rates.take(self.now, self._controller.cache.facts)

    def _machine_gpus(self) -> tuple[Gpu, ...]:
        machine = self._controller.machine
        return machine.gpus if machine else ()

    def _set_gpus(self) -> None:
        gpus = self._machine_gpus()
        devices = tuple(gpu.device for gpu in gpus)
        self.totals = {gpu.device: gpu.total_bytes for gpu in gpus} | self.totals
        if devices != self.devices:
            self.devices = devices
            self.known = tuple(dict.fromkeys((*self.known, *devices)))
            gone = self.tr("The machine does not list this GPU any more.")
            for device in self.known:
                for key in _keys_of((device,)):
                    if device not in devices:
                        self.reasons[key] = gone
                    elif self.reasons.get(key) == gone:
                        del self.reasons[key]
            self.gpus_changed.emit()

    # ---- on a pool thread ---------------------------------------------------------------------

    def _measure_or_tell(self, target: Target, wanted: frozenset[str]) -> Sample | Exception:
        try:
            return self._measure(target, wanted)
        except Exception as error:  # shown in the graphs and logged by the UI thread
            return error

    def _measure(self, target: Target, wanted: frozenset[str]) -> Sample:
        with self._lock:
            if self._sampler is None or self._target != target:
                self._close_sampler()
                self._sampler = self._make_sampler(target.pid, target.gpus, target.model_files)
                self._target = target
            try:
                return self._sampler.sample(wanted)
            finally:
                if not self._active:  # stopped meanwhile, and perhaps released before this began
                    self._close_sampler()

    def _release(self) -> None:
        with self._lock:
            self._close_sampler()

    def _close_sampler(self) -> None:
        if self._sampler is not None:
            self._sampler.close()
            self._sampler = None


def _in(unit: int, count: float | None) -> float | None:
    return None if count is None else count / unit


def _keys_of(devices: Iterable[str]) -> list[str]:
    """The graphs of some devices."""
    return [
        key
        for device in devices
        for key in (f"{GPU}.{device}", *(load_key(graph, device) for graph in GRAPHS_OF_FIGURES))
    ]


def _hidden_key(group: str) -> str:
    return f"hidden.{group}"
