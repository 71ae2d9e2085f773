"""Runs the tuner's search over the window's own engine, without holding up the window."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from PySide6.QtCore import QObject, Signal

from app.engine import client, protocol
from app.errors import AppError, ErrorCode
from app.hardware.facts import Machine
from app.library import tuned_plans
from app.model.facts import ModelFacts
from app.placement.evidence import Evidence, planned
from app.placement.memory import predict
from app.placement.plan import Plan
from app.placement.tuner.candidates import Candidates
from app.placement.tuner.course import TrialCourse
from app.placement.tuner.held import Held, wishes_to_hold
from app.placement.tuner.kept import tuned_words
from app.placement.tuner.search import Tuner
from app.placement.tuner.types import Trial, TunedPlan, TuneResult
from app.placement.wishes import Wishes
from app.ui.controller import LENT, Controller

log = logging.getLogger(__name__)

IDLE, LOOKING, MEASURING = "idle", "looking", "measuring"


@dataclass(frozen=True, kw_only=True)
class _Search:
    """One search: what it is about, and who decides what is measured next."""

    facts: ModelFacts
    machine: Machine
    wishes: Wishes
    tuner: Tuner


class AutoTune(QObject):
    """One search at a time. The engine is lent for it: what was loaded is freed first and loaded again after it.

    The machine is looked at anew when nothing is loaded, for what is free then is what a plan may take. An engine that
    dies, runs out of memory or refuses a plan is an outcome of that trial; the search goes on with the next one.

    Signals:
        changed: A trial, a step of one, or the search began or ended. How far a step is (`fraction`) is not told: the
            engine says it for every token, and the window must not disturb what is measured.
        ended: The search is over: `result` says what it came to, or `error` why there is none.
        kept: The plan that was found is kept for later starts; or why not (None or AppError).
    """

    changed = Signal()
    ended = Signal()
    kept = Signal(object)

    def __init__(
        self,
        controller: Controller,
        parent: QObject | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(parent)
        self._controller = controller
        self._engine = controller.engine
        self._clock = clock
        self._stage = IDLE
        self._prepare: Callable[[Machine], _Search] | None = None
        self._search: _Search | None = None
        self._course: TrialCourse | None = None
        self._choosing = False
        self._cancelled = False
        self._request = 0
        self._result: TuneResult | None = None
        self._best: Plan | None = None
        self._error: AppError | None = None
        self._limit_seconds = 0.0
        self._started = 0.0
        self._trial_started = 0.0
        self._trial: Trial | None = None
        self._fraction = 0.0
        self._engine.event.connect(self._take)
        controller.engine_lost.connect(self._lost)
        controller.machine_changed.connect(self._looked)
        controller.failed.connect(self._not_looked)
        controller.model_changed.connect(self._forget)

    # ---- what is known ------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """True from `start` to `ended`."""
        return self._stage != IDLE

    @property
    def trial(self) -> Trial | None:
        """What is measured now."""
        return self._trial

    @property
    def fraction(self) -> float:
        """How far the step of it that the engine is at has got, 0 to 1."""
        return self._fraction

    @property
    def result(self) -> TuneResult | None:
        """What the last search came to, or the one that runs so far; None where there was none."""
        return self._result

    @property
    def best_plan(self) -> Plan | None:
        """The plan that was found, with what it gained where that is proven; None where nothing was faster."""
        return self._best

    @property
    def error(self) -> AppError | None:
        """Why the last search ended before it could."""
        return self._error

    @property
    def elapsed_seconds(self) -> float:
        """Since the start."""
        return self._clock() - self._started

    @property
    def remaining_seconds(self) -> float | None:
        """About how long it goes on; None before anything is known."""
        if self._trial is None or self._trial.remaining_seconds is None:
            return None
        return max(self._trial.remaining_seconds - (self._clock() - self._trial_started), 0.0)

    @property
    def limit_seconds(self) -> float:
        """How long it may take."""
        return self._limit_seconds

    # ---- from outside -------------------------------------------------------------------------

    def start(self, minutes: float, held: Held, evidence: Evidence) -> None:
        """Begin to search from the plan being edited.

        Args:
            minutes: How long it may take.
            held: What is not to be changed.
            evidence: What is known of model and machine.

        Raises:
            AppError: bad_usage, there is no plan, or the engine is busy.
        """
        controller = self._controller
        facts, plan = controller.facts, controller.plan
        if facts is None or plan is None:
            raise AppError(ErrorCode.BAD_USAGE, "There is no plan to tune: choose a model first.")
        controller.lend_engine()
        self._stage = LOOKING
        self._result = self._best = self._error = self._trial = None
        self._cancelled = False
        self._limit_seconds = minutes * 60
        self._started = self._clock()
        self._prepare = lambda machine: _search(facts, machine, plan, held, evidence, minutes * 60, self._clock)
        self.changed.emit()
        controller.probe()

    def cancel(self) -> None:
        """End it; the best plan found so far is the result."""
        if not self.running:
            return
        self._cancelled = True
        if self._request:
            self._engine.send(protocol.Cancel, target=self._request)
        if not self._choosing:  # else the tuner is at work on another thread: when it is back
            self._finish()

    def shutdown(self) -> None:
        """The window goes: nothing is measured or told any more. The engine is ended by the controller."""
        self._stage = IDLE
        self._prepare = self._search = self._course = None
        self._request = 0

    # ---- the search ---------------------------------------------------------------------------

    def _looked(self, machine: Machine) -> None:
        """The machine is known as it is with nothing loaded."""
        prepare, self._prepare = self._prepare, None
        if prepare is None or self._stage != LOOKING:
            return
        self._choosing = True
        job = self._controller.background.run(lambda: prepare(machine))
        job.always(self._chose).success(self._prepared).failure(self._not_prepared)

    def _not_looked(self, _error: AppError) -> None:
        """The machine, or its devices, cannot be looked at: what was known of it before must do."""
        if self._controller.machine is not None:
            self._looked(self._controller.machine)

    def _chose(self, error: Exception | None) -> None:
        """Work off the UI thread ended; one that nobody expected to fail must not keep the engine lent."""
        self._choosing = False
        if error is not None and not isinstance(error, AppError):
            self._not_prepared(AppError(ErrorCode.ENGINE_FAILED, f"Auto-tune met an error of its own: {error}"))

    def _prepared(self, search: _Search) -> None:
        if not self.running:
            return
        self._search = search
        self._stage = MEASURING
        self._started = self._clock()
        self._go_on()

    def _not_prepared(self, error: AppError) -> None:
        if self.running:
            self._finish(error)

    def _go_on(self) -> None:
        """Choose the next trial, off the UI thread: the planner makes plans for it."""
        if not self.running:  # who was told of the last outcome has ended it
            return
        if self._cancelled or self._search is None:
            self._finish()
            return
        self._choosing = True
        tuner = self._search.tuner
        job = self._controller.background.run(tuner.next_trial)
        job.always(self._chose).success(self._chosen).failure(self._not_prepared)

    def _chosen(self, trial: Trial | None) -> None:
        if not self.running:
            return
        if trial is None or self._cancelled:
            self._finish()
            return
        self._trial, self._trial_started = trial, self._clock()
        self._course = TrialCourse(trial, self._clock)
        self._do_step()

    def _do_step(self) -> None:
        """Have the engine do what comes next of the trial, or end the trial."""
        course, search = self._course, self._search
        if course is None or search is None:
            return
        self._fraction = 0.0
        step = course.step
        if step is None:
            self._course = None
            search.tuner.report(course.outcome)
            self._result = search.tuner.result
            self.changed.emit()
            self._go_on()
            return
        try:
            if isinstance(step, Plan):
                sent = self._engine.send(protocol.Load, plan=step)
            else:
                sent = self._engine.send(protocol.Measure, prompts=(step.text,), decode_tokens=step.decode_tokens)
        except AppError as error:  # a path whose bytes are not Unicode cannot be sent
            self._finish(error)
            return
        if self._course is course:  # an engine that cannot even be started has failed by now, on some systems
            self._request = sent
        self.changed.emit()

    def _take(self, event: protocol.AnyEvent) -> None:
        course = self._course
        if not event.id or event.id != self._request or course is None:
            return
        if isinstance(event, protocol.LoadProgress):
            self._fraction = event.fraction
        elif isinstance(event, protocol.MeasureProgress):
            self._fraction = event.done / max(event.total, 1)
        elif isinstance(event, protocol.Failed):
            self._step_failed(client.error_of(event))
        elif isinstance(event, protocol.Loaded | protocol.Measured):
            self._request = 0
            if isinstance(event, protocol.Loaded):
                course.loaded()
            else:
                course.measured(event)
            self._do_step()

    def _lost(self, error: AppError) -> None:
        """The engine died: the next request starts another one."""
        if self._course is not None:
            self._step_failed(error)

    def _step_failed(self, error: AppError) -> None:
        course = self._course
        self._request = 0
        if course is None:
            return
        log.info("a trial failed: %s", error.message)
        try:
            course.failed(error)
        except AppError as fatal:
            self._finish(fatal)
            return
        self._do_step()

    def _forget(self) -> None:
        """Another model is chosen: what was found is no plan of it."""
        if not self.running:
            self._result = self._best = self._error = None
            self.changed.emit()

    # ---- its end ------------------------------------------------------------------------------

    def _finish(self, error: AppError | None = None) -> None:
        search = self._search
        if search is not None and (self._cancelled or error is not None):
            search.tuner.cancel()
        result = self._result = search.tuner.result if search is not None else None
        self._best = result.best if result is not None and result.words else None
        self._error = error
        self._stage = IDLE
        self._search = self._course = self._prepare = self._trial = None
        self._request = 0
        if search is not None and result is not None and result.kept:
            self._keep(tuned_plans.record_of(result, search.facts, search.machine, search.wishes), search)
        if self._controller.state == LENT:
            self._controller.return_engine()
        self.changed.emit()
        self.ended.emit()

    def _keep(self, record: TunedPlan, search: _Search) -> None:
        self._best = msgspec.structs.replace(record.plan, tuned=tuned_words(record))
        job = self._controller.background.run(lambda: tuned_plans.keep_tuned(record, search.facts, search.machine))
        job.success(lambda _path: self.kept.emit(None)).failure(self.kept.emit)


def _search(
    facts: ModelFacts,
    machine: Machine,
    plan: Plan,
    held: Held,
    evidence: Evidence,
    seconds: float,
    clock: Callable[[], float],
) -> _Search:
    """Prepare a search; called on a pool thread.

    Raises:
        AppError: what is found could not be kept.
    """
    tuned_plans.check_tuned(facts, machine)
    usual = planned(facts, machine, Wishes(tuned=False), evidence)
    base = msgspec.structs.replace(plan, memory=predict(facts, machine, plan), speed=None)
    wishes = wishes_to_hold(base, usual, facts, held)
    tuner = Tuner(Candidates(facts, machine, base, wishes), seconds, clock)
    return _Search(facts=facts, machine=machine, wishes=wishes, tuner=tuner)
