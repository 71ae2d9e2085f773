"""The tuning curve in words: what a point predicts, what was measured, and what the curve rests on."""

from PySide6.QtCore import QCoreApplication

from app.model.facts import ModelFacts
from app.placement.cache.recorded_hits import RecordedHits, layers_off_gpus
from app.placement.evidence import Evidence
from app.placement.plan import Plan
from app.placement.speed.curve import SpeedPoint
from app.placement.speed.learning import LEAST_DECODED
from app.ui.measured_answers import CHANGED, DIFFERENT, SHORT, UNCOUNTED, Answered
from app.ui.tuning.curve_data import GPU_TIER, MEMORY_TIER, Measured
from app.ui.words import in_bytes, in_percent, in_tokens, in_tokens_per_second, number

translate = QCoreApplication.translate


def point_text(point: SpeedPoint, tier: str = GPU_TIER) -> str:
    """What is predicted for one size: "Pool of 2.0 GiB: 18–22 tokens/s predicted, likeliest 20.1 tokens/s…"."""
    size = in_bytes(point.pool_bytes) if point.pool_bytes else ""
    pool = translate("Curve", "Pool of {size}").format(size=size) if size else translate("Curve", "No pool")
    if tier == MEMORY_TIER:
        pool = translate("Curve", "{size} of memory").format(size=size or translate("Curve", "Next to none"))
    words = translate("Curve", "{pool}: {rates} predicted (likeliest {likely})").format(
        pool=pool,
        rates=range_text(point.decode.low, point.decode.high),
        likely=in_tokens_per_second(point.decode.likely),
    )
    if tier == MEMORY_TIER:
        share = in_percent(point.hit_rate)
        words += translate("Curve", "; {share} of the routed experts need no disk").format(share=share)
    elif point.pool_bytes:
        share = in_percent(point.hit_rate)
        words += translate("Curve", "; {share} of the routed experts' bytes on the GPU").format(share=share)
    if point.whole_layers is not None and point.pool_bytes:
        words += translate("Curve", "; whole layers in the same memory: {rate}").format(
            rate=in_tokens_per_second(point.whole_layers)
        )
    return words + "."


def range_text(low: float, high: float) -> str:
    """Two rates with their unit once: "18.2–21.9 tokens/s"."""
    last = in_tokens_per_second(high)
    first = in_tokens_per_second(low)
    unit = last.partition(" ")[2]
    return last if first == last else f"{first.removesuffix(unit).strip()}–{last}"


def measured_text(measured: Measured, tier: str = GPU_TIER) -> str:
    """What answers really reached with a pool: "Measured with a pool of 2.0 GiB: 19.4 tokens/s (3 answers, …)"."""
    size = in_bytes(measured.pool_bytes)
    pool = translate("Curve", "with a pool of {size}").format(size=size)
    if tier == MEMORY_TIER:
        pool = translate("Curve", "with {size} of memory for experts").format(size=size)
    elif not measured.pool_bytes:
        pool = translate("Curve", "without a pool in use")
    rate = in_tokens_per_second(measured.median)
    if len(measured.rates) == 1:
        return translate("Curve", "Measured {pool}: {rate} in 1 answer.").format(pool=pool, rate=rate)
    return translate("Curve", "Measured {pool}: {rate}, the median of {count} answers ({least}).").format(
        pool=pool, rate=rate, count=number(len(measured.rates)), least=range_text(measured.least, measured.most)
    )


def memory_basis_text(facts: ModelFacts, plan: Plan, recorded: RecordedHits | None) -> str:
    """What the share of experts that are in memory rests on: the same as a pool's hit rate, in other words."""
    known = recorded is not None and recorded.enough and plan.experts_used in (None, facts.experts_used)
    if known and recorded is not None and all(layer in recorded.layers for layer in layers_off_gpus(plan)):
        words = translate(
            "Curve", "What is in memory is what LRU keeps on {tokens} of this model, recorded from answers."
        )
        return words.format(tokens=in_tokens(recorded.tokens))
    return translate(
        "Curve",
        "What is in memory of the experts that are needed is assumed from published figures of other models: too "
        "little of this one was recorded here.",
    )


def unplaced_text(answered: Answered) -> str:
    """What an answer reached that is no point of the picture, and why it is none; empty where it is one."""
    rate = answered.finished.tokens_per_second
    if not answered.why_not or not rate:
        return ""
    why = {
        CHANGED: translate("Curve", "pool, memory, policy or pins were changed while it came."),
        DIFFERENT: translate("Curve", "the engine loaded the model otherwise than planned."),
        SHORT: translate("Curve", "an answer shorter than {least} says little of a plan.").format(
            least=in_tokens(LEAST_DECODED)
        ),
        UNCOUNTED: translate("Curve", "the engine did not count what the pool missed."),
    }[answered.why_not]
    words = translate("Curve", "The last answer reached {rate}, measured; it is not in the picture: {why}")
    return words.format(rate=in_tokens_per_second(rate), why=why)


def hit_basis_text(facts: ModelFacts, plan: Plan, recorded: RecordedHits | None) -> str:
    """What the hit rate of the plan's pool rests on; empty where there is nothing a pool could hold."""
    layers = layers_off_gpus(plan)
    if not layers:
        return ""
    assumed = translate("Curve", "The pool's hit rate is assumed from published figures of other models: {why}")
    if recorded is None:
        return assumed.format(why=translate("Curve", "no answer of this model was recorded here yet."))
    if plan.experts_used not in (None, facts.experts_used):
        why = translate("Curve", "routing was recorded with the model's own number of experts for each token.")
        return assumed.format(why=why)
    if not recorded.enough:
        why = translate("Curve", "{tokens} of this model are recorded so far, {least} are needed.")
        return assumed.format(why=why.format(tokens=in_tokens(recorded.tokens), least=number(recorded.least_tokens)))
    missing = [layer for layer in layers if layer not in recorded.layers]
    if missing:
        why = translate("Curve", "of {count} of its {all} layers too little was recorded.")
        return assumed.format(why=why.format(count=number(len(missing)), all=number(len(layers))))
    words = translate(
        "Curve", "The pool's hit rate is what LRU reaches on {tokens} of this model, recorded from answers."
    )
    return words.format(tokens=in_tokens(recorded.tokens))


def rates_basis_text(plan: Plan, evidence: Evidence) -> str:
    """What the speeds rest on beside the hit rate."""
    if evidence.calibration is None:
        words = translate(
            "Curve", "Speeds are predicted from typical rates of such hardware: no measurement of this machine is used."
        )
    else:
        words = translate("Curve", "Speeds are predicted from this machine's measured rates.")
    correction = evidence.learned.of(plan) if evidence.learned is not None else None
    if correction is not None and correction.answers:
        one = translate("Curve", "What 1 answer taught corrects them.")
        many = translate("Curve", "What {count} answers taught corrects them.").format(count=number(correction.answers))
        words += " " + (one if correction.answers == 1 else many)
    return words
