"""Pins that the engine was told and has not answered yet, and what holds where it does not take them. No Qt."""

import itertools

from app.ui.live_plan import AUTO_PIN, Pins


class PinRequests:
    """The open orders of one load, by the ids of their requests."""

    def __init__(self) -> None:
        self._pins: dict[int, Pins] = {}
        self._before: dict[int, dict[tuple[int, int], str]] = {}

    def __contains__(self, request_id: int) -> bool:
        return request_id in self._pins

    @property
    def wanted(self) -> dict[tuple[int, int], str]:
        """All pins that wait for an answer, by (layer, expert), the newest of each."""
        made: dict[tuple[int, int], str] = {}
        for pins in self._pins.values():
            made.update(pins)
        return made

    def clear(self) -> None:
        """Another load: nothing was asked of it."""
        self._pins.clear()
        self._before.clear()

    def add(self, request_id: int, pins: Pins, now: Pins) -> None:
        """An order was sent; `now` is what all experts are pinned to before it."""
        self._pins[request_id] = pins
        before = map(now.get, pins, itertools.repeat(AUTO_PIN))  # there may be thousands
        self._before[request_id] = dict(zip(pins, before, strict=True))

    def take(self, request_id: int) -> tuple[Pins, Pins]:
        """The engine answered: what was ordered, and what these experts were pinned to before."""
        return self._pins.pop(request_id), self._before.pop(request_id)

    def refuse(self, before: Pins) -> Pins:
        """The engine did not take an order: its experts are as before it, where they were not ordered anew meanwhile.

        An order that came after it, and that may be refused too, follows then on what was before this one.

        Args:
            before: What its experts were pinned to.

        Returns:
            Those of them that no later answer tells of.
        """
        left = dict(before)
        for request, pins in self._pins.items():
            again = left.keys() & pins.keys()
            self._before[request] |= {cell: left.pop(cell) for cell in again}
        return left
