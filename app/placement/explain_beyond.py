"""What would make a plan faster that is no change of it: more main memory, a file of smaller weights. Predictions."""

import msgspec

from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.cache.recorded_hits import PlanCurves
from app.placement.evidence import Evidence
from app.placement.explain_words import LEAST_GAIN, percent_range
from app.placement.memory import asks_for_experts, bytes_off_gpus, keeps_budget, predict, spare_bytes
from app.placement.plan import CPU_LANE, Plan
from app.placement.speed.gain import predict_gain
from app.placement.speed.prediction import predict_speed
from app.placement.speed.rates import weight_bytes
from app.placement.speed.types import Range, SpeedPrediction
from app.units import format_bytes

_LEAST_SHARE = 0.1
"""Of a token's time: where the disk takes less of it, nothing is said."""
_SMALLER = ("q8_0", "q4_k", "q3_k", "q2_k")
"""Types that a smaller file could be of, the largest first."""
_NEXT = 0.8
"""A file of a smaller type has at most so much of the bytes."""
_WEIGHTS = ("experts", "shared_experts", "attention", "embeddings", "output")
"""Parts of a model that are of another type in another file."""


def beyond_words(
    facts: ModelFacts, machine: Machine, plan: Plan, speed: SpeedPrediction, evidence: Evidence, curves: PlanCurves
) -> tuple[str, ...]:
    """Sentences on what would spare a plan the disk; none where the disk takes little of its time.

    Args:
        facts: The model.
        machine: Where it runs.
        plan: The plan, with its predicted memory.
        speed: Its predicted speed.
        evidence: What was measured of machine and model.
        curves: The recorded hit curves of plans.
    """
    of_disk = sum(part.seconds for part in speed.decode_parts if part.name == "disk")
    if not asks_for_experts(plan, machine) or of_disk * speed.decode.likely < _LEAST_SHARE:
        return ()
    found = (
        _more_memory(facts, machine, plan, evidence, curves),
        _smaller_weights(facts, machine, plan, evidence),
    )
    return tuple(words for words in found if words)


def _more_memory(facts: ModelFacts, machine: Machine, plan: Plan, evidence: Evidence, curves: PlanCurves) -> str:
    """What main memory for all experts would give."""
    everything = bytes_off_gpus(facts, plan)
    had = plan.resident_bytes or 0
    if not keeps_budget(plan) or had >= everything:
        return ""
    room = max(spare_bytes(plan, machine, CPU_LANE), 0)
    more = everything - had - room
    if more <= 0:
        return ""  # that is a change of the plan
    ram = msgspec.structs.replace(machine.ram, available_bytes=machine.ram.available_bytes + more)
    roomy = msgspec.structs.replace(machine, ram=ram)
    whole = msgspec.structs.replace(plan, resident_bytes=everything)
    whole = msgspec.structs.replace(whole, memory=predict(facts, roomy, whole))
    gain = predict_gain(
        facts, roomy, plan, whole, calibration=evidence.calibration, curves=curves, learned=evidence.learned
    )
    if gain.decode.likely < LEAST_GAIN:
        return ""
    return (
        f"With {format_bytes(more)} more of free main memory all experts would stay there: decoding "
        f"{percent_range(gain.decode)}, predicted."
    )


def _smaller_weights(facts: ModelFacts, machine: Machine, plan: Plan, evidence: Evidence) -> str:
    """What a file of the next smaller type of weights would give."""
    now = weight_bytes(facts.quantization)
    smaller = next((name for name in _SMALLER if weight_bytes(name) <= now * _NEXT), None)
    if smaller is None:
        return ""
    share = weight_bytes(smaller) / now
    other = _as_file_of(facts, share, smaller)
    held = min(plan.resident_bytes or 0, bytes_off_gpus(other, plan)) or plan.resident_bytes
    made = msgspec.structs.replace(plan, resident_bytes=held)
    made = msgspec.structs.replace(made, memory=predict(other, machine, made))
    before, after = (
        predict_speed(its, machine, of, calibration=evidence.calibration).decode
        for its, of in ((facts, plan), (other, made))
    )
    if after.likely < before.likely * (1 + LEAST_GAIN):
        return ""
    return (
        f"As a file of {smaller.upper()} (now {facts.quantization}) this model would be expected to decode "
        f"{_rates(after)} tokens/s instead of {_rates(before)}, predicted; smaller weights answer less well."
    )


def _as_file_of(facts: ModelFacts, share: float, type_name: str) -> ModelFacts:
    """The model with all of its weights of another type, each with `share` of its bytes; routers stay as they are."""
    sizes = {layer: max(round(size * share), 1) for layer, size in facts.expert_bytes.items()}
    parts = {name: round(getattr(facts.bytes, name) * share) for name in _WEIGHTS}
    spared = sum(getattr(facts.bytes, name) - size for name, size in parts.items())
    return msgspec.structs.replace(
        facts,
        expert_bytes=sizes,
        layer_bytes=tuple(round(size * share) for size in facts.layer_bytes),
        quantization=type_name,
        token_cycle_bytes=sum(sizes.values()) * facts.experts_used,
        file_bytes=max(facts.file_bytes - spared, 0),
        bytes=msgspec.structs.replace(facts.bytes, **parts, total=facts.bytes.total - spared),
    )


def _rates(found: Range) -> str:
    return f"{found.low:.1f} to {found.high:.1f}"
