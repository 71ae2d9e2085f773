"""The speed model: tokens a second of a plan, decoding and prompts apart, as ranges, and what bounds them."""

import math
from collections.abc import Callable, Mapping

import msgspec

from app.errors import AppError, ErrorCode
from app.hardware.facts import GpuKind, Machine
from app.hardware.fingerprint import fingerprint
from app.model.facts import ModelFacts
from app.placement.cache.hit_rates import HitCurve
from app.placement.plan import Plan
from app.placement.speed.calibration import Calibration
from app.placement.speed.demand import Demand, Hits, curve_for, demand_of, hits_of
from app.placement.speed.learning import Correction, Learned
from app.placement.speed.rates import CALIBRATED, Rates, rates_for
from app.placement.speed.times import Share, Values, decode_shares, prompt_shares, total
from app.placement.speed.types import Range, SpeedPrediction, TimePart
from app.placement.speed.words import bound_of, sentence

PROMPT_TOKENS = 512
"""A prompt of one micro-batch, as benchmarks use it."""
_ANSWER_TOKENS = 256

_PARTS = ("cpu experts", "gpu experts", "attention", "copies", "disk", "overhead")
_PART_OF = {"bringing": "disk"}
# The share of the time that must rest on measured rates for a prediction to be called calibrated.
_CALIBRATED_SHARE = 0.75
# A time is never expected below this share of the likeliest: nothing is that much faster than its parts.
_LEAST_SHARE = 0.2


def predict_speed(
    facts: ModelFacts,
    machine: Machine,
    plan: Plan,
    *,
    calibration: Calibration | None = None,
    hit_curve: HitCurve | None = None,
    learned: Learned | None = None,
    prompt_tokens: int = PROMPT_TOKENS,
    context_tokens: int | None = None,
    bounds: bool = True,
) -> SpeedPrediction:
    """How fast `plan` is expected to be.

    Args:
        facts: The model.
        machine: Where it runs.
        plan: How it is loaded, with its predicted memory.
        calibration: What this machine was measured to do; typical rates without.
        hit_curve: Hit rate by pool bytes, for the layers off the GPUs; assumed without.
        learned: What real answers of this model on this machine taught.
        prompt_tokens: Length of the prompt, computed from an empty context.
        context_tokens: Cells in use while decoding; those of such a prompt and half an answer unless told.
        bounds: Whether the ranges are wanted. Without, all of each is the likeliest value, in a fraction of the time.

    Raises:
        AppError: bad_usage, the calibration is another machine's, or a number of tokens is below 1.
    """
    if calibration is not None and calibration.machine and calibration.machine != fingerprint(machine):
        raise AppError(ErrorCode.BAD_USAGE, "The calibration was measured on another machine.")
    context = min(prompt_tokens + _ANSWER_TOKENS, plan.n_ctx) if context_tokens is None else context_tokens
    if prompt_tokens < 1 or context < 1:
        raise AppError(ErrorCode.BAD_USAGE, "Speed is predicted for 1 token of prompt and of context at least.")
    demand = demand_of(facts, machine, plan, context)
    rates = rates_for(facts, machine, plan, calibration)
    curve = hit_curve or curve_for(facts, plan)
    hits = hits_of(demand, plan, facts, curve, None)
    correction = (learned.of(plan) if learned else None) or Correction()

    def decode(values: Values, found: Hits) -> tuple[Share, ...]:
        return decode_shares(demand, values, rates.overlap, found)

    def prompt(values: Values, _found: Hits) -> tuple[Share, ...]:
        return prompt_shares(demand, values, rates.overlap, prompt_tokens, plan.n_ubatch)

    decode_doubt, prompt_doubt = (_decode_doubt(correction), _prompt_doubt(correction)) if bounds else (None, None)
    decoding = _timed(decode, rates, hits, _decode_factors(correction), decode_doubt)
    computing = _timed(prompt, rates, hits, _prompt_factors(correction), prompt_doubt)
    basis = _basis(correction, decoding.shares + computing.shares, rates)
    rests_on = _basis_words(basis, correction) + _hit_words(demand, plan, curve)
    kinds = {gpu.device: gpu.kind for gpu in machine.gpus}
    decode_bound, largest = _bound(decoding.shares, kinds, rates)
    prompt_bound, _ = _bound(computing.shares, kinds, rates)
    return SpeedPrediction(
        decode=decoding.tokens_per_second,
        prompt=computing.tokens_per_second,
        decode_bound=decode_bound,
        prompt_bound=prompt_bound,
        decode_parts=_time_parts(decoding.shares),
        prompt_parts=_time_parts(computing.shares),
        hit_rate=_gpu_share(demand, hits["likely"]),
        basis=basis,
        cold_experts=hits["likely"].cold * demand.touched_tokens[1] * demand.off.layers,
        sentence=sentence(decode_bound, largest, demand.layers, prompt_bound, rests_on),
    )


class _Timed(msgspec.Struct, frozen=True, kw_only=True):
    """Corrected parts of the likeliest time, and the range of tokens a second."""

    shares: tuple[Share, ...]
    tokens_per_second: Range


class _Doubt(msgspec.Struct, frozen=True, kw_only=True):
    """How far rates may be off still (1: all of their bounds), and the spread of answers beside it."""

    of_rates: Callable[[float], float]
    spread: float


def _timed(
    law: Callable[[Values, Hits], tuple[Share, ...]],
    rates: Rates,
    hits: Mapping[str, Hits],
    factors: Callable[[Share], float],
    doubt: _Doubt | None,
) -> _Timed:
    """The likeliest time, and how far it moves when one thing at a time is at its bounds.

    Rates err independently of each other, so what they move adds up by squares.
    """
    values = {name: rate.value for name, rate in rates.values.items()}

    def seconds(changed: Values, found: Hits) -> float:
        return sum(share.waited * factors(share) for share in law(changed, found))

    plain = law(values, hits["likely"])
    shares = tuple(
        msgspec.structs.replace(share, seconds=share.seconds * factors(share), waited=share.waited * factors(share))
        for share in plain
    )
    likely = max(total(shares), 1e-9)
    if doubt is None:
        rate = 1 / likely
        return _Timed(shares=shares, tokens_per_second=Range(low=rate, likely=rate, high=rate))
    of_rates = doubt.of_rates(total(plain))
    longer = shorter = (doubt.spread * likely) ** 2
    for name, its in rates.values.items():
        moved = [seconds({**values, name: bound}, hits["likely"]) - likely for bound in (its.low, its.high)]
        longer += (max(*moved, 0.0) * of_rates) ** 2
        shorter += (min(*moved, 0.0) * of_rates) ** 2
    moved = [seconds(values, hits[bound]) - likely for bound in ("low", "high")]
    longer += max(*moved, 0.0) ** 2
    shorter += min(*moved, 0.0) ** 2
    least = max(likely - math.sqrt(shorter), likely * _LEAST_SHARE)
    return _Timed(
        shares=shares,
        tokens_per_second=Range(low=1 / (likely + math.sqrt(longer)), likely=1 / likely, high=1 / least),
    )


# ---- what was learned --------------------------------------------------------------------------


def _decode_factors(correction: Correction) -> Callable[[Share], float]:
    return lambda share: correction.fixed if share.name == "overhead" else correction.reading


def _prompt_factors(correction: Correction) -> Callable[[Share], float]:
    return lambda _share: correction.prompt


def _decode_doubt(correction: Correction) -> _Doubt:
    if not correction.answers:
        return _Doubt(of_rates=lambda _seconds: 1.0, spread=0.0)

    def of_rates(seconds: float) -> float:
        """None for a time like those that were learned from, all for one that is twice or half as long."""
        if seconds > correction.most_seconds:
            return min(2 * (1 - correction.most_seconds / seconds), 1.0)
        if seconds < correction.least_seconds:
            return min(2 * (1 - seconds / correction.least_seconds), 1.0)
        return 0.0

    return _Doubt(of_rates=of_rates, spread=2 * correction.decode_spread)


def _prompt_doubt(correction: Correction) -> _Doubt:
    if not correction.prompts:
        return _Doubt(of_rates=lambda _seconds: 1.0, spread=0.0)
    return _Doubt(of_rates=lambda _seconds: 0.25, spread=2 * correction.prompt_spread)


# ---- telling it --------------------------------------------------------------------------------


def _basis(correction: Correction, shares: tuple[Share, ...], rates: Rates) -> str:
    """The overhead is left out: it is no rate of a device, and small where anything else is large."""
    if correction.answers:
        return "measured"
    timed = [share for share in shares if share.name != "overhead"]
    whole = sum(share.waited for share in timed)
    known = sum(share.waited for share in timed if rates.values[_rate_of(share)].basis == CALIBRATED)
    return CALIBRATED if whole and known >= _CALIBRATED_SHARE * whole else "assumed"


def _rate_of(share: Share) -> str:
    """The name of the rate that makes this part's time."""
    if share.name in ("disk", "bringing"):
        return share.name
    if share.name == "copies":
        return f"copy {share.device}"
    if share.arithmetic:
        return f"flops {share.device}"
    return f"{'dense' if share.name == 'attention' else 'experts'} {share.device}"


def _basis_words(basis: str, correction: Correction) -> str:
    if basis != "measured":
        return basis
    return f"fitted to {correction.answers} {'answer' if correction.answers == 1 else 'answers'}"


def _hit_words(demand: Demand, plan: Plan, curve: HitCurve) -> str:
    """Where the hit rate of pool or memory is from, if it is from a recording; a pool of pinned experts has none."""
    by_pool = bool(demand.pool_share) and plan.policy.kind != "manual"
    if not curve.tokens or not (by_pool or demand.warm_share < 1):
        return ""
    return f", hit rate from {curve.tokens:,} recorded tokens"


def _bound(shares: tuple[Share, ...], kinds: Mapping[str, GpuKind], rates: Rates) -> tuple[str, Share]:
    """What most of the time depends on, and the largest part that does."""
    sums: dict[str, float] = {}
    largest: dict[str, Share] = {}
    for share in shares:
        bound = bound_of(share, kinds.get(share.device), cpu_waits_for_memory=rates.cpu_waits_for_memory)
        sums[bound] = sums.get(bound, 0.0) + share.waited
        if bound not in largest or share.waited > largest[bound].waited:
            largest[bound] = share
    found = max(sums, key=lambda bound: sums[bound])
    return found, largest[found]


def _time_parts(shares: tuple[Share, ...]) -> tuple[TimePart, ...]:
    seconds = dict.fromkeys(_PARTS, 0.0)
    for share in shares:
        seconds[_PART_OF.get(share.name, share.name)] += share.seconds
    return tuple(TimePart(name=name, seconds=took) for name, took in seconds.items() if took)


def _gpu_share(demand: Demand, hits: Hits) -> float:
    """Share of a token's routed expert bytes that a GPU computes: whole layers and the pool's hits."""
    whole = sum(group.routed_bytes for group in demand.whole)
    routed = whole + demand.off.routed_bytes
    return (whole + demand.off.routed_bytes * hits.pool) / routed if routed else 0.0
