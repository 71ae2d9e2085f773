"""The safer plan offered after a load that failed or an engine that died."""

from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.placement.planner import Wishes, make_plan, with_lanes

SMALLEST_CONTEXT = 512
"""Tokens; with less than this hardly a question and its answer fit."""


def smaller_plan(facts: ModelFacts, machine: Machine, plan: Plan) -> Plan | None:
    """A plan that needs less memory than `plan`, or None when none is smaller.

    Experts on a GPU, whole layers and pool, go to the CPU and the context is halved; when both are at their
    least, the GPU is given up.
    """
    n_ctx = max(min(SMALLEST_CONTEXT, plan.n_ctx), plan.n_ctx // 2)
    gpu = plan.gpu
    if n_ctx == plan.n_ctx and not _layers_on_gpu(plan) and not plan.pool_bytes:
        if gpu is None:
            return None
        gpu = None
    wishes = Wishes(
        gpu=gpu,
        n_ctx=n_ctx,
        kv_type=plan.kv_type,
        threads=plan.threads,
        pool_bytes=0,
        experts_used=plan.experts_used,
    )
    smaller = make_plan(facts, machine, wishes)
    layers = _layers_on_gpu(smaller)
    return with_lanes(smaller, facts, machine, layers, CPU_LANE) if layers else smaller


def _layers_on_gpu(plan: Plan) -> list[int]:
    return [layer for layer, lane in plan.expert_lanes.items() if lane not in (CPU_LANE, DISK_LANE)]
