"""Predictions of the plan being edited and the planner's own choices, computed beside the window, the newest only."""

from collections.abc import Callable
from typing import NamedTuple

from PySide6.QtCore import QObject, QTimer, Signal

from app.errors import AppError, ErrorCode
from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.evidence import Evidence
from app.placement.plan import Plan
from app.ui.background import Background
from app.ui.tuning.consequences import Consequences, consequences
from app.ui.tuning.knob_values import Situation, Value, automatic, automatic_gpu, differing, followed, value_of

STILL_MILLISECONDS = 120
"""A plan that is changed again at once is not predicted."""


class Choice(NamedTuple):
    """The planner's choice for a knob, and whether it was found out."""

    value: Value
    known: bool


class _Chosen(NamedTuple):
    """The planner's plan with attention where it is, and where it would have the attention."""

    plan: Plan
    gpu: str | None


class Forecast(QObject):
    """Computes one thing at a time in the background; what was asked meanwhile comes next.

    Signals:
        changed: Something was found out, or is not known any more.
    """

    changed = Signal()

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._asked: Situation | None = None
        self._found: tuple[Situation, Plan | None, Consequences] | None = None
        self._chosen: tuple[object, _Chosen | None] | None = None
        self._problem: tuple[Situation, str] | None = None
        self._working = False
        self._still = QTimer(self)
        self._still.setSingleShot(True)
        self._still.setInterval(STILL_MILLISECONDS)
        self._still.timeout.connect(self._work)

    @property
    def consequences(self) -> Consequences | None:
        """What is predicted of the situation that was asked last; None until it is known."""
        return self._found[2] if self._found is not None and self._found[0] is self._asked else None

    @property
    def problem(self) -> str:
        """Why nothing can be predicted of what was asked last; empty where it can, or where that is not known yet."""
        return self._problem[1] if self._problem is not None and self._problem[0] is self._asked else ""

    @property
    def compared(self) -> str:
        """What it is compared with: "loaded", "planner", or empty for nothing."""
        if self._found is None or self._found[1] is None:
            return ""
        return "loaded" if self._found[0].running is not None else "planner"

    def ask(self, situation: Situation) -> None:
        """Predict for this situation, compared with what runs now, or with the planner's plan."""
        if situation == self._asked:
            return
        self._problem = None
        if self._found is not None and self._found[0] == situation:
            self._asked = self._found[0]  # as before the page was hidden, or before an undo
            return
        self._asked = situation
        self._still.start()

    def rest(self) -> None:
        """Nobody looks: nothing is begun any more."""
        self._still.stop()
        self._asked = None

    def concerns(self, key: str) -> bool:
        """Whether a prediction that is under way is about this knob."""
        asked = self._asked
        before = self._before()
        if asked is None or before is None:
            return False
        return key in differing(asked.plan, before, asked.facts) or key in followed(asked)

    def automatic(self, key: str, situation: Situation) -> Choice:
        """The planner's choice for a knob."""
        chosen = self._chosen[1] if self._chosen is not None and self._chosen[0] == _planning(situation) else None
        if chosen is None:
            return Choice(None, False)
        return Choice(chosen.gpu if key == "gpu" else value_of(chosen.plan, key, situation.facts), True)

    # ---- in the background --------------------------------------------------------------------

    def _before(self) -> Plan | None:
        """What the plan being edited is compared with, as far as it is known."""
        asked = self._asked
        if asked is None or asked.running is not None:
            return asked.running if asked is not None else None
        known = self._chosen is not None and self._chosen[0] == _planning(asked)
        return self._chosen[1].plan if known and self._chosen is not None and self._chosen[1] is not None else None

    def _work(self) -> None:
        asked = self._asked
        if asked is None or self._working:
            return
        planning = _planning(asked)
        if self._chosen is None or self._chosen[0] != planning:
            self._run(asked, lambda: _choose(asked), lambda chosen: self._take_chosen(planning, chosen))
        elif self.consequences is None:
            before = self._before()
            self._run(
                asked,
                lambda: consequences(asked, before),
                lambda found: self._take_found(asked, before, found),
            )

    def _run(self, asked: Situation, function: Callable[[], object], then: Callable[[object], None]) -> None:
        self._working = True

        def ended(error: Exception | None) -> None:
            self._working = False
            if error is not None and not isinstance(error, AppError):
                failed(AppError(ErrorCode.BAD_USAGE, f"an error that nobody expected: {error}"))

        def done(result: object) -> None:
            then(result)
            self._work()

        def failed(error: AppError) -> None:
            self._problem = (asked, error.message)
            self.changed.emit()
            if asked is not self._asked:
                self._work()

        self._background.run(function).always(ended).success(done).failure(failed)

    def _take_chosen(self, planning: object, chosen: object) -> None:
        self._chosen = (planning, chosen if isinstance(chosen, _Chosen) else None)
        self.changed.emit()

    def _take_found(self, asked: Situation, before: Plan | None, found: object) -> None:
        if isinstance(found, Consequences):
            self._found = (asked, before, found)
        if asked is self._asked:
            self.changed.emit()


def _planning(situation: Situation) -> tuple[ModelFacts, Machine, Evidence, str | None]:
    """What the planner's choices depend on."""
    return situation.facts, situation.machine, situation.evidence, situation.plan.gpu


def _choose(situation: Situation) -> _Chosen | None:
    try:
        return _Chosen(automatic(situation), automatic_gpu(situation))
    except AppError:  # such as that the plan's GPU is gone: there is no such choice
        return None
