"""Has the engine load one model at a time, and knows what it holds."""

from PySide6.QtCore import QObject, Signal

from app.engine import client, protocol
from app.errors import AppError
from app.model.facts import ModelFacts
from app.placement.plan import Plan
from app.ui.engine import Engine

Loading = tuple[ModelFacts, Plan]
"""A model and how it is loaded."""


class Loader(QObject):
    """One load after the other; of one that was replaced nothing is told.

    Signals:
        progress: Fraction of the weights read.
        loaded: What the engine reports loaded (protocol.Loaded).
        failed: Why nothing is loaded (AppError), also for a load that was cancelled.
    """

    progress = Signal(float)
    loaded = Signal(object)
    failed = Signal(object)

    def __init__(self, engine: Engine, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._engine = engine
        self._id = 0
        self._tried: Loading | None = None
        self._held: Loading | None = None
        self._report: protocol.Loaded | None = None

    @property
    def tried(self) -> Loading | None:
        """What was to be loaded last."""
        return self._tried

    @property
    def held(self) -> Loading | None:
        """What the engine holds."""
        return self._held

    @property
    def report(self) -> protocol.Loaded | None:
        """What the engine reported of it."""
        return self._report

    def begin(self, facts: ModelFacts, plan: Plan) -> None:
        """Load, in place of whatever the engine holds.

        Raises:
            AppError: bad_usage, the plan cannot be sent: a path's bytes are not Unicode.
        """
        self.forget()
        self._tried = (facts, plan)
        try:
            sent = self._engine.send(protocol.Load, plan=plan)
        except AppError:
            if self._engine.running:  # the model that was to be replaced must not stay unseen
                self._engine.send(protocol.Unload)
            raise
        # An engine that cannot even be started has failed by now, on some systems.
        self._id = sent if self._engine.running else 0

    def hold_as(self, plan: Plan) -> None:
        """The engine took a change without a reload: what it holds is as `plan` says."""
        if self._held is not None:
            self._held = (self._held[0], plan)

    def cancel(self) -> None:
        """Stop the load that is running; `failed` follows."""
        if self._id:
            self._engine.send(protocol.Cancel, target=self._id)

    def forget(self) -> None:
        """The engine holds nothing any more, and what it still says of a load does not matter."""
        self._id = 0
        self._held = self._report = None

    def take(self, event: protocol.AnyEvent) -> bool:
        """Handle an event of the running load; False for any other event."""
        if not event.id or event.id != self._id:
            return False
        if isinstance(event, protocol.LoadProgress):
            self.progress.emit(event.fraction)
        elif isinstance(event, protocol.Loaded):
            self._id = 0
            self._held, self._report = self._tried, event
            self.loaded.emit(event)
        elif isinstance(event, protocol.Failed):
            self._id = 0
            self.failed.emit(client.error_of(event))
        return True
