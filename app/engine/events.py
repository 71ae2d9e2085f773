"""What the engine child tells the application: progress, answers, measurements, facts and failures.

Pure data, written and read by `protocol`: imports no llama.cpp and no Qt. Every figure in it is measured, but for the
buffers of a dry run.
"""

import msgspec

from app.hardware.facts import EngineBuild, Gpu
from app.placement.cache.facts import BatchFacts, CacheReport, CacheTotals, LayerExperts, MemoryFacts, PoolFacts
from app.placement.plan import CachePolicy
from app.placement.report import BufferReport, ObservedMemory
from app.placement.speed.calibration import Calibration


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Anything the engine says; `id` is the request's, 0 for none."""

    id: int = 0


class Ready(Event, frozen=True, kw_only=True, tag="ready"):
    """The child is up; the first line it writes.

    `output_log` is the file that gets what C code prints, such as the reason of an abort; empty for none.
    """

    protocol: int
    pid: int
    output_log: str = ""


class Devices(Event, frozen=True, kw_only=True, tag="devices"):
    """What the engine can compute on, besides the CPU."""

    gpus: tuple[Gpu, ...]
    build: EngineBuild


class LoadProgress(Event, frozen=True, kw_only=True, tag="load_progress"):
    """Fraction of the weights read, 0 to 1."""

    fraction: float


class Loaded(Event, frozen=True, kw_only=True, tag="loaded"):
    """The model answers now.

    Attributes:
        seconds: Measured time of the load.
        buffers: What llama.cpp reports to have allocated.
        expert_layers: MoE layer index to the lane its expert tensors are really in, as observed.
        differences: One sentence for each point where what was loaded is not what the plan said.
        expert_device: True where the native device counts routings for the CPU-lane layers.
        reason: Why `expert_device` is false, else empty.
        observed: What system and driver show of the engine after the load; devices they show nothing of are left out.
    """

    seconds: float
    n_ctx: int
    buffers: tuple[BufferReport, ...]
    expert_layers: dict[int, str]
    differences: tuple[str, ...]
    expert_device: bool
    reason: str = ""
    observed: tuple[ObservedMemory, ...] = ()


class Unloaded(Event, frozen=True, kw_only=True, tag="unloaded"):
    """No model is loaded any more."""


class PromptProgress(Event, frozen=True, kw_only=True, tag="prompt_progress"):
    """Prompt tokens computed so far, of `total`; `reused` of them were in the cache already."""

    done: int
    total: int
    reused: int


class Token(Event, frozen=True, kw_only=True, tag="token"):
    """More text of the answer: whole characters only; `count` tokens generated so far."""

    text: str
    count: int


class Finished(Event, frozen=True, kw_only=True, tag="finished"):
    """The answer is complete, cut or stopped; all figures are measured.

    Attributes:
        text: The whole answer.
        stop_reason: end_of_text | max_tokens | stopped | context_full.
        ttft_seconds: From dequeuing the request to the first token.
        prompt_tokens_per_second: Over the tokens really computed (not the reused ones); 0 if none.
        tokens_per_second: Over what was decoded after the first token; 0 when nothing was.
    """

    text: str
    stop_reason: str
    prompt_tokens: int
    reused_tokens: int
    completion_tokens: int
    ttft_seconds: float
    prompt_tokens_per_second: float
    tokens_per_second: float
    cache: CacheReport


class Routing(Event, frozen=True, kw_only=True, tag="routing"):
    """Routings since the load: MoE layer index to counts per expert; decoding and prompts apart.

    Layers the native device does not see (experts on a GPU lane) are absent.
    """

    decode: dict[int, tuple[int, ...]]
    prompt: dict[int, tuple[int, ...]]


class CacheFacts(Event, frozen=True, kw_only=True, tag="cache_facts"):
    """What the expert cache is and does; all measured.

    `layers` is empty where the request did not ask for experts; `next_batch` goes into the next `ReadCache`.
    `memory` is None where no experts lie in a mapped file, and where the system decides which of them stay.
    """

    pool: PoolFacts | None
    policy: CachePolicy
    decode: CacheTotals
    prompt: CacheTotals
    batches: tuple[BatchFacts, ...]
    next_batch: int
    layers: dict[int, LayerExperts]
    memory: MemoryFacts | None = None


class TraceState(Event, frozen=True, kw_only=True, tag="trace_state"):
    """Whether routings are recorded; the entries written and lost so far."""

    path: str
    entries: int
    dropped: int


class DryRan(Event, frozen=True, kw_only=True, tag="dry_ran"):
    """What llama.cpp would allocate for a plan, as it laid it out, and the measured time that took."""

    buffers: tuple[BufferReport, ...]
    seconds: float


class CalibrateProgress(Event, frozen=True, kw_only=True, tag="calibrate_progress"):
    """Fraction done, 0 to 1, and what is measured now, in words."""

    fraction: float
    what: str


class Calibrated(Event, frozen=True, kw_only=True, tag="calibrated"):
    """What this machine was measured to do."""

    calibration: Calibration


class MeasureProgress(Event, frozen=True, kw_only=True, tag="measure_progress"):
    """Tokens computed so far, of `total`."""

    done: int
    total: int


class Measured(Event, frozen=True, kw_only=True, tag="measured"):
    """One measurement; all sums are over its sequences.

    Attributes:
        prompt_tokens: Tokens of the prompts. prompt_seconds: time they took.
        step_seconds: Time of each decoding step, in order; a step decodes one token of every sequence.
        sequences: Sequences decoded together.
        context_tokens: Cells in use at the end.
        prompt_cache, decode_cache: What the expert cache did meanwhile; None where it takes no part.
        peak_bytes: Most main memory that the engine's process had in RAM since it was started.
        text: What the first sequence decoded, for comparing two engines.
    """

    prompt_tokens: int
    prompt_seconds: float
    step_seconds: tuple[float, ...]
    sequences: int
    context_tokens: int
    prompt_cache: CacheTotals | None
    decode_cache: CacheTotals | None
    peak_bytes: int
    text: str


class Failed(Event, frozen=True, kw_only=True, tag="failed"):
    """A request failed; `code` is an `app.errors.ErrorCode`. The child lives on."""

    code: str
    message: str
    detail: str = ""


class LogLine(Event, frozen=True, kw_only=True, tag="log"):
    """A warning or error of the engine, for the user to see; id is always 0."""

    level: str
    text: str


AnyEvent = (
    Ready
    | Devices
    | LoadProgress
    | Loaded
    | Unloaded
    | PromptProgress
    | Token
    | Finished
    | Routing
    | CacheFacts
    | TraceState
    | DryRan
    | CalibrateProgress
    | Calibrated
    | MeasureProgress
    | Measured
    | Failed
    | LogLine
)
