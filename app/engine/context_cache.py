"""The expert cache of one loaded model: its orders carried out, its facts told in the protocol's words."""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from app.engine.cache import ExpertDevice, Phase, Result
from app.engine.cache_memory import ContextMemory
from app.engine.cache_types import LANE_LETTERS, PIN_LETTERS, RESULT_WORDS, LayerStruct, PoolStruct, TotalsStruct
from app.engine.profiles import ProfileStore
from app.engine.protocol import CacheFacts, TraceState
from app.engine.routing_log import RoutingLog
from app.engine.trace_writer import TraceWriter
from app.errors import AppError, ErrorCode
from app.model import ExpertTensor, ModelFacts
from app.placement.cache.facts import BatchFacts, CacheReport, CacheTotals, LayerExperts, PoolFacts
from app.placement.cache.guard import guard_pool
from app.placement.cache.orders import check_pins, check_policy, check_pool
from app.placement.cache.trace import TraceHeader
from app.placement.plan import CachePolicy, ExpertPin, Plan
from app.units import format_bytes

log = logging.getLogger(__name__)

_SECOND = 1e9  # nanoseconds
_EVICTING = ("lru", "decay")  # policies whose experts make room for one another


class Sums(NamedTuple):
    """Decoding's sums at one moment, to tell an answer's share by."""

    hits: int
    misses: int
    streamed: int
    copied_bytes: int


class ContextCache:
    """What the expert device does for one llama.cpp context that has computed its warm-up token.

    `set_pool`, `set_trace` and `close` are called one at a time; the others from any thread at any moment.

    Attributes:
        layers: The MoE layers that the device was seen to compute, by index.
        memory: What main memory keeps of them.
    """

    def __init__(
        self,
        device: ExpertDevice,
        context: int,
        plan: Plan,
        facts: ModelFacts,
        profile: ProfileStore | None,
        routing: Path | None = None,
    ) -> None:
        self._device = device
        self._context = context
        self._facts = facts
        self._profile = profile
        self._policy = plan.policy
        self._pool_device = plan.pool_device or plan.gpu
        self._asked = False  # since then the library has facts of a pool
        self._requested = 0
        self._result = Result.OK
        self._before_pool = Sums(0, 0, 0, 0)
        self._trace: TraceWriter | None = None
        self.layers: dict[int, LayerStruct] = {its.layer: its for its in device.layers(context)}
        self.memory = ContextMemory(device, context, facts, self.layers.values())
        self._log: RoutingLog | None = None
        # With another number of experts than the model's own, what is routed to says nothing of the model.
        if routing is not None and self.layers and plan.experts_used is None:
            self._log = RoutingLog(routing, device, context, self._trace_header())

    @property
    def expert_bytes(self) -> int:
        """Bytes of all experts of the layers that the device computes."""
        return sum(layer.experts * layer.expert_bytes for layer in self.layers.values())

    # ---- orders ------------------------------------------------------------------------------

    def prepare(self, plan: Plan, tensors: Iterable[ExpertTensor]) -> None:
        """Carry out what `plan` says of the cache; a pool that cannot be had is told by `pool_facts`.

        `tensors` says where the experts' bytes lie: slots are filled from there. Pins in layers that lie
        whole on a GPU are without effect.
        """
        for tensor in tensors:
            result = self._device.add_source(self._context, str(tensor.path), tensor.name, tensor.offset, tensor.bytes)
            if result is not Result.OK:
                log.warning("no source for %s: %s", tensor.name, RESULT_WORDS.get(result, result.name))
        self._device.set_policy(self._context, plan.policy)
        if self._profile is not None:
            for layer, heat in self._profile.load({index: its.experts for index, its in self.layers.items()}).items():
                self._device.set_heat(self._context, layer, heat)
        if pins := tuple(pin for pin in plan.pins if pin.layer in self.layers):
            self.set_pins(pins)
        self.memory.prepare(plan.resident_bytes)  # before slots are filled from there
        self._requested = plan.pool_bytes
        if self._pool_device is not None and self.layers and (plan.pool_bytes or plan.staging_bytes):
            self.set_pool(plan.pool_bytes, plan.staging_bytes)

    def set_pool(self, pool_bytes: int, staging_bytes: int) -> None:
        """Resize or release the pool; whether the device gave it is told by `pool_facts`.

        Raises:
            AppError: bad_usage, negative bytes, no GPU in the plan, or no experts that a pool could hold.
        """
        check_pool(pool_bytes, staging_bytes)
        if not self.layers:
            raise AppError(ErrorCode.BAD_USAGE, "No experts of this model are on the CPU, so a pool has none to hold.")
        if self._pool_device is None:
            raise AppError(
                ErrorCode.BAD_USAGE, "The model was loaded without a GPU, so there is none that could hold a pool."
            )
        self._asked, self._requested = True, pool_bytes
        result = self._device.set_layer_device(self._context, self._pool_device)
        if result is Result.OK:
            result = self._device.set_pool(self._context, self._pool_device, pool_bytes, staging_bytes)
        self._result = result
        self._before_pool = self.sums()
        log.info("pool: %s", self.pool_facts())

    def set_pins(self, pins: tuple[ExpertPin, ...]) -> None:
        """Pin or unpin experts.

        Raises:
            AppError: bad_usage, an expert that does not exist; nothing is pinned then.
        """
        check_pins(pins, {index: its.experts for index, its in self.layers.items()})
        self._device.set_pins(self._context, pins)

    def set_policy(self, policy: CachePolicy) -> None:
        """Change how the pool is filled.

        Raises:
            AppError: bad_usage, a value that is impossible.
        """
        check_policy(policy)
        self._device.set_policy(self._context, policy)
        self._policy = policy

    def set_trace(self, path: str) -> TraceState:
        """Record routings into `path` from now on, or (empty) end it.

        Raises:
            OSError: the file cannot be made.
        """
        ended, self._trace = self._trace, None
        if ended is not None:
            ended.close()
            if self._log is not None:
                self._log.take_back()
        if path:
            if self._log is not None:
                self._log.lend()  # the device has one recording, and this one is the user's
            try:
                self._trace = TraceWriter(Path(path), self._device, self._context, self._trace_header())
            except BaseException:
                if self._log is not None:
                    self._log.take_back()
                raise
        told = self._trace or ended
        return TraceState(path=path, entries=told.entries if told else 0, dropped=told.dropped if told else 0)

    def begin_answer(self) -> None:
        """An answer begins: its routing is recorded, unless the user records."""
        if self._log is not None:
            self._log.begin()

    def end_answer(self) -> None:
        """The answer has been told: keep its routing."""
        if self._log is not None:
            self._log.end()

    def save_profile(self, *, only_if_due: bool) -> None:
        """Keep the experts' heat for the next start."""
        if self._profile is None or (only_if_due and not self._profile.is_due()):
            return
        try:
            heat = self._device.experts(self._context).heat
        except AppError as error:
            log.warning("the routing profile was not saved: %s", error.message)
            return
        self._profile.save({index: heat[index, : its.experts].tolist() for index, its in self.layers.items()})

    def close(self) -> None:
        """End the trace and save the profile; call it before the context is freed."""
        if self._trace is not None:
            self._trace.close()
            self._trace = None
        if self._log is not None:
            self._log.close()
        self.save_profile(only_if_due=False)

    # ---- facts -------------------------------------------------------------------------------

    def facts(self, *, experts: bool, since: int) -> CacheFacts:
        """Everything the protocol tells of the cache; batches from index `since` on."""
        batches = self._batches(since)
        return CacheFacts(
            pool=self.pool_facts(),
            policy=self._policy,
            decode=self.totals(Phase.DECODE),
            prompt=self.totals(Phase.PROMPT),
            batches=batches,
            next_batch=batches[-1].index + 1 if batches else since,
            layers=self._layers() if experts else {},
            memory=self.memory.facts(),
        )

    def pool_facts(self) -> PoolFacts | None:
        """The pool; None where no GPU could hold one."""
        if self._pool_device is None:
            return None
        now, pool = self.sums(), self._pool()
        hits, misses = now.hits - self._before_pool.hits, now.misses - self._before_pool.misses
        return PoolFacts(
            device=self._pool_device,
            requested_bytes=self._requested,
            allocated_bytes=pool.allocated,
            staging_bytes=pool.staging,
            working_bytes=pool.working,
            locked_bytes=pool.locked,
            slots=pool.slots,
            resident=pool.resident,
            unplaced_pins=pool.unplaced_pins,
            used=_works(pool) and hits > 0,
            reason=self._reason(pool, hits, misses, "since the pool was set"),
        )

    def totals(self, phase: Phase) -> CacheTotals:
        """What a phase has come to since the load."""
        return _totals(self._device.totals(self._context, phase))

    def sums(self) -> Sums:
        """What decoding has come to so far."""
        total = self._device.totals(self._context, Phase.DECODE)
        return Sums(total.hits, total.misses, total.streamed, total.inserted_bytes + total.streamed_bytes)

    def report(self, before: Sums) -> CacheReport:
        """What the cache did for the answer whose decoding began at `before`."""
        after = self.sums()
        hits, misses = after.hits - before.hits, after.misses - before.misses
        pool = self._pool()
        return CacheReport(
            requested_bytes=self._requested,
            allocated_bytes=pool.allocated,
            used=_works(pool) and hits > 0,
            reason=self._reason(pool, hits, misses, "in this answer"),
            hits=hits,
            misses=misses,
            streamed=after.streamed - before.streamed,
            copied_bytes=after.copied_bytes - before.copied_bytes,
        )

    def _trace_header(self) -> TraceHeader:
        return TraceHeader(
            fingerprint=self._facts.fingerprint,
            name=self._facts.name,
            experts={index: its.experts for index, its in self.layers.items()},
            experts_used=self._facts.experts_used,
        )

    def _pool(self) -> PoolStruct:
        """The library's facts of the pool; nothing but the last result where it has none to tell."""
        if self._pool_device is not None and self._asked:
            try:
                return self._device.pool(self._context, self._pool_device)
            except AppError as error:
                log.debug("no facts of the pool: %s", error.message)
        return PoolStruct(result=self._result)

    def _reason(self, pool: PoolStruct, hits: int, misses: int, when: str) -> str:
        """Why the pool is not used, or what keeps it from helping; empty when all is well."""
        if fault := self._none_possible() or self._fault(pool):
            return fault
        if self._policy.kind in _EVICTING and (sentence := self._guard(pool.allocated)):
            return sentence
        if hits:
            return ""
        if not misses:
            return f"No expert was routed to {when}."
        if self._policy.kind == "manual" and not pool.resident:
            return "The policy is 'manual', which keeps pinned experts only, and none is pinned to the GPU."
        return f"All {misses:,} experts routed to {when} were missing: the pool is still being filled."

    def _none_possible(self) -> str:
        """Why there can be no pool of any size, or an empty text."""
        if not self._requested:
            return "No pool was asked for."
        if self._pool_device is None:
            return "The model was loaded without a GPU, so there is none that could hold a pool."
        return "" if self.layers else "No experts are on the CPU, so a pool has none to hold."

    def _fault(self, pool: PoolStruct) -> str:
        """Why the device gave no pool, or an empty text."""
        if pool.reason:
            return str(pool.reason.decode(errors="replace"))
        if pool.result != Result.OK:
            words = RESULT_WORDS.get(pool.result, f"result {pool.result}")
            return f"There is no pool on {self._pool_device}: {words}."
        if not pool.allocated:
            return f"A pool of {format_bytes(self._requested)} has no room for a single expert."
        return ""

    def _guard(self, pool_bytes: int) -> str:
        return guard_pool(
            {index: its.expert_bytes for index, its in self.layers.items()},
            max((its.experts for its in self.layers.values()), default=0),
            max((its.used for its in self.layers.values()), default=0),
            pool_bytes,
        ).sentence

    def _batches(self, since: int) -> tuple[BatchFacts, ...]:
        found = self._device.batches(self._context, since)
        if not found and since > 0 and not self._device.batches(self._context, since - 1):
            found = self._device.batches(self._context, 0)  # `since` is of another model's count
        return tuple(
            BatchFacts(
                index=its.index,
                tokens=its.tokens,
                prompt=its.phase == Phase.PROMPT,
                hits=its.hits,
                misses=its.misses,
                streamed=its.streamed,
                copied_bytes=its.copied_bytes,
                seconds=its.total_ns / _SECOND,
                cpu_seconds=its.cpu_ns / _SECOND,
                gpu_seconds=its.gpu_ns / _SECOND,
                wait_seconds=its.wait_ns / _SECOND,
                cold_experts=its.cold_experts,
                cold_reads=its.cold_reads,
                cold_bytes=its.cold_bytes,
                stall_seconds=its.stall_ns / _SECOND,
            )
            for its in found
        )

    def _layers(self) -> dict[int, LayerExperts]:
        slots = {its.layer: its.slots for its in self._device.layers(self._context)}
        routed = self._device.routing(self._context, Phase.DECODE)
        experts = self._device.experts(self._context)
        heat = np.round(experts.heat.astype(np.float64), 3)
        memory = self.memory.letters() if self.memory.facts() else []
        return {
            index: LayerExperts(
                routed=tuple(routed[index, : its.experts].tolist()),
                heat=tuple(heat[index, : its.experts].tolist()),
                lanes=_letters(experts.lane[index, : its.experts].tolist(), LANE_LETTERS),
                pins=_letters(experts.pin[index, : its.experts].tolist(), PIN_LETTERS),
                slots=slots.get(index, 0),
                memory=memory[index][: its.experts] if memory else "",
            )
            for index, its in self.layers.items()
        }


def without_pool(policy: CachePolicy) -> CacheFacts:
    """The facts where the expert device takes no part."""
    nothing = _totals(TotalsStruct())
    return CacheFacts(pool=None, policy=policy, decode=nothing, prompt=nothing, batches=(), next_batch=0, layers={})


def _letters(numbers: list[int], letters: str) -> str:
    return "".join(letters[number] for number in numbers)


def _works(pool: PoolStruct) -> bool:
    """Whether the device computes from it: also where it gave less than was asked for."""
    return bool(pool.allocated > 0 and pool.result != Result.DEVICE_FAILED)


def _totals(its: TotalsStruct) -> CacheTotals:
    return CacheTotals(
        tokens=its.tokens,
        hits=its.hits,
        misses=its.misses,
        streamed=its.streamed,
        inserts=its.inserts,
        evictions=its.evictions,
        copied_bytes=its.inserted_bytes + its.streamed_bytes,
        layers=its.layers,
        seconds=its.total_ns / _SECOND,
        cpu_seconds=its.cpu_ns / _SECOND,
        gpu_seconds=its.gpu_ns / _SECOND,
        wait_seconds=its.wait_ns / _SECOND,
        cold_experts=its.cold_experts,
        cold_reads=its.cold_reads,
        cold_bytes=its.cold_bytes,
        stall_seconds=its.stall_ns / _SECOND,
    )
