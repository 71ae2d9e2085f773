"""The scripted engine's main memory: which mapped experts are in it, read and given up the same on every run."""

import random
from collections.abc import Callable

from app.placement.cache import facts as cache_facts

READ_SECONDS = 0.0002
"""What waiting for one expert takes in the script."""


class ScriptedMemory:
    """Keeps the experts that were used last, within a budget; 0 leaves it to a system of which nothing is told."""

    def __init__(
        self, layers: list[int], experts: int, expert_bytes: int, budget: int | None, room: int | None = None
    ) -> None:
        """`budget` is the plan's, None for what fits, as is one of more than `room`, the machine's; None for enough."""
        self._layers, self._experts, self._expert_bytes = layers, experts, expert_bytes
        self.total = len(layers) * experts * expert_bytes
        self.room = self.total if room is None else room
        wished = min(self.total, self.room if budget is None else budget)
        self.budget = wished if wished <= self.room else self.room
        self._used: list[tuple[int, int]] = []  # those in memory, the last used one last
        self.reads = self.evictions = 0
        if self.budget >= self.total:
            self.warm(lambda _layer: [1.0] * experts)

    @property
    def resident(self) -> int:
        """Bytes in memory."""
        return len(self._used) * self._expert_bytes

    def route(self, token: int, layer: int, weights: list[float], used: int) -> None:
        """A token is computed by `used` experts of a layer: missing ones are read."""
        drawn = random.Random(token * 1000 + layer).choices(range(self._experts), weights, k=used)
        for expert in dict.fromkeys(drawn):
            place = (layer, expert)
            if place in self._used:
                self._used.remove(place)
            elif self.budget:
                self.reads += 1
            self._used.append(place)
        self._trim()

    def set_budget(self, budget: int) -> None:
        """Another budget."""
        self.budget = min(budget, self.total)
        self._trim()

    def warm(self, weights: Callable[[int], list[float]]) -> None:
        """Read the hottest in that the budget has room for."""
        places = [(layer, expert) for layer in self._layers for expert in range(self._experts)]
        hottest = sorted(places, key=lambda place: -weights(place[0])[place[1]])
        self._used = hottest[: self.budget // self._expert_bytes][::-1]

    def release(self) -> None:
        """Give everything up."""
        self._used = []

    def facts(self) -> cache_facts.MemoryFacts | None:
        """As the real engine tells it."""
        if not self.budget:
            return None
        return cache_facts.MemoryFacts(
            budget_bytes=self.budget,
            trusted_bytes=self.budget,
            resident_bytes=self.resident,
            total_bytes=self.total,
            evictions=self.evictions,
            stale=0,
            reads=self.resident < self.total,
        )

    def letters(self, layer: int) -> str:
        """One letter for each expert of a layer; none where the system decides."""
        if not self.budget:
            return ""
        return "".join("r" if (layer, expert) in self._used else "d" for expert in range(self._experts))

    def _trim(self) -> None:
        while self.budget and self.resident > self.budget:
            self._used.pop(0)
            self.evictions += 1
