"""What is compared and what is measured of it: the words that the benchmark's two sides share."""

from dataclasses import asdict, dataclass
from typing import Any

N_CTX = 1024
N_UBATCH = 512  # llama.cpp's default; the largest prompt batch measured


@dataclass(frozen=True)
class Variant:
    """One way to run the model: a process of its own.

    Attributes:
        name: Unique in a comparison; the results' and the baselines' key.
        model: The GGUF file.
        layers: Layers of the model.
        threads: CPU threads for decoding and prompts.
        ours: The expert device is registered; else stock llama.cpp as its defaults make it.
        residency: Ours: "repacked" or "mapped".
        gpu: Device of attention, KV cache and output; None for everything on the CPU.
        gpu_expert_layers: Stock: the first so many layers' experts are on the GPU too.
        pool_device: Ours: device of the pool, None for no pool.
        pool_percent: Experts that the pool has room for, of all.
        staging_bytes: Ours: most bytes of the staging area for streamed experts.
        lock_bytes: Ours: most bytes of main memory that are page-locked for copies.
    """

    name: str
    model: str
    layers: int
    threads: int
    ours: bool = False
    residency: str = "repacked"
    gpu: str | None = None
    gpu_expert_layers: int = 0
    pool_device: str | None = None
    pool_percent: int = 0
    staging_bytes: int = 0
    lock_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        """As keyword arguments for another process."""
        return asdict(self)


@dataclass(frozen=True)
class Amounts:
    """How much of each is measured.

    Attributes:
        rounds: Times that every variant has its turn.
        decode_tokens: Tokens decoded one by one, in a round.
        warm_up_tokens: Tokens decoded before them, not measured.
        fill_tokens: Tokens decoded to fill a pool before its first round, not measured.
        prompt_batches: Sizes of prompt batches.
        prompt_tokens: Tokens of prompts for each size, in a round; one batch at least.
    """

    rounds: int
    decode_tokens: int
    warm_up_tokens: int
    fill_tokens: int
    prompt_batches: tuple[int, ...]
    prompt_tokens: int


@dataclass(frozen=True)
class Sample:
    """One measurement.

    Attributes:
        variant: Its name.
        round: From 0.
        phase: "decode" or "prompt".
        batch: Tokens computed at once; 1 for decode.
        tokens: Computed in `seconds`.
        totals: What the device counted meanwhile (fields of `expert_device_totals`); None for stock.
        simulated_hit_rate: Of a plain per-layer LRU of the pool's size over the same tokens; None without a pool.
    """

    variant: str
    round: int
    phase: str
    batch: int
    tokens: int
    seconds: float
    totals: dict[str, int] | None
    simulated_hit_rate: float | None = None

    @property
    def tokens_per_second(self) -> float:
        """The speed."""
        return self.tokens / self.seconds
