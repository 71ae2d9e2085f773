"""The controller: one engine, one loaded model, its plan and its conversation."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from app.engine import client, protocol
from app.errors import AppError, ErrorCode
from app.hardware.facts import EngineBuild, Gpu, Machine
from app.model.facts import ModelFacts
from app.placement.evidence import NO_EVIDENCE, Evidence, planned
from app.placement.plan import Plan
from app.placement.planner import Wishes
from app.ui.background import Background
from app.ui.chooser import Chooser, probe_machine, read_facts_of
from app.ui.conversation import Conversation
from app.ui.engine import Engine
from app.ui.engine_watch import EngineWatch
from app.ui.expert_cache import ExpertCache
from app.ui.loader import Loader, Loading
from app.ui.measured_answers import MeasuredAnswers
from app.ui.smaller_plan import smaller_plan

if TYPE_CHECKING:
    from app.chat.store import ConversationStore

log = logging.getLogger(__name__)

EMPTY, LOADING, READY, ANSWERING, FAILED, LENT = "empty", "loading", "ready", "answering", "failed", "lent"


class Controller(QObject):
    """What the window shows, and everything it can ask for.

    `state` speaks of the engine: "empty" (no model), "loading", "ready", "answering", "failed" (the load failed or the
    engine died: nothing is loaded), "lent" (auto-tune measures with it). A model that cannot be chosen, a question the
    engine refuses and a store that cannot be written are told by `failed` and leave what is loaded. A load that the
    user cancels ends in "empty" and is not told as a failure.

    Attributes:
        answers: What the answers of the loaded model reached (MeasuredAnswers).
        background: The window's pool for work off the UI thread.
        engine_watch: Tells where the engine is gone, or silent.
        models_folder: Where models are kept.

    Signals:
        state_changed: The new state.
        machine_changed: The probe's result (Machine).
        model_changed: Another model was chosen (ModelFacts); `plan` is None until one is set.
        plan_changed: The plan being edited (Plan); it may differ from the loaded one.
        load_progress: Fraction of the weights read.
        loaded: What the engine reports loaded (protocol.Loaded).
        answer_started: The question and an empty answer are stored.
        token: More text of the answer, stored already.
        prompt_progress: How far the prompt is computed (protocol.PromptProgress).
        finished: The answer is complete, with its figures (protocol.Finished).
        failed: What went wrong (AppError).
        engine_lost: The engine died while it was lent (AppError); not told as a failure.
    """

    state_changed = Signal(str)
    machine_changed = Signal(object)
    model_changed = Signal(object)
    plan_changed = Signal(object)
    load_progress = Signal(float)
    loaded = Signal(object)
    answer_started = Signal()
    token = Signal(str)
    prompt_progress = Signal(object)
    finished = Signal(object)
    failed = Signal(object)
    engine_lost = Signal(object)

    def __init__(
        self,
        engine: Engine,
        store: "ConversationStore",
        models_folder: Path,
        parent: QObject | None = None,
        *,
        sampling: Callable[[], tuple[protocol.Sampling, int]] = lambda: (protocol.Sampling(), 2048),
        read_facts: Callable[[Path], ModelFacts] = read_facts_of,
        probe: Callable[[Path, tuple[Gpu, ...], EngineBuild | None], Machine] = probe_machine,
    ) -> None:
        """`sampling` gives the sampling and the most tokens of the next answer."""
        super().__init__(parent)
        self._engine, self.models_folder, self._read_facts = engine, models_folder, read_facts
        self.background = Background(self)
        self._conversation = Conversation(engine, store, sampling, self)
        self._cache = ExpertCache(engine, self)
        self.engine_watch = EngineWatch(engine, self)
        self._loader = Loader(engine, self)
        self._state = EMPTY
        self._chooser = Chooser(
            engine,
            self.background,
            lambda gpus, build: probe(models_folder, gpus, build),
            lambda: self._state in (LOADING, ANSWERING),
            self,
        )
        self._machine: Machine | None = None
        self._facts: ModelFacts | None = None
        self._plan: Plan | None = None
        self._before_lending: Loading | None = None
        engine.event.connect(self._take)
        self.engine_watch.lost.connect(self._lose_engine)
        self._loader.progress.connect(self.load_progress)
        self._loader.loaded.connect(self._load_done)
        self._loader.failed.connect(self._load_failed)
        self._chooser.machine_found.connect(self._set_machine)
        self._chooser.model_read.connect(self._set_facts)
        self._chooser.engine_hangs.connect(self.engine_watch.end)
        self._chooser.failed.connect(self.failed)
        for name in ("answer_started", "token", "prompt_progress", "finished", "failed"):
            getattr(self._conversation, name).connect(getattr(self, name))
        self._conversation.ended.connect(self._answer_ended)
        self.answers = MeasuredAnswers(self)

    @property
    def engine(self) -> Engine:
        """The engine child."""
        return self._engine

    @property
    def conversation(self) -> Conversation:
        """The conversation shown."""
        return self._conversation

    @property
    def cache(self) -> ExpertCache:
        """The loaded model's expert cache."""
        return self._cache

    @property
    def state(self) -> str:
        """One of "empty", "loading", "ready", "answering", "failed"."""
        return self._state

    @property
    def machine(self) -> Machine | None:
        """The latest probe's result."""
        return self._machine

    @property
    def facts(self) -> ModelFacts | None:
        """The chosen model, loaded or not."""
        return self._facts

    @property
    def plan(self) -> Plan | None:
        """The plan being edited, of the chosen model."""
        return self._plan

    @property
    def loaded_facts(self) -> ModelFacts | None:
        """The model the engine holds."""
        return self._loader.held[0] if self._loader.held else None

    @property
    def loaded_plan(self) -> Plan | None:
        """The plan the engine was loaded with."""
        return self._loader.held[1] if self._loader.held else None

    @property
    def plan_at_load(self) -> Plan | None:
        """The loaded plan without what the engine took since without a reload."""
        return self._loader.tried[1] if self._loader.held and self._loader.tried else None

    @property
    def loaded_report(self) -> protocol.Loaded | None:
        """What the engine reported when it had loaded."""
        return self._loader.report

    def probe(self) -> None:
        """Ask the engine for its devices, then measure the machine off the UI thread."""
        self._chooser.probe()

    def choose_model(self, path: Path) -> None:
        """Read a model's facts off the UI thread: `model_changed` or `failed`, unless a load or a choice follows."""
        reader = self._read_facts
        self._chooser.choose(lambda: reader(path))

    def propose_plan(self, wishes: Wishes | None = None, evidence: Evidence = NO_EVIDENCE) -> Plan:
        """The plan for the chosen model on this machine, by what is known of both; it is not set.

        Raises:
            AppError: bad_usage without a model and a probe, or what the planner raises.
        """
        if self._facts is None or self._machine is None:
            raise AppError(ErrorCode.BAD_USAGE, "A plan needs a chosen model and a probed machine.")
        return planned(self._facts, self._machine, wishes or Wishes(), evidence)

    def set_plan(self, plan: Plan) -> None:
        """Make `plan` the one being edited."""
        self._plan = plan
        self.plan_changed.emit(plan)

    def set_live_plan(self, plan: Plan) -> None:
        """The engine takes a change without a reload: the loaded plan is `plan` from now on."""
        self._loader.hold_as(plan)

    def drop_choice(self) -> None:
        """The file that is being read is not wanted any more; its late result changes nothing."""
        self._chooser.drop_choice()

    def return_to_loaded(self) -> None:
        """Drop a choice that was not loaded: model and plan are the loaded ones again."""
        self.drop_choice()
        if self._loader.held is not None:
            self._choose(*self._loader.held)

    def smaller_plan(self) -> Plan | None:
        """A plan that needs less memory than the one last tried, or None when none is smaller."""
        tried = self._loader.tried
        return smaller_plan(tried[0], self._machine, tried[1]) if tried and self._machine else None

    def load(self) -> None:
        """Load the chosen model as `plan` says; a running answer or load is stopped first.

        Raises:
            AppError: bad_usage, nothing is chosen, or the engine is lent.
        """
        if self._facts is None or self._plan is None:
            raise AppError(ErrorCode.BAD_USAGE, "There is no plan to load.")
        self._load(self._facts, self._plan)

    def load_again(self) -> None:
        """Load the last tried model and plan once more; edits of that model's plan stay as they are.

        Raises:
            AppError: bad_usage, nothing was tried before, or the engine is lent.
        """
        tried = self._loader.tried
        if tried is None:
            raise AppError(ErrorCode.BAD_USAGE, "Nothing was loaded before.")
        if self._facts is not tried[0] or self._plan is None:
            self._choose(*tried)
        self._load(*tried)

    def load_smaller(self) -> None:
        """Load the last tried model with `smaller_plan`.

        Raises:
            AppError: bad_usage, there is no smaller plan.
        """
        smaller, tried = self.smaller_plan(), self._loader.tried
        if smaller is None or tried is None:
            raise AppError(ErrorCode.BAD_USAGE, "There is no smaller plan.")
        self._choose(tried[0], smaller)
        self.load()

    def cancel_load(self) -> None:
        """Stop the load that is running."""
        self._loader.cancel()

    def end_engine(self) -> None:
        """End an engine that does not answer, with whatever it is doing; not told as a failure."""
        self._engine.kill()
        self._forget_loaded()
        self._set_state(EMPTY)
        self._conversation.fail()
        self._chooser.engine_lost()

    def lend_engine(self) -> None:
        """Give the engine, freed, to someone who measures: nothing can be loaded or asked until `return_engine`.

        Raises:
            AppError: bad_usage, a model loads or answers, or the engine is lent already.
        """
        if self._state in (LOADING, ANSWERING, LENT):
            raise AppError(ErrorCode.BAD_USAGE, "The engine is busy: it loads, answers or measures.")
        held = self._loader.held
        self._before_lending = (held[0], self._cache.carried(held[0], self._machine, held[1])) if held else None
        self._forget_loaded()
        self._set_state(LENT)
        if held is not None:
            self._engine.send(protocol.Unload)

    def return_engine(self) -> None:
        """Take the engine back: what was loaded before is loaded again, with the plan that it had."""
        if self._state != LENT:
            return
        before, self._before_lending = self._before_lending, None
        if before is not None:
            self._state = EMPTY  # not told: a load begins at once
            self._load(*before)
            return
        self._set_state(EMPTY)
        if self._engine.running:
            self._engine.send(protocol.Unload)

    def _load(self, facts: ModelFacts, plan: Plan) -> None:
        if self._state == LENT:
            raise AppError(ErrorCode.BAD_USAGE, "Auto-tune is measuring plans: end it to load one.")
        carried = self._cache.carried(facts, self._machine, plan)
        if carried is not plan and self._plan is plan:
            self.set_plan(carried)
        self._chooser.drop_choice()
        self._conversation.stop()
        self.cancel_load()
        self._forget_loaded()
        self._set_state(LOADING)
        try:
            self._loader.begin(facts, carried)
        except AppError as error:
            self._load_failed(error)

    # ---- conversation -------------------------------------------------------------------------

    def ask(self, text: str) -> None:
        """Store a question and an empty answer, then have the engine answer.

        Raises:
            AppError: bad_usage, no model is ready.
        """
        if self._state != READY:
            raise AppError(ErrorCode.BAD_USAGE, "No model is ready to answer.")
        assert self._loader.held is not None, "a ready engine holds a model"
        if self._conversation.ask(text, self._loader.held[0].name):
            self._set_state(ANSWERING)

    def stop(self) -> None:
        """Stop the running answer; what was generated stays."""
        self._conversation.stop()

    def new_conversation(self) -> None:
        """Show an empty conversation; it is stored with its first question."""
        self._conversation.show(None)

    def shutdown(self) -> None:
        """End the engine and the background work; call before the window goes."""
        self._conversation.stop()
        self._conversation.interrupt()
        self._engine.shutdown()
        self.background.wait()

    # ---- engine events ------------------------------------------------------------------------

    def _take(self, event: protocol.AnyEvent) -> None:
        taken = self._conversation.take(event) or self._chooser.take(event) or self._loader.take(event)
        if not taken and not event.id and isinstance(event, protocol.Failed):
            self.failed.emit(client.error_of(event))

    def _load_done(self, report: protocol.Loaded) -> None:
        self._cache.begin(*self._loader.held)
        self._set_state(READY)
        self.loaded.emit(report)

    def _load_failed(self, error: AppError) -> None:
        cancelled = error.code is ErrorCode.CANCELLED
        self._set_state(EMPTY if cancelled else FAILED)
        if not cancelled:
            self.failed.emit(error)

    def _lose_engine(self, error: AppError) -> None:
        log.warning("engine lost while %s: %s", self._state, error.message)
        if self._state == LENT:
            self._chooser.engine_lost()
            self.engine_lost.emit(error)
            return
        self._forget_loaded()
        if self._state != EMPTY:
            self._set_state(FAILED)
        self._conversation.fail()
        self.failed.emit(error)
        self._chooser.engine_lost()

    def _forget_loaded(self) -> None:
        self._loader.forget()
        self._cache.forget()

    def _answer_ended(self) -> None:
        if self._state == ANSWERING:
            self._set_state(READY)

    def _set_state(self, state: str) -> None:
        if state != self._state:
            self._state = state
            self._cache.set_answering(state == ANSWERING)
            self.engine_watch.set_watching(state in (READY, ANSWERING))
            self.state_changed.emit(state)

    def _set_machine(self, machine: Machine) -> None:
        self._machine = machine
        self.machine_changed.emit(machine)

    def _set_facts(self, facts: ModelFacts) -> None:
        self._facts = facts
        self._plan = None
        self.model_changed.emit(facts)

    def _choose(self, facts: ModelFacts, plan: Plan) -> None:
        if self._facts is not facts:
            self._set_facts(facts)
        if self._plan is not plan:
            self.set_plan(plan)
