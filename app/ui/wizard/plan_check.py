"""Has the engine lay a plan out while the user looks at it, so that its memory is llama.cpp's own figure."""

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine import client, protocol
from app.errors import AppError
from app.placement.evidence import planned
from app.placement.plan import Plan
from app.placement.refine import Refinement
from app.ui.controller import ANSWERING, LOADING, Controller
from app.ui.wizard.flow import Choices

# A plan that the next keystroke replaces need not be laid out.
QUIET_MILLISECONDS = 150


class PlanCheck(QObject):
    """Checks one plan at a time; another one drops the one before.

    Signals:
        checked: The plan that was given, and what became of it (Plan, Plan): its memory as llama.cpp gives it,
            or another plan where that showed that it would not fit.
    """

    checked = Signal(object, object)

    def __init__(self, controller: Controller, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self._engine = controller.engine
        self._plan: Plan | None = None
        self._told: Plan | None = None  # what a check ended with, also without a dry run: it is not checked again
        self._refinement: Refinement | None = None
        self._request = 0
        self._wait = QTimer(self)
        self._wait.setSingleShot(True)
        self._wait.setInterval(QUIET_MILLISECONDS)
        self._wait.timeout.connect(self._ask)
        self._engine.event.connect(self._take)
        self._engine.ended.connect(lambda _outcome: self.drop())

    def begin(self, choices: Choices) -> None:
        """Check the plan of `choices` unless it is being checked or was; without one, drop the one before."""
        plan, facts, machine = choices.plan, choices.facts, choices.machine
        wishes, evidence = choices.wishes, choices.evidence
        if plan is None or facts is None or machine is None:
            self.drop()
        elif plan is not self._plan and plan is not self._told and not plan.dry_run:
            self.drop()
            self._plan = plan
            # A smaller plan after a failed load is no plan of the wishes: it is checked, and stays.
            make = (lambda _its: plan) if choices.reduced else (lambda its: planned(facts, its, wishes, evidence))
            self._refinement = Refinement(facts, machine, make, plan)
            self._wait.start()

    def drop(self) -> None:
        """The plan is not wanted any more."""
        self._wait.stop()
        self._plan = self._refinement = None
        self._request = 0

    def _ask(self) -> None:
        # An engine that loads or answers is not asked: it would answer when nobody looks any more.
        if self._refinement is None or not self._engine.running or self._controller.state in (LOADING, ANSWERING):
            self.drop()
            return
        try:
            self._request = self._engine.send(protocol.DryRun, plan=self._refinement.plan)
        except AppError as error:  # a path whose bytes are not Unicode cannot be sent
            self._end(error)

    def _take(self, event: protocol.AnyEvent) -> None:
        if not self._request or event.id != self._request or self._refinement is None:
            return
        self._request = 0
        if isinstance(event, protocol.Failed):
            self._end(client.error_of(event))
        elif isinstance(event, protocol.DryRan):
            try:
                self._refinement.take(event.buffers)
            except AppError as error:
                self._end(error)
                return
            if self._refinement.done:
                self._tell()
            else:
                self._ask()

    def _end(self, error: AppError) -> None:
        if self._refinement is not None:
            self._refinement.fail(error)
            self._tell()

    def _tell(self) -> None:
        before, refinement = self._plan, self._refinement
        self.drop()
        if before is not None and refinement is not None:
            self._told = refinement.plan
            self.checked.emit(before, refinement.plan)
