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
from app.placement.plan import Plan
from app.placement.planner import Wishes, make_plan
from app.ui.background import Background
from app.ui.conversation import Conversation
from app.ui.engine import Engine
from app.ui.smaller_plan import smaller_plan

if TYPE_CHECKING:
    from app.chat.store import ConversationStore

log = logging.getLogger(__name__)

EMPTY, LOADING, READY, ANSWERING, FAILED = "empty", "loading", "ready", "answering", "failed"


def _read_facts(path: Path) -> ModelFacts:
    # Imported on the pool thread: numpy and gguf would delay the first window.
    from app.model.reader import read_facts  # noqa: PLC0415

    return read_facts(path)


def _probe(models_folder: Path, gpus: tuple[Gpu, ...], build: EngineBuild | None) -> Machine:
    from app.hardware.probe import probe  # noqa: PLC0415 - as above

    return probe(models_folder, gpus, build)


def _default_sampling() -> tuple[protocol.Sampling, int]:
    return protocol.Sampling(), 2048


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
        routing: How often each expert was routed to (protocol.Routing).
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
    routing = Signal(object)
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
        sampling: Callable[[], tuple[protocol.Sampling, int]] = _default_sampling,
        read_facts: Callable[[Path], ModelFacts] = _read_facts,
        probe: Callable[[Path, tuple[Gpu, ...], EngineBuild | None], Machine] = _probe,
    ) -> None:
        """`sampling` gives the sampling and the most tokens of the next answer."""
        super().__init__(parent)
        self._engine = engine
        self._models_folder = models_folder
        self._read_facts = read_facts
        self._probe = probe
        self._background = Background(self)
        self._conversation = Conversation(engine, store, sampling, self)
        self._state = EMPTY
        self._machine: Machine | None = None
        self._build: EngineBuild | None = None
        self._facts: ModelFacts | None = None
        self._plan: Plan | None = None
        self._tried: tuple[ModelFacts, Plan] | None = None
        self._loaded: tuple[ModelFacts, Plan] | None = None
        self._loaded_report: protocol.Loaded | None = None
        self._devices_id = self._load_id = self._routing_id = 0
        self._probing = False
        self._choices = 0
        self._end_reason: AppError | None = None
        engine.event.connect(self._take)
        engine.ended.connect(self._engine_ended)
        engine.failed.connect(self._engine_failed)
        conversation = self._conversation
        conversation.answer_started.connect(self.answer_started)
        conversation.token.connect(self.token)
        conversation.prompt_progress.connect(self.prompt_progress)
        conversation.finished.connect(self.finished)
        conversation.failed.connect(self.failed)
        conversation.ended.connect(self._answer_ended)

    @property
    def engine(self) -> Engine:
        """The engine child."""
        return self._engine

    @property
    def conversation(self) -> Conversation:
        """The conversation shown."""
        return self._conversation

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
        self._probing = True
        self._devices_id = self._engine.send(protocol.ListDevices)

    def choose_model(self, path: Path) -> None:
        """Read a model's facts off the UI thread; ends in `model_changed` or `failed`."""
        reader = self._read_facts
        self._choices += 1
        choice = self._choices

        def chosen(facts: ModelFacts) -> None:
            if choice == self._choices:  # an earlier, slower read must not replace a later choice
                self._set_facts(facts)

        self._background.run(lambda: reader(path)).success(chosen).failure(self.failed.emit)

    def propose_plan(self, wishes: Wishes | None = None) -> Plan:
        """The planner's plan for the chosen model on this machine; it is not set.

        Raises:
            AppError: bad_usage without a model and a probe, or what the planner raises.
        """
        if self._facts is None or self._machine is None:
            raise AppError(ErrorCode.BAD_USAGE, "A plan needs a chosen model and a probed machine.")
        return make_plan(self._facts, self._machine, wishes or Wishes())

    def set_plan(self, plan: Plan) -> None:
        """Make `plan` the one being edited."""
        self._plan = plan
        self.plan_changed.emit(plan)

    def return_to_loaded(self) -> None:
        """Drop a choice that was not loaded: model and plan are the loaded ones again."""
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
        self._conversation.stop()
        self.cancel_load()
        self._tried = (self._facts, self._plan)
        self._loaded = None
        self._loaded_report = None
        self._set_state(LOADING)
        load_id = self._engine.send(protocol.Load, plan=self._plan)
        # An engine that cannot even be started has failed by now, on some systems.
        self._load_id = load_id if self._engine.running else 0

    def load_again(self) -> None:
        """Load the last tried model and plan once more, whatever is being edited.

        Raises:
            AppError: bad_usage, nothing was tried before.
        """
        if self._tried is None:
            raise AppError(ErrorCode.BAD_USAGE, "Nothing was loaded before.")
        self._choose(*self._tried)
        self.load()

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

    def poll_routing(self) -> None:
        """Ask for the routings, unless nothing is loaded or the last question is still open."""
        if self._loaded is not None and not self._routing_id:
            self._routing_id = self._engine.send(protocol.ReadRouting)

    def shutdown(self) -> None:
        """End the engine and the background work; call before the window goes."""
        self._conversation.stop()
        self._conversation.interrupt()
        self._engine.shutdown()
        self._background.wait()

    # ---- engine events ------------------------------------------------------------------------

    def _take(self, event: protocol.AnyEvent) -> None:
        if self._conversation.take(event):
            return
        if event.id == 0:
            if isinstance(event, protocol.Failed):
                self.failed.emit(client.error_of(event))
        elif event.id == self._load_id:
            self._take_load(event)
        elif event.id == self._devices_id:
            self._take_devices(event)
        elif event.id == self._routing_id:
            self._routing_id = 0
            if isinstance(event, protocol.Routing):
                self.routing.emit(event)

    def _take_load(self, event: protocol.AnyEvent) -> None:
        if isinstance(event, protocol.LoadProgress):
            self.load_progress.emit(event.fraction)
        elif isinstance(event, protocol.Loaded):
            self._load_id = 0
            self._loaded = self._tried
            self._loaded_report = event
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

    def _take_devices(self, event: protocol.AnyEvent) -> None:
        self._devices_id = 0
        if isinstance(event, protocol.Devices):
            self._build = event.build
            self._measure(event.gpus)
        elif isinstance(event, protocol.Failed):
            self.failed.emit(client.error_of(event))
            self._measure(())

    def _measure(self, gpus: tuple[Gpu, ...]) -> None:
        self._probing = False
        probe, folder, build = self._probe, self._models_folder, self._build
        job = self._background.run(lambda: probe(folder, gpus, build))
        job.success(self._set_machine).failure(self.failed.emit)

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
        self._devices_id = self._load_id = self._routing_id = 0
        self._loaded = None
        self._loaded_report = None
        if self._state != EMPTY:
            self._set_state(FAILED)
        self._conversation.fail()
        self.failed.emit(error)
        if self._probing:
            self._measure(())

    def _answer_ended(self) -> None:
        if self._state == ANSWERING:
            self._set_state(READY)

    def _set_state(self, state: str) -> None:
        if state != self._state:
            self._state = state
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
