"""What real answers teach the speed model: factors on its terms, for this model on this machine with this engine."""

import datetime
from collections.abc import Sequence
from typing import Annotated, Protocol

import msgspec

from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.cache.facts import CacheReport
from app.placement.cache.hit_rates import HitCurve
from app.placement.plan import CPU_LANE, Plan
from app.placement.speed.calibration import Calibration
from app.placement.speed.demand import curve_for, demand_of, hits_of
from app.placement.speed.fit import fit_two_terms, weighted_median
from app.placement.speed.rates import rates_for
from app.placement.speed.times import decode_shares, prompt_shares, total

LEAST_DECODED = 16
"""Tokens: the rate of a shorter answer says little."""
LEAST_PROMPT = 32
"""Tokens: shorter prompts are mostly overhead."""
MOST_OBSERVATIONS = 48
"""The newest so many are fitted to: what was true of an older driver need not be true now."""

_HALF_LIFE = 16
"""Observations: one that is so much older counts half."""
_LEAST_FOR_TWO = 4
# Where the fixed share of the time differs by less than this between answers, they do not tell fixed from bytes.
_LEAST_DIFFERENCE = 0.08
_FACTORS = (0.1, 10.0)
# Of one or two answers nothing tells which is the odd one out: they move a prediction by no more than this.
_FACTORS_OF_FEW = (0.5, 2.0)
_FEW = 2
# One answer differs from the next by so much with nothing changed; and what a single one leaves open.
_LEAST_SPREAD = 0.04
_SPREAD_OF_ONE = 0.12
_MOST_SPREAD = 1.0
"""Of answers that differ by more, something else than the plan was the reason."""
_LEAST_RATE = 1e-4
"""Tokens a second: one in three hours; a record that tells of less is damaged."""

_Rate = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]
_Tokens = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One real answer: what was loaded, and how fast it was. All figures are measured.

    Attributes:
        plan: What was loaded, without files, pins, steps and predictions; its pool is what the device gave.
        hit_rate: Share of the routed experts that were in the pool; None without one.
        decode_tokens_per_second: 0 for an answer too short to tell. prompt_tokens_per_second: likewise.
        prompt_tokens: Tokens that were computed for it, without those reused.
        context_tokens: Cells in use, half way through the answer.
        spare_ram_bytes: What main memory had left beside the plan, as predicted before the load.
        at: ISO 8601, UTC.
    """

    plan: Plan
    hit_rate: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] | None
    decode_tokens_per_second: _Rate
    prompt_tokens_per_second: _Rate
    prompt_tokens: _Tokens
    context_tokens: _Tokens
    spare_ram_bytes: Annotated[int, msgspec.Meta(ge=-(2**50), le=2**50)]
    at: str


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """Factors on predicted times, for plans that use the same devices for the same things.

    Attributes:
        fixed, reading: On a token's overhead, and on everything else. prompt: on all of a prompt's time.
        decode_spread, prompt_spread: Standard deviation of what they leave, relative.
        answers, prompts: How many they rest on; 0 for a factor that is 1 for want of any.
        least_seconds, most_seconds: Uncorrected times of the tokens they rest on.
        told_apart: Whether fixed and reading were told apart.
    """

    fixed: float = 1.0
    reading: float = 1.0
    prompt: float = 1.0
    decode_spread: float = 0.0
    prompt_spread: float = 0.0
    answers: int = 0
    prompts: int = 0
    least_seconds: float = 0.0
    most_seconds: float = 0.0
    told_apart: bool = False


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """Corrections by `devices_of` a plan."""

    corrections: dict[str, Correction]

    def of(self, plan: Plan) -> Correction | None:
        """What was learned for plans like this one."""
        return self.corrections.get(devices_of(plan))


def devices_of(plan: Plan) -> str:
    """Which device does what in a plan: what was learned of one does not hold for another."""
    lanes = sorted(set(plan.expert_lanes.values()))
    pool = plan.pool_on if plan.pool_bytes else None
    return f"attention {plan.gpu or CPU_LANE}, experts {' '.join(lanes)}, pool {pool or 'none'}"


class Answer(Protocol):
    """The figures of a finished answer, as `engine.protocol.Finished` has them."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the whole prompt."""

    @property
    def reused_tokens(self) -> int:
        """Those of them that were computed before."""

    @property
    def completion_tokens(self) -> int:
        """Tokens of the answer."""

    @property
    def prompt_tokens_per_second(self) -> float:
        """Over the tokens computed."""

    @property
    def tokens_per_second(self) -> float:
        """Over what was decoded."""

    @property
    def cache(self) -> CacheReport:
        """What the expert cache did."""


def observation(plan: Plan, answer: Answer, spare_ram_bytes: int) -> Observation | None:
    """What the figures of an answer tell; None where they tell nothing.

    Args:
        plan: What is loaded.
        answer: Its measured figures.
        spare_ram_bytes: What main memory had left beside the plan, as predicted before the load.
    """
    cache = answer.cache
    computed = answer.prompt_tokens - answer.reused_tokens
    pool = cache.allocated_bytes if cache.used else 0
    routed = cache.hits + (cache.misses or 0)
    hit_rate = cache.hits / routed if pool and cache.misses is not None and routed else None
    known = not pool or hit_rate is not None
    decode = answer.tokens_per_second if answer.completion_tokens >= LEAST_DECODED and known else 0.0
    prompt = answer.prompt_tokens_per_second if computed >= LEAST_PROMPT else 0.0
    if not decode and not prompt:
        return None
    return Observation(
        plan=msgspec.structs.replace(
            plan, pool_bytes=pool, model_files=(), pins=(), steps=(), memory=(), speed=None, tuned=""
        ),
        hit_rate=hit_rate,
        decode_tokens_per_second=decode,
        prompt_tokens_per_second=prompt,
        prompt_tokens=computed,
        context_tokens=answer.prompt_tokens + answer.completion_tokens // 2,
        spare_ram_bytes=spare_ram_bytes,
        at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def learn(
    facts: ModelFacts,
    machine: Machine,
    observations: Sequence[Observation],
    *,
    calibration: Calibration | None,
    hit_curve: HitCurve | None = None,
) -> Learned | None:
    """Fit the speed model to real answers of this model on this machine with this engine.

    Args:
        facts: The model.
        machine: The machine.
        observations: Oldest first; those of layers that the model does not have are passed over.
        calibration: The rates that predictions are made with, which the factors correct.
        hit_curve: For the main memory of plans with a disk lane; the pool's hit rate was measured.

    Returns:
        None where there is nothing to learn from.
    """
    by_devices: dict[str, list[Observation]] = {}
    for seen in observations:
        if set(seen.plan.expert_lanes) == set(facts.moe_layers):
            by_devices.setdefault(devices_of(seen.plan), []).append(seen)
    corrections = {
        devices: _correction(facts, machine, seen[-MOST_OBSERVATIONS:], calibration, hit_curve)
        for devices, seen in by_devices.items()
    }
    return Learned(corrections=corrections) if corrections else None


def _correction(
    facts: ModelFacts,
    machine: Machine,
    observations: list[Observation],
    calibration: Calibration | None,
    hit_curve: HitCurve | None,
) -> Correction:
    decoded: list[tuple[float, float, float]] = []
    prompts: list[tuple[float, float, float]] = []
    for seen in observations:
        fixed, reading, prompt = _predicted(facts, machine, seen, calibration, hit_curve)
        if seen.decode_tokens_per_second >= _LEAST_RATE:
            decoded.append((fixed, reading, 1 / seen.decode_tokens_per_second))
        if seen.prompt_tokens_per_second >= _LEAST_RATE:
            prompts.append((0.0, prompt, 1 / seen.prompt_tokens_per_second))
    fixed_factor, reading_factor, decode_spread, told_apart = fit_factors(decoded)
    _, prompt_factor, prompt_spread, _ = fit_factors(prompts)
    seconds = [fixed + reading for fixed, reading, _ in decoded]
    return Correction(
        fixed=fixed_factor,
        reading=reading_factor,
        prompt=prompt_factor,
        decode_spread=decode_spread,
        prompt_spread=prompt_spread,
        answers=len(decoded),
        prompts=len(prompts),
        least_seconds=min(seconds, default=0.0),
        most_seconds=max(seconds, default=0.0),
        told_apart=told_apart,
    )


def fit_factors(rows: Sequence[tuple[float, float, float]]) -> tuple[float, float, float, bool]:
    """Factors on the fixed and on the reading time, the spread they leave, and whether they were told apart.

    With few answers, or where all have the same share of fixed time, it is one factor for both: the median. One or
    two answers move the prediction to the half or the double at most.

    Args:
        rows: (predicted fixed, predicted reading, measured) seconds, oldest first.
    """
    if not rows:
        return 1.0, 1.0, 0.0, False
    weights = [0.5 ** ((len(rows) - 1 - index) / _HALF_LIFE) for index in range(len(rows))]
    shares = [fixed / (fixed + reading) for fixed, reading, _ in rows]
    if len(rows) >= _LEAST_FOR_TWO and max(shares) - min(shares) >= _LEAST_DIFFERENCE:
        found = fit_two_terms(rows, weights)
        if found is not None and all(_FACTORS[0] <= factor <= _FACTORS[1] for factor in (found.first, found.second)):
            return found.first, found.second, _spread(found.spread, len(rows)), True
    ratios = [measured / (fixed + reading) for fixed, reading, measured in rows]
    least, most = _FACTORS_OF_FEW if len(rows) <= _FEW else _FACTORS
    factor = min(max(weighted_median(ratios, weights), least), most)
    left = weighted_median([abs(ratio / factor - 1) for ratio in ratios], weights) * 1.4826
    return factor, factor, _spread(left, len(rows)), False


def _spread(left: float, count: int) -> float:
    return max(min(left, _MOST_SPREAD), _LEAST_SPREAD, _SPREAD_OF_ONE / count)


def _predicted(
    facts: ModelFacts,
    machine: Machine,
    seen: Observation,
    calibration: Calibration | None,
    hit_curve: HitCurve | None,
) -> tuple[float, float, float]:
    """Uncorrected seconds of a token of that answer, fixed and else, and of a token of its prompt."""
    plan = seen.plan
    demand = demand_of(facts, machine, plan, seen.context_tokens, spare_ram=seen.spare_ram_bytes)
    rates = rates_for(facts, machine, plan, calibration)
    values = {name: rate.value for name, rate in rates.values.items()}
    hits = hits_of(demand, plan, facts, hit_curve or curve_for(facts, plan), seen.hit_rate)["likely"]
    shares = decode_shares(demand, values, rates.overlap, hits)
    fixed = sum(share.waited for share in shares if share.name == "overhead")
    prompt = total(prompt_shares(demand, values, rates.overlap, seen.prompt_tokens, plan.n_ubatch))
    return fixed, total(shares) - fixed, prompt
