"""Reads what was measured of model and machine while the plan page opens: off the UI thread, for files may block."""

from PySide6.QtCore import QObject, Signal

from app.hardware.facts import Machine
from app.hardware.fingerprint import fingerprint
from app.library.speed_evidence import evidence_of
from app.model.facts import ModelFacts
from app.placement.evidence import Evidence
from app.ui.background import Background
from app.ui.wizard.flow import Flow, View


class PlanEvidence(QObject):
    """Gives the flow what there is: a calibration, what answers taught, a tuned plan.

    Signals:
        changed: The flow has planned anew by it.
    """

    changed = Signal()

    def __init__(self, background: Background, flow: Flow, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._flow = flow

    def look(self) -> None:
        """Read it for the model and machine chosen now; only while the plan is shown."""
        facts, machine = self._flow.choices.facts, self._flow.choices.machine
        if self._flow.view is View.PLAN and facts is not None and machine is not None:
            job = self._background.run(lambda: evidence_of(facts, machine))
            job.success(lambda evidence: self._take(facts, machine, evidence))

    def _take(self, facts: ModelFacts, machine: Machine, evidence: Evidence) -> None:
        now = self._flow.choices
        same = now.facts is facts and now.machine is not None and fingerprint(now.machine) == fingerprint(machine)
        if same and self._flow.accept_evidence(evidence):
            self.changed.emit()
