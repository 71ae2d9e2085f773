"""The engine's expert cache as the window knows it: reads its facts while someone looks, and changes it."""

import logging
from collections.abc import Iterable
from typing import Any

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from app.engine import client, protocol
from app.errors import AppError
from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.cache import facts as cache_facts
from app.placement.plan import CPU_LANE, DISK_LANE, ExpertPin, Plan
from app.placement.planner import with_lanes
from app.ui.engine import Engine

log = logging.getLogger(__name__)

POLL_MILLISECONDS = 250
SETTLING_READS = 8
"""Most reads after an answer or a change, while experts are still copied: two seconds of them."""
COPYING = "m"
PIN_OF_LETTER = {"a": "auto", "g": "gpu", "c": "cpu"}


class ExpertCache(QObject):
    """What the engine says of the expert cache of the loaded model; every figure is the engine's own.

    It is read only while a watcher looks: four times a second while the model answers, once after an
    answer, a load or a change, and a few times more while experts are still on their way to the GPU.
    One question is open at a time, so a slow engine gets fewer, never a queue of them.

    Signals:
        changed: Facts, the last answer's report, or what is under way changed.
        refused: The engine did not make a change, or could not tell its facts (AppError).
    """

    changed = Signal()
    refused = Signal(object)

    def __init__(self, engine: Engine, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._engine = engine
        self._watchers: dict[QObject, bool] = {}
        self._plan: Plan | None = None
        self._model = ""
        self._answering = False
        self._facts: protocol.CacheFacts | None = None
        self._last_answer: cache_facts.CacheReport | None = None
        self._read_id = 0
        self._read_experts = False
        self._since = 0
        self._settling = 0
        self._deaf = False
        self._pool_id = 0
        self._pool_wanted = 0
        self._pool_next: int | None = None
        self._pool_set: int | None = None
        self._pin_ids: set[int] = set()
        self._pins: dict[tuple[int, int], str] = {}
        self._poll = QTimer(self)
        self._poll.setInterval(POLL_MILLISECONDS)
        self._poll.timeout.connect(self._tick)
        engine.event.connect(self._take)

    @property
    def facts(self) -> protocol.CacheFacts | None:
        """The latest facts; None while nothing is loaded or nobody has looked."""
        return self._facts

    @property
    def last_answer(self) -> cache_facts.CacheReport | None:
        """What the cache did for the last answer of the loaded model."""
        return self._last_answer

    @property
    def resizing(self) -> bool:
        """True while the engine changes the pool's size."""
        return bool(self._pool_id)

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

    # ---- what the controller tells ------------------------------------------------------------

    def begin(self, facts: ModelFacts, plan: Plan) -> None:
        """The engine loaded the model `facts` as `plan` says."""
        self.forget()
        if facts.fingerprint != self._model:
            self._pins = {}
        self._pins |= {(pin.layer, pin.expert): pin.pin for pin in plan.pins}
        self._model = facts.fingerprint
        self._plan = plan
        self._pool_set = None
        self._settle()

    def forget(self) -> None:
        """Nothing is loaded any more; what the user pinned is kept for the next load of the model."""
        self._remember_pins()
        self._plan = self._facts = self._last_answer = None
        self._read_id = self._pool_id = self._since = self._settling = 0
        self._pool_next = None
        self._pin_ids.clear()
        self._deaf = False
        self._set_polling()
        self.changed.emit()

    def set_answering(self, answering: bool) -> None:
        """The model begins or ends an answer."""
        if answering != self._answering:
            self._answering = answering
            self._settle()

    def carried(self, facts: ModelFacts, machine: Machine | None, plan: Plan) -> Plan:
        """`plan` with what the user changed at run time, or a load would undo it.

        Pins are carried whenever `facts` is the model they were made for, also after the engine died.
        The pool's size is carried only from a model that is loaded now, as a size that the engine took,
        and where `plan` does not ask for another one than the loaded plan did.
        """
        if facts.fingerprint != self._model:
            return plan
        self._remember_pins()
        here = {layer for layer, lane in plan.expert_lanes.items() if lane in (CPU_LANE, DISK_LANE)}
        pins = tuple(
            ExpertPin(layer=layer, expert=expert, pin=pin)
            for (layer, expert), pin in sorted(self._pins.items())
            if layer in here and pin != "auto"
        )
        size = plan.pool_bytes
        if self._plan is not None and self._pool_set is not None and self._plan.pool_bytes == size:
            size = self._pool_set
        if (pins, size) == (plan.pins, plan.pool_bytes):
            return plan
        carried = msgspec.structs.replace(plan, pins=pins, pool_bytes=size)
        if size == plan.pool_bytes or machine is None:
            return carried
        return with_lanes(carried, facts, machine, (), CPU_LANE)  # moves nothing, and predicts anew

    # ---- changes ------------------------------------------------------------------------------

    def set_pool(self, pool_bytes: int) -> None:
        """Resize the pool, or release it (0); while a change is under way the newest wish waits for its end."""
        if self._plan is None:
            return
        if self._pool_id:
            self._pool_next = pool_bytes
            return
        self._pool_wanted = pool_bytes
        # The staging area is the plan's and serves prompts also without a pool.
        staging = self._plan.staging_bytes
        self._pool_id = self._engine.send(protocol.SetPool, pool_bytes=pool_bytes, staging_bytes=staging)
        self.changed.emit()

    def set_pins(self, layer: int, experts: Iterable[int], pin: str) -> None:
        """Pin experts of a layer to "gpu" or "cpu", or leave them to the policy ("auto")."""
        pins = tuple(ExpertPin(layer=layer, expert=expert, pin=pin) for expert in experts)
        if self._plan is not None and pins:
            self._pin_ids.add(self._engine.send(protocol.SetPins, pins=pins))

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
        if wanted and (self._answering or (self._settling > 0 and (self._read_id or self._copying()))):
            if not self._poll.isActive():
                self._poll.start()
        else:
            self._poll.stop()

    def _copying(self) -> bool:
        return self._facts is not None and any(COPYING in layer.lanes for layer in self._facts.layers.values())

    def _read(self) -> None:
        if self._plan is None or self._read_id or self._deaf or not self._watchers:
            return
        self._read_experts = any(self._watchers.values())
        self._read_id = self._engine.send(protocol.ReadCache, experts=self._read_experts, since=self._since)

    def _take(self, event: Any) -> None:
        if isinstance(event, protocol.Finished):
            self._last_answer = event.cache
            self.changed.emit()
        elif not event.id:
            return
        elif event.id == self._read_id:
            self._read_id = 0
            self._take_facts(event)
            self._set_polling()
        elif event.id == self._pool_id:
            self._take_pool(event)
        elif event.id in self._pin_ids:
            self._pin_ids.discard(event.id)
            self._take_change(event)

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
        if isinstance(event, protocol.CacheFacts):
            self._pool_set = self._pool_wanted
        wanted, self._pool_next = self._pool_next, None
        if wanted is not None and wanted != self._pool_wanted:
            self.set_pool(wanted)
        self._take_change(event)

    def _take_change(self, event: Any) -> None:
        if isinstance(event, protocol.CacheFacts):
            self._show(event, experts=bool(event.layers))
        elif isinstance(event, protocol.Failed):
            self._refuse(event)
            self.changed.emit()  # a wish that was shown is none any more
        self._settle()

    def _show(self, facts: protocol.CacheFacts, *, experts: bool) -> None:
        if not experts and self._facts is not None:
            # Who asked for the totals alone did not say that there are no experts.
            facts = msgspec.structs.replace(facts, layers=self._facts.layers)
        self._facts = facts
        self.changed.emit()

    def _refuse(self, event: protocol.Failed) -> None:
        error: AppError = client.error_of(event)
        log.warning("expert cache: %s", error.message)
        self.refused.emit(error)

    def _remember_pins(self) -> None:
        """Keep what the engine reports pinned; layers it does not report keep what they had."""
        for layer, experts in (self._facts.layers if self._facts else {}).items():
            for expert, letter in enumerate(experts.pins):
                pin = PIN_OF_LETTER.get(letter, "auto")
                if pin != "auto" or (layer, expert) in self._pins:
                    self._pins[layer, expert] = pin
