"""The plan: every load-time choice, with the memory it is predicted to take and why it was chosen."""

import msgspec

CPU_LANE = "CPU"
DISK_LANE = "disk"
KV_TYPES = ("f16", "q8_0", "q4_0")


class MemoryPart(msgspec.Struct, frozen=True, kw_only=True):
    """A predicted share of one device's memory.

    Attributes:
        device: A GPU's engine name, or "CPU" for main memory.
        part: weights | experts | kv | compute | context | pool | margin.
        bytes: Predicted bytes.
    """

    device: str
    part: str
    bytes: int


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A degradation the planner took, by name and with its reason in a sentence."""

    name: str
    reason: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is loaded.

    Attributes:
        model_files: Shards, in order; the first is what llama.cpp opens.
        gpu: Engine name of the GPU for attention, KV cache and output; None for the CPU.
        expert_lanes: MoE layer index to lane: a GPU's engine name, "CPU", or "disk" (read through
            the file mapping; not expected to stay in RAM). A plan moves whole layers; single
            experts move at run time.
        n_ctx: Context length in tokens.
        kv_type: Cache type of K and V, one of KV_TYPES.
        n_batch: Most tokens submitted at once. n_ubatch: most tokens computed at once.
        threads: Threads for decoding. threads_batch: threads for prompts.
        pool_bytes: Requested bytes of the expert pool per GPU; 0 for none.
        memory: Predicted memory by device and part. These are predictions, never measurements.
        steps: Degradations taken, in order; empty for the plan of first choice.
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
    pool_bytes: int = 0
    memory: tuple[MemoryPart, ...] = ()
    steps: tuple[Step, ...] = ()

    @property
    def gpus(self) -> tuple[str, ...]:
        """Every GPU the plan uses, the attention's first."""
        used = [self.gpu] if self.gpu else []
        for lane in self.expert_lanes.values():
            if lane not in (CPU_LANE, DISK_LANE) and lane not in used:
                used.append(lane)
        return tuple(used)

    def bytes_on(self, device: str) -> int:
        """Predicted bytes on `device` over all parts."""
        return sum(part.bytes for part in self.memory if part.device == device)
