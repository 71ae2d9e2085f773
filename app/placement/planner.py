"""The planner: from a model, a machine and wishes to a plan that loads, with a reason for every concession."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import msgspec

from app.hardware.facts import Gpu, GpuKind, Machine
from app.model.facts import ModelFacts
from app.placement.active_experts import facts_with
from app.placement.candidates import Candidate, candidates
from app.placement.concessions import STEP_CPU_ONLY, Decision, bare_plan, decide, rounding_steps
from app.placement.locking import NO_GAINS, Gains, with_locked
from app.placement.memory import copies_weights, fits
from app.placement.placing import STEP_DOES_NOT_FIT, STEP_MAPPED, placed, with_lanes
from app.placement.plan import CPU_LANE, DISK_LANE, CachePolicy, Plan, Step
from app.placement.pool import STEP_POOL, wished_pool
from app.placement.resident import possible_budget, refuse_too_much
from app.placement.speed.types import SpeedPrediction
from app.placement.wishes import (
    AUTO_GPU,
    NO_WISHES,
    Wishes,
    check_wishes,
    wished_budget,
    wished_gpus,
    wished_residency,
    wished_threads,
)
from app.units import format_bytes

__all__ = ["AUTO_GPU", "NO_WISHES", "STEP_DOES_NOT_FIT", "STEP_MAPPED", "SpeedOf", "Wishes", "make_plan", "with_lanes"]


# Names of the steps a plan may tell of.
STEP_AS_IN_FILE = "experts as in the file"


class _Made(NamedTuple):
    """A plan that fits; from `least_pool_bytes` on (0: as it is) `with_pool` makes it with a smaller pool."""

    plan: Plan
    least_pool_bytes: int = 0
    with_pool: Callable[..., Plan] | None = None


SpeedOf = Callable[[Plan], SpeedPrediction]
"""Predicts the speed of a plan of one model on one machine."""

_SAME_SPEED = 1 + 1e-9
_POOL_STEPS = 1024
"""A pool is too large where one that is smaller by this part of what it has beyond a token cycle decodes faster."""
_GOLDEN = (math.sqrt(5) - 1) / 2
_SEARCH_STEPS = 16
_QUESTION_TOKENS, _ANSWER_TOKENS = 512, 256
"""A question with some text, and its answer."""
_NOT_COPIED = (
    "Main memory was wished for experts that stay in the model file, so none are copied into the processor's faster "
    "layout, in which many types of weights decode faster."
)
_CLEARLY_SOONER = 0.95
"""Of the time of an answer: what gains less is in doubt, and no reason to leave the layout that decodes faster."""


def make_plan(
    facts: ModelFacts,
    machine: Machine,
    wishes: Wishes = NO_WISHES,
    speed_of: SpeedOf | None = None,
    gains: Gains = NO_GAINS,
    *,
    layouts: bool = False,
) -> Plan:
    """The plan that is predicted to fit and, of those that do, to decode fastest.

    Attention, shared experts, router, output and KV cache go to the GPU first. Where not even they fit, the
    plan concedes context, cache type and GPU, in the order that `concessions.decide` names. Then the places
    that `candidates` names for the experts are compared, and the best of them with the processor alone; at
    equal speed the simplest is taken, and none that reads experts from disk unless it answers sooner, prompt
    included. Where both layouts of the processor's experts were measured, they stay as they lie in the file if
    that answers sooner. If nothing fits, the plan that lacks least says so in its last step.

    Args:
        facts: The model.
        machine: The machine, this one or another.
        wishes: What the user asks; kept as long as anything else can be conceded.
        speed_of: Predicts a plan's speed; without it the simplest plan is made, which has no pool but a wished one.
        gains: What page-locking was measured to gain; without, none is locked that was not wished.
        layouts: Whether the processor was measured with this model's type of weights both in its faster layout and as
            they lie in the file.

    Raises:
        AppError: device_missing, the wished GPU is not there; bad_usage, a wish that no plan can meet;
            out_of_memory, more main memory was wished for experts than there is.
    """
    check_wishes(facts, wishes)
    if wishes.experts_used == facts.experts_used:
        wishes = msgspec.structs.replace(wishes, experts_used=None)  # the model's own number is no change
    facts = facts_with(facts, wishes.experts_used)
    budget, room_steps = wished_budget(machine, wishes)
    wishes, no_budget = possible_budget(wishes, facts, machine)
    room_steps = (*room_steps, *no_budget)
    gpus = wished_gpus(budget, wishes.gpu)
    decision = decide(facts, budget, gpus[0].device if gpus else None, wishes)
    made = _plans(facts, budget, decision, gpus, wishes, room_steps, gains)
    best = next(made).plan if speed_of is None else _fastest(made, speed_of)
    refuse_too_much(best, facts, budget)
    if speed_of is None:
        return best
    best = _with_or_without_gpu(best, facts, budget, gpus, wishes, room_steps, gains, speed_of)
    may_stay = layouts and wishes.goal == "speed" and wishes.residency is None and not copies_weights(machine)
    return _as_in_file_if_sooner(best, speed_of) if may_stay else best


def _with_or_without_gpu(
    best: Plan,
    facts: ModelFacts,
    budget: Machine,
    gpus: tuple[Gpu, ...],
    wishes: Wishes,
    room_steps: tuple[Step, ...],
    gains: Gains,
    speed_of: SpeedOf,
) -> Plan:
    """`best`, or the plan for the processor alone where that is better and nobody wished a GPU."""
    if best.gpu is None or wishes.gpu != AUTO_GPU or wishes.pool_bytes or wishes.whole_layers:
        return best
    alone = decide(facts, budget, None, wishes)
    if alone.chosen in alone.rejected or alone.chosen.n_ctx < best.n_ctx:
        return best
    without_gpu = _fastest(_plans(facts, budget, alone, (), wishes, room_steps, gains), speed_of)
    if fits(without_gpu, budget):
        return best
    return _left_out(without_gpu, best) if _is_better_alone(without_gpu, best, gpus[0]) else best


def _plans(
    facts: ModelFacts,
    machine: Machine,
    decision: Decision,
    gpus: tuple[Gpu, ...],
    wishes: Wishes,
    room_steps: tuple[Step, ...],
    gains: Gains,
) -> Iterator[_Made]:
    """The plans for each place that the experts may have, the simplest first; there is always one."""
    threads, steps = wished_threads(machine.cpu, wishes)
    policy = wishes.policy or CachePolicy()
    if wishes.lock_bytes is not None:
        policy = msgspec.structs.replace(policy, lock_bytes=wishes.lock_bytes)
    may_lock = wishes.lock_bytes is None and not policy.lock_bytes
    if wishes.resident_bytes and wishes.residency is None:
        room_steps = (*room_steps, Step(name=STEP_AS_IN_FILE, reason=_NOT_COPIED))
    base = msgspec.structs.replace(
        bare_plan(facts, decision.chosen),
        threads=threads,
        threads_batch=threads,
        residency=wished_residency(wishes),
        resident_bytes=wishes.resident_bytes,
        policy=policy,
        experts_used=wishes.experts_used,
        goal=wishes.goal,
    )
    pool, pool_steps = wished_pool(base, facts, machine, wishes.pool_bytes or 0)
    steps = (*steps, *room_steps, *rounding_steps(wishes, facts), *decision.steps, *pool_steps)
    base = msgspec.structs.replace(base, pool_bytes=pool, steps=steps)
    used = gpus if decision.chosen.gpu else ()

    def with_pool(found: Candidate, pool_bytes: int, *more: Step) -> Plan:
        changed = msgspec.structs.replace(base, pool_bytes=pool_bytes, steps=(*steps, *found.steps, *more))
        plan = placed(changed, facts, machine, found.on_gpu)
        return with_locked(plan, facts, machine, gains) if may_lock and not fits(plan, machine) else plan

    last: Plan | None = None
    found_one = False
    for found in candidates(base, facts, machine, used, wishes, conceded=decision.conceded):
        last = with_pool(found, found.pool_bytes)
        if not fits(last, machine):
            found_one = True
            yield _Made(last, found.least_pool_bytes, partial(with_pool, found))
    if last is not None and not found_one:
        yield _Made(last)


def _fastest(made: Iterator[_Made], speed_of: SpeedOf) -> Plan:
    """The first plan of those that decode fastest, with its speed.

    More experts in the pool are not always faster: what the processor is spared, the card has to do. Where it is
    the card that is waited for, the pool shrinks to where both end together.

    A plan that reads experts from disk may decode as fast as one that does not, for a token needs few of them; a
    prompt needs them all. Such a plan is taken where it also answers a question sooner.
    """
    best: Plan | None = None
    off_disk: Plan | None = None
    for its in made:
        found = [msgspec.structs.replace(its.plan, speed=speed_of(its.plan))]
        if _may_shrink(its, found[0], best, speed_of):
            found.append(_shrunk(its, speed_of))
        for plan in found:
            best, off_disk = _faster(best, plan), off_disk if _reads_disk(plan) else _faster(off_disk, plan)
    assert best is not None, "there is always a plan"
    if off_disk is not None and _exchange(off_disk) < _exchange(best):
        return off_disk
    return best


def _faster(best: Plan | None, plan: Plan) -> Plan:
    """The one of both that decodes faster, the first where none does."""
    return plan if best is None or _decode(plan) > _decode(best) * _SAME_SPEED else best


def _reads_disk(plan: Plan) -> bool:
    return DISK_LANE in plan.expert_lanes.values()


def _may_shrink(made: _Made, plan: Plan, best: Plan | None, speed_of: SpeedOf) -> bool:
    """Whether a pool that nobody wished decodes faster if it is a little smaller, and might then be the fastest.

    No pool saves more than the card's time for experts.
    """
    pool, least = plan.pool_bytes, made.least_pool_bytes
    less = pool - (pool - least) // _POOL_STEPS
    if not least or less >= pool or plan.speed is None:
        return False
    of_card = sum(part.seconds for part in plan.speed.decode_parts if part.name == "gpu experts")
    if best is not None and of_card and 1 / _decode(plan) - of_card > 1 / _decode(best):
        return False
    return _with_less_pool(plan, less, speed_of) > _decode(plan) * _SAME_SPEED


def _shrunk(made: _Made, speed_of: SpeedOf) -> Plan:
    """The plan with the pool that decodes fastest, which is smaller than what there is room for.

    Speed rises with the pool up to there and falls beyond, so that a golden section finds it.
    """
    least, most = made.least_pool_bytes, made.plan.pool_bytes
    left, right = most - round((most - least) * _GOLDEN), least + round((most - least) * _GOLDEN)
    rates = {size: _with_less_pool(made.plan, size, speed_of) for size in (left, right)}
    for _ in range(_SEARCH_STEPS):
        if rates[left] < rates[right]:
            least, left, right = left, right, right + round((most - right) * (1 - _GOLDEN))
        else:
            most, right, left = right, left, left - round((left - least) * (1 - _GOLDEN))
        for size in (left, right):
            if size not in rates:
                rates[size] = _with_less_pool(made.plan, size, speed_of)
    size = max(rates, key=lambda its: rates[its])
    assert made.with_pool is not None, "a pool that may shrink can be made again"
    reason = (
        f"There is room for a pool of {format_bytes(made.plan.pool_bytes)}; with more than {format_bytes(size)} the "
        "processor is predicted to wait for the card, which then computes more experts than it has time for."
    )
    plan = made.with_pool(size, Step(name=STEP_POOL, reason=reason))
    return msgspec.structs.replace(plan, speed=speed_of(plan))


def _with_less_pool(plan: Plan, pool_bytes: int, speed_of: SpeedOf) -> float:
    """Tokens a second of `plan` with another pool; what it leaves to other parts does not matter for that."""
    return speed_of(msgspec.structs.replace(plan, pool_bytes=pool_bytes)).decode.likely


def _is_better_alone(without_gpu: Plan, best: Plan, gpu: Gpu) -> bool:
    """Whether the processor alone decodes faster.

    One built into it reads the same memory no faster and gains with prompts only: there it must also decode so
    much faster that a slower prompt is made up for.
    """
    if _decode(without_gpu) <= _decode(best) * _SAME_SPEED:
        return False
    return gpu.kind is not GpuKind.INTEGRATED or _exchange(without_gpu) < _exchange(best)


def _as_in_file_if_sooner(plan: Plan, speed_of: SpeedOf) -> Plan:
    """`plan`, or the same with the processor's experts as they lie in the file, where that answers sooner.

    For some types of weights prompts are computed faster so, and tokens decoded slower.
    """
    if plan.residency != "repacked" or CPU_LANE not in plan.expert_lanes.values():
        return plan
    mapped = msgspec.structs.replace(plan, residency="mapped")
    mapped = msgspec.structs.replace(mapped, speed=speed_of(mapped))
    if plan.speed is None or mapped.speed is None or _exchange(mapped) > _exchange(plan) * _CLEARLY_SOONER:
        return plan
    before, after = plan.speed, mapped.speed
    reason = (
        "As they lie in the file, experts are predicted to compute prompts with "
        f"{after.prompt.likely:,.0f} tokens/s instead of {before.prompt.likely:,.0f} and to decode "
        f"{after.decode.likely:.1f} instead of {before.decode.likely:.1f}: a question of {_QUESTION_TOKENS} tokens and "
        f"its answer of {_ANSWER_TOKENS} take {_exchange(mapped):.1f} s instead of {_exchange(plan):.1f}."
    )
    return msgspec.structs.replace(mapped, steps=(*mapped.steps, Step(name=STEP_AS_IN_FILE, reason=reason)))


def _exchange(plan: Plan) -> float:
    """Seconds that a question and its answer take."""
    if plan.speed is None:
        return 0.0
    return _QUESTION_TOKENS / plan.speed.prompt.likely + _ANSWER_TOKENS / plan.speed.decode.likely


def _decode(plan: Plan) -> float:
    return plan.speed.decode.likely if plan.speed else 0.0


def _left_out(plan: Plan, beside: Plan) -> Plan:
    """`plan`, which leaves out a GPU that attention would fit on, with the reason as its first step."""
    reason = (
        f"With attention on {beside.gpu} {_decode(beside):.1f} tokens/s are predicted, "
        f"on the processor alone {_decode(plan):.1f}."
    )
    return msgspec.structs.replace(plan, steps=(Step(name=STEP_CPU_ONLY, reason=reason), *plan.steps))
