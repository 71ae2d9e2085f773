"""Explains the plan being edited off the UI thread, anew whenever something that it rests on changes."""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from app.errors import AppError
from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.evidence import Evidence, planned
from app.placement.explain import Explanation, Seen, explain
from app.placement.plan import Plan
from app.placement.tuner.held import Held, chosen_by_hand
from app.placement.wishes import Wishes
from app.ui.controller import LENT, Controller

if TYPE_CHECKING:
    from app.ui.tuning.evidence import TuningEvidence

log = logging.getLogger(__name__)

QUIET_MILLISECONDS = 200
"""A plan that the next move of a handle replaces need not be explained."""


@dataclass(frozen=True, kw_only=True)
class Explained:
    """What there is to say of one plan.

    Attributes:
        plan: That plan.
        explanation: What bounds it and what would help.
        by_hand: What of it is not the planner's choice.
    """

    plan: Plan
    explanation: Explanation
    by_hand: Held


class Explainer(QObject):
    """Works only while somebody looks.

    Signals:
        changed: Another explanation is there, or none any more.
    """

    changed = Signal()

    def __init__(self, controller: Controller, evidence: "TuningEvidence", parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self._evidence = evidence
        self._active = False
        self._working = False
        self._stale = True
        self._explained: Explained | None = None
        self._why_not = ""
        self._wait = QTimer(self)
        self._wait.setSingleShot(True)
        self._wait.setInterval(QUIET_MILLISECONDS)
        self._wait.timeout.connect(self._begin)
        for signal in (
            controller.plan_changed,
            controller.machine_changed,
            controller.model_changed,
            controller.loaded,
            controller.finished,
            controller.state_changed,
            evidence.changed,
        ):
            signal.connect(self._ask)

    @property
    def explained(self) -> Explained | None:
        """The latest explanation; of a plan that may not be the one being edited any more."""
        return self._explained

    @property
    def why_not(self) -> str:
        """Why there is none, in a sentence; empty where there is, or where it is on its way."""
        return self._why_not

    def set_active(self, active: bool) -> None:
        """Explain while somebody looks."""
        self._active = active
        if active and self._stale:
            self._wait.start()
        elif not active:
            self._wait.stop()

    def _ask(self, *_: object) -> None:
        self._stale = True
        if self._active:
            self._wait.start()

    def _begin(self) -> None:
        controller = self._controller
        facts, machine, plan = controller.facts, controller.machine, controller.plan
        if facts is None or machine is None or plan is None:
            self._stale = False
            self._take(None, "")
            return
        if self._working or controller.state == LENT:  # the end of either asks again
            return
        self._stale, self._working = False, True
        evidence, seen = self._evidence.evidence, self._seen(facts, plan)
        job = controller.background.run(lambda: _explained(facts, machine, plan, evidence, seen))
        job.always(self._ended).success(self._done).failure(self._failed)

    def _seen(self, facts: ModelFacts, plan: Plan) -> Seen | None:
        """What was measured of the plan; None where another one is loaded, or none."""
        controller = self._controller
        loaded = controller.loaded_plan
        if loaded is None or controller.loaded_facts is not facts or not plan.loads_like(loaded):
            return None
        finished, cache = controller.cache.last_finished, controller.cache.facts
        return Seen(
            decode=finished.tokens_per_second or None if finished else None,
            hits=finished.cache.hits if finished and finished.cache.allocated_bytes else None,
            misses=finished.cache.misses if finished else None,
            totals=cache.decode if cache and cache.decode.tokens else None,
        )

    def _ended(self, error: Exception | None) -> None:
        self._working = False
        if error is not None and not isinstance(error, AppError):
            self._take(None, str(error))

    def _done(self, explained: Explained) -> None:
        self._take(explained, "")
        if self._stale and self._active:
            self._wait.start()

    def _failed(self, error: AppError) -> None:
        log.info("the plan is not explained: %s", error.message)
        self._take(None, error.message)

    def _take(self, explained: Explained | None, why_not: str) -> None:
        self._explained, self._why_not = explained, why_not
        self.changed.emit()


def _explained(facts: ModelFacts, machine: Machine, plan: Plan, evidence: Evidence, seen: Seen | None) -> Explained:
    """Called on a pool thread.

    Raises:
        AppError: the planner or the law of speed refuses the plan.
    """
    usual = planned(facts, machine, Wishes(tuned=False), evidence)
    return Explained(
        plan=plan,
        explanation=explain(facts, machine, plan, evidence=evidence, seen=seen),
        by_hand=chosen_by_hand(plan, usual),
    )
