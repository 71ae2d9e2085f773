"""What the answers of the loaded model reached, and which of them tell of a plan: one source for every screen."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.engine.protocol import Finished, Loaded
from app.placement.plan import Plan
from app.placement.speed.learning import LEAST_DECODED, Observation, observation

if TYPE_CHECKING:
    from app.ui.controller import Controller

MOST_ANSWERS = 64
CHANGED, DIFFERENT, SHORT, UNCOUNTED = "changed", "different", "short", "uncounted"


@dataclass(frozen=True)
class Answered:
    """One answer.

    Attributes:
        finished: Its figures, as the engine measured them.
        plan: The plan that gave it, with its predicted memory; None where it was no single one.
        seen: What it tells of that plan; None where it tells nothing.
        why_not: Why its speed tells nothing of a plan: CHANGED (another pool, memory, policy or pins meanwhile),
            DIFFERENT (the engine loaded otherwise than planned), SHORT (too few tokens) or UNCOUNTED (nobody counted
            what the pool missed); empty where it does.
    """

    finished: Finished
    plan: Plan | None = None
    seen: Observation | None = None
    why_not: str = ""


class MeasuredAnswers(QObject):
    """Listens from the start, so that a page that is first opened later knows what the line of truth tells.

    Signals:
        answered: An answer ended (Answered).
    """

    answered = Signal(object)

    def __init__(self, controller: "Controller") -> None:
        super().__init__(controller)
        self._controller = controller
        self._last: Answered | None = None
        self._plan: Plan | None = None
        self._different = False
        self._model = ""
        self._seen: list[Observation] = []
        controller.loaded.connect(self._loaded)
        controller.answer_started.connect(self._began)
        controller.cache.changed.connect(self._look)

    @property
    def last(self) -> Answered | None:
        """The last answer of the loaded model; None before its first one, and where nothing is loaded."""
        told = self._last
        return told if told is not None and told.finished is self._controller.cache.last_finished else None

    @property
    def observations(self) -> tuple[Observation, ...]:
        """What answers of this run told of plans of the model loaded last, oldest first, also after a reload."""
        return tuple(self._seen)

    def _loaded(self, report: Loaded) -> None:
        facts = self._controller.loaded_facts
        model = facts.fingerprint if facts is not None else ""
        if model != self._model:
            self._model = model
            self._seen.clear()
        # What was loaded otherwise than planned has the speed of another plan.
        self._different = bool(report.differences)

    def _began(self) -> None:
        self._plan = self._controller.loaded_plan
        self._check_plan()

    def _look(self) -> None:
        self._check_plan()
        finished = self._controller.cache.last_finished
        if finished is not None and (self._last is None or self._last.finished is not finished):
            plan, self._plan = self._plan, None
            self._last = self._judged(finished, plan)
            if self._last.seen is not None:
                self._seen = [*self._seen[-MOST_ANSWERS + 1 :], self._last.seen]
            self.answered.emit(self._last)

    def _check_plan(self) -> None:
        """Forget the plan of the running answer where it holds no more."""
        controller, plan = self._controller, self._controller.loaded_plan
        same = plan is not None and self._plan is not None and plan.loads_like(self._plan)
        if not same or controller.cache.resizing or controller.cache.budgeting:
            self._plan = None

    def _judged(self, finished: Finished, plan: Plan | None) -> Answered:
        if plan is None:
            return Answered(finished, why_not=CHANGED)
        if self._different:
            return Answered(finished, why_not=DIFFERENT)
        seen = observation(plan, finished, 0)
        if seen is not None and seen.decode_tokens_per_second:
            return Answered(finished, plan, seen)
        short = finished.completion_tokens < LEAST_DECODED
        return Answered(finished, plan, seen, SHORT if short else UNCOUNTED)
