"""Tells that the engine child is gone when nobody asked for that, and why."""

from PySide6.QtCore import QObject, Signal

from app.engine import client
from app.errors import AppError
from app.ui.engine import Engine


class EngineWatch(QObject):
    """Watches one engine, over all its children.

    Signals:
        lost: The child is gone, broke the protocol and is gone, or could not be started (AppError); once each.
    """

    lost = Signal(object)

    def __init__(self, engine: Engine, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._engine = engine
        self._reason: AppError | None = None
        engine.ended.connect(self._ended)
        engine.failed.connect(self._failed)

    def end(self, reason: AppError) -> None:
        """End a child that hangs; `lost` tells `reason`."""
        self._reason = reason
        self._engine.kill()

    def _failed(self, error: AppError) -> None:
        if self._engine.running:
            # The engine kills a child that broke the protocol: tell it when the child is gone.
            self._reason = self._reason or error
        else:
            self.lost.emit(error)

    def _ended(self, outcome: client.ProcessOutcome) -> None:
        reason, self._reason = self._reason, None
        if reason is not None or not outcome.expected:
            self.lost.emit(reason or outcome.error())
