"""What a plan concedes so that attention and KV cache fit: where attention is, how long the context, which cache."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.kv_cache import CONTEXT_BLOCK, full_cells, usable_kv_types
from app.placement.memory import Shortfall, fits, predict
from app.placement.plan import CPU_LANE, DISK_LANE, KV_TYPES, Plan, Step
from app.placement.wishes import Wishes, longest_context

# Names of the steps a plan may tell of.
STEP_CONTEXT = "smaller context"
STEP_KV = {"q8_0": "q8_0 KV cache", "q4_0": "q4_0 KV cache"}
STEP_CPU_ONLY = "cpu only"
STEP_ROUNDED = "rounded context"

_DEFAULT_CONTEXT = 8192
_LEAST_CONTEXT = 2048
"""Tokens: a conversation of some turns."""
_LEAST_CONTEXT_AT_ALL = 512
"""Tokens: a question and its answer; taken only where nothing larger fits in any way."""
_BATCH = 512


class Choice(NamedTuple):
    """What a plan may concede: where attention is computed, and how large the KV cache is."""

    gpu: str | None
    n_ctx: int
    kv_type: str


Rejected = dict[Choice, tuple[Shortfall, ...]]


class Decision(NamedTuple):
    """A choice, the one without concessions, and why it and others were rejected.

    Where nothing fits, `chosen` is the one that lacks least and is itself among the rejected.
    `for_context` tells that the context is as long as it can be, which is no concession.
    """

    first: Choice
    chosen: Choice
    rejected: Rejected
    for_context: bool = False

    @property
    def conceded(self) -> bool:
        """Whether something was given up: what memory is left belongs to it, not to experts."""
        return bool(self.rejected) and not self.for_context

    @property
    def steps(self) -> tuple[Step, ...]:
        """What was conceded, each with the figures that forced it."""
        return tuple(_concessions(self.first, self.chosen, self.rejected))


def decide(facts: ModelFacts, machine: Machine, gpu: str | None, wishes: Wishes) -> Decision:
    """The first choice in the order of concessions that fits, with attention on `gpu` where that is possible.

    First the context shrinks, then the cache type, then attention goes to the CPU. Wishes are kept as long
    as anything else can be conceded; after that a wished context or cache type shrinks too. With the goal
    "context" and no wished one it starts at the model's own; a q8_0 cache is taken before it shrinks, and
    experts leave the GPUs for it, but not main memory for the disk.
    """
    choices = _choices(facts, gpu, wishes)
    if wishes.goal == "context" and wishes.n_ctx is None:
        kv_types = (wishes.kv_type,) if wishes.kv_type else usable_kv_types(facts)[:2]
        decision = _longest(facts, machine, gpu, kv_types)
        if decision.chosen not in decision.rejected:
            return decision._replace(for_context=True)
    return _first_that_fits(facts, machine, choices)


def rounding_steps(wishes: Wishes, facts: ModelFacts) -> tuple[Step, ...]:
    """Says where a wished context is no whole number of blocks."""
    if wishes.n_ctx is None:
        return ()
    rounded = _whole_blocks(wishes.n_ctx, longest_context(facts))
    if rounded == wishes.n_ctx:
        return ()
    reason = f"llama.cpp keeps whole blocks of {CONTEXT_BLOCK} tokens: {wishes.n_ctx:,} become {rounded:,}."
    return (Step(name=STEP_ROUNDED, reason=reason),)


def bare_plan(facts: ModelFacts, choice: Choice) -> Plan:
    """The plan of a choice with every expert in the disk lane, where it takes no memory."""
    batch = min(_BATCH, choice.n_ctx)
    return Plan(
        model_files=facts.files,
        gpu=choice.gpu,
        expert_lanes=dict.fromkeys(facts.moe_layers, DISK_LANE),
        n_ctx=choice.n_ctx,
        kv_type=choice.kv_type,
        n_batch=batch,
        n_ubatch=batch,
    )


def figures(shortfalls: tuple[Shortfall, ...]) -> str:
    """The shortfalls in sentences."""
    return " ".join(shortfall.sentence for shortfall in shortfalls)


# ---- the order of concessions ----------------------------------------------------------------


def _choices(facts: ModelFacts, gpu: str | None, wishes: Wishes) -> list[Choice]:
    """Every choice in the order of preference; the first is the one without concessions."""
    devices = (gpu, None) if gpu else (None,)
    usable = usable_kv_types(facts)
    most = longest_context(facts)
    context = _whole_blocks(wishes.n_ctx or min(most, _DEFAULT_CONTEXT), most)
    contexts = [context] if wishes.n_ctx else list(_halvings(context, _LEAST_CONTEXT))
    kv_types = (wishes.kv_type,) if wishes.kv_type else usable
    choices = [Choice(device, *cache) for device in devices for cache in _ladder(contexts, kv_types)]
    # Rather less than was wished than a plan that does not load.
    contexts = list(_halvings(contexts[-1], _LEAST_CONTEXT_AT_ALL))
    kv_types = usable[usable.index(kv_types[-1]) :]
    choices += [Choice(device, *cache) for device in devices for cache in _ladder(contexts, kv_types)]
    return list(dict.fromkeys(choices))


def _ladder(contexts: list[int], kv_types: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """First the context shrinks, then the cache type."""
    for context in contexts:
        yield context, kv_types[0]
    for kv_type in kv_types[1:]:
        yield contexts[-1], kv_type


def _halvings(context: int, least: int) -> Iterator[int]:
    yield context
    while context > least:
        context = max(_whole_blocks(context // 2, context), least)
        yield context


def _whole_blocks(n_ctx: int, most: int) -> int:
    """The next context that llama.cpp takes as it is: up, unless that exceeds `most`."""
    rounded = full_cells(n_ctx)
    return rounded if rounded <= most else max(most // CONTEXT_BLOCK * CONTEXT_BLOCK, CONTEXT_BLOCK)


def _first_that_fits(facts: ModelFacts, machine: Machine, choices: list[Choice]) -> Decision:
    """The first choice whose plan fits with all experts on disk, or the one that lacks least."""
    rejected: Rejected = {}
    for choice in choices:
        shortfalls = _shortfalls(facts, machine, choice, DISK_LANE)
        if not shortfalls:
            return Decision(choices[0], choice, rejected)
        rejected[choice] = shortfalls
    least = min(rejected, key=lambda choice: sum(short.lacking_bytes for short in rejected[choice]))
    return Decision(choices[0], least, rejected)


def _longest(facts: ModelFacts, machine: Machine, gpu: str | None, kv_types: tuple[str, ...]) -> Decision:
    """The longest context that fits, on `gpu` if at least the smallest useful one does there."""
    most = _whole_blocks(longest_context(facts), longest_context(facts))
    least = min(_LEAST_CONTEXT, most)
    first = Choice(gpu, most, kv_types[0])
    rejected: Rejected = {}
    for device in (gpu, None) if gpu else (None,):
        beside = CPU_LANE
        if _shortfalls(facts, machine, Choice(device, min(_DEFAULT_CONTEXT, most), kv_types[0]), beside):
            beside = DISK_LANE  # main memory has no room for all experts in any case
        for kv_type in kv_types:
            choice = Choice(device, most, kv_type)
            rejected[choice] = _shortfalls(facts, machine, choice, beside)
            if not rejected[choice]:
                del rejected[choice]
                return Decision(first, choice, rejected)
        fitting, failing = least - CONTEXT_BLOCK, most
        while failing - fitting > CONTEXT_BLOCK:
            middle = (fitting + failing) // 2 // CONTEXT_BLOCK * CONTEXT_BLOCK
            choice = Choice(device, middle, kv_types[-1])
            if shortfalls := _shortfalls(facts, machine, choice, beside):
                failing = middle
                rejected[choice] = shortfalls
            else:
                fitting = middle
        if fitting >= least:
            return Decision(first, Choice(device, fitting, kv_types[-1]), rejected)
    return Decision(first, first, rejected)


def _shortfalls(facts: ModelFacts, machine: Machine, choice: Choice, lane: str) -> tuple[Shortfall, ...]:
    """Where a choice does not fit with every expert in `lane`."""
    plan = msgspec.structs.replace(bare_plan(facts, choice), expert_lanes=dict.fromkeys(facts.moe_layers, lane))
    return fits(msgspec.structs.replace(plan, memory=predict(facts, machine, plan)), machine)


# ---- their reasons ---------------------------------------------------------------------------


def _concessions(first: Choice, chosen: Choice, rejected: Rejected) -> Iterator[Step]:
    if first.gpu and not chosen.gpu:
        last = [choice for choice in rejected if choice.gpu][-1]
        reason = f"Even with {last.n_ctx:,} tokens of {last.kv_type} KV cache: {figures(rejected[last])}"
        yield Step(name=STEP_CPU_ONLY, reason=reason)
    tried = [choice for choice in rejected if choice.gpu == chosen.gpu and choice != chosen]
    if chosen.n_ctx < first.n_ctx:
        larger = [choice for choice in tried if choice.n_ctx > chosen.n_ctx]
        reason = f"With a context of {larger[0].n_ctx:,} tokens: {figures(rejected[larger[0]])}"
        yield Step(name=STEP_CONTEXT, reason=reason)
    for kv_type in KV_TYPES[KV_TYPES.index(first.kv_type) + 1 : KV_TYPES.index(chosen.kv_type) + 1]:
        before = KV_TYPES[KV_TYPES.index(kv_type) - 1]
        last = [choice for choice in tried if choice.kv_type == before][-1]
        reason = f"With a {before} KV cache of {last.n_ctx:,} tokens: {figures(rejected[last])}"
        yield Step(name=STEP_KV[kv_type], reason=reason)
