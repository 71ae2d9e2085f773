"""A plan that tuning kept, in place of the planner's: whether it keeps to the wishes and fits now, and its words."""

import datetime
from collections.abc import Callable, Sequence

import msgspec

from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.kv_cache import full_cells
from app.placement.lanes import gpu_lanes
from app.placement.memory import Shortfall, bytes_off_gpus, copies_weights, fits, keeps_budget, predict
from app.placement.plan import CPU_LANE, Plan, Step
from app.placement.pool import STEP_POOL
from app.placement.refine import STEP_DRY_RUN, STEP_NO_DRY_RUN
from app.placement.resident import STEP_DISK, stay_words
from app.placement.scenarios.figure import Figure
from app.placement.tuner.types import TunedPlan
from app.placement.wishes import NO_WISHES, Wishes, wished_budget
from app.units import format_bytes

STEP_NOT_TUNED = "tuned plan not used"

_LEAST_OF_POOL = 0.9
"""Of the pool, or of the experts in main memory, that was measured: with less, the figures are another plan's."""

_NAMES = {
    "gpu": "device",
    "n_ctx": "context",
    "kv_type": "KV cache type",
    "threads": "threads",
    "whole_layers": "whole layers",
    "pool_bytes": "pool",
    "residency": "residency",
    "resident_bytes": "main memory of experts",
    "policy": "cache policy",
    "lock_bytes": "page-locked memory",
    "experts_used": "active experts",
    "goal": "goal",
}
"""Wishes that a plan may keep to or not, in words."""


def kept_plan(record: TunedPlan, facts: ModelFacts, machine: Machine, wishes: Wishes) -> Plan | str:
    """The plan of `record` with its memory predicted for now; a text is why it is not to be used.

    Its gain was measured against the planner's plan for the wishes of that time: it is used where these are made
    again, and where it keeps to all others that are made.

    Args:
        record: What tuning kept of this model on this machine with this engine.
        facts: The model.
        machine: What is free where.
        wishes: What the user asks now, which is possible.
    """
    not_used = f"The plan that was {_when(record)} is not used: "
    if broken := [name for field, name in _NAMES.items() if not _keeps(record.plan, facts, wishes, field)]:
        return f"{not_used}it does not keep to what is wished now ({', '.join(broken)})."
    if past := [name for field, name in _NAMES.items() if not _wished_again(record.wishes, wishes, field)]:
        return f"{not_used}it was tuned with a wish that is not made now ({', '.join(past)})."
    if copies_weights(machine) and (record.plan.pool_bytes or record.plan.staging_bytes):
        return f"{not_used}it has single experts on the GPU, and the expert device is missing."
    plan = msgspec.structs.replace(
        record.plan,
        memory=predict(facts, machine, record.plan),
        steps=tuple(step for step in record.plan.steps if step.name not in (STEP_DRY_RUN, STEP_NO_DRY_RUN)),
        speed=None,
        tuned=tuned_words(record),
    )
    budget, _ = wished_budget(machine, wishes)
    shortfalls = fits(plan, budget)
    if not shortfalls:
        return plan
    for smaller in (_with_smaller_pool, _with_less_memory):
        fitting = smaller(plan, facts, budget, shortfalls)
        if fitting is not None:
            return fitting
    return f"{not_used}it does not fit now. {' '.join(short.sentence for short in shortfalls)}"


def _with_smaller_pool(plan: Plan, facts: ModelFacts, machine: Machine, shortfalls: Sequence[Shortfall]) -> Plan | None:
    """`plan` with a pool that fits now, where that is hardly smaller: free memory is never twice the same."""
    lacking = sum(short.lacking_bytes for short in shortfalls if short.device == plan.pool_on)
    size = plan.pool_bytes - lacking
    if not lacking or size < plan.pool_bytes * _LEAST_OF_POOL:
        return None
    reason = f"The tuned plan's pool was {format_bytes(plan.pool_bytes)}; {format_bytes(size)} fit now (predicted)."
    return _fitting(plan, facts, machine, Step(name=STEP_POOL, reason=reason), pool_bytes=size)


def _with_less_memory(plan: Plan, facts: ModelFacts, machine: Machine, shortfalls: Sequence[Shortfall]) -> Plan | None:
    """`plan` with less main memory for mapped experts, where that is hardly less."""
    had = plan.resident_bytes or 0
    lacking = sum(short.lacking_bytes for short in shortfalls if short.device == CPU_LANE)
    size = had - lacking
    if not keeps_budget(plan) or not lacking or size < had * _LEAST_OF_POOL:
        return None
    reason = (
        f"The tuned plan kept {format_bytes(had)} of experts in main memory: now there is less. {stay_words(size)}."
    )
    step = Step(name=STEP_DISK, reason=reason, chosen_bytes=size)
    return _fitting(plan, facts, machine, step, resident_bytes=size)


def _fitting(plan: Plan, facts: ModelFacts, machine: Machine, step: Step, **changes: int) -> Plan | None:
    """`plan` with these changes and a step that tells of them; None where it still does not fit."""
    others = tuple(its for its in plan.steps if its.name != step.name)
    smaller = msgspec.structs.replace(plan, **changes, steps=(*others, step))
    smaller = msgspec.structs.replace(smaller, memory=predict(facts, machine, smaller))
    return None if fits(smaller, machine) else smaller


def tuned_words(record: TunedPlan) -> str:
    """Example: "tuned on 2026-01-02 (4 threads): decoding 1.14×, prompts 0.99× the default, measured"."""
    words = f"{_when(record)} ({record.words})" if record.words else _when(record)
    gains = [
        f"{name} {ratio:.2f}×"
        for name, field in (("decoding", "decode"), ("prompts", "prompt"))
        if (ratio := _ratio(getattr(record.before, field, None), getattr(record.after, field, None))) is not None
    ]
    if not gains:
        return f"{words}: the default could not be measured"
    return f"{words}: {', '.join(gains)} the default, measured"


def _ratio(before: Figure | None, after: Figure | None) -> float | None:
    return after.median / before.median if before and after and before.median > 0 else None


def _when(record: TunedPlan) -> str:
    try:
        return f"tuned on {datetime.datetime.fromisoformat(record.tuned_at).date().isoformat()}"
    except ValueError:
        return "tuned"


def _wished_again(then: Wishes, now: Wishes, field: str) -> bool:
    before = getattr(then, field)
    return bool(before in (getattr(NO_WISHES, field), getattr(now, field)))


def _keeps(plan: Plan, facts: ModelFacts, wishes: Wishes, field: str) -> bool:
    """Whether `plan` is as one wish asks; one that is not made is kept by every plan."""
    wished = getattr(wishes, field)
    if wished == getattr(NO_WISHES, field) and field not in ("goal", "experts_used"):
        return True
    others: dict[str, Callable[[], bool]] = {
        "gpu": lambda: plan.gpus == ((wished,) if wished else ()),
        "n_ctx": lambda: full_cells(wished) == full_cells(plan.n_ctx),
        "whole_layers": lambda: set(gpu_lanes(plan)) == set(facts.moe_layers[:wished]),
        # More than all experts is all of them.
        "resident_bytes": lambda: bool(plan.resident_bytes == (wished and min(wished, bytes_off_gpus(facts, plan)))),
        "lock_bytes": lambda: bool(plan.policy.lock_bytes == wished),
        # How much is locked is a wish of its own.
        "policy": lambda: (
            plan.policy == msgspec.structs.replace(wished, lock_bytes=wished.lock_bytes or plan.policy.lock_bytes)
        ),
        # Nobody who did not wish it gets a plan that changes answers.
        "experts_used": lambda: bool((plan.experts_used or facts.experts_used) == (wished or facts.experts_used)),
    }
    if field in others:
        return others[field]()
    return bool(getattr(plan, field) == wished)
