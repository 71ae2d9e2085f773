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
from app.ui.expert_cache import ExpertCache
from app.ui.smaller_plan import smaller_plan

if TYPE_CHECKING:
    from app.chat.store import ConversationStore

log = logging.getLogger(__name__)

EMPTY, LOADING, READY, ANSWERING, FAILED = "empty", "loading", "ready", "answering", "failed"


class Controller(QObject):
    """What the window shows, and everything it can ask for.

    `state` speaks of the engine: "empty" (no model), "loading", "ready", "answering", "failed" (the
    load failed or the engine died: nothing is loaded). A model that cannot be chosen, a question the
    engine refuses and a store that cannot be written are told by `failed` and leave what is loaded.
    A load that the user cancels ends in "empty" and is not told as a failure.

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
        self._engine = engine
        self._models_folder = models_folder
        self._read_facts = read_facts
        self._background = Background(self)
        self._conversation = Conversation(engine, store, sampling, self)
        self._cache = ExpertCache(engine, self)
        self._state = EMPTY
        self._chooser = Chooser(
            engine,
            self._background,
            lambda gpus, build: probe(models_folder, gpus, build),
            lambda: self._state in (LOADING, ANSWERING),
            self,
        )
        self._machine: Machine | None = None
        self._facts: ModelFacts | None = None
        self._plan: Plan | None = None
        self._tried: tuple[ModelFacts, Plan] | None = None
        self._loaded: tuple[ModelFacts, Plan] | None = None
        self._loaded_report: protocol.Loaded | None = None
        self._load_id = 0
        self._end_reason: AppError | None = None
        engine.event.connect(self._take)
        engine.ended.connect(self._engine_ended)
        engine.failed.connect(self._engine_failed)
        self._chooser.machine_found.connect(self._set_machine)
        self._chooser.model_read.connect(self._set_facts)
        self._chooser.engine_hangs.connect(self._end_hanging_engine)
        self._chooser.failed.connect(self.failed)
        self._conversation.answer_started.connect(self.answer_started)
        self._conversation.token.connect(self.token)
        self._conversation.prompt_progress.connect(self.prompt_progress)
        self._conversation.finished.connect(self.finished)
        self._conversation.failed.connect(self.failed)
        self._conversation.ended.connect(self._answer_ended)

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
    def background(self) -> Background:
        """The window's pool for work off the UI thread."""
        return self._background

    @property
    def models_folder(self) -> Path:
        """Where models are kept."""
        return self._models_folder

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
        return self._loaded[0] if self._loaded else None

    @property
    def loaded_plan(self) -> Plan | None:
        """The plan the engine was loaded with."""
        return self._loaded[1] if self._loaded else None

    @property
    def loaded_report(self) -> protocol.Loaded | None:
        """What the engine reported when it had loaded."""
        return self._loaded_report

    def probe(self) -> None:
        """Ask the engine for its devices, then measure the machine off the UI thread."""
        self._chooser.probe()

    def choose_model(self, path: Path) -> None:
        """Read a model's facts off the UI thread; ends in `model_changed` or `failed`.

        Another choice, a load and `return_to_loaded` drop this one: its late result changes nothing.
        """
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

    def drop_choice(self) -> None:
        """The file that is being read is not wanted any more; its late result changes nothing."""
        self._chooser.drop_choice()

    def return_to_loaded(self) -> None:
        """Drop a choice that was not loaded: model and plan are the loaded ones again."""
        self.drop_choice()
        if self._loaded is not None:
            self._choose(*self._loaded)

    def smaller_plan(self) -> Plan | None:
        """A plan that needs less memory than the one last tried, or None when none is smaller."""
        if self._tried is None or self._machine is None:
            return None
        facts, plan = self._tried
        return smaller_plan(facts, self._machine, plan)

    def load(self) -> None:
        """Load the chosen model as `plan` says; a running answer or load is stopped first.

        Raises:
            AppError: bad_usage, nothing is chosen.
        """
        if self._facts is None or self._plan is None:
            raise AppError(ErrorCode.BAD_USAGE, "There is no plan to load.")
        self._load(self._facts, self._plan)

    def load_again(self) -> None:
        """Load the last tried model and plan once more; edits of that model's plan stay as they are.

        Raises:
            AppError: bad_usage, nothing was tried before.
        """
        if self._tried is None:
            raise AppError(ErrorCode.BAD_USAGE, "Nothing was loaded before.")
        if self._facts is not self._tried[0] or self._plan is None:
            self._choose(*self._tried)
        self._load(*self._tried)

    def load_smaller(self) -> None:
        """Load the last tried model with `smaller_plan`.

        Raises:
            AppError: bad_usage, there is no smaller plan.
        """
        smaller = self.smaller_plan()
        if smaller is None or self._tried is None:
            raise AppError(ErrorCode.BAD_USAGE, "There is no smaller plan.")
        self._choose(self._tried[0], smaller)
        self.load()

    def cancel_load(self) -> None:
        """Stop the load that is running."""
        if self._load_id:
            self._engine.send(protocol.Cancel, target=self._load_id)

    def end_engine(self) -> None:
        """End an engine that does not answer, with whatever it is doing; not told as a failure."""
        self._engine.kill()
        self._forget_loaded()
        self._set_state(EMPTY)
        self._conversation.fail()
        self._chooser.engine_lost()

    def _load(self, facts: ModelFacts, plan: Plan) -> None:
        carried = self._cache.carried(facts, self._machine, plan)
        if carried is not plan and self._plan is plan:
            self.set_plan(carried)
        self._chooser.drop_choice()
        self._conversation.stop()
        self.cancel_load()
        self._tried = (facts, carried)
        self._forget_loaded()
        self._set_state(LOADING)
        try:
            load_id = self._engine.send(protocol.Load, plan=carried)
        except AppError as error:  # a path whose bytes are not Unicode cannot be sent
            if self._engine.running:  # the model that was to be replaced must not stay unseen
                self._engine.send(protocol.Unload)
            self._set_state(FAILED)
            self.failed.emit(error)
            return
        # An engine that cannot even be started has failed by now, on some systems.
        self._load_id = load_id if self._engine.running else 0

    # ---- conversation -------------------------------------------------------------------------

    def ask(self, text: str) -> None:
        """Store a question and an empty answer, then have the engine answer.

        Raises:
            AppError: bad_usage, no model is ready.
        """
        if self._state != READY:
            raise AppError(ErrorCode.BAD_USAGE, "No model is ready to answer.")
        assert self._loaded is not None, "a ready engine holds a model"
        if self._conversation.ask(text, self._loaded[0].name):
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
        self._background.wait()

    # ---- engine events ------------------------------------------------------------------------

    def _take(self, event: protocol.AnyEvent) -> None:
        if self._conversation.take(event) or self._chooser.take(event):
            return
        if not event.id and isinstance(event, protocol.Failed):
            self.failed.emit(client.error_of(event))
        elif event.id and event.id == self._load_id:
            self._take_load(event)

    def _take_load(self, event: protocol.AnyEvent) -> None:
        if isinstance(event, protocol.LoadProgress):
            self.load_progress.emit(event.fraction)
        elif isinstance(event, protocol.Loaded):
            self._load_id = 0
            self._loaded = self._tried
            self._loaded_report = event
            if self._tried is not None:
                self._cache.begin(*self._tried)
            self._set_state(READY)
            self.loaded.emit(event)
        elif isinstance(event, protocol.Failed):
            self._load_id = 0
            error = client.error_of(event)
            if error.code is ErrorCode.CANCELLED:
                self._set_state(EMPTY)
            else:
                self._set_state(FAILED)
                self.failed.emit(error)

    def _end_hanging_engine(self, error: AppError) -> None:
        self._end_reason = error
        self._engine.kill()

    def _engine_failed(self, error: AppError) -> None:
        if self._engine.running:
            # The engine kills a child that broke the protocol: tell it when the child is gone.
            self._end_reason = self._end_reason or error
        else:
            self._lose_engine(error)

    def _engine_ended(self, outcome: client.ProcessOutcome) -> None:
        reason, self._end_reason = self._end_reason, None
        if reason is not None or not outcome.expected:
            self._lose_engine(reason or outcome.error())

    def _lose_engine(self, error: AppError) -> None:
        log.warning("engine lost while %s: %s", self._state, error.message)
        self._forget_loaded()
        if self._state != EMPTY:
            self._set_state(FAILED)
        self._conversation.fail()
        self.failed.emit(error)
        self._chooser.engine_lost()

    def _forget_loaded(self) -> None:
        self._load_id = 0
        self._loaded = None
        self._loaded_report = None
        self._cache.forget()

    def _answer_ended(self) -> None:
        if self._state == ANSWERING:
            self._set_state(READY)

    def _set_state(self, state: str) -> None:
        if state != self._state:
            self._state = state
            self._cache.set_answering(state == ANSWERING)
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
