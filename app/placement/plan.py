"""The plan: every load-time choice, with the memory it is predicted to take and why it was chosen."""

import msgspec

from app.placement.speed.types import SpeedPrediction

CPU_LANE = "CPU"
DISK_LANE = "disk"
KV_TYPES = ("f16", "q8_0", "q4_0")
RESIDENCIES = ("repacked", "mapped")
POLICIES = ("lru", "decay", "frozen", "manual")
PINS = ("auto", "gpu", "cpu")
STREAMS = ("off", "auto", "always")
BASES = ("estimated", "tables", "set", "dry run", "learnt")
"""What a predicted size comes from: an estimate, the model's tables, a choice of the plan's, llama.cpp's own dry run
of the plan, or what loads before showed."""
GOALS = ("speed", "context", "quiet")


class MemoryPart(msgspec.Struct, frozen=True, kw_only=True):
    """A predicted share of one device's memory.

    Attributes:
        device: A GPU's engine name, or "CPU" for main memory.
        part: weights | experts | kv | compute | context | pool | staging | margin.
        bytes: Predicted bytes.
        basis: One of BASES.
    """

    device: str
    part: str
    bytes: int
    basis: str = "estimated"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A degradation the planner took, by name and with its reason in a sentence.

    Attributes:
        chosen_bytes: The amount that was chosen with it, and may be chosen anew; None where there is none.
    """

    name: str
    reason: str
    chosen_bytes: int | None = None


class CachePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What the expert cache decides by, between tokens.

    Attributes:
        kind: One of POLICIES. "lru" replaces the least recently used expert of a layer, "decay" the one of
            least heat, "frozen" fills the pool once by saved heat, "manual" holds pinned experts only.
        insert_cap: Most experts copied into the pool for one layer and token.
        window: lru: an expert is admitted when it was routed to before within so many tokens; 0 admits at once.
        decay: Factor on every heat for each decoded token, above 0 to 1.
        margin: decay: a candidate's heat must exceed the coldest resident's by this factor, from 1.
        threshold: Least routing weight of an admitted expert; 0 admits all.
        stream: One of STREAMS: whether missing experts may be copied over and computed on the GPU.
        lock_bytes: Most bytes of main memory that are page-locked, from the pool's next size on, where the GPU then
            copies faster; 0 for none. Much of it can be refused, or slow the machine down.
    """

    kind: str = "lru"
    insert_cap: int = 2
    window: int = 64
    decay: float = 0.98
    margin: float = 1.1
    threshold: float = 0.0
    stream: str = "auto"
    lock_bytes: int = 0


class ExpertPin(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The user's order for one expert: `pin` is one of PINS."""

    layer: int
    expert: int
    pin: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is loaded.

    Attributes:
        model_files: Shards, in order; the first is what llama.cpp opens.
        gpu: Engine name of the GPU for attention, KV cache and output; None for the CPU.
        expert_lanes: MoE layer index to lane: a GPU's engine name, "CPU", or "disk" where main memory has no room for
            so many layers: what was used last then stays there, of all that are off the GPUs (`memory_share`). A plan
            moves whole layers; single experts move at run time.
        n_ctx: Context length in tokens.
        kv_type: Cache type of K and V, one of KV_TYPES.
        n_batch: Most tokens submitted at once. n_ubatch: most tokens computed at once.
        threads: Threads for decoding. threads_batch: threads for prompts.
        cpu_cores: Logical processors the engine may compute on, by the system's numbers; empty for the system's
            choice.
        n_seq_max: Conversations that can be decoded together; they share the context's cells.
        pool_bytes: Requested bytes of the expert pool on the attention's GPU; 0 for none.
        pool_device: Engine name of the device that holds the pool; None for the attention's GPU.
        staging_bytes: Bytes there for experts that are copied over for one batch only; 0 for none.
        residency: One of RESIDENCIES: whether CPU-lane experts are copied into the CPU's faster layout, as
            stock llama.cpp does, or stay in the file mapping.
        resident_bytes: Most bytes of experts in the file mapping that are kept in main memory; None: what fits after
            the load; 0: the system decides.
        policy: How the pool is filled. pins: experts that the user placed; the rest is automatic.
        experts_used: Experts that compute each token; None for the model's own number. Another one changes answers.
        memory: Predicted memory by device and part. These are predictions, never measurements.
        steps: Degradations taken, in order; empty for the plan of first choice.
        goal: What it was made to be best at, one of GOALS.
        speed: Its predicted speed; None where nobody asked for it.
        tuned: In words, when tuning found it and what it gained by measurement; empty for a plan of the planner.
    """

    model_files: tuple[str, ...]
    gpu: str | None
    expert_lanes: dict[int, str]
    n_ctx: int
    kv_type: str = "f16"
    n_batch: int = 512
    n_ubatch: int = 512
    threads: int = 1
    threads_batch: int = 1
    cpu_cores: tuple[int, ...] = ()
    n_seq_max: int = 1
    pool_bytes: int = 0
    pool_device: str | None = None
    staging_bytes: int = 0
    residency: str = "mapped"
    resident_bytes: int | None = None
    policy: CachePolicy = CachePolicy()
    pins: tuple[ExpertPin, ...] = ()
    experts_used: int | None = None
    memory: tuple[MemoryPart, ...] = ()
    steps: tuple[Step, ...] = ()
    goal: str = "speed"
    speed: SpeedPrediction | None = None
    tuned: str = ""

    @property
    def gpus(self) -> tuple[str, ...]:
        """Every GPU the plan uses, the attention's first."""
        used = [self.gpu] if self.gpu else []
        for lane in self.expert_lanes.values():
            if lane not in (CPU_LANE, DISK_LANE) and lane not in used:
                used.append(lane)
        return tuple(used)

    @property
    def pool_on(self) -> str | None:
        """The device that holds the pool, None without one."""
        return (self.pool_device or self.gpu) if self.pool_bytes or self.staging_bytes else None

    @property
    def dry_run(self) -> bool:
        """Whether llama.cpp laid this very plan out: its compute buffers are no estimate then."""
        return any(part.basis == "dry run" for part in self.memory)

    def loads_like(self, other: "Plan") -> bool:
        """Whether a load of both is the same: what they predict and the reasons they give are left aside."""
        return _choices_of(self) == _choices_of(other)

    def bytes_on(self, device: str) -> int:
        """Predicted bytes on `device` over all parts."""
        return sum(part.bytes for part in self.memory if part.device == device)


def _choices_of(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, memory=(), steps=(), speed=None, tuned="")
