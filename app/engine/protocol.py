"""The typed, versioned messages between the application and its engine child: one JSON object a line.

Requests flow to the child's standard input, events come from its standard output. Pure data:
imports no llama.cpp and no Qt, so both sides and every test can use it.
"""

import msgspec

from app.hardware.facts import EngineBuild, Gpu
from app.placement.cache.facts import BatchFacts, CacheReport, CacheTotals, LayerExperts, MemoryFacts, PoolFacts
from app.placement.plan import CachePolicy, ExpertPin, Plan
from app.placement.report import BufferReport, ObservedMemory
from app.placement.speed.calibration import Calibration

PROTOCOL_VERSION = 3
MAX_LINE_BYTES = 64 * 1024 * 1024


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A chat message: role is system, user or assistant."""

    role: str
    content: str


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """How the next token is chosen; temperature 0 is greedy and ignores the rest."""

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    seed: int | None = None


# ---- requests: application -> engine ---------------------------------------------------------


class Request(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Anything the application asks; `id` is chosen by it and echoed in every answer."""

    id: int


class ListDevices(Request, frozen=True, kw_only=True, tag="list_devices"):
    """Ask for the devices and the build; answered by `Devices`."""


class Load(Request, frozen=True, kw_only=True, tag="load"):
    """Load a model as the plan says, replacing any loaded one; answered by `LoadProgress`*, `Loaded`."""

    plan: Plan


class Unload(Request, frozen=True, kw_only=True, tag="unload"):
    """Free the model; answered by `Unloaded`."""


class Generate(Request, frozen=True, kw_only=True, tag="generate"):
    """Answer a conversation; answered by `PromptProgress`*, `Token`*, `Finished`."""

    messages: tuple[Message, ...]
    max_tokens: int = 2048
    sampling: Sampling = Sampling()


class Cancel(Request, frozen=True, kw_only=True, tag="cancel"):
    """Stop the load or generation whose id is `target`, queued or running; no answer of its own."""

    target: int


class ReadRouting(Request, frozen=True, kw_only=True, tag="read_routing"):
    """Ask how often each expert was routed to; answered at once by `Routing`, also while generating."""


class SetPool(Request, frozen=True, kw_only=True, tag="set_pool"):
    """Resize or (0) release the expert pool of the loaded model; answered by `CacheFacts`, also while generating."""

    pool_bytes: int
    staging_bytes: int = 0


class SetPins(Request, frozen=True, kw_only=True, tag="set_pins"):
    """Pin or unpin experts; answered by `CacheFacts` at once, also while generating."""

    pins: tuple[ExpertPin, ...]


class SetPolicy(Request, frozen=True, kw_only=True, tag="set_policy"):
    """Change how the pool is filled; answered by `CacheFacts` at once, also while generating."""

    policy: CachePolicy


class ReadCache(Request, frozen=True, kw_only=True, tag="read_cache"):
    """Ask for the expert cache's facts; answered by `CacheFacts` at once, cheap enough for 20 Hz.

    `since` is the `next_batch` of the answer before: only newer batches are told of.
    """

    experts: bool = True
    since: int = 0


class SetTrace(Request, frozen=True, kw_only=True, tag="set_trace"):
    """Record decoded routings into `path` from now on; "" ends it. Answered by `TraceState`."""

    path: str


class DryRun(Request, frozen=True, kw_only=True, tag="dry_run"):
    """Let llama.cpp lay out what the plan says without loading it; answered by `DryRan`.

    A loaded model stays loaded.
    """

    plan: Plan


class Calibrate(Request, frozen=True, kw_only=True, tag="calibrate"):
    """Measure what this machine does; answered by `CalibrateProgress`*, `Calibrated`. Frees a loaded model.

    Attributes:
        types: ggml's names of the weight types to measure ("q4_K").
        threads: Thread counts of the CPU to measure.
        devices: Engine names of the GPUs to measure.
        disk_folder: A folder on the disk to read from; "" for none.
        seconds: About how long it may take.
        machine: Fingerprint of the machine, for the result.
    """

    types: tuple[str, ...]
    threads: tuple[int, ...]
    devices: tuple[str, ...]
    disk_folder: str = ""
    seconds: float = 25.0
    machine: str = ""


class Measure(Request, frozen=True, kw_only=True, tag="measure"):
    """Compute prompts and decode after them, timed; answered by `MeasureProgress`*, `Measured`.

    Nothing is drawn at random and no end of text stops it: the likeliest token follows. What an answer left in the
    context is forgotten.

    Attributes:
        prompts: One for each sequence; decoded together. As plain text, at most `n_seq_max` of the plan.
        decode_tokens: Tokens decoded after each.
        go_on: Keep what the measurement before left in the context, and go on after it.
    """

    prompts: tuple[str, ...]
    decode_tokens: int
    go_on: bool = False


AnyRequest = (
    ListDevices
    | Load
    | Unload
    | Generate
    | Cancel
    | ReadRouting
    | SetPool
    | SetPins
    | SetPolicy
    | ReadCache
    | SetTrace
    | DryRun
    | Calibrate
    | Measure
)


# ---- events: engine -> application -----------------------------------------------------------


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
    `memory` is None where no experts lie in a mapped file.
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
    """What llama.cpp would allocate for a plan, and how long it took to find out."""

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

_encoder = msgspec.json.Encoder()
_request_decoder = msgspec.json.Decoder(AnyRequest)
_event_decoder = msgspec.json.Decoder(AnyEvent)


def encode(message: Request | Event) -> bytes:
    """One line, newline included."""
    return _encoder.encode(message) + b"\n"


def decode_request(line: bytes) -> AnyRequest:
    """Parse one request line.

    Raises:
        msgspec.MsgspecError: the line is not a request of this protocol version.
    """
    return _request_decoder.decode(line)


def decode_event(line: bytes) -> AnyEvent:
    """Parse one event line.

    Raises:
        msgspec.MsgspecError: the line is not an event of this protocol version.
    """
    return _event_decoder.decode(line)
