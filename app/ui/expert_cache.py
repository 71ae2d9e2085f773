"""The engine's expert cache as the window knows it: reads its facts while someone looks, and changes it."""

import logging
from typing import Any

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from app.engine import client, protocol
from app.errors import AppError
from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.cache import facts as cache_facts
from app.placement.plan import CPU_LANE, CachePolicy, Plan
from app.placement.planner import with_lanes
from app.ui.engine import Engine
from app.ui.kept_pins import carried_pins, single_layers
from app.ui.live_plan import MemoryBudget, Pins, orders_of, pins_of
from app.ui.memory_order import MemoryOrder
from app.ui.memory_requests import MemoryRequests
from app.ui.pin_requests import PinRequests

log = logging.getLogger(__name__)

POLL_MILLISECONDS = 250
SETTLING_READS = 8
"""Most reads after an answer or a change, while experts are still copied: two seconds of them."""
LATE_MILLISECONDS = 5000
"""After so long without an answer to an order for main memory the user is told that there is none yet."""
COPYING = "m"


class ExpertCache(QObject):
    """What the engine says of the expert cache of the loaded model; every figure is the engine's own.

    It is read only while a watcher looks: four times a second while the model answers, once after an
    answer, a load or a change, and a few times more while experts are still on their way to the GPU.
    One question is open at a time, so a slow engine gets fewer, never a queue of them.

    Signals:
        changed: Facts, the last answer's report, or what is under way changed.
        not_taken: The engine did not make a change, and goes on with something else (both are pins by
            (layer, expert), bytes of the pool, a MemoryBudget, or a CachePolicy); `refused` follows.
        refused: The engine did not make a change, or could not tell its facts (AppError).
    """

    changed = Signal()
    not_taken = Signal(object, object)
    refused = Signal(object)

    def __init__(self, engine: Engine, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._engine = engine
        self._watchers: dict[QObject, bool] = {}
        self._plan: Plan | None = None
        self._model = ""
        self._answering = False
        self._facts: protocol.CacheFacts | None = None
        self._finished: protocol.Finished | None = None
        self._read_id = 0
        self._read_experts = False
        self._since = 0
        self._settling = 0
        self._deaf = False
        self._pool_id = 0
        self._pool_wanted = 0
        self._pool_next: int | None = None
        self._pool_set: int | None = None
        self._pool_taken: int | None = None
        self._ordered = PinRequests()
        self._policy_ids: dict[int, CachePolicy] = {}
        self._policy_set: CachePolicy | None = None
        self._policy_taken: CachePolicy | None = None
        self._pins: dict[tuple[int, int], str] = {}
        self._memory = MemoryRequests(engine.send)
        self._poll = QTimer(self)
        self._poll.setInterval(POLL_MILLISECONDS)
        self._poll.timeout.connect(self._tick)
        self._late = QTimer(self)
        self._late.setSingleShot(True)
        self._late.setInterval(LATE_MILLISECONDS)
        self._late.timeout.connect(self._be_late)
        engine.event.connect(self._take)

    @property
    def facts(self) -> protocol.CacheFacts | None:
        """The latest facts; None while nothing is loaded or nobody has looked."""
        return self._facts

    @property
    def last_answer(self) -> cache_facts.CacheReport | None:
        """What the cache did for the last answer of the loaded model."""
        return self._finished.cache if self._finished else None

    @property
    def last_finished(self) -> protocol.Finished | None:
        """The last answer of the loaded model, with its speeds."""
        return self._finished

    @property
    def resizing(self) -> bool:
        """True while the engine changes the pool's size."""
        return bool(self._pool_id)

    @property
    def budgeting(self) -> bool:
        """True while the engine changes the budget of main memory."""
        return self._memory.busy

    @property
    def memory_chosen(self) -> int:
        """The budget of main memory that the engine chose itself last; 0 where nobody has seen one."""
        return self._memory.chosen or 0

    @property
    def memory_order(self) -> MemoryOrder | None:
        """The last order to read experts in or to give their memory up, with what came of it; None for none."""
        return self._memory.order

    @property
    def ordered(self) -> dict[tuple[int, int], str]:
        """Pins by (layer, expert) that the engine was told and has not answered yet."""
        return self._ordered.wanted

    @property
    def polling(self) -> bool:
        """True while the facts are asked for again and again."""
        return self._poll.isActive()

    # ---- who looks ----------------------------------------------------------------------------

    def watch(self, watcher: QObject, *, experts: bool) -> None:
        """Read the facts now and while the model answers, single experts included where `experts`."""
        self._watchers[watcher] = experts
        self._settle()

    def unwatch(self, watcher: QObject) -> None:
        """This one does not look any more."""
        self._watchers.pop(watcher, None)
        self._set_polling()

    def look(self) -> None:
        """Read the facts once more, where somebody watches."""
        self._read()

    # ---- what the controller tells ------------------------------------------------------------

    def begin(self, facts: ModelFacts, plan: Plan) -> None:
        """The engine loaded the model `facts` as `plan` says."""
        self.forget()
        self._memory.forget()
        if facts.fingerprint != self._model:
            self._pins = {}
        # Of these layers the engine has the plan's pins and no others, also if some were noted during the load.
        here = single_layers(plan)
        self._pins = {cell: pin for cell, pin in self._pins.items() if cell[0] not in here} | pins_of(plan)
        self._model = facts.fingerprint
        self._plan = plan
        self._pool_set = self._pool_taken = self._policy_set = self._policy_taken = None
        self._settle()

    def forget(self) -> None:
        """Nothing is loaded any more; what the user pinned is kept for the next load of the model."""
        self._plan = self._facts = self._finished = None
        self._read_id = self._pool_id = self._since = self._settling = 0
        self._pool_next = None
        self._ordered.clear()
        self._policy_ids.clear()
        self._memory.lose(self.tr("The model was unloaded, or its engine ended, before it was done."))
        self._deaf = False
        self._set_polling()
        self.changed.emit()

    def set_answering(self, answering: bool) -> None:
        """The model begins or ends an answer."""
        if answering != self._answering:
            self._answering = answering
            if answering:
                self._memory.answer_begins()
            self._settle()

    def carried(self, facts: ModelFacts, machine: Machine | None, plan: Plan) -> Plan:
        """`plan` with what the user changed at run time, or a load would undo it.

        Pins are carried whenever `facts` is the model they were made for, also after the engine died.
        The pool's size, the budget of memory and the policy are carried only from a model that is loaded now, as the
        engine was told last, and where `plan` does not ask for others than the loaded plan did.
        """
        if facts.fingerprint != self._model:
            return plan
        pins = carried_pins(plan, self._pins)
        size, policy = plan.pool_bytes, plan.policy
        if self._plan is not None and self._pool_set is not None and self._plan.pool_bytes == size:
            size = self._pool_set
        if self._plan is not None and self._policy_set is not None and self._plan.policy == policy:
            policy = self._policy_set
        budget, told = plan.resident_bytes, self._memory.set
        if self._plan is not None and told is not None and self._plan.resident_bytes == budget:
            budget = told.bytes
        if (pins, size, policy, budget) == (plan.pins, plan.pool_bytes, plan.policy, plan.resident_bytes):
            return plan
        carried = msgspec.structs.replace(plan, pins=pins, pool_bytes=size, policy=policy, resident_bytes=budget)
        if (size, budget) == (plan.pool_bytes, plan.resident_bytes) or machine is None:
            return carried
        return with_lanes(carried, facts, machine, (), CPU_LANE)  # moves nothing, and predicts anew

    # ---- changes ------------------------------------------------------------------------------

    def set_pool(self, pool_bytes: int) -> None:
        """Resize the pool, or release it (0); while a change is under way the newest wish waits for its end."""
        if self._plan is None:
            return
        self._pool_set = pool_bytes
        if self._pool_id:
            self._pool_next = pool_bytes
            return
        self._pool_wanted = pool_bytes
        # The staging area is the plan's and serves prompts also without a pool.
        staging = self._plan.staging_bytes
        self._pool_id = self._engine.send(protocol.SetPool, pool_bytes=pool_bytes, staging_bytes=staging)
        self.changed.emit()

    def set_memory(self, budget: MemoryBudget) -> None:
        """Give mapped experts another budget of memory."""
        if self._plan is not None:
            self._memory.set_budget(budget)
            self.changed.emit()

    def warm_memory(self) -> None:
        """Have the hottest mapped experts read into memory, in the background."""
        if self._plan is not None:
            self._memory.warm(self._facts.memory if self._facts else None)
            self._await_order()

    def release_memory(self) -> None:
        """Have the memory of mapped experts given up; they are read again when they are needed."""
        if self._plan is not None:
            self._memory.release(self._facts.memory if self._facts else None)
            self._await_order()

    def _await_order(self) -> None:
        self._late.start()
        self.changed.emit()

    def _be_late(self) -> None:
        if self._memory.be_late():
            self.changed.emit()

    def send_pins(self, pins: Pins) -> None:
        """Pin experts to "gpu" or "cpu", or leave them to the policy ("auto"), in layers that are computed one by one.

        Args:
            pins: By (layer, expert); not to be written to afterwards.
        """
        if self._plan is not None and pins:
            request = self._engine.send(protocol.SetPins, pins=orders_of(pins))
            self._ordered.add(request, pins, self._pins)
            self._pins |= pins
            self.changed.emit()

    def note_pins(self, model: str, pins: Pins) -> None:
        """The user pinned experts of the model with this fingerprint: the next load of it keeps them.

        Also those of layers that the engine does not tell of, and while nothing is loaded.
        """
        if model == self._model:
            self._pins |= pins

    def set_policy(self, policy: CachePolicy) -> None:
        """Have the pool filled by another policy."""
        if self._plan is not None:
            self._policy_set = policy
            self._policy_ids[self._engine.send(protocol.SetPolicy, policy=policy)] = policy

    # ---- reading ------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Something began or ended: look at once, then as long as there is something to see."""
        self._settling = SETTLING_READS
        self._read()
        self._set_polling()

    def _tick(self) -> None:
        if not self._answering:
            self._settling -= 1
        self._read()
        self._set_polling()

    def _set_polling(self) -> None:
        wanted = bool(self._watchers) and self._plan is not None and not self._deaf
        if wanted and (self._answering or (self._settling > 0 and (self._read_id or self._to_come()))):
            if not self._poll.isActive():
                self._poll.start()
        else:
            self._poll.stop()

    def _to_come(self) -> bool:
        """Whether more readings show something: experts on their way, or what comes of an order for memory."""
        if self._memory.following:
            return True
        return self._facts is not None and any(COPYING in layer.lanes for layer in self._facts.layers.values())

    def _read(self) -> None:
        if self._plan is None or self._read_id or self._deaf or not self._watchers:
            return
        self._read_experts = any(self._watchers.values())
        self._read_id = self._engine.send(protocol.ReadCache, experts=self._read_experts, since=self._since)

    def _take(self, event: Any) -> None:
        if isinstance(event, protocol.Finished):
            self._finished = event
            self.changed.emit()
        elif not event.id:
            return
        elif event.id == self._read_id:
            self._read_id = 0
            self._take_facts(event)
            self._set_polling()
        elif event.id == self._pool_id:
            self._take_pool(event)
        elif event.id in self._ordered:
            pins, before = self._ordered.take(event.id)
            if isinstance(event, protocol.Failed):
                before = self._ordered.refuse(before)  # of the others a later answer tells
                self._pins |= before
            self._take_change(event, pins, before)
        elif event.id in self._policy_ids:
            self._take_policy(event, self._policy_ids.pop(event.id))
        elif self._memory.concerns(event.id):
            self._take_memory(event)

    def _take_facts(self, event: Any) -> None:
        if isinstance(event, protocol.CacheFacts):
            self._since = event.next_batch
            self._show(event, experts=self._read_experts)
        elif isinstance(event, protocol.Failed):
            # Once, not four times a second; the next load asks again.
            self._deaf = True
            self._refuse(event)

    def _take_pool(self, event: Any) -> None:
        self._pool_id = 0
        wanted, following, self._pool_next = self._pool_wanted, self._pool_next, None
        if isinstance(event, protocol.CacheFacts):
            self._pool_taken = wanted
        elif following in (None, wanted):
            self._pool_set = self._pool_taken
        if following not in (None, wanted):
            self.set_pool(following)
        loaded = self._plan.pool_bytes if self._plan else wanted
        self._take_change(event, wanted, loaded if self._pool_taken is None else self._pool_taken)

    def _take_policy(self, event: Any, wanted: CachePolicy) -> None:
        if isinstance(event, protocol.CacheFacts):
            self._policy_taken = wanted
        elif not self._policy_ids:
            self._policy_set = self._policy_taken
        loaded = self._plan.policy if self._plan else wanted
        instead = wanted if self._policy_ids else self._policy_taken or loaded  # else a later answer says it
        self._take_change(event, wanted, instead)

    def _take_memory(self, event: Any) -> None:
        answered = self._memory.take(event, MemoryBudget(self._plan.resident_bytes if self._plan else None))
        if answered is not None:
            self._take_change(event, *answered)
        elif isinstance(event, protocol.CacheFacts):
            self._show(event, experts=bool(event.layers))
            self._settle()
        elif isinstance(event, protocol.Failed):
            self._refuse(event)
            self.changed.emit()

    def _take_change(self, event: Any, wanted: object, instead: object) -> None:
        """The engine answers a change; `instead` is what it goes on with where it did not make it."""
        if isinstance(event, protocol.CacheFacts):
            self._show(event, experts=bool(event.layers))
        elif isinstance(event, protocol.Failed):
            self.not_taken.emit(wanted, instead)
            self._refuse(event)
            self.changed.emit()  # a wish that was shown is none any more
        self._settle()

    def _show(self, facts: protocol.CacheFacts, *, experts: bool) -> None:
        if not experts and self._facts is not None:
            # Who asked for the totals alone did not say that there are no experts.
            facts = msgspec.structs.replace(facts, layers=self._facts.layers)
        self._facts = facts
        self._memory.see(facts, self._plan.resident_bytes if self._plan is not None else None)
        self.changed.emit()

    def _refuse(self, event: protocol.Failed) -> None:
        error: AppError = client.error_of(event)
        log.warning("expert cache: %s", error.message)
        self.refused.emit(error)
