"""What a graphics card that is not in this machine would give: the same curve, from typical rates. No Qt."""

from dataclasses import dataclass

import msgspec

from app.hardware.facts import Gpu, GpuKind, Machine
from app.model.facts import ModelFacts
from app.placement.evidence import Evidence, planned
from app.placement.memory import spare_bytes
from app.placement.plan import CPU_LANE, Plan
from app.placement.planner import Wishes, with_lanes
from app.ui.live_plan import with_pool_bytes
from app.ui.tuning.curve_data import Question, card_bytes, essence, pooled_bytes

SIZES_GIB = (4, 6, 8, 12, 16, 24)
"""Memory that cards people have come with."""
DEVICE = "CUDA0"
_GIB = 1024**3
_OTHERS_BYTES = 600 * 1024**2
"""What a desktop and its programs take of a card that also drives the screen; people report 0.5 to 1.2 GB."""


@dataclass(frozen=True)
class AbsentCard:
    """A question about a card that is not here.

    Attributes:
        facts, machine: The model, and this machine as it is.
        plan: The plan being edited, for its context and cache type.
        evidence: Of it, only the model's own counts: what this machine was measured to do is without such a card.
        gib: The card's memory.
    """

    facts: ModelFacts
    machine: Machine
    plan: Plan
    evidence: Evidence
    gib: int


def question_of(card: AbsentCard, name: str) -> Question:
    """What to compute; plans for the machine with the card, which takes some tenths of a second.

    Args:
        card: The card.
        name: What words call it.

    Raises:
        AppError: as the planner.
    """
    gpu = Gpu(
        name=f"{card.gib} GiB",
        backend="CUDA",
        device=DEVICE,
        kind=GpuKind.DISCRETE,
        total_bytes=card.gib * _GIB,
        free_bytes=card.gib * _GIB - _OTHERS_BYTES,
    )
    machine = msgspec.structs.replace(card.machine, gpus=(gpu,))
    evidence = Evidence(recorded=card.evidence.recorded)
    wishes = Wishes(gpu=DEVICE, n_ctx=card.plan.n_ctx, kv_type=card.plan.kv_type, tuned=False)
    plan = planned(card.facts, machine, wishes, evidence)
    plan = with_lanes(plan, card.facts, machine, card.facts.moe_layers, CPU_LANE)
    bare = with_pool_bytes(plan, 0, card.facts, machine)
    everything = pooled_bytes(card.facts, plan)
    room = max(spare_bytes(bare, machine, DEVICE), 0)
    return Question(
        facts=card.facts,
        machine=machine,
        evidence=evidence,
        plan=essence(plan),
        card=name,
        most_bytes=min(everything, room),
        card_bytes=card_bytes(card.facts, machine, plan, DEVICE),
        all_bytes=everything,
    )
