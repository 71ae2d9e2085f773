"""The scripted engine's expert cache: the same routings on every run, a pool that holds the hottest, pins that win."""

import random
import threading
from collections.abc import Iterable

from scripted_memory import READ_SECONDS, ScriptedMemory

from app.engine import protocol
from app.placement.cache import facts as cache_facts
from app.placement.plan import CPU_LANE, DISK_LANE, CachePolicy, ExpertPin, Plan

USED = 2
"""Experts that one token is routed to in every layer."""
LAYER_SECONDS = 0.0004
_LETTER = {"auto": "a", "gpu": "g", "cpu": "c"}


class ScriptedCache:
    """Counts and lanes of the CPU lane's experts after some decoded tokens; safe to read from another thread."""

    def __init__(
        self,
        plan: Plan | None,
        experts: int,
        expert_bytes: int,
        *,
        off: str = "",
        no_memory: str = "",
        room: int | None = None,
    ) -> None:
        """`off` says why nothing is counted, `no_memory` why the device gives no pool.

        `room` is what the machine has for experts of a mapped file; None for enough.
        """
        self._lock = threading.RLock()
        self._device = "" if plan is None or off else (plan.pool_device or plan.gpu or "")
        seen = {} if plan is None or off else plan.expert_lanes
        self._layers = [layer for layer, lane in seen.items() if lane in (CPU_LANE, DISK_LANE)]
        self._experts = experts
        self._expert_bytes = expert_bytes
        self._no_memory = no_memory
        self._pins = {(pin.layer, pin.expert): pin.pin for pin in (plan.pins if plan else ())}
        self._decoded = self._hits = self._misses = self._inserts = 0
        self._resident: dict[int, list[int]] = {layer: [] for layer in self._layers}
        self._coming: dict[int, int] = {}
        self.prompted = 0
        self.policy = plan.policy if plan else CachePolicy()
        self._requested = plan.pool_bytes if plan else 0
        self._staging = plan.staging_bytes if plan else 0
        self.memory: ScriptedMemory | None = None
        if plan is not None and plan.residency == "mapped" and self._layers:
            self.memory = ScriptedMemory(self._layers, experts, expert_bytes, plan.resident_bytes, room)
        self._allot()
        self._fill()

    def _allot(self) -> None:
        """Give each layer its slots, as the real pool does: pins first, then as many for every layer."""
        usable = not self._no_memory and self._layers and self._device
        left = self._requested // self._expert_bytes if usable else 0
        self._slots = dict.fromkeys(self._layers, 0)
        for layer in self._layers:
            kept = sum(pin == "gpu" for (its, _expert), pin in self._pins.items() if its == layer)
            self._slots[layer] = min(kept, left)
            left -= self._slots[layer]
        for level in range(1, self._experts + 1):
            growing = [layer for layer in self._layers if self._slots[layer] < level]
            if len(growing) > left:
                break  # the script leaves what is not enough for all of them
            for layer in growing:
                self._slots[layer] += 1
                left -= 1

    def resize(self, pool_bytes: int, staging_bytes: int) -> None:
        """Another size, or none."""
        with self._lock:
            self._requested, self._staging = pool_bytes, staging_bytes
            self._allot()
            self._fill()

    def pin(self, pins: Iterable[ExpertPin]) -> None:
        """Take the user's orders."""
        with self._lock:
            self._pins |= {(pin.layer, pin.expert): pin.pin for pin in pins}
            self._fill()

    def decode(self) -> None:
        """One token of an answer: count it, then let the pool follow the heat by one expert a layer."""
        with self._lock:
            self._decoded += 1
            for layer in self._layers:
                weights = _weights(layer, self._experts)
                hit = sum(weights[expert] for expert in self._resident[layer])
                hits = min(USED, round(USED * hit))
                self._hits += hits
                self._misses += USED - hits
                if self.memory is not None:
                    self.memory.route(self._decoded, layer, weights, USED)
                if layer in self._coming:
                    self._resident[layer].append(self._coming.pop(layer))
                    self._inserts += 1
                wanted = [expert for expert in self._wanted(layer) if expert not in self._resident[layer]]
                if wanted and len(self._resident[layer]) < self._slots[layer]:
                    self._coming[layer] = wanted[0]

    def set_memory(self, budget: int | None) -> str:
        """Another budget of main memory, None for what fits; why not, or an empty text."""
        with self._lock:
            if self.memory is None:
                return "No experts lie in a mapped file."
            if budget is None:
                budget = min(self.memory.total, self.memory.room)
            if budget > max(self.memory.room, self.memory.budget):
                return "The script has no memory for that."
            self.memory.set_budget(budget)
            return ""

    def warm_memory(self) -> None:
        """Read the hottest in."""
        with self._lock:
            if self.memory is not None:
                self.memory.warm(lambda layer: _weights(layer, self._experts))

    def release_memory(self) -> None:
        """Give the memory up."""
        with self._lock:
            if self.memory is not None:
                self.memory.release()

    def totals(self) -> tuple[int, int]:
        """Hits and misses of decoding since the load."""
        with self._lock:
            return self._hits, self._misses

    def report(self, before: tuple[int, int]) -> cache_facts.CacheReport:
        """What the cache did since `before`."""
        with self._lock:
            return cache_facts.CacheReport(
                requested_bytes=self._requested,
                allocated_bytes=self._allocated,
                used=self._hits > before[0],
                reason=self._reason,
                hits=self._hits - before[0],
                misses=self._misses - before[1] if self._layers else None,
                copied_bytes=self._inserts * self._expert_bytes,
            )

    def routing(self, request_id: int) -> protocol.Routing:
        """Counts by phase."""
        with self._lock:
            return protocol.Routing(
                id=request_id,
                decode={layer: self._counts(layer, self._decoded) for layer in self._layers},
                prompt={layer: self._counts(layer, self.prompted) for layer in self._layers},
            )

    def facts(self, request_id: int, *, experts: bool) -> protocol.CacheFacts:
        """Everything, as the real engine tells it."""
        with self._lock:
            computed = self._decoded * len(self._layers)
            reads = self.memory.reads if self.memory is not None else 0
            nothing = cache_facts.CacheTotals(
                **dict.fromkeys(cache_facts.CacheTotals.__struct_fields__, 0) | dict.fromkeys(_SECONDS, 0.0)
            )
            return protocol.CacheFacts(
                id=request_id,
                pool=self._pool(),
                policy=self.policy,
                decode=cache_facts.CacheTotals(
                    tokens=self._decoded,
                    hits=self._hits,
                    misses=self._misses,
                    streamed=0,
                    inserts=self._inserts,
                    evictions=0,
                    copied_bytes=self._inserts * self._expert_bytes,
                    layers=computed,
                    seconds=computed * LAYER_SECONDS + reads * READ_SECONDS,
                    cpu_seconds=computed * LAYER_SECONDS * 0.8,
                    gpu_seconds=computed * LAYER_SECONDS * 0.3,
                    wait_seconds=0.0,
                    cold_experts=reads,
                    cold_reads=reads,
                    cold_bytes=reads * self._expert_bytes,
                    stall_seconds=reads * READ_SECONDS,
                ),
                prompt=nothing,
                batches=(),
                next_batch=self._decoded,
                layers={layer: self._layer(layer) for layer in self._layers} if experts else {},
                memory=self.memory.facts() if self.memory is not None else None,
            )

    # ---- inside -------------------------------------------------------------------------------

    @property
    def _allocated(self) -> int:
        return sum(self._slots.values()) * self._expert_bytes

    @property
    def _reason(self) -> str:
        if not self._requested:
            return "No pool was asked for."
        if self._no_memory:
            return self._no_memory
        if not any(self._slots.values()):
            return "The pool has no room for one expert a layer."
        return "" if self._decoded else "No expert was routed to since the load."

    def _pool(self) -> cache_facts.PoolFacts | None:
        if not self._device:
            return None
        pinned = [place for place, pin in self._pins.items() if pin == "gpu"]
        placed = sum(expert in self._resident.get(layer, ()) for layer, expert in pinned)
        return cache_facts.PoolFacts(
            device=self._device,
            requested_bytes=self._requested,
            allocated_bytes=self._allocated,
            staging_bytes=0 if self._no_memory else self._staging,
            slots=sum(self._slots.values()),
            resident=sum(map(len, self._resident.values())),
            unplaced_pins=len(pinned) - placed,
            used=any(self._slots.values()) and self._hits > 0,
            reason=self._reason,
        )

    def _layer(self, layer: int) -> cache_facts.LayerExperts:
        counts = self._counts(layer, self._decoded)
        lanes = ["c"] * self._experts
        for expert in self._resident[layer]:
            lanes[expert] = "g"
        if layer in self._coming:
            lanes[self._coming[layer]] = "m"
        return cache_facts.LayerExperts(
            routed=counts,
            heat=tuple(count * 0.4 for count in counts),
            lanes="".join(lanes),
            pins="".join(_LETTER[self._pins.get((layer, expert), "auto")] for expert in range(self._experts)),
            slots=self._slots[layer],
            memory=self.memory.letters(layer) if self.memory is not None else "",
        )

    def _wanted(self, layer: int) -> list[int]:
        """The experts that deserve a slot, pinned ones first."""
        weights = _weights(layer, self._experts)
        pins = {expert: self._pins.get((layer, expert), "auto") for expert in range(self._experts)}
        taken = [expert for expert, pin in pins.items() if pin == "gpu"]
        hot = sorted((expert for expert, pin in pins.items() if pin == "auto"), key=lambda expert: -weights[expert])
        return (taken + (hot if self._decoded else []))[: self._slots[layer]]

    def _fill(self) -> None:
        """Orders and another size take effect at once; experts that are only hot come while decoding."""
        self._coming.clear()
        for layer in self._layers:
            wanted = self._wanted(layer)
            pinned = [expert for expert in wanted if self._pins.get((layer, expert)) == "gpu"]
            kept = [expert for expert in self._resident[layer] if expert in wanted and expert not in pinned]
            self._resident[layer] = (pinned + kept)[: self._slots[layer]]

    def _counts(self, layer: int, tokens: int) -> tuple[int, ...]:
        """Counts of one layer after `tokens` tokens: uneven, the same on every run, growing only."""
        return tuple(int(tokens * USED * weight) for weight in _weights(layer, self._experts))


_SECONDS = ("seconds", "cpu_seconds", "gpu_seconds", "wait_seconds")


def _weights(layer: int, experts: int) -> list[float]:
    weights = [1 / (place + 1) ** 0.9 for place in range(experts)]
    random.Random(layer).shuffle(weights)
    total = sum(weights)
    return [weight / total for weight in weights]
