"""The parts of a plan that an engine takes without a reload: pins, pool, policy, main memory. Pure, no Qt."""

import collections
import itertools
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.memory import predict
from app.placement.plan import CPU_LANE, CachePolicy, ExpertPin, Plan

AUTO_PIN, GPU_PIN, CPU_PIN = "auto", "gpu", "cpu"
_OF_THE_POOL = ("pool", "staging")
_OF_THE_BUDGET = (CPU_LANE, "experts")

Pins = Mapping[tuple[int, int], str]
"""Pins by (layer, expert)."""


@dataclass(frozen=True)
class MemoryBudget:
    """Most main memory of mapped experts, in bytes, told apart from a pool's size; as `Plan.resident_bytes`."""

    bytes: int | None


_read: collections.deque[tuple[tuple[ExpertPin, ...], dict[tuple[int, int], str]]] = collections.deque(maxlen=4)
"""The pins that were read last: a plan may have thousands of them, and an order reads the same ones several times."""
_made: collections.deque[tuple[tuple[ExpertPin, ...], dict[tuple[int, int], str]]] = collections.deque(maxlen=2)
"""The orders that were put together last: mostly those of a plan go to its engine next."""


def pins_of(plan: Plan) -> dict[tuple[int, int], str]:
    """The plan's pins; experts that are left to the policy are absent."""
    for pins, found in _read:
        if pins is plan.pins:
            return found.copy()
    made = {(pin.layer, pin.expert): pin.pin for pin in plan.pins if pin.pin != AUTO_PIN}
    _read.append((plan.pins, made))
    return made.copy()


def with_pins(plan: Plan, pins: Pins) -> Plan:
    """`plan` with these experts pinned, or left to the policy where they say so; the others keep their pins."""
    before = pins_of(plan)
    kept = before | dict(pins)
    if AUTO_PIN in pins.values():
        kept = {cell: pin for cell, pin in kept.items() if pin != AUTO_PIN}
    if kept == before:
        return plan
    made = orders_of(kept)
    _read.append((made, kept))  # they are read at once
    return msgspec.structs.replace(plan, pins=made, speed=None, tuned="")


def with_pool_bytes(plan: Plan, pool_bytes: int, facts: ModelFacts, machine: Machine) -> Plan:
    """`plan` with a pool of that size, in its choices and its predicted memory.

    What the pool does not change stays as it was predicted, perhaps by a dry run. Nothing moves: the staging area and
    the lanes of layers are decided at a load.
    """
    if pool_bytes == plan.pool_bytes:
        return plan
    resized = msgspec.structs.replace(plan, pool_bytes=pool_bytes, speed=None, tuned="")
    known = {(part.device, part.part): part for part in plan.memory if part.part not in _OF_THE_POOL}
    memory = tuple(known.get((part.device, part.part), part) for part in predict(facts, machine, resized))
    return msgspec.structs.replace(resized, memory=memory)


def with_memory_budget(plan: Plan, budget: MemoryBudget, facts: ModelFacts, machine: Machine) -> Plan:
    """`plan` with another budget of main memory for mapped experts, in its choices and its predicted memory."""
    if budget.bytes == plan.resident_bytes:
        return plan
    changed = msgspec.structs.replace(plan, resident_bytes=budget.bytes, speed=None, tuned="")
    predicted = predict(facts, machine, changed)
    if predicted == predict(facts, machine, plan):
        return changed
    # Only what the budget changes is predicted anew: the rest may be known better, from a dry run.
    known = {(part.device, part.part): part for part in plan.memory if (part.device, part.part) != _OF_THE_BUDGET}
    memory = tuple(known.get((part.device, part.part), part) for part in predicted)
    return msgspec.structs.replace(changed, memory=memory)


def with_policy(plan: Plan, policy: CachePolicy) -> Plan:
    """`plan` with another policy; its speed is not predicted any more."""
    return plan if policy == plan.policy else msgspec.structs.replace(plan, policy=policy, speed=None, tuned="")


def changed_pins(before: Plan, after: Plan) -> dict[tuple[int, int], str]:
    """The pins that make those of `before` into those of `after`; "auto" for what is not pinned any more."""
    old, new = pins_of(before), pins_of(after)
    gone = dict.fromkeys([cell for cell in old if cell not in new], AUTO_PIN)  # in order, which is quick to sort
    was = old.get
    return gone | ({cell: pin for cell, pin in new.items() if was(cell) != pin} if old else new)


def orders_of(pins: Pins) -> tuple[ExpertPin, ...]:
    """Pins as orders for the engine."""
    for made, its in _made:
        if its == pins:
            return made
    made = tuple([ExpertPin(layer=layer, expert=expert, pin=pin) for (layer, expert), pin in sorted(pins.items())])
    _made.append((made, dict(pins)))
    return made


def cells_of(pins: Iterable[tuple[int, int]]) -> dict[int, tuple[int, ...]]:
    """The experts of pins by layer, both rising."""
    its = itertools.groupby(sorted(pins), operator.itemgetter(0))
    return {layer: tuple([expert for _layer, expert in cells]) for layer, cells in its}


def without_change(plan: Plan, wanted: object, instead: object, facts: ModelFacts, machine: Machine) -> Plan:
    """`plan` with what an engine goes on with `instead` of a change that it did not make.

    Args:
        plan: The plan; what it does not have of the change, or has otherwise by now, stays.
        wanted: Pins, bytes of the pool, a MemoryBudget, or a policy.
        instead: The same of how things are.
        facts: The model.
        machine: Where it is loaded.
    """
    if isinstance(wanted, CachePolicy) and isinstance(instead, CachePolicy):
        return with_policy(plan, instead) if plan.policy == wanted else plan
    if isinstance(wanted, MemoryBudget) and isinstance(instead, MemoryBudget):
        still = plan.resident_bytes == wanted.bytes
        return with_memory_budget(plan, instead, facts, machine) if still else plan
    if isinstance(wanted, int) and isinstance(instead, int):
        return with_pool_bytes(plan, instead, facts, machine) if plan.pool_bytes == wanted else plan
    if not isinstance(wanted, Mapping) or not isinstance(instead, Mapping):
        raise TypeError(f"no change of a plan: {wanted!r}")
    now = pins_of(plan)
    return with_pins(plan, {cell: pin for cell, pin in instead.items() if now.get(cell, AUTO_PIN) == wanted[cell]})
