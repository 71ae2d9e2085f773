"""Measuring the machine through the engine: one calibration at a time, its progress, its result in the record."""

from PySide6.QtCore import QObject, Signal

from app.engine import client, protocol
from app.errors import AppError
from app.hardware.facts import Machine
from app.hardware.fingerprint import engine_name, fingerprint
from app.library import calibrations
from app.placement.speed.calibration import Calibration
from app.placement.speed.calibration_choices import COMMON_TYPES, SECONDS, devices, thread_counts
from app.ui.background import Background
from app.ui.engine import Engine


class Measurement(QObject):
    """Asks the engine for a calibration and keeps what comes of it.

    The engine frees a loaded model for it: start it only where none is loaded.

    Signals:
        progress: Fraction done, 0 to 1, and what is measured now.
        measured: The result (Calibration), which is kept.
        found: What was kept before for a machine (calibrations.Stored), or None.
        failed: Why there is no result (AppError), also for one that was cancelled.
    """

    progress = Signal(float, str)
    measured = Signal(object)
    found = Signal(object)
    failed = Signal(object)

    def __init__(self, engine: Engine, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._engine = engine
        self._background = background
        self._id = 0
        engine.event.connect(self._take)
        engine.ended.connect(self._ended)
        engine.failed.connect(self._lost)

    @property
    def running(self) -> bool:
        """True from `start` until the engine's answer."""
        return bool(self._id)

    def start(self, machine: Machine) -> None:
        """Measure; nothing where that is under way."""
        if self._id:
            return
        sent = self._engine.send(
            protocol.Calibrate,
            types=COMMON_TYPES,
            threads=thread_counts(machine.cpu),
            devices=devices(machine),
            disk_folder=machine.disk.path,
            seconds=SECONDS,
            machine=fingerprint(machine),
        )
        # An engine that cannot even be started has failed by now, on some systems.
        self._id = sent if self._engine.running else 0

    def cancel(self) -> None:
        """Stop what is under way; `failed` follows."""
        if self._id:
            self._engine.send(protocol.Cancel, target=self._id)

    def look(self, machine: Machine) -> None:
        """Look for what was kept of this machine; `found` follows."""
        if machine.engine is None:
            self.found.emit(None)
            return
        mine, engine = fingerprint(machine), engine_name(machine.engine)
        job = self._background.run(lambda: calibrations.find(mine, engine))
        job.success(self.found.emit).failure(self.failed.emit)

    def _take(self, event: protocol.AnyEvent) -> None:
        if not event.id or event.id != self._id:
            return
        if isinstance(event, protocol.CalibrateProgress):
            self.progress.emit(event.fraction, event.what)
        elif isinstance(event, protocol.Calibrated):
            self._id = 0
            self._keep(event.calibration)
        elif isinstance(event, protocol.Failed):
            self._lost(client.error_of(event))

    def _keep(self, calibration: Calibration) -> None:
        job = self._background.run(lambda: calibrations.keep(calibration))
        job.success(lambda _none: self.measured.emit(calibration)).failure(self.failed.emit)

    def _ended(self, outcome: client.ProcessOutcome) -> None:
        if self._id:
            self._lost(outcome.error())

    def _lost(self, error: AppError) -> None:
        if self._id:
            self._id = 0
            self.failed.emit(error)
