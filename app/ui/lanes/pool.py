"""How large a pool for single experts may be, on which device, and why there can be none."""

from dataclasses import dataclass

from app.engine.protocol import Loaded
from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.active_experts import facts_with
from app.placement.cache.facts import PoolFacts
from app.placement.memory import spare_bytes
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.ui.lanes.words import translate
from app.ui.words import in_bytes


@dataclass(frozen=True)
class PoolRoom:
    """What the pool of a model may take.

    Attributes:
        device: Engine name of the device that holds it; empty where there is none.
        most_bytes: What is free there by the plan's prediction, and no more than the experts need.
        cycle_bytes: What one token is routed to in the layers that the pool is for: with less than that
            hardly any expert is still there when it is needed again.
        why_not: Why no size can be chosen, else empty.
    """

    device: str = ""
    most_bytes: int = 0
    cycle_bytes: int = 0
    why_not: str = ""


def pool_room(
    facts: ModelFacts | None,
    plan: Plan | None,
    report: Loaded | None,
    machine: Machine | None,
    pool: PoolFacts | None,
) -> PoolRoom:
    """The room for a pool beside what `plan` loads.

    Args:
        facts: The model; None for none.
        plan: The plan it was loaded with, or the one being edited while it is not loaded.
        report: What the engine loaded; None while the model is not loaded.
        machine: The latest probe.
        pool: The pool as the engine reports it, if it does.
    """
    why_not = _why_none(facts, plan, report, machine)
    if why_not or facts is None or plan is None or machine is None:
        return PoolRoom(why_not=why_not)
    device = (pool.device if pool else "") or plan.pool_device or plan.gpu
    if not device:
        words = translate("Lanes", "This plan uses no GPU. Move a layer to one and apply, and it can hold a pool too.")
        return PoolRoom(why_not=words)
    one_each = sum(facts.expert_bytes.get(layer, 0) for layer in _pooled_layers(plan, report))
    here = sum(part.bytes for part in plan.memory if part.device == device and part.part == "pool")
    spare = spare_bytes(plan, machine, device) + here
    most = max(min(spare, one_each * facts.expert_count), pool.requested_bytes if pool else 0)
    if most < one_each:
        words = translate("Lanes", "{device} has no room for a pool: the plan leaves {free} free there (predicted).")
        return PoolRoom(device=device, why_not=words.format(device=device, free=in_bytes(max(most, 0))))
    used = facts_with(facts, plan.experts_used).experts_used
    return PoolRoom(device=device, most_bytes=most, cycle_bytes=one_each * used)


def _pooled_layers(plan: Plan, report: Loaded | None) -> list[int]:
    lanes = report.expert_layers if report else plan.expert_lanes
    return [layer for layer, lane in lanes.items() if lane in (CPU_LANE, DISK_LANE)]


def _why_none(facts: ModelFacts | None, plan: Plan | None, report: Loaded | None, machine: Machine | None) -> str:
    if machine is None or not machine.gpus:
        return translate("Lanes", "A pool needs a GPU, and none was found: the CPU computes every expert.")
    if facts is None or plan is None:
        return translate("Lanes", "Choose a model to give its experts a pool on the GPU.")
    off = translate("Lanes", "The expert device is off.")
    if report is not None and not report.expert_device:
        return report.reason or off
    if report is None and machine.engine is not None and not machine.engine.expert_device:
        return machine.engine.expert_device_reason or off
    if not _pooled_layers(plan, report):
        return translate("Lanes", "All experts are on a GPU already: a pool would hold nothing.")
    return ""
