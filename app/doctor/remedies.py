"""The one thing to do where main memory cannot hold the experts that answers need: of several the cheapest."""

from dataclasses import dataclass

from app.doctor.hints import Change
from app.doctor.memory import LEAST_FREED, enough_context, left_free
from app.doctor.observation import Observation
from app.doctor.programs import may_be_closed
from app.model.facts import ModelFacts
from app.placement.cache.facts import LayerExperts, MemoryFacts
from app.placement.kv_cache import kv_bytes
from app.placement.memory import uses_main_memory
from app.placement.plan import DISK_LANE, Plan
from app.units import format_bytes, format_share

_MIB, _GIB = 1024**2, 1024**3
LEAST_PROGRAM = _GIB
"""Bytes of main memory that another program holds before closing it is worth a word."""
ENOUGH_SHARE, LEAST_SHARE = 0.7, 0.4
"""Of the experts' bytes in memory: from the first on people report next to full speed, below the second they advise
against the model."""


@dataclass(frozen=True)
class Remedy:
    """One thing to do.

    Attributes:
        action: As one sentence.
        evidence: The figures that speak for it, without a full stop; empty where those of the hint do.
        fix: The plan's changes that do it.
    """

    action: str
    evidence: str = ""
    fix: tuple[Change, ...] = ()


def remedy(seen: Observation, memory: MemoryFacts | None) -> Remedy:
    """What to do against thrashing.

    Args:
        seen: With plan and model.
        memory: The engine's own table of experts in main memory; None where the system decides.
    """
    plan, facts = seen.needed_plan
    return (
        _one_copy(plan)
        or _unlocked(plan)
        or _larger_budget(seen, plan, memory)
        or _smaller_context(seen, plan, facts)
        or _closed_program(seen, facts, memory)
        or _smaller_model(seen, facts, memory)
    )


def _one_copy(plan: Plan) -> Remedy | None:
    if plan.residency != "repacked" or DISK_LANE in plan.expert_lanes.values():
        return None
    change = Change(key="residency", value="mapped")
    return Remedy("Leave the experts in the mapped file, so that they are not there twice.", fix=(change,))


def _unlocked(plan: Plan) -> Remedy | None:
    if not plan.policy.lock_bytes:
        return None
    evidence = f"The plan page-locks up to {format_bytes(plan.policy.lock_bytes)}"
    change = Change(key="lock_bytes", value=0)
    return Remedy("Lock no memory, so that the experts that are used can stay.", evidence, (change,))


def _larger_budget(seen: Observation, plan: Plan, memory: MemoryFacts | None) -> Remedy | None:
    """A budget below what is free. Pages of experts count as available, so they are taken off; locked ones do not."""
    available = seen.latest.ram_available_bytes if seen.latest is not None else None
    if memory is None or available is None or memory.trusted_bytes < memory.budget_bytes:
        return None
    if not 0 <= available <= seen.machine.ram.total_bytes:
        return None
    missing = memory.total_bytes - memory.budget_bytes
    room = min(available + memory.locked_bytes - memory.resident_bytes - left_free(plan), missing)
    if room <= 0 or room < min(LEAST_FREED, missing):
        return None
    size = memory.total_bytes if room >= missing else (memory.budget_bytes + room) // _MIB * _MIB
    locked = f" and {format_bytes(memory.locked_bytes)} locked" if memory.locked_bytes else ""
    evidence = f"{format_bytes(available)} are available{locked}, those experts included"
    action = f"Keep up to {format_bytes(size)} of experts in main memory."
    return Remedy(action, evidence, (Change(key="resident_bytes", value=size),))


def _smaller_context(seen: Observation, plan: Plan, facts: ModelFacts) -> Remedy | None:
    gpu = seen.gpu(plan.gpu)
    if seen.answers is None or not seen.answers.answers or (gpu is not None and not uses_main_memory(gpu)):
        return None
    wanted = enough_context(seen.answers.longest_tokens)
    if plan.n_ctx < 2 * wanted:
        return None
    now, then = (kv_bytes(facts, n_ctx, plan.n_ubatch, plan.kv_type, plan.n_seq_max) for n_ctx in (plan.n_ctx, wanted))
    if now - then < LEAST_FREED:
        return None
    evidence = (
        f"The context of {plan.n_ctx:,} tokens takes {format_bytes(now)} of main memory (by the model's tables), of "
        f"which {format_bytes(now - then)} would become free; no answer used more than "
        f"{seen.answers.longest_tokens:,} tokens"
    )
    return Remedy(
        f"Load the model with a context of {wanted:,} tokens.", evidence, (Change(key="n_ctx", value=wanted),)
    )


def _closed_program(seen: Observation, facts: ModelFacts, memory: MemoryFacts | None) -> Remedy | None:
    largest = max((its for its in seen.programs if may_be_closed(its.name)), key=lambda its: its.bytes, default=None)
    if largest is None or not LEAST_PROGRAM <= largest.bytes <= seen.machine.ram.total_bytes:
        return None
    evidence = f"{largest.name} holds {format_bytes(largest.bytes)} of main memory"
    if more := _with_more(seen, facts, memory, largest.bytes):
        evidence += f". {more}"
    return Remedy(f"Close {largest.name}.", evidence)


def _smaller_model(seen: Observation, facts: ModelFacts, memory: MemoryFacts | None) -> Remedy:
    if memory is None:
        return Remedy("Choose a smaller quantisation of this model.")
    held = min(memory.trusted_bytes, memory.budget_bytes)
    most = held / ENOUGH_SHARE
    evidence = _with_more(seen, facts, memory, _GIB)
    if held < LEAST_SHARE * memory.total_bytes:
        share = f"{format_share(held / max(memory.total_bytes, 1))} of the experts fit; people advise against less than"
        words = f"{share} {format_share(LEAST_SHARE)}"
        evidence = f"{evidence}. {words}" if evidence else words
    return Remedy(
        f"Choose a smaller quantisation of this model, with about {format_bytes(int(most))} of experts.", evidence
    )


def _with_more(seen: Observation, facts: ModelFacts, memory: MemoryFacts | None, more: int) -> str:
    """What more memory is predicted to hold of what was routed to; empty where nobody counted that."""
    layers = seen.cache.layers if seen.cache is not None else {}
    if memory is None or not any(sum(layer.routed) for layer in layers.values()):
        return ""
    held = min(memory.trusted_bytes, memory.budget_bytes)
    wanted = min(held + more, memory.total_bytes)
    now, then = (_share_held(layers, facts, size) for size in (held, wanted))
    return (
        f"Predicted from the experts that were routed to: the hottest {format_bytes(held)} of them make up "
        f"{format_share(now)} "
        f"of what is needed, {format_bytes(wanted)} would {format_share(then)}"
    )


def _share_held(layers: dict[int, LayerExperts], facts: ModelFacts, size: int) -> float:
    """Share of routed pairs that the hottest experts of `size` bytes account for."""
    counts = [(routed, facts.expert_bytes.get(index, 0)) for index, layer in layers.items() for routed in layer.routed]
    counts.sort(key=lambda its: -its[0])
    room, held = size, 0
    for routed, taken in counts:
        room -= taken
        if room < 0:
            break
        held += routed
    return held / max(sum(routed for routed, _ in counts), 1)
