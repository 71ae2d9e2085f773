"""Measures five times a second, off the UI thread, and keeps the last ten minutes of every value."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine.protocol import CacheFacts, Token
from app.errors import AppError
from app.hardware.facts import Gpu
from app.hardware.sampling import GpuSample, Sample, Sampler
from app.placement.cache.facts import CacheTotals
from app.ui.background import Background
from app.ui.controller import ANSWERING, Controller
from app.ui.graphs.rate import TokenRate
from app.ui.graphs.ring import RingSeries

log = logging.getLogger(__name__)

GIB = 1024**3
INTERVAL_MILLISECONDS = 200
KEPT_SECONDS = 600
CAPACITY = KEPT_SECONDS * 1000 // INTERVAL_MILLISECONDS

MakeSampler = Callable[[int, tuple[Gpu, ...]], Sampler]


def _series() -> RingSeries:
    return RingSeries(CAPACITY)


@dataclass
class GpuSeries:
    """What is measured of one GPU, in GiB, and why something is not.

    Attributes:
        used: Memory in use by everyone.
        process: Memory in use by the engine.
        total_gib: Its size, or None where no source says.
        missing: Why a figure is not measured now, or empty.
    """

    used: RingSeries = field(default_factory=_series)
    process: RingSeries = field(default_factory=_series)
    total_gib: float | None = None
    missing: str = ""


class Recorder(QObject):
    """The measurements behind the graphs. It costs nothing until `start` and after `stop`.

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
        self._target: tuple[int, tuple[Gpu, ...]] | None = None
        self._measuring = False
        self._told = ""
        self._rate = TokenRate()
        self.engine_ram = _series()
        self.available_ram = _series()
        self.tokens_per_second = _series()
        self.hit_percent = _series()
        self._totals: CacheTotals | None = None
        self.gpus: dict[str, GpuSeries] = {}
        self.ram_missing = ""
        self._timer = QTimer(self)
        self._timer.setInterval(INTERVAL_MILLISECONDS)
        self._timer.timeout.connect(self._tick)
        controller.answer_started.connect(self._rate.start)
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
        """The time on the clock of every series, in seconds."""
        return self._clock()

    def start(self) -> None:
        """Begin to measure; what lies between the last `stop` and now is a gap."""
        if self.running:
            return
        now = self.now
        for series in self._all_series():
            if len(series):
                series.append(now, None)
        self._timer.start()
        self._totals = None
        self._controller.cache.watch(self, experts=False)
        self._tick()

    def stop(self) -> None:
        """Measure nothing any more and let the sources go, off the UI thread."""
        if self.running:
            self._timer.stop()
            self._controller.cache.unwatch(self)
            self._background.run(self._release)

    def shutdown(self) -> None:
        """Stop and wait for what still runs; for the end of the window."""
        self._timer.stop()
        self._controller.cache.unwatch(self)
        self._background.wait()
        self._release()

    # ---- on the UI thread ---------------------------------------------------------------------

    def _tick(self) -> None:
        answering = self._controller.state == ANSWERING
        now = self.now
        if not answering and self.hit_percent.latest is not None:
            self.hit_percent.append(now, None)
        self.tokens_per_second.append(now, self._rate.tokens_per_second(now) if answering else None)
        if not self._measuring:
            # A slow driver makes fewer samples, never a queue of them.
            self._measuring = True
            target = (self._controller.engine.pid, self._machine_gpus())
            self._background.run(lambda: self._measure_or_tell(target)).success(self._take_measured)
        self.recorded.emit()

    def _take_measured(self, measured: Sample | Exception) -> None:
        # Whatever happened, the next tick measures again: one surprise must not end the graphs for good.
        self._measuring = False
        if isinstance(measured, Sample):
            self._told = ""
            self._record(measured)
        else:
            self._not_measured(measured)

    def _record(self, sample: Sample) -> None:
        now = sample.time_seconds
        if self._controller.engine.pid:
            engine, self.ram_missing = sample.engine_rss_bytes, " ".join(sample.missing)
        else:
            engine, self.ram_missing = None, self.tr("The engine is not running.")
        self.engine_ram.append(now, _gib(engine))
        self.available_ram.append(now, _gib(sample.ram_available_bytes))
        for measured in sample.gpus:
            if measured.device in self.gpus:
                _record_gpu(self.gpus[measured.device], measured, now)

    def _not_measured(self, error: Exception) -> None:
        why = error.message if isinstance(error, AppError) else self.tr("Measuring failed: {why}").format(why=error)
        if why != self._told:  # once, not five times a second
            self._told = why
            log.warning("not measured: %s", why, exc_info=error)
        self.ram_missing = why
        for gpu in self.gpus.values():
            gpu.missing = why

    def _take(self, event: object) -> None:
        if isinstance(event, Token):
            self._rate.arrived(self.now, event.count)

    def _take_cache(self) -> None:
        """The hit rate since the facts before: a share of what was routed meanwhile, and of nothing else."""
        facts = self._controller.cache.facts
        before, self._totals = self._totals, facts.decode if facts else None
        if not self.running or self._totals is None or before is None or facts is None or not has_pool(facts):
            return
        hits, misses = self._totals.hits - before.hits, self._totals.misses - before.misses
        if hits >= 0 and misses >= 0 and hits + misses > 0:
            self.hit_percent.append(self.now, 100 * hits / (hits + misses))

    def _machine_gpus(self) -> tuple[Gpu, ...]:
        machine = self._controller.machine
        return machine.gpus if machine else ()

    def _set_gpus(self) -> None:
        devices = [gpu.device for gpu in self._machine_gpus()]
        if devices != list(self.gpus):
            self.gpus = {device: self.gpus.get(device) or GpuSeries() for device in devices}
            self.gpus_changed.emit()

    def _all_series(self) -> list[RingSeries]:
        of_gpus = [series for gpu in self.gpus.values() for series in (gpu.used, gpu.process)]
        return [self.engine_ram, self.available_ram, self.tokens_per_second, self.hit_percent, *of_gpus]

    # ---- on a pool thread ---------------------------------------------------------------------

    def _measure_or_tell(self, target: tuple[int, tuple[Gpu, ...]]) -> Sample | Exception:
        try:
            return self._measure(target)
        except Exception as error:  # shown in the graphs and logged by the UI thread
            return error

    def _measure(self, target: tuple[int, tuple[Gpu, ...]]) -> Sample:
        with self._lock:
            if self._sampler is None or self._target != target:
                if self._sampler is not None:
                    self._sampler.close()
                self._sampler = self._make_sampler(*target)
                self._target = target
            return self._sampler.sample()

    def _release(self) -> None:
        with self._lock:
            if self._sampler is not None:
                self._sampler.close()
                self._sampler = None


def has_pool(facts: CacheFacts | None) -> bool:
    """True where the engine holds a pool that experts can be hit in."""
    return facts is not None and facts.pool is not None and facts.pool.allocated_bytes > 0


def _record_gpu(series: GpuSeries, measured: GpuSample, now: float) -> None:
    series.used.append(now, _gib(measured.used_bytes))
    series.process.append(now, _gib(measured.process_bytes))
    series.total_gib = _gib(measured.total_bytes)
    series.missing = measured.missing


def _gib(count: int | None) -> float | None:
    return None if count is None else count / GIB
