"""What is known of the chosen model on this machine, for everything that the tuning dock predicts."""

import logging
from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer, Signal

from app.errors import AppError
from app.hardware.facts import Machine
from app.hardware.fingerprint import fingerprint
from app.library import speed_records
from app.library.speed_evidence import evidence_of
from app.model.facts import ModelFacts
from app.placement.cache.recorded_hits import RecordedHits
from app.placement.evidence import NO_EVIDENCE, Evidence, evidence_for
from app.placement.speed.learning import Observation
from app.ui.controller import Controller
from app.ui.tuning.curve_words import hit_basis_text

log = logging.getLogger(__name__)

AFTER_ANSWER_MILLISECONDS = 1500
"""The engine saves an answer's routing, and the window its speed, after the answer has been told."""
LEAST_MILLISECONDS = 10_000
"""Least time between two readings for the sake of answers."""
LATE_READINGS = 2
"""Most readings more after an answer whose routing is not there yet: on a busy machine the engine saves it late."""


@dataclass(frozen=True)
class _Known:
    """What was read: all of it of the same model and machine."""

    evidence: Evidence = NO_EVIDENCE
    observations: tuple[Observation, ...] = ()


class TuningEvidence(QObject):
    """Calibration, what answers taught, recorded routing: read off the UI thread, anew when any of it may be another.

    That is when the model or the machine changes, and after answers, every ten seconds at most; a few times more while
    the engine has not saved an answer's routing. While nobody looks nothing is read.

    Signals:
        changed: Something else is known now.
    """

    changed = Signal()

    def __init__(self, controller: Controller, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self._known = _Known()
        self._about: tuple[str, str] | None = None  # model and machine of what is known
        self._reading = False
        self._stale = True
        self._active = True
        self._late = 0
        self._recorded_before: RecordedHits | None = None
        self._after_answers = QTimer(self)
        self._after_answers.setSingleShot(True)
        self._after_answers.timeout.connect(self.reload)
        self._rest = QTimer(self)
        self._rest.setSingleShot(True)
        self._rest.setInterval(LEAST_MILLISECONDS)
        controller.model_changed.connect(self._subject_changed)
        controller.machine_changed.connect(self._subject_changed)
        controller.loaded.connect(lambda _report: self.reload())  # the machine may have been measured before it
        controller.finished.connect(self._answered)
        self.reload()

    # ---- what is known --------------------------------------------------------------------------

    @property
    def evidence(self) -> Evidence:
        """What predictions for the chosen model on this machine rest on; nothing until it is read."""
        return self._known.evidence

    @property
    def observations(self) -> tuple[Observation, ...]:
        """Measured answers of the model on the machine, oldest first; also those of earlier runs."""
        return self._known.observations

    @property
    def recorded(self) -> RecordedHits | None:
        """What the recorded routing of the model says."""
        return self._known.evidence.recorded

    @property
    def hit_basis(self) -> str:
        """What hit rates of the edited plan's pool rest on, in a sentence; empty without a plan."""
        facts, plan = self._controller.facts, self._controller.plan
        return hit_basis_text(facts, plan, self.recorded) if facts is not None and plan is not None else ""

    # ---- reading --------------------------------------------------------------------------------

    def set_active(self, active: bool) -> None:
        """Somebody looks at what rests on it, or nobody does; what changed meanwhile is read then."""
        self._active = active
        if active and self._stale:
            self.reload()

    def reload(self) -> None:
        """Read everything anew; `changed` follows if something else is known then."""
        facts, machine = self._controller.facts, self._controller.machine
        if facts is None or machine is None:
            self._take(None, _Known())
            return
        if not self._active or self._reading:
            self._stale = True
            return
        self._stale, self._reading = False, True
        self._rest.start()
        job = self._controller.background.run(lambda: _read(facts, machine))
        job.always(self._reading_ended).success(lambda known: self._read_done(_subject(facts, machine), known))
        job.failure(self._failed)

    def _subject_changed(self, _new: object) -> None:
        facts, machine = self._controller.facts, self._controller.machine
        subject = _subject(facts, machine) if facts is not None and machine is not None else None
        if subject != self._about:
            self._take(None, _Known())  # what is known of another one must not be shown
            self.reload()

    def _answered(self, _finished: object) -> None:
        report = self._controller.loaded_report
        self._late = LATE_READINGS if report is not None and report.expert_device else 0
        self._recorded_before = self.recorded
        self._read_later()

    def _read_later(self) -> None:
        if not self._after_answers.isActive():
            self._after_answers.start(max(self._rest.remainingTime(), AFTER_ANSWER_MILLISECONDS))

    def _reading_ended(self, _error: Exception | None) -> None:
        self._reading = False

    def _read_done(self, subject: tuple[str, str], known: _Known) -> None:
        facts, machine = self._controller.facts, self._controller.machine
        if facts is not None and machine is not None and subject == _subject(facts, machine):
            self._take(subject, known)
            self._look_again()
        else:
            self._stale = True
        if self._stale:
            self.reload()

    def _look_again(self) -> None:
        if self._late and not self._after_answers.isActive():
            self._late -= 1
            if self.recorded == self._recorded_before:
                self._read_later()
            else:
                self._late = 0

    def _failed(self, error: AppError) -> None:
        log.warning("what is known of the model was not read: %s", error.message)
        if self._stale:
            self.reload()

    def _take(self, subject: tuple[str, str] | None, known: _Known) -> None:
        if known != self._known:
            self._about, self._known = subject, known
            self.changed.emit()
        else:
            self._about = subject


def _read(facts: ModelFacts, machine: Machine) -> _Known:
    """Everything that is kept; called on a pool thread."""
    evidence = evidence_for(machine, evidence_of(facts, machine))
    try:
        observations = speed_records.observations(facts, machine)
    except AppError:  # evidence.notes says it
        observations = ()
    return _Known(evidence=evidence, observations=observations)


def _subject(facts: ModelFacts, machine: Machine) -> tuple[str, str]:
    return facts.fingerprint, fingerprint(machine)
