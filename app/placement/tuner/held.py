"""What of a plan tuning is to leave as it is: told from the planner's own plan, and put as wishes."""

import msgspec

from app.model.facts import ModelFacts
from app.placement.lanes import gpu_lanes
from app.placement.plan import Plan
from app.placement.resident import wished_again
from app.placement.wishes import AUTO_GPU, Wishes

_SAME_POOL = 0.02
"""Share by which two pools may differ and count as the same: free memory is never twice the same."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What is not to be changed: the context, the cache's type, threads, and where experts are (layers and pool)."""

    context: bool = False
    kv_type: bool = False
    threads: bool = False
    places: bool = False


def chosen_by_hand(plan: Plan, usual: Plan) -> Held:
    """What `plan` has otherwise than `usual`, the planner's plan without wishes: the user's own choices.

    A plan that tuning found has none: there the difference is what tuning chose.
    """
    if plan.tuned:
        return Held()
    apart = abs(plan.pool_bytes - usual.pool_bytes) > _SAME_POOL * max(plan.pool_bytes, usual.pool_bytes)
    return Held(
        context=plan.n_ctx != usual.n_ctx,
        kv_type=plan.kv_type != usual.kv_type,
        threads=plan.threads != usual.threads,
        places=apart or gpu_lanes(plan) != gpu_lanes(usual),
    )


def wishes_to_hold(plan: Plan, usual: Plan, facts: ModelFacts, held: Held) -> Wishes:
    """Wishes that `plan` meets and that keep the tuner from changing what is held.

    Its device is held where it is not the planner's own, its goal, its number of active experts and a budget of main
    memory that the planner did not choose always.

    Args:
        plan: The plan that tuning starts from.
        usual: The planner's plan without wishes.
        facts: The model.
        held: What is not to be changed.
    """
    on_gpu = set(gpu_lanes(plan))
    first_layers = on_gpu == set(facts.moe_layers[: len(on_gpu)])
    # A wished GPU is the only one that is used.
    gpu = AUTO_GPU if plan.gpus == usual.gpus or len(plan.gpus) > 1 else plan.gpu
    return Wishes(
        gpu=gpu,
        n_ctx=plan.n_ctx if held.context else None,
        kv_type=plan.kv_type if held.kv_type else None,
        threads=plan.threads if held.threads else None,
        whole_layers=len(on_gpu) if held.places and first_layers and plan.gpu else None,
        pool_bytes=plan.pool_bytes if held.places else None,
        resident_bytes=wished_again(plan),
        experts_used=plan.experts_used,
        goal=plan.goal,
    )
