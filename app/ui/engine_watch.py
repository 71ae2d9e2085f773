"""Tells that the engine child is gone when nobody asked for that, and that one which is there does not answer."""

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine import client, protocol
from app.errors import AppError, ErrorCode
from app.ui.engine import Engine

CHECK_MILLISECONDS = 4000
SILENT_CHECKS = 5
"""Checks in a row, each with a question open and nothing heard, that make an engine silent: twenty seconds.

They are counted, not timed: a computer that slept for an hour has not waited for its engine that long.
"""


class EngineWatch(QObject):
    """Watches one engine, over all its children.

    Whatever the engine says is a sign of life. Only where it said nothing since the check before is it asked
    something light, which it answers at once also while it computes: while the live views ask, nothing is added.

    Signals:
        lost: The child is gone, broke the protocol and is gone, or could not be started (AppError); once each.
        silent: The child is there and does not answer (AppError); None when it does again, or is gone.
    """

    lost = Signal(object)
    silent = Signal(object)

    def __init__(self, engine: Engine, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._engine = engine
        self._reason: AppError | None = None
        self._silence: AppError | None = None
        self._heard = False
        self._asked = False
        self._missed = 0
        self._since = 0
        self._check = QTimer(self)
        self._check.setInterval(CHECK_MILLISECONDS)
        self._check.timeout.connect(self.check)
        engine.event.connect(self._hear)
        engine.log_line.connect(self._hear)
        engine.ended.connect(self._ended)
        engine.failed.connect(self._failed)

    @property
    def silence(self) -> AppError | None:
        """That the engine does not answer now; None where it does, or nobody watches for it."""
        return self._silence

    def set_watching(self, watching: bool) -> None:
        """Look for signs of life, or not any more: only a model that is loaded must answer at any time."""
        if watching and not self._check.isActive():
            self._heard, self._asked, self._missed = True, False, 0
            self._check.start()
        elif watching:
            self._missed = 0  # something was asked of a silent engine: it is told anew
        else:
            self._check.stop()
            self._end_silence()

    def check(self) -> None:
        """Ask where nothing was heard; tell when that has lasted."""
        if self._heard:
            self._heard, self._asked, self._missed = False, False, 0
            return
        if not self._asked:
            self._asked = True
            self._engine.send(protocol.ReadCache, experts=False, since=self._since)
            return
        self._missed += 1
        if self._missed == SILENT_CHECKS:
            seconds = SILENT_CHECKS * CHECK_MILLISECONDS // 1000
            self._silence = AppError(
                ErrorCode.ENGINE_FAILED,
                f"The engine runs but has answered nothing for {seconds} seconds.",
                "It may be held by a driver or by a computer without memory, and may go on by itself. "
                "Ending it frees the model; the conversation stays.",
            )
            self.silent.emit(self._silence)

    def end(self, reason: AppError) -> None:
        """End a child that hangs; `lost` tells `reason`."""
        self._reason = reason
        self._engine.kill()

    def end_silent(self) -> None:
        """End the child that does not answer; `lost` tells why. Nothing where it answers again."""
        if self._silence is not None:
            self.end(self._silence)

    def _hear(self, said: object) -> None:
        self._heard = True
        if isinstance(said, protocol.CacheFacts):
            self._since = said.next_batch  # so that no answer to a check tells of batches that were told before
        self._end_silence()

    def _end_silence(self) -> None:
        if self._silence is not None:
            self._silence = None
            self.silent.emit(None)

    def _failed(self, error: AppError) -> None:
        if self._engine.running:
            # The engine kills a child that broke the protocol: tell it when the child is gone.
            self._reason = self._reason or error
        else:
            self.lost.emit(error)

    def _ended(self, outcome: client.ProcessOutcome) -> None:
        reason, self._reason = self._reason, None
        self._end_silence()
        if reason is not None or not outcome.expected:
            self.lost.emit(reason or outcome.error())
