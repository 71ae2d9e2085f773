"""What the engine was asked of the main memory of mapped experts, and what it answered. No Qt."""

from collections.abc import Callable
from typing import Any

from app.engine import protocol
from app.ui.live_plan import MemoryBudget


class MemoryRequests:
    """The requests of one load: one budget at a time, the newest wish waits for the answer to the one before.

    Attributes:
        chosen: The budget that the engine chose at the load; None where nobody has seen it, or the plan told one.
        set: The budget that it was told last; None where it was told none.
    """

    def __init__(self, send: Callable[..., int]) -> None:
        """`send` sends a request and returns its id."""
        self._send = send
        self.forget()

    def forget(self) -> None:
        """Another load: nothing was asked of it."""
        self.chosen: int | None = None
        self.set: MemoryBudget | None = None
        self._taken: MemoryBudget | None = None
        self._id = 0
        self._wanted = MemoryBudget(None)
        self._next: tuple[MemoryBudget, int] | None = None
        self._asked: set[int] = set()

    @property
    def busy(self) -> bool:
        """Whether the engine has not answered a budget yet."""
        return bool(self._id)

    def set_budget(self, budget: MemoryBudget, fitting: int) -> None:
        """Tell another budget.

        Args:
            budget: None is what the engine chose at the load.
            fitting: Bytes that are told for that where nobody has seen what it chose.
        """
        self.set = budget
        if self._id:
            self._next = (budget, fitting)
            return
        self._wanted = budget
        told = budget.bytes
        if told is None:
            told = fitting if self.chosen is None else self.chosen
        self._id = self._send(protocol.SetMemory, budget_bytes=told)

    def warm(self) -> None:
        """Have the hottest experts read in."""
        self._asked.add(self._send(protocol.WarmMemory))

    def release(self) -> None:
        """Have the memory given up."""
        self._asked.add(self._send(protocol.ReleaseMemory))

    def see(self, facts: protocol.CacheFacts, at_load: int | None) -> None:
        """Note what the engine chose itself, as long as it was told nothing; `at_load` is the budget of the plan."""
        if facts.memory is not None and at_load is None and self.set is None and self.chosen is None:
            self.chosen = facts.memory.budget_bytes

    def concerns(self, event_id: int) -> bool:
        """Whether an event answers one of these requests."""
        return event_id == self._id or event_id in self._asked

    def take(self, event: Any, at_load: MemoryBudget) -> tuple[MemoryBudget, MemoryBudget] | None:
        """An answer: the budget that was wanted, and the one that holds where it was refused; None for another order.

        Args:
            event: The answer to one of these requests.
            at_load: The budget of the plan that was loaded.
        """
        if event.id in self._asked:
            self._asked.discard(event.id)
            return None
        self._id = 0
        wanted, following, self._next = self._wanted, self._next, None
        if isinstance(event, protocol.CacheFacts):
            self._taken = wanted
        elif following is None or following[0] == wanted:
            self.set = self._taken
        if following is not None and following[0] != wanted:
            self.set_budget(*following)
        return wanted, self._taken or at_load
