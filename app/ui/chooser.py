"""The two questions before a plan: what this machine is, and what is in the chosen file."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine import client, protocol
from app.errors import AppError, ErrorCode
from app.hardware.facts import EngineBuild, Gpu, Machine
from app.model.facts import ModelFacts
from app.ui.background import Background
from app.ui.engine import Engine

DEVICES_MILLISECONDS = 60_000
"""A graphics driver that has not answered by then hangs. The first start of an engine, with every library read from a
slow disk and looked at by a virus scanner, may take half of it; the command line waits as long."""

Measure = Callable[[tuple[Gpu, ...], EngineBuild | None], Machine]


def read_facts_of(path: Path) -> ModelFacts:
    """What is in a model file. Imported on the pool thread: numpy and gguf would delay the first window."""
    from app.model.reader import read_facts  # noqa: PLC0415

    return read_facts(path)


def probe_machine(models_folder: Path, gpus: tuple[Gpu, ...], build: EngineBuild | None) -> Machine:
    """What this machine is, and what loads on it showed; imported late for the same reason."""
    from app.hardware.probe import probe  # noqa: PLC0415
    from app.library.disk_speed import with_disk_speed  # noqa: PLC0415
    from app.library.load_memory import with_learnt  # noqa: PLC0415

    return with_disk_speed(with_learnt(probe(models_folder, gpus, build)))


class Chooser(QObject):
    """Probes the machine and reads the chosen model's file, both off the UI thread.

    The engine lists its devices first; the rest of the machine is measured also where it cannot.

    Signals:
        machine_found: The probe's result (Machine).
        model_read: What is in the file chosen last (ModelFacts).
        engine_hangs: The engine does not list its devices (AppError); the probe goes on when it is gone.
        failed: The engine cannot list its devices, the machine cannot be measured, or the file chosen
            last is no model (AppError).
    """

    machine_found = Signal(object)
    model_read = Signal(object)
    engine_hangs = Signal(object)
    failed = Signal(object)

    def __init__(
        self,
        engine: Engine,
        background: Background,
        measure: Measure,
        engine_busy: Callable[[], bool],
        parent: QObject | None = None,
    ) -> None:
        """`engine_busy` says that the engine works at something else, which may take its time."""
        super().__init__(parent)
        self._engine = engine
        self._background = background
        self._measure_machine = measure
        self._engine_busy = engine_busy
        self._devices_id = 0
        self._asking = False
        self._was_busy = False
        self._choices = 0
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.setInterval(DEVICES_MILLISECONDS)
        self._patience.timeout.connect(self._devices_late)

    # ---- machine ------------------------------------------------------------------------------

    def probe(self) -> None:
        """Ask the engine for its devices, then measure the machine."""
        self._asking, self._was_busy = True, self._engine_busy()
        self._devices_id = self._engine.send(protocol.ListDevices)
        if self._asking:  # an engine that cannot be started has been lost by now, on some systems
            self._patience.start()

    def take(self, event: protocol.AnyEvent) -> bool:
        """Handle the engine's answer; False for any other event."""
        if not event.id or event.id != self._devices_id:
            return False
        if isinstance(event, protocol.Devices):
            self._measure(event.gpus, event.build)
        elif isinstance(event, protocol.Failed):
            self.failed.emit(client.error_of(event))
            self._measure((), None)
        return True

    def engine_lost(self) -> None:
        """The engine is gone: measure what can be seen without it, if that was asked for."""
        if self._asking:
            self._measure((), None)

    def _devices_late(self) -> None:
        if not self._asking:
            return
        before, self._was_busy = self._was_busy, self._engine_busy()
        if before or self._was_busy:  # one that has just become free has its whole time from then on
            self._patience.start()
            return
        self.engine_hangs.emit(
            AppError(ErrorCode.ENGINE_FAILED, "The engine did not list its devices in time.", "A driver may hang.")
        )

    def _measure(self, gpus: tuple[Gpu, ...], build: EngineBuild | None) -> None:
        """Without the engine's answer there is no `build` either: an earlier one would say that it offers no GPU."""
        self._asking = False
        self._devices_id = 0
        self._patience.stop()
        measure = self._measure_machine
        job = self._background.run(lambda: measure(gpus, build))
        job.success(self.machine_found.emit).failure(self.failed.emit)

    # ---- model --------------------------------------------------------------------------------

    def choose(self, read: Callable[[], ModelFacts]) -> None:
        """Have a file read; what an earlier, slower read finds or fails at no longer matters."""
        self.drop_choice()
        choice = self._choices

        def chosen(facts: ModelFacts) -> None:
            if choice == self._choices:
                self.model_read.emit(facts)

        def refused(error: AppError) -> None:
            if choice == self._choices:
                self.failed.emit(error)

        self._background.run(read).success(chosen).failure(refused)

    def drop_choice(self) -> None:
        """Whatever is being read is not wanted any more."""
        self._choices += 1
