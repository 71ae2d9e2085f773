"""What the tuner asks for and what it is told: choices, trials, outcomes and its result, as plain data."""

import msgspec

from app.placement.plan import Plan
from app.placement.scenarios.figure import Figure
from app.placement.wishes import NO_WISHES, Wishes

TUNED_VERSION = 1


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What is changed of the plan that tuning starts from; None keeps what it has.

    Attributes:
        threads: For decoding and prompts.
        cpu_cores: As the plan's.
        n_ubatch: Most tokens computed at once.
        kv_type, n_ctx, residency, policy, stream: As the plan's and its policy's.
        pool_bytes: Wished size of the pool; the planner divides what is left of the GPU.
        lock_bytes: As the policy's.
    """

    threads: int | None = None
    cpu_cores: tuple[int, ...] | None = None
    n_ubatch: int | None = None
    kv_type: str | None = None
    n_ctx: int | None = None
    pool_bytes: int | None = None
    policy: str | None = None
    stream: str | None = None
    lock_bytes: int | None = None
    residency: str | None = None

    @property
    def changes(self) -> frozenset[str]:
        """Names of the fields that change something."""
        return frozenset(name for name in self.__struct_fields__ if getattr(self, name) is not None)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A plan to measure, and in words what it changes ("4 threads, q8_0 KV cache"); no words for the first plan."""

    choice: Choice
    words: str
    plan: Plan


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """How long a measurement is, in tokens."""

    prompt_tokens: int
    decode_tokens: int

    @property
    def tokens(self) -> int:
        """All of them."""
        return self.prompt_tokens + self.decode_tokens


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a measurement gave.

    Attributes:
        decode, prompt: Tokens a second; decoding in its steady state.
        load_seconds: What it took whatever its length: loading and warming up.
        failure: Why there are no figures, in a sentence; empty where there are. Running out of memory is one.
    """

    decode: float = 0.0
    prompt: float = 0.0
    load_seconds: float = 0.0
    failure: str = ""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A measurement that the tuner wants next.

    Attributes:
        stage: "search" or "comparison".
        number: From 1.
        remaining_seconds: About how long all that is left takes, this one included; None before anything is known.
    """

    candidate: Candidate
    budget: Budget
    stage: str
    number: int
    remaining_seconds: float | None


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one candidate over all its measurements.

    Attributes:
        words: What it changes; empty for the first plan.
        decode, prompt: Tokens a second; None where all measurements failed.
        failure: Why the last one gave no figures; empty where it did.
        decode_change, prompt_change: By how much it differed from the first plan, as shares, when both were measured
            one after the other last; None where they were not.
    """

    words: str
    decode: Figure | None
    prompt: Figure | None
    failure: str = ""
    decode_change: float | None = None
    prompt_change: float | None = None


class TuneResult(msgspec.Struct, frozen=True, kw_only=True):
    """What tuning came to.

    Attributes:
        kept: Whether `best` beats the first plan by more than noise. A plan that was found and not confirmed,
            because tuning was cancelled or time ran out, is in `best` too.
        reason: In a sentence, with the figures.
        best: The best plan found; the first one where nothing was better. words: what it changes.
        before, after: The first plan and the best one in the final comparison, else in the search; None where a
            plan was never measured.
        tried: All candidates, the first plan first.
        cancelled: It was ended by the user.
        seconds: How long it took.
    """

    kept: bool
    reason: str
    best: Plan
    words: str
    before: Tried | None
    after: Tried | None
    tried: tuple[Tried, ...]
    cancelled: bool
    seconds: float


class TunedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that beat the planner's by more than noise, as it is kept.

    Attributes:
        model: `ModelFacts.fingerprint`. machine: its fingerprint. engine: its name.
        plan: The plan. words: what it changes.
        before, after: What the planner's plan and this one were measured to do, taking turns.
        tuned_at: ISO 8601, UTC.
        wishes: What both plans were made to keep to.
    """

    version: int = TUNED_VERSION
    model: str
    machine: str
    engine: str
    plan: Plan
    words: str
    before: Tried | None
    after: Tried | None
    tuned_at: str
    wishes: Wishes = NO_WISHES
