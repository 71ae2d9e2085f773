"""What the application asks of its engine child: the requests, with the messages and settings that they carry.

Pure data, written and read by `protocol`: imports no llama.cpp and no Qt.
"""

import msgspec

from app.placement.plan import CachePolicy, ExpertPin, Plan


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


class SetMemory(Request, frozen=True, kw_only=True, tag="set_memory"):
    """Say how much main memory the experts of a mapped file may take; answered by `CacheFacts`, also while generating.

    Attributes:
        budget_bytes: Most bytes of those experts that are kept in main memory; None is what fits now, as a load
            chooses it; 0 leaves it to the system. More than all experts is all of them; more than is available now
            is refused.
    """

    budget_bytes: int | None


class WarmMemory(Request, frozen=True, kw_only=True, tag="warm_memory"):
    """Read the hottest experts into main memory, in the background; answered by `CacheFacts`, also while generating."""


class ReleaseMemory(Request, frozen=True, kw_only=True, tag="release_memory"):
    """Give up the experts' main memory: they are read again when needed. Answered by `CacheFacts` as the others."""


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


ShortOrder = SetPins | SetPolicy | ReadCache
"""Orders to the expert cache that take no time."""
LongOrder = SetPool | SetTrace | SetMemory | WarmMemory | ReleaseMemory
"""Those that may take a moment, and do not wait for an answer's end."""

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
    | SetMemory
    | WarmMemory
    | ReleaseMemory
    | ReadCache
    | SetTrace
    | DryRun
    | Calibrate
    | Measure
)
