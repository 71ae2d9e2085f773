"""The typed, versioned messages between the application and its engine child: one JSON object a line.

Requests flow to the child's standard input, events come from its standard output. Pure data:
imports no llama.cpp and no Qt, so both sides and every test can use it.
"""

import msgspec

from app.hardware.facts import EngineBuild, Gpu
from app.placement.plan import CachePolicy, ExpertPin, Plan
from app.placement.report import BufferReport

PROTOCOL_VERSION = 2
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


AnyRequest = (
    ListDevices | Load | Unload | Generate | Cancel | ReadRouting | SetPool | SetPins | SetPolicy | ReadCache | SetTrace
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
    """

    seconds: float
    n_ctx: int
    buffers: tuple[BufferReport, ...]
    expert_layers: dict[int, str]
    differences: tuple[str, ...]
    expert_device: bool
    reason: str = ""


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


class PoolFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The pool on one device.

    Attributes:
        device: Engine name.
        requested_bytes, allocated_bytes: What the plan or the user asked for, and what the device gave for slots.
        staging_bytes: What the device gave for experts that are copied over for one batch.
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


class CacheTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums since the load over one phase (decoding or prompts); times in seconds.

    `hits` and `misses` count routed (token, expert) pairs; `streamed` of the misses were copied over.
    `seconds` is the time in expert layers; of it `cpu_seconds` in the CPU's products, `gpu_seconds` from launch
    to the GPU's end (overlaps the CPU's) and `wait_seconds` waiting for it with the CPU idle.
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


class LayerExperts(msgspec.Struct, frozen=True, kw_only=True):
    """The experts of one MoE layer that the expert device computes, by index.

    Attributes:
        routed: Times each was routed to while decoding, since the load.
        heat: Decayed count of the same.
        lanes: One letter each: g (in the pool), c (CPU), m (being copied to the pool).
        pins: One letter each: a (automatic), g (GPU), c (CPU).
        slots: Slots of the layer's pool.
    """

    routed: tuple[int, ...]
    heat: tuple[float, ...]
    lanes: str
    pins: str
    slots: int


class CacheFacts(Event, frozen=True, kw_only=True, tag="cache_facts"):
    """What the expert cache is and does; all measured.

    `layers` is empty where the request did not ask for experts; `next_batch` goes into the next `ReadCache`.
    """

    pool: PoolFacts | None
    policy: CachePolicy
    decode: CacheTotals
    prompt: CacheTotals
    batches: tuple[BatchFacts, ...]
    next_batch: int
    layers: dict[int, LayerExperts]


class TraceState(Event, frozen=True, kw_only=True, tag="trace_state"):
    """Whether routings are recorded; the entries written and lost so far."""

    path: str
    entries: int
    dropped: int


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
