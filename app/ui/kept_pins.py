"""Pins that the user made, carried into another plan of the model, and the layers where they take effect. No Qt."""

import operator

from app.placement.plan import CPU_LANE, DISK_LANE, ExpertPin, Plan
from app.ui.live_plan import AUTO_PIN, Pins, orders_of, pins_of


def single_layers(plan: Plan) -> set[int]:
    """The layers whose experts are placed one by one."""
    return {layer for layer, lane in plan.expert_lanes.items() if lane in (CPU_LANE, DISK_LANE)}


def carried_pins(plan: Plan, made: Pins) -> tuple[ExpertPin, ...]:
    """The pins that `plan` gets: those that were made, and its own in layers where none take effect.

    Args:
        plan: Another plan of the model; of layers that are on a GPU as a whole it keeps its own pins, which are without
            effect until the layer comes back.
        made: What the user pinned, "auto" for what is left to the policy again.
    """
    here = single_layers(plan)
    before = pins_of(plan)
    kept = {} if _all_in(before, here) else {cell: pin for cell, pin in before.items() if cell[0] not in here}
    if not kept and AUTO_PIN not in made.values() and _all_in(made, here):
        kept = made  # no copy of thousands
    else:
        kept = kept | {cell: pin for cell, pin in made.items() if cell[0] in here and pin != AUTO_PIN}
    return plan.pins if kept == before else orders_of(kept)


def _all_in(pins: Pins, layers: set[int]) -> bool:
    """Whether all pins are of these layers; asked for thousands of them, it is quicker than to pick them out."""
    return layers.issuperset(map(operator.itemgetter(0), pins))
