"""The wizard without Qt: its views, what may be entered when, and everything chosen on the way.

Imports no Qt, so it is tested, and understood, without a window.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace

from app.errors import AppError
from app.hardware.facts import Machine
from app.hardware.fingerprint import fingerprint
from app.model.facts import ModelFacts
from app.placement.evidence import NO_EVIDENCE, Evidence
from app.placement.plan import Plan
from app.placement.planner import NO_WISHES, Wishes


class View(enum.StrEnum):
    """A page of the wizard."""

    MODEL = "model"
    MACHINE = "machine"
    PLAN = "plan"
    LOAD = "load"


VIEWS = tuple(View)
"""Every view, in the order in which they are passed."""


class Lack(enum.StrEnum):
    """What is missing before a view may be left forwards."""

    MODEL = "model"
    READING = "reading"
    MACHINE = "machine"
    PLAN = "plan"
    LOADED = "loaded"


class LoadState(enum.StrEnum):
    """How far the load is."""

    NONE = "none"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Everything chosen or found out so far; only ever replaced as a whole.

    Attributes:
        facts: The chosen model.
        machine: The latest probe.
        wishes: What the plan must keep to.
        evidence: What was measured of model and machine, as far as it was read by now.
        plan: What the planner made of model, machine and wishes; None until all three allow one.
        plan_error: Why there is no plan for these wishes.
        reduced: The plan is not the planner's for `wishes` but a smaller one, taken after a failed load.
    """

    facts: ModelFacts | None = None
    machine: Machine | None = None
    wishes: Wishes = NO_WISHES
    evidence: Evidence = NO_EVIDENCE
    plan: Plan | None = None
    plan_error: AppError | None = None
    reduced: bool = False


class Flow:
    """The views passed so far as a stack, the choices, and the load.

    Going back keeps every choice: only the place changes. Another model drops the wishes, which were
    made for the model before; another machine keeps them, and plans anew.

    Args:
        propose: The planner for the chosen model and machine, by wishes and evidence; raises `AppError` for
            impossible wishes.
    """

    def __init__(self, propose: Callable[[Wishes, Evidence], Plan]) -> None:
        self._propose = propose
        self._stack = [View.MODEL]
        self._choices = Choices()
        self._reading = False
        self._load = LoadState.NONE

    @property
    def view(self) -> View:
        """The view shown now."""
        return self._stack[-1]

    @property
    def choices(self) -> Choices:
        """What was chosen so far."""
        return self._choices

    @property
    def load(self) -> LoadState:
        """How far the load is."""
        return self._load

    # ---- moving -------------------------------------------------------------------------------

    def lack(self, view: View | None = None) -> Lack | None:
        """What is missing before `view` (the one shown) may be left forwards; None when nothing is."""
        choices = self._choices
        if self._reading and (view or self.view) is View.MODEL:
            return Lack.READING
        there = {
            View.MODEL: (Lack.MODEL, choices.facts is not None),
            View.MACHINE: (Lack.MACHINE, choices.machine is not None),
            View.PLAN: (Lack.PLAN, choices.plan is not None),
            View.LOAD: (Lack.LOADED, self._load is LoadState.DONE),
        }
        lack, is_there = there[view or self.view]
        return None if is_there else lack

    def can_enter(self, view: View) -> bool:
        """True where nothing is missing in any view before `view`."""
        return all(self.lack(before) is None for before in VIEWS[: VIEWS.index(view)])

    def can_go_back(self) -> bool:
        """False in the first view, and while a load runs: it must be cancelled first."""
        return len(self._stack) > 1 and self._load is not LoadState.RUNNING

    def next(self) -> bool:
        """Enter the view after this one; False if something is missing or there is none."""
        place = VIEWS.index(self.view) + 1
        if place == len(VIEWS) or not self.can_enter(VIEWS[place]):
            return False
        self._stack.append(VIEWS[place])
        return True

    def back(self) -> bool:
        """Return to the view before; False if that is not possible now."""
        if not self.can_go_back():
            return False
        self._stack.pop()
        return True

    def restart(self) -> bool:
        """Return to the first view with every choice kept; False while a load runs."""
        if self._load is LoadState.RUNNING:
            return False
        del self._stack[1:]
        return True

    # ---- choosing -----------------------------------------------------------------------------

    def accept_checked(self, before: Plan, plan: Plan) -> bool:
        """Take what a check made of the plan `before`; False where another one was made meanwhile."""
        if self._choices.plan is not before or self.view is not View.PLAN:
            return False
        self._choices = replace(self._choices, plan=plan)
        return True

    @property
    def reading(self) -> bool:
        """True while a file is read that may become the chosen model."""
        return self._reading

    def read_started(self) -> None:
        """A file is being read; the model chosen before stays until it proves to be one."""
        self._reading = True

    def read_failed(self) -> None:
        """The file is no model for us: the one chosen before is still chosen."""
        self._reading = False

    def accept_model(self, facts: ModelFacts) -> None:
        """Take a model. Wishes survive only if it is the one chosen before."""
        self._reading = False
        before = self._choices.facts
        same = before is not None and (before.fingerprint, before.files) == (facts.fingerprint, facts.files)
        wishes = self._choices.wishes if same else NO_WISHES
        evidence = self._choices.evidence if same else NO_EVIDENCE
        self._choices = replace(self._choices, facts=facts, wishes=wishes, evidence=evidence)
        self._plan_anew()

    def accept_machine(self, machine: Machine) -> None:
        """Take the latest probe; a plan that is being loaded stays as it is."""
        before = self._choices.machine
        if before is not None and fingerprint(before) != fingerprint(machine):
            self._choices = replace(self._choices, evidence=NO_EVIDENCE)
        self._choices = replace(self._choices, machine=machine)
        if self._load is not LoadState.RUNNING and not self._keeps_reduced(machine):
            self._plan_anew()

    def accept_evidence(self, evidence: Evidence) -> bool:
        """Plan by what was measured of model and machine; False where that changes nothing or comes too late."""
        choices = self._choices
        if evidence == choices.evidence or self.view is not View.PLAN or choices.reduced:
            return False
        self._choices = replace(choices, evidence=evidence)
        self._plan_anew()
        return True

    def wish(self, wishes: Wishes) -> None:
        """Take other wishes and plan for them at once; see `Choices.plan_error` for impossible ones."""
        self._choices = replace(self._choices, wishes=wishes)
        self._plan_anew()

    def take_smaller(self, plan: Plan) -> None:
        """Take a plan that was made smaller than the wishes asked, as the wishes from now on."""
        wishes = Wishes(
            gpu=plan.gpu,
            n_ctx=plan.n_ctx,
            kv_type=plan.kv_type,
            threads=plan.threads,
            experts_used=plan.experts_used,
            tuned=False,
        )
        self._choices = replace(self._choices, wishes=wishes, plan=plan, plan_error=None, reduced=True)

    def _keeps_reduced(self, machine: Machine) -> bool:
        """The smaller plan of a failed load stays while its devices do: another one might fail like the first."""
        plan = self._choices.plan
        devices = {gpu.device for gpu in machine.gpus}
        return self._choices.reduced and plan is not None and devices.issuperset(plan.gpus)

    def _plan_anew(self) -> None:
        plan: Plan | None = None
        error: AppError | None = None
        if self._choices.facts is not None and self._choices.machine is not None:
            try:
                plan = self._propose(self._choices.wishes, self._choices.evidence)
            except AppError as raised:
                error = raised
        self._choices = replace(self._choices, plan=plan, plan_error=error, reduced=False)

    # ---- loading ------------------------------------------------------------------------------

    def load_started(self) -> None:
        """The plan is being loaded."""
        self._load = LoadState.RUNNING

    def load_done(self) -> None:
        """The plan is loaded."""
        self._load = LoadState.DONE

    def load_failed(self) -> None:
        """The load failed; the view stays, so that the error is read and answered."""
        self._load = LoadState.FAILED

    def load_cancelled(self) -> None:
        """The user stopped the load: back to the view before it."""
        self._load = LoadState.NONE
        if self.view is View.LOAD:
            self._stack.pop()
