"""What the tuner may change of a plan: one choice at a time, and choices put together."""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from app.errors import AppError
from app.hardware.facts import Gpu, GpuKind, Machine
from app.model.facts import ModelFacts
from app.placement.active_experts import facts_with
from app.placement.kv_cache import full_cells, usable_kv_types
from app.placement.lanes import gpu_lanes
from app.placement.locking import may_lock
from app.placement.memory import copies_weights, expert_bytes, fits, predict
from app.placement.plan import CPU_LANE, DISK_LANE, STREAMS, Plan
from app.placement.planner import make_plan
from app.placement.resident import wished_again
from app.placement.tuner.types import Candidate, Choice
from app.placement.wishes import Wishes, wished_budget
from app.units import format_bytes

_UBATCHES = (128, 256, 512, 1024, 2048)
LEAST_CONTEXT = 4096
"""Tokens: a context is not made smaller than this for speed."""
_POOL_SHARES = (0.0, 0.5, 1.0)
"""Of the GPU memory that holds experts: what the pool gets of it, the rest whole layers."""
_POLICIES = ("lru", "decay")
"""Those that need no orders of the user's and no profile."""
_LOCKED_SHARE = 4
"""At most one such part of main memory is page-locked: the system and other programs cannot get it back."""
# Fields that change what lies where: the planner divides memory anew for them.
_MEMORY = frozenset({"kv_type", "n_ctx", "pool_bytes"})


class Candidates:
    """Makes plans of choices for one model on one machine.

    Args:
        facts: The model.
        machine: The machine.
        base: The plan that tuning starts from.
        wishes: What it was made by; a wished context, cache type, thread count, residency, pool or
            cache policy is not changed, and a goal is kept: no more threads and memory of a quiet plan, no smaller
            context of one that is for the longest.
    """

    def __init__(self, facts: ModelFacts, machine: Machine, base: Plan, wishes: Wishes) -> None:
        self._own_facts = facts
        self._facts = facts_with(facts, base.experts_used)
        self._machine = machine
        self._budget, _ = wished_budget(machine, wishes)
        self._base = base
        self._wishes = wishes
        self._gpu = next((gpu for gpu in machine.gpus if gpu.device == base.gpu), None)

    @property
    def first(self) -> Candidate:
        """The plan that tuning starts from."""
        return Candidate(choice=Choice(), words="", plan=self._base)

    def single_changes(self) -> tuple[Candidate, ...]:
        """Every change of one thing that may make decoding faster, each predicted to fit."""
        choices = (
            *self._threads(),
            *self._residency(),
            *self._pool(),
            *self._policy(),
            *self._streams(),
            *self._locks(),
            *self._cache(),
        )
        return self._plans(choices)

    def micro_batches(self, choice: Choice) -> tuple[Candidate, ...]:
        """`choice` with other micro-batches, which change the speed of prompts."""
        now = self._base.n_ubatch
        sizes = [size for size in _UBATCHES if size != now and now / 4 <= size <= min(now * 4, self._base.n_ctx)]
        return self._plans(msgspec.structs.replace(choice, n_ubatch=size) for size in sizes)

    def together(self, choices: Iterable[Choice]) -> Candidate | None:
        """All choices in one plan, the first where several change the same; None where that does not fit."""
        fields: dict[str, object] = {}
        for choice in choices:
            fields |= {name: getattr(choice, name) for name in choice.changes if name not in fields}
        made = self._plans([msgspec.convert(fields, Choice)])
        return made[0] if made else None

    # ---- what may be changed -----------------------------------------------------------------

    def _threads(self) -> Iterator[Choice]:
        if self._wishes.threads is not None:
            return
        cpu = self._machine.cpu
        most = cpu.allowed_threads or cpu.logical_cores
        if self._wishes.goal == "quiet":
            most = min(most, self._base.threads)
        counts = {
            cpu.performance_cores,
            cpu.performance_cores - 1,
            cpu.physical_cores,
            cpu.physical_cores // 2,
            cpu.logical_cores,
        }
        for count in sorted(counts):
            if 1 <= count <= most and count != self._base.threads:
                yield Choice(threads=count)
        if cpu.performance_cores < cpu.physical_cores and cpu.performance_cpus:
            yield Choice(threads=min(cpu.performance_cores, most), cpu_cores=cpu.performance_cpus)

    def _residency(self) -> Iterator[Choice]:
        lanes = set(self._base.expert_lanes.values())  # with some on disk there is no room for copies
        wished = self._wishes.residency is not None or bool(self._wishes.resident_bytes)
        if CPU_LANE in lanes and DISK_LANE not in lanes and not wished:
            yield Choice(residency="mapped" if self._base.residency == "repacked" else "repacked")

    def _pool(self) -> Iterator[Choice]:
        if not self._may_pool() or self._wishes.pool_bytes is not None or self._wishes.whole_layers is not None:
            return
        held = expert_bytes(self._facts, gpu_lanes(self._base)) + self._base.pool_bytes
        for share in _POOL_SHARES:
            size = round(held * share)
            if size != self._base.pool_bytes and (size == 0 or size >= self._facts.token_cycle_bytes):
                yield Choice(pool_bytes=size)

    def _may_pool(self) -> bool:
        """Whether single experts on the GPU are worth trying: a GPU of its own kind, and experts left off it."""
        gpu: Gpu | None = self._gpu
        if gpu is None or copies_weights(self._machine) or not self._off_gpu():
            return False
        return gpu.kind is not GpuKind.SOFTWARE or self._base.pool_bytes > 0

    def _off_gpu(self) -> bool:
        return len(gpu_lanes(self._base)) < len(self._facts.moe_layers)

    def _policy(self) -> Iterator[Choice]:
        if self._wishes.policy is None and self._base.pool_bytes and self._base.policy.kind in _POLICIES:
            yield from (Choice(policy=kind) for kind in _POLICIES if kind != self._base.policy.kind)

    def _streams(self) -> Iterator[Choice]:
        if self._wishes.policy is None and self._base.staging_bytes and self._gpu is not None:
            yield from (Choice(stream=stream) for stream in STREAMS if stream != self._base.policy.stream)

    def _locks(self) -> Iterator[Choice]:
        """Copies from page-locked memory, which cards of their own memory alone gain from."""
        lanes, locked = self._base.expert_lanes, self._base.policy.lock_bytes
        copies = self._base.pool_bytes or self._base.staging_bytes
        wished = self._wishes.policy is not None or self._wishes.lock_bytes is not None
        wished = wished or self._wishes.goal == "quiet"  # other programs are to have that memory
        if wished or not copies or not may_lock(self._gpu):
            return
        if locked:
            yield Choice(lock_bytes=0)
        on_cpu = expert_bytes(self._facts, (layer for layer, lane in lanes.items() if lane == CPU_LANE))
        size = min(on_cpu, self._machine.ram.total_bytes // _LOCKED_SHARE)
        if size and size != locked:
            yield Choice(lock_bytes=size)

    def _cache(self) -> Iterator[Choice]:
        """What a smaller KV cache leaves on the GPU is for experts."""
        if self._gpu is None or not self._off_gpu():
            return
        pool = expert_bytes(self._facts, self._facts.moe_layers) if self._base.pool_bytes else None
        if self._wishes.kv_type is None and self._base.kv_type == "f16" and "q8_0" in usable_kv_types(self._facts):
            yield Choice(kv_type="q8_0", pool_bytes=pool)
        half = full_cells(self._base.n_ctx // 2)
        if self._wishes.n_ctx is None and self._wishes.goal != "context" and half >= LEAST_CONTEXT:
            yield Choice(n_ctx=half, pool_bytes=pool)

    # ---- plans of choices --------------------------------------------------------------------

    def _plans(self, choices: Iterable[Choice]) -> tuple[Candidate, ...]:
        """A candidate for every choice that gives another plan, which is predicted to fit if the first one is."""
        seen = [_loading(self._base)]
        made = []
        for choice in choices:
            plan = self._plan(choice)
            if plan is None or _loading(plan) in seen:
                continue
            seen.append(_loading(plan))
            made.append(Candidate(choice=choice, words=_words(choice, plan), plan=plan))
        return tuple(made)

    def _plan(self, choice: Choice) -> Plan | None:
        plan = self._base
        if choice.changes & _MEMORY:
            wishes = msgspec.structs.replace(
                self._wishes,
                n_ctx=choice.n_ctx or plan.n_ctx,
                kv_type=choice.kv_type or plan.kv_type,
                pool_bytes=plan.pool_bytes if choice.pool_bytes is None else choice.pool_bytes,
                residency=plan.residency,
                policy=plan.policy,
                resident_bytes=wished_again(plan),
                experts_used=plan.experts_used,  # what changes answers is nothing to try
            )
            try:
                divided = make_plan(self._own_facts, self._machine, wishes)
            except AppError:  # the planner has no such plan
                return None
            plan = msgspec.structs.replace(divided, threads=plan.threads, threads_batch=plan.threads_batch)
        policy = msgspec.structs.replace(
            plan.policy,
            kind=choice.policy or plan.policy.kind,
            stream=choice.stream or plan.policy.stream,
            lock_bytes=plan.policy.lock_bytes if choice.lock_bytes is None else choice.lock_bytes,
        )
        if choice.lock_bytes and DISK_LANE in plan.expert_lanes.values():
            return None  # what is read from disk needs all the memory that the system can give it
        n_ubatch = choice.n_ubatch or plan.n_ubatch
        plan = msgspec.structs.replace(
            plan,
            threads=choice.threads or plan.threads,
            threads_batch=choice.threads or plan.threads_batch,
            cpu_cores=plan.cpu_cores if choice.cpu_cores is None else choice.cpu_cores,
            n_ubatch=n_ubatch,
            n_batch=max(plan.n_batch, n_ubatch),
            residency=choice.residency or plan.residency,
            policy=policy,
            speed=None,
        )
        plan = msgspec.structs.replace(plan, memory=predict(self._facts, self._machine, plan))
        return None if fits(plan, self._budget) and not fits(self._base, self._budget) else plan


def _loading(plan: Plan) -> Plan:
    """What of a plan the engine acts on."""
    return msgspec.structs.replace(plan, memory=(), steps=(), speed=None, goal="speed")


def _words(choice: Choice, plan: Plan) -> str:
    parts: dict[str, Callable[[], str]] = {
        "threads": lambda: "1 thread" if choice.threads == 1 else f"{choice.threads} threads",
        "cpu_cores": lambda: "on the performance cores",
        "n_ubatch": lambda: f"micro-batches of {choice.n_ubatch}",
        "kv_type": lambda: f"{choice.kv_type} KV cache",
        "n_ctx": lambda: f"context {choice.n_ctx:,}",
        "pool_bytes": lambda: f"pool {format_bytes(plan.pool_bytes)}" if plan.pool_bytes else "no pool",
        "policy": lambda: f"policy {choice.policy}",
        "stream": lambda: f"stream {choice.stream}",
        "lock_bytes": lambda: (
            f"{format_bytes(choice.lock_bytes)} page-locked for copies" if choice.lock_bytes else "nothing page-locked"
        ),
        "residency": lambda: f"experts {choice.residency}",
    }
    return ", ".join(words() for name, words in parts.items() if name in choice.changes)
