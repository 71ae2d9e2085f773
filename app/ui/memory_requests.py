"""What the engine was asked of the main memory of mapped experts, and what it answered. No Qt."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from app.engine import protocol
from app.placement.cache.facts import MemoryFacts
from app.ui.live_plan import MemoryBudget
from app.ui.memory_order import MemoryOrder


class MemoryRequests:
    """The requests of one load: one budget at a time, the newest wish waits for the answer to the one before.

    Attributes:
        chosen: The budget that the engine chose itself last, at the load or when it was told None; None where nobody
            has seen one.
        set: The budget that it was told last; None where it was told none.
        order: The last order to read experts in or to give their memory up; None where there was none.
    """

    def __init__(self, send: Callable[..., int]) -> None:
        """`send` sends a request and returns its id."""
        self._send = send
        self.forget()

    def forget(self) -> None:
        """Another load: nothing was asked of it."""
        self.chosen: int | None = None
        self.set: MemoryBudget | None = None
        self.order: MemoryOrder | None = None
        self._taken: MemoryBudget | None = None
        self._id = 0
        self._wanted = MemoryBudget(None)
        self._next: MemoryBudget | None = None
        self._held: type[protocol.Request] | None = None  # an order that a waiting budget goes before
        self._asked: set[int] = set()
        self._order_id = 0

    def lose(self, why: str) -> None:
        """Nothing is loaded any more: an order of which nobody knows what came of it stays to be told with `why`."""
        order = self.order
        self.forget()
        if order is not None and order.open:
            self.order = order.ended(why)

    @property
    def busy(self) -> bool:
        """Whether the engine has not answered a budget yet."""
        return bool(self._id)

    @property
    def following(self) -> bool:
        """Whether readings are needed to tell what came of an order that the engine took."""
        return self.order is not None and self.order.answered and self.order.open

    def set_budget(self, budget: MemoryBudget) -> None:
        """Tell another budget; of None the engine chooses what fits then, as a load does."""
        self.set = budget
        self._forget_told()
        if self._id:
            self._next = budget
            return
        self._wanted = budget
        self._id = self._send(protocol.SetMemory, budget_bytes=budget.bytes)

    def warm(self, now: MemoryFacts | None = None) -> None:
        """Have the hottest experts read in; `now` is what is in memory as the engine told it last."""
        self._give(protocol.WarmMemory, MemoryOrder(warm=True, before=now))

    def release(self, now: MemoryFacts | None = None) -> None:
        """Have the memory given up; `now` is what is in memory as the engine told it last."""
        self._give(protocol.ReleaseMemory, MemoryOrder(warm=False, before=now))

    def answer_begins(self) -> None:
        """From now on experts come and go by themselves: what came of an order is no news any more."""
        self._forget_told()

    def be_late(self) -> bool:
        """The engine should have answered the last order by now; True where it has not."""
        if self.order is None or self.order.answered or not self.order.open:
            return False
        self.order = replace(self.order, late=True)
        return True

    def see(self, facts: protocol.CacheFacts, at_load: int | None) -> None:
        """A reading: note what came of an order, and what the engine chose itself where it was told nothing else.

        Args:
            facts: What the engine tells.
            at_load: The budget of the plan.
        """
        if self.order is not None:
            self.order = self.order.seen(facts.memory)
        told = at_load if self.set is None else self.set.bytes
        if facts.memory is not None and told is None and not self.busy:
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
            if event.id == self._order_id and self.order is not None:
                refused = isinstance(event, protocol.Failed)
                self.order = self.order.ended(event.message) if refused else replace(self.order, answered=True)
            return None
        self._id = 0
        wanted, following, self._next = self._wanted, self._next, None
        if isinstance(event, protocol.CacheFacts):
            self._taken = wanted
        elif following is None or following == wanted:
            self.set = self._taken
        if following is not None and following != wanted:
            self.set_budget(following)
        if self._held is not None:
            self._ask(self._held)
        return wanted, self._taken or at_load

    def _give(self, request_type: type[protocol.Request], order: MemoryOrder) -> None:
        self.order = order
        if self._next is None:
            self._ask(request_type)
        else:  # the engine takes one after the other: it would warm up within the budget that is about to go
            self._held, self._order_id = request_type, 0

    def _ask(self, request_type: type[protocol.Request]) -> None:
        self._held = None
        self._order_id = self._send(request_type)
        self._asked.add(self._order_id)

    def _forget_told(self) -> None:
        if self.order is not None and not self.order.open:
            self.order = None
