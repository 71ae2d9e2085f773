"""The planner: from a model, a machine and wishes to a plan that loads, with a reason for every concession."""

from collections.abc import Callable, Iterator

import msgspec

from app.hardware.facts import Gpu, GpuKind, Machine
from app.model.facts import ModelFacts
from app.placement.candidates import candidates
from app.placement.concessions import STEP_CPU_ONLY, Decision, bare_plan, decide, rounding_steps
from app.placement.memory import fits
from app.placement.placing import STEP_DOES_NOT_FIT, STEP_MAPPED, placed, with_lanes
from app.placement.plan import CachePolicy, Plan, Step
from app.placement.pool import wished_pool
from app.placement.speed.types import SpeedPrediction
from app.placement.wishes import (
    AUTO_GPU,
    NO_WISHES,
    Wishes,
    check_wishes,
    wished_budget,
    wished_gpus,
    wished_threads,
)

__all__ = ["AUTO_GPU", "NO_WISHES", "STEP_DOES_NOT_FIT", "STEP_MAPPED", "SpeedOf", "Wishes", "make_plan", "with_lanes"]

SpeedOf = Callable[[Plan], SpeedPrediction]
"""Predicts the speed of a plan of one model on one machine."""

_SAME_SPEED = 1 + 1e-9
_QUESTION_TOKENS, _ANSWER_TOKENS = 512, 256
"""A question with some text, and its answer."""


def make_plan(facts: ModelFacts, machine: Machine, wishes: Wishes = NO_WISHES, speed_of: SpeedOf | None = None) -> Plan:
    """The plan that is predicted to fit and, of those that do, to decode fastest.

    Attention, shared experts, router, output and KV cache go to the GPU first. Where not even they fit, the
    plan concedes context, cache type and GPU, in the order that `concessions.decide` names. Then the places
    that `candidates` names for the experts are compared, and the best of them with the processor alone; at
    equal speed the simplest is taken. If nothing fits, the plan that lacks least says so in its last step.

    Args:
        facts: The model.
        machine: The machine, this one or another.
        wishes: What the user asks; kept as long as anything else can be conceded.
        speed_of: Predicts a plan's speed; without it the simplest plan is made, which has no pool but a wished one.

    Raises:
        AppError: device_missing, the wished GPU is not there; bad_usage, a wish that no plan can meet.
    """
    check_wishes(facts, wishes)
    budget, room_steps = wished_budget(machine, wishes)
    gpus = wished_gpus(budget, wishes.gpu)
    decision = decide(facts, budget, gpus[0].device if gpus else None, wishes)
    if speed_of is None:
        return next(_plans(facts, budget, decision, gpus, wishes, room_steps))
    best = _fastest(_plans(facts, budget, decision, gpus, wishes, room_steps), speed_of)
    if best.gpu is None or wishes.gpu != AUTO_GPU or wishes.pool_bytes or wishes.whole_layers:
        return best
    alone = decide(facts, budget, None, wishes)
    if alone.chosen in alone.rejected or alone.chosen.n_ctx < best.n_ctx:
        return best
    without_gpu = _fastest(_plans(facts, budget, alone, (), wishes, room_steps), speed_of)
    return _left_out(without_gpu, best) if _is_better_alone(without_gpu, best, gpus[0]) else best


def _plans(
    facts: ModelFacts,
    machine: Machine,
    decision: Decision,
    gpus: tuple[Gpu, ...],
    wishes: Wishes,
    room_steps: tuple[Step, ...],
) -> Iterator[Plan]:
    """The plans for each place that the experts may have, the simplest first; there is always one."""
    threads, steps = wished_threads(machine.cpu, wishes)
    base = msgspec.structs.replace(
        bare_plan(facts, decision.chosen),
        threads=threads,
        threads_batch=threads,
        residency=wishes.residency or "repacked",
        policy=wishes.policy or CachePolicy(),
        goal=wishes.goal,
    )
    pool, pool_steps = wished_pool(base, facts, machine, wishes.pool_bytes or 0)
    steps = (*steps, *room_steps, *rounding_steps(wishes, facts), *decision.steps, *pool_steps)
    base = msgspec.structs.replace(base, pool_bytes=pool, steps=steps)
    used = gpus if decision.chosen.gpu else ()
    last: Plan | None = None
    found_one = False
    for found in candidates(base, facts, machine, used, wishes, conceded=decision.conceded):
        last = placed(
            msgspec.structs.replace(base, pool_bytes=found.pool_bytes, steps=(*steps, *found.steps)),
            facts,
            machine,
            found.on_gpu,
        )
        if not fits(last, machine):
            found_one = True
            yield last
    if last is not None and not found_one:
        yield last


def _fastest(plans: Iterator[Plan], speed_of: SpeedOf) -> Plan:
    """The first of those that decode fastest, with its speed."""
    best: Plan | None = None
    most = 0.0
    for plan in plans:
        speed = speed_of(plan)
        if best is None or speed.decode.likely > most * _SAME_SPEED:
            best, most = msgspec.structs.replace(plan, speed=speed), speed.decode.likely
    assert best is not None, "there is always a plan"
    return best


def _is_better_alone(without_gpu: Plan, best: Plan, gpu: Gpu) -> bool:
    """Whether the processor alone decodes faster.

    One built into it reads the same memory no faster and gains with prompts only: there it must also decode so
    much faster that a slower prompt is made up for.
    """
    if _decode(without_gpu) <= _decode(best) * _SAME_SPEED:
        return False
    return gpu.kind is not GpuKind.INTEGRATED or _exchange(without_gpu) < _exchange(best)


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
