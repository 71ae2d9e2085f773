"""A plan on its way to and from other programs: what came of it, and what could not be taken along."""

import msgspec

from app.model.facts import ModelFacts
from app.placement.plan import CPU_LANE, DISK_LANE, CachePolicy, Plan
from app.placement.words import named_layers
from app.units import format_bytes


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as another program takes it.

    Attributes:
        text: A command line, settings in words, or JSON.
        lost: One sentence for each part of the plan that the other program cannot be told.
        notes: What to know when using it, one sentence each.
    """

    text: str
    lost: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as it was understood.

    Attributes:
        plan: With its memory predicted for this machine.
        remarks: What was not taken over, does nothing, or means something else here; one sentence each.
        shortfalls: Where it is predicted not to fit, one sentence each.
    """

    plan: Plan
    remarks: tuple[str, ...] = ()
    shortfalls: tuple[str, ...] = ()


def lost_experts(plan: Plan, program: str) -> list[str]:
    """What `program`, which places whole tensors and only at load, cannot be told of where experts are."""
    lost = []
    if plan.pool_bytes:
        lost.append(
            f"{program} has no pool for single experts: {format_bytes(plan.pool_bytes)} on {plan.pool_on} with the "
            f"policy '{plan.policy.kind}' are lost, and those experts stay off the GPU."
        )
    elif plan.policy != CachePolicy():
        lost.append(f"{program} has no policy for single experts: '{plan.policy.kind}' and its values are lost.")
    if plan.staging_bytes:
        lost.append(
            f"{program} has no staging area: {format_bytes(plan.staging_bytes)} on {plan.pool_on}, through which "
            "missing experts are copied over, are lost."
        )
    if plan.resident_bytes:
        lost.append(
            f"{program} has no budget of main memory for experts that stay in the file: "
            f"{format_bytes(plan.resident_bytes)} is lost, and the system decides which of them stay in memory."
        )
    if plan.pins:
        experts = "expert was" if len(plan.pins) == 1 else "experts were"
        lost.append(f"{program} cannot place single experts: {len(plan.pins)} {experts} placed by hand.")
    off_gpus = [layer for layer, lane in plan.expert_lanes.items() if lane in (CPU_LANE, DISK_LANE)]
    if DISK_LANE in plan.expert_lanes.values():  # which experts of all these are in memory follows from use
        lost.append(
            f"{program} makes no difference between experts in main memory and on disk: those of "
            f"{named_layers(off_gpus)} count as the CPU's."
        )
    return lost


def layers_off_gpu(plan: Plan, facts: ModelFacts) -> list[int]:
    """The layers whose experts are on no GPU, in order."""
    return [layer for layer in facts.moe_layers if plan.expert_lanes.get(layer) not in plan.gpus]


def leading_count(layers: list[int], facts: ModelFacts) -> int | None:
    """The count of a model's first layers that hold exactly the experts of `layers`; None where they do not come first.

    It counts layers without experts too, as `--n-cpu-moe` does.
    """
    if not layers:
        return 0
    first = max(layers) + 1
    return first if [layer for layer in facts.moe_layers if layer < first] == sorted(layers) else None
