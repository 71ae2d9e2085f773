"""What the expert cache is and did, as plain data; all of it measured."""

import msgspec


class CacheReport(msgspec.Struct, frozen=True, kw_only=True):
    """The expert cache during one answer: requested, allocated and used are three separate facts.

    `hits` and `misses` count routed experts of the answer's decoding: computed from the pool, and not in it.
    `misses` is None where nobody counts them. `streamed` of the misses were copied over and computed on the GPU.
    `reason` says why `used` is false, or what keeps the pool from helping.
    """

    requested_bytes: int
    allocated_bytes: int
    used: bool
    reason: str
    hits: int
    misses: int | None
    streamed: int = 0
    copied_bytes: int = 0


class PoolFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The pool on one device.

    Attributes:
        device: Engine name.
        requested_bytes, allocated_bytes: What the plan or the user asked for, and what the device gave for slots.
        staging_bytes: What the device gave for experts that are copied over for one batch.
        working_bytes: What it gave to compute experts in.
        locked_bytes: Main memory that is page-locked for copies to it.
        slots: Experts it has room for, over all layers. resident: how many it holds now.
        unplaced_pins: Experts pinned to the GPU that there is no slot for.
        used: True while it computes hits. reason: why not, or what keeps it from helping; else empty.
    """

    device: str
    requested_bytes: int
    allocated_bytes: int
    staging_bytes: int
    slots: int
    resident: int
    unplaced_pins: int
    used: bool
    reason: str
    working_bytes: int = 0
    locked_bytes: int = 0


class CacheTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums since the load over one phase (decoding or prompts); times in seconds.

    `hits` and `misses` count routed (token, expert) pairs; `streamed` of the misses were copied over.
    `seconds` is the time in expert layers; of it `cpu_seconds` in the CPU's products, `gpu_seconds` from launch
    to the GPU's end (overlaps the CPU's) and `wait_seconds` waiting for it with the CPU idle.
    `cold_experts` were in no memory, once for each layer and batch: for them `cold_reads` ranges of the file, in all
    `cold_bytes`, were asked for, and `stall_seconds` of `seconds` were spent waiting with nothing else to compute.
    """

    tokens: int
    hits: int
    misses: int
    streamed: int
    inserts: int
    evictions: int
    copied_bytes: int
    layers: int
    seconds: float
    cpu_seconds: float
    gpu_seconds: float
    wait_seconds: float
    cold_experts: int = 0
    cold_reads: int = 0
    cold_bytes: int = 0
    stall_seconds: float = 0.0


class BatchFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One computed batch (one token while decoding); counts and times as in `CacheTotals`."""

    index: int
    tokens: int
    prompt: bool
    hits: int
    misses: int
    streamed: int
    copied_bytes: int
    seconds: float
    cpu_seconds: float
    gpu_seconds: float
    wait_seconds: float
    cold_experts: int = 0
    cold_reads: int = 0
    cold_bytes: int = 0
    stall_seconds: float = 0.0


class MemoryFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Main memory of experts that lie in a mapped file.

    Attributes:
        budget_bytes: At most so much stays in memory. trusted_bytes: what of it is used: less where the system took
            pages back before the budget was reached.
        resident_bytes: In memory now, or asked for. total_bytes: of all those experts.
        evictions: Experts that were given up since the load.
        stale: Experts that were missing though they were not given up: memory is shorter than the budget says.
        reads: Whether experts may have to be read; False while all are in memory.
        locked_bytes: The hottest of them, which the system may not take.
        reason: Why no more is locked, in words; else empty.
    """

    budget_bytes: int
    trusted_bytes: int
    resident_bytes: int
    total_bytes: int
    evictions: int
    stale: int
    reads: bool
    locked_bytes: int = 0
    reason: str = ""


IN_POOL = "g"
"""The letter of `LayerExperts.lanes` for an expert in the pool."""
IN_MEMORY, ON_DISK = "r", "d"
"""The letters of `LayerExperts.memory`."""


class LayerExperts(msgspec.Struct, frozen=True, kw_only=True):
    """The experts of one MoE layer that the expert device computes, by index.

    Attributes:
        routed: Times each was routed to while decoding, since the load.
        heat: Decayed count of the same.
        lanes: One letter each: g (in the pool), c (CPU), m (being copied to the pool).
        pins: One letter each: a (automatic), g (GPU), c (CPU).
        slots: Slots of the layer's pool.
        memory: One letter each: r (in main memory), d (on the disk only). Empty where the system decides.
    """

    routed: tuple[int, ...]
    heat: tuple[float, ...]
    lanes: str
    pins: str
    slots: int
    memory: str = ""
