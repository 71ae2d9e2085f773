"""Waiting for what a disk may never give: a bounded time, and an error that names what did not answer."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from app.engine import protocol
from app.engine.client import EngineClient, EngineLateError
from app.errors import AppError, ErrorCode
from app.hardware.stillness import Stillness

_E = TypeVar("_E", bound=protocol.Event)

LOOK_SECONDS = 2.0
"""Between two looks at an engine that says nothing."""
IDLE_SECONDS, UNREAD_SECONDS = 60.0, 300.0
"""An engine that says nothing is given up when it has done nothing for so long, or read nothing for so long: drivers
compile for minutes, and slower disks than these give a byte within a minute."""


class StillError(AppError):
    """The engine says and does nothing any more.

    Attributes:
        seconds: For how long.
    """

    def __init__(self, seconds: float, did: str) -> None:
        super().__init__(ErrorCode.ENGINE_FAILED, f"The engine has said nothing and {did} for {seconds:.0f} seconds.")
        self.seconds = seconds


class PatientClient(EngineClient):
    """An engine client that waits as long as the engine works, and gives it up when it does nothing at all."""

    def events(
        self,
        request_id: int,
        last: type[_E],
        *,
        timeout: float | None = None,
        others: Callable[[protocol.AnyEvent], None] | None = None,
    ) -> Iterator[protocol.AnyEvent]:
        """As `EngineClient.events`.

        Raises:
            AppError: as there.
            StillError: without `timeout`, the engine did nothing for too long.
        """
        if timeout is not None:
            yield from super().events(request_id, last, timeout=timeout, others=others)
            return
        still: Stillness | None = None
        while True:
            try:
                for event in super().events(request_id, last, timeout=LOOK_SECONDS, others=others):
                    still = None
                    yield event
                return
            except EngineLateError:
                still = still or Stillness(self.pid)
            still.look()
            _give_up(still)


def _give_up(still: Stillness) -> None:
    if still.idle_seconds >= IDLE_SECONDS:
        raise StillError(still.idle_seconds, "neither computed nor read anything")
    if still.unread_seconds >= UNREAD_SECONDS:
        raise StillError(still.unread_seconds, "read nothing")
