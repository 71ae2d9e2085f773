"""The expert cache's facts at moments of one answer, for the hints: how reading from the disk went over it."""

import time

import msgspec
from PySide6.QtCore import QObject

from app.engine.protocol import CacheFacts
from app.ui.controller import ANSWERING, Controller

BETWEEN_SECONDS = 1.0
"""Least time between two that are kept."""
KEPT = 60
"""Of one answer: its last minute."""


class AnswerCaches(QObject):
    """Keeps what the engine tells of its cache anyway, once a second at most; asks for nothing."""

    def __init__(
        self, controller: Controller, parent: QObject | None = None, *, between: float = BETWEEN_SECONDS
    ) -> None:
        super().__init__(parent)
        self._between = between
        self._controller = controller
        self._kept: list[CacheFacts] = []
        self._last = 0.0
        controller.answer_started.connect(self._forget)
        controller.loaded.connect(self._forget)
        controller.cache.changed.connect(self._changed)

    @property
    def earlier(self) -> tuple[CacheFacts, ...]:
        """Those of the last answer, oldest first, without single experts."""
        return tuple(self._kept)

    def _forget(self, _report: object = None) -> None:
        self._kept.clear()
        self._last = 0.0

    def _changed(self) -> None:
        facts, now = self._controller.cache.facts, time.monotonic()
        if self._controller.state != ANSWERING or facts is None or now - self._last < self._between:
            return
        self._last = now
        self._kept.append(msgspec.structs.replace(facts, layers={}, batches=()))
        del self._kept[:-KEPT]
