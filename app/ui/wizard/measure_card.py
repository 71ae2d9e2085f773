"""The card that measures how fast this machine is: a button, progress, and the result in words."""

from PySide6.QtCore import Signal
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QPushButton, QVBoxLayout, QWidget

from app.errors import AppError, ErrorCode
from app.hardware.facts import Machine
from app.library.calibrations import Stored
from app.placement.speed.calibration import Calibration
from app.placement.speed.calibration_choices import SECONDS
from app.placement.speed.calibration_words import best_sentences
from app.ui.controller import LOADING, Controller
from app.ui.measurement import Measurement
from app.ui.theme import GRID, Theme
from app.ui.wizard.widgets import Card, label
from app.ui.words import number

STEPS = 1000


class MeasureCard(Card):
    """What is known of this machine's speed, and the button that measures it. Leaving the page cancels.

    Signals:
        failed: It could not be measured or kept (AppError); not for a cancel.
    """

    failed = Signal(object)

    def __init__(self, controller: Controller, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(theme, parent=parent)
        self._controller = controller
        self._machine: Machine | None = None
        self._measurement = Measurement(controller.engine, controller.background, self)
        self.set_heading(self.tr("Speed"))
        self._words = label()
        self._notes = label("", "muted")
        self.button = QPushButton(
            self.tr("&Measure this machine (≈ {seconds} s)").format(seconds=number(SECONDS)), self
        )
        self.cancel_button = QPushButton(self.tr("Cancel"), self)
        self.progress = QProgressBar(self)
        self.progress.setRange(0, STEPS)
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName(self.tr("Measuring this machine"))
        self._busy = label("", "small")
        course = QVBoxLayout()
        course.setSpacing(GRID // 2)
        course.addWidget(self._busy)
        course.addWidget(self.progress)
        row = QHBoxLayout()
        row.setSpacing(2 * GRID)
        row.addWidget(self.button)
        row.addWidget(self.cancel_button)
        row.addLayout(course, 1)
        # Above what is known, which may be long: what is under way is seen where it was begun.
        self.column.addLayout(row)
        self.column.addWidget(self._words)
        self.column.addWidget(self._notes)
        self.button.clicked.connect(self._start)
        self.cancel_button.clicked.connect(self._cancel)
        self._measurement.progress.connect(self._show_progress)
        self._measurement.measured.connect(self._show_measured)
        self._measurement.found.connect(self._show_found)
        self._measurement.failed.connect(self._show_failure)
        controller.state_changed.connect(self._refresh)
        self._say(self.tr("Not measured yet: speeds are guessed from what such machines reach."))
        self._refresh()

    @property
    def measuring(self) -> bool:
        """True until the engine has ended the measurement, also a cancelled one."""
        return self._measurement.running

    @property
    def text(self) -> str:
        """What it says."""
        labels = (self._busy, self._words, self._notes)
        return "\n".join(words.text() for words in labels if words.text())

    def show_machine(self, machine: Machine) -> None:
        """Speak of this machine from now on; what was kept of it follows."""
        self._machine = machine
        self._refresh()
        if not self.measuring:
            self._measurement.look(machine)

    def hideEvent(self, event: QHideEvent) -> None:
        """Another page is shown: what it asks the engine must not wait for the measurement."""
        super().hideEvent(event)
        if not event.spontaneous():
            self._cancel()

    def _start(self) -> None:
        if self._machine is None:
            return
        self._measurement.start(self._machine)
        self.progress.setValue(0)
        self._busy.setText(self.tr("Measuring…"))
        self._refresh()
        if self.measuring:
            self.cancel_button.setFocus()

    def _cancel(self) -> None:
        if self.measuring:
            self._measurement.cancel()
            self.cancel_button.setEnabled(False)
            self._busy.setText(self.tr("Cancelling…"))

    def _show_progress(self, fraction: float, what: str) -> None:
        self.progress.setValue(round(fraction * STEPS))
        if self.cancel_button.isEnabled():
            self._busy.setText(self.tr("Measuring {what}").format(what=what))

    def _show_measured(self, calibration: Calibration) -> None:
        self._say(" ".join(best_sentences(calibration)), " ".join(calibration.skipped))
        self._refresh()

    def _show_found(self, stored: Stored | None) -> None:
        if stored is not None and not self.measuring:
            self._say(" ".join(best_sentences(stored.calibration)), stored.sentence)

    def _show_failure(self, error: AppError) -> None:
        cancelled = error.code is ErrorCode.CANCELLED
        self._say(self.tr("The measurement was cancelled.") if cancelled else error.message)
        self._refresh()
        if not cancelled:
            self.failed.emit(error)
        elif self._machine is not None:
            self._measurement.look(self._machine)

    def _say(self, words: str, notes: str = "") -> None:
        self._words.setText(words)
        self._notes.setText(notes)
        self._notes.setVisible(bool(notes))

    def _refresh(self, *_: object) -> None:
        controller, measuring = self._controller, self.measuring
        in_use = controller.loaded_report is not None or controller.state == LOADING
        had_focus = self.cancel_button.hasFocus()
        self.button.setVisible(not measuring)
        self.button.setEnabled(self._machine is not None and not in_use)
        self.button.setToolTip(
            self.tr("A model is loaded: it would be freed. Measure before loading one.") if in_use else ""
        )
        self.cancel_button.setVisible(measuring)
        self.cancel_button.setEnabled(measuring)
        self.progress.setVisible(measuring)
        self._busy.setVisible(measuring)
        if not measuring:
            self._busy.clear()
        if had_focus and not measuring:
            self.button.setFocus()
