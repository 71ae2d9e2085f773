"""Samples while an answer decodes, once a second at most, for the hints: nothing is read at any other time."""

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine.protocol import Token
from app.hardware.facts import Gpu
from app.hardware.samples import Sample
from app.ui.background import Background
from app.ui.controller import ANSWERING, Controller

if TYPE_CHECKING:
    from app.hardware.sampling import Sampler

log = logging.getLogger(__name__)

INTERVAL_MILLISECONDS = 1000
KEPT = 60
"""Samples of one answer: its last minute."""

MakeSampler = Callable[[int, tuple[Gpu, ...], tuple[str, ...]], "Sampler"]


def sampler_of(pid: int, gpus: tuple[Gpu, ...], files: tuple[str, ...]) -> "Sampler":
    """The sampler of an engine, imported when the first is wanted."""
    from app.hardware.sampling import Sampler  # noqa: PLC0415 - no start needs it

    return Sampler(pid, gpus, files)


class AnswerSamples(QObject):
    """What engine and machine use while the loaded model decodes.

    Signals:
        taken: There is another sample.
    """

    taken = Signal()

    def __init__(
        self, controller: Controller, parent: QObject | None = None, *, make_sampler: MakeSampler = sampler_of
    ) -> None:
        super().__init__(parent)
        self._controller = controller
        self._make_sampler = make_sampler
        self._background = Background(self)
        self._lock = threading.Lock()
        self._sampler: Sampler | None = None
        self._measuring = False
        self._active = False
        self._decoding: list[Sample] = []
        self._latest: Sample | None = None
        self._timer = QTimer(self)
        self._timer.setInterval(INTERVAL_MILLISECONDS)
        self._timer.timeout.connect(self._tick)
        controller.answer_started.connect(self._answer_started)
        controller.engine.event.connect(self._take)
        controller.state_changed.connect(self._state_changed)

    @property
    def decoding(self) -> tuple[Sample, ...]:
        """Those of the last answer, from its first token on."""
        return tuple(self._decoding)

    @property
    def latest(self) -> Sample | None:
        """The last one since the load."""
        return self._latest

    @property
    def running(self) -> bool:
        """True while samples are taken."""
        return self._timer.isActive()

    def shutdown(self) -> None:
        """Stop, and wait for what still runs; for the end of the window."""
        self._active = False
        self._timer.stop()
        self._background.wait()
        self._release()

    # ---- on the UI thread ---------------------------------------------------------------------

    def _answer_started(self) -> None:
        self._decoding.clear()

    def _take(self, event: object) -> None:
        if isinstance(event, Token) and not self.running and self._controller.state == ANSWERING:
            self._active = True
            self._timer.start()
            self._tick()

    def _state_changed(self, state: str) -> None:
        if state != ANSWERING and self.running:
            self._active = False
            self._timer.stop()
            self._background.run(self._release)
        if self._controller.loaded_facts is None:
            self._decoding.clear()
            self._latest = None

    def _tick(self) -> None:
        facts, machine, pid = self._controller.loaded_facts, self._controller.machine, self._controller.engine.pid
        if self._measuring or facts is None or not pid:
            return
        self._measuring = True
        gpus = machine.gpus if machine else ()
        self._background.run(lambda: self._measure(pid, gpus, facts.files)).success(self._measured)

    def _measured(self, sample: Sample | None) -> None:
        self._measuring = False
        if sample is None or not self.running:
            return
        self._latest = sample
        self._decoding.append(sample)
        del self._decoding[:-KEPT]
        self.taken.emit()

    # ---- on a pool thread ---------------------------------------------------------------------

    def _measure(self, pid: int, gpus: tuple[Gpu, ...], files: tuple[str, ...]) -> Sample | None:
        with self._lock:
            if not self._active:  # the answer ended, and the sampler was let go
                return None
            try:
                if self._sampler is None:
                    self._sampler = self._make_sampler(pid, gpus, files)
                return self._sampler.sample()
            except Exception:  # one surprise must not end the hints
                log.warning("not measured", exc_info=True)
                return None

    def _release(self) -> None:
        with self._lock:
            if self._sampler is not None:
                self._sampler.close()
                self._sampler = None
