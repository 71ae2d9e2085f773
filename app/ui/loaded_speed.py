"""The speed that is predicted of what is loaded, by all that was measured before: made off the UI thread."""

import logging

from PySide6.QtCore import QObject, Signal

from app.engine.protocol import Finished
from app.errors import AppError
from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.plan import Plan
from app.placement.speed.types import SpeedPrediction
from app.ui.controller import Controller

log = logging.getLogger(__name__)


class LoadedSpeed(QObject):
    """Predicts anew where another plan is loaded or the engine took another pool or policy; never after an answer.

    A prediction that an answer has corrected would agree with that answer, and prove nothing.

    Signals:
        changed: Another prediction is there, or none any more.
    """

    changed = Signal()

    def __init__(self, controller: Controller, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self._about: Plan | None = None
        self._asked = 0
        self._speed: SpeedPrediction | None = None
        self._after: Finished | None = None
        controller.loaded.connect(self._look)
        controller.state_changed.connect(self._look)
        controller.cache.changed.connect(self._look)

    @property
    def speed(self) -> SpeedPrediction | None:
        """The prediction; None while there is none."""
        return self._speed

    @property
    def after(self) -> Finished | None:
        """The answer after which the prediction was made; None where it was made before any."""
        return self._after

    def _look(self, *_: object) -> None:
        controller = self._controller
        facts, plan, machine = controller.loaded_facts, controller.loaded_plan, controller.machine
        if plan is self._about:
            return
        known = self._about is not None and plan is not None and plan.loads_like(self._about)
        self._about = plan
        if known:  # words differ, or what it predicts: what is under way is of it too
            return
        self._asked += 1
        if plan is None or facts is None or machine is None:
            self._show(None, None)
            return
        # The former prediction stays until the new one is there: a change of the pool is no reason to know nothing.
        after, asked = controller.cache.last_finished, self._asked
        job = controller.background.run(lambda: _predicted(plan, facts, machine))
        job.success(lambda speed: self._take(asked, speed, after)).failure(lambda error: self._failed(asked, error))

    def _take(self, asked: int, speed: SpeedPrediction | None, after: Finished | None) -> None:
        if asked == self._asked:
            self._show(speed, after)

    def _failed(self, asked: int, error: AppError) -> None:
        log.info("the speed is not predicted: %s", error.message)
        if asked == self._asked:
            self._show(None, None)

    def _show(self, speed: SpeedPrediction | None, after: Finished | None) -> None:
        changed = speed is not self._speed
        self._speed, self._after = speed, after
        if changed:
            self.changed.emit()


def _predicted(plan: Plan, facts: ModelFacts, machine: Machine) -> SpeedPrediction | None:
    """Called on a pool thread; what it imports no first window needs."""
    from app.library.speed_evidence import evidence_of  # noqa: PLC0415 - as said
    from app.placement.evidence import evidence_for, with_speed  # noqa: PLC0415

    return with_speed(plan, facts, machine, evidence_for(machine, evidence_of(facts, machine))).speed
