"""How much faster one plan is than another: a range, in which what both predictions rest on errs for both alike."""

import math
from collections.abc import Callable

import msgspec

from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.cache.hit_rates import HitCurve
from app.placement.cache.recorded_hits import PlanCurves
from app.placement.plan import Plan
from app.placement.speed.calibration import Calibration
from app.placement.speed.demand import Demand, Hits, curve_for, demand_of, hits_of
from app.placement.speed.learning import Correction, Learned, devices_of
from app.placement.speed.prediction import PROMPT_TOKENS
from app.placement.speed.rates import Rates, rates_for
from app.placement.speed.times import Share, Values, decode_shares, prompt_shares
from app.placement.speed.types import Range

_CONTEXT_TOKENS = PROMPT_TOKENS + 256
_LIKELY = "likely"
_ALONE = (0.9, 1.1)
"""Bounds of a rate that two plans have different values of, for one plan alone: a judgement, not a measurement."""


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """By how much a plan is expected to be faster than another one, as shares of its speed: 0.1 is a tenth more."""

    decode: Range
    prompt: Range


class _Side(msgspec.Struct, frozen=True, kw_only=True):
    """All that one plan's time follows from."""

    demand: Demand
    rates: Rates
    hits: dict[str, Hits]
    n_ubatch: int

    @property
    def values(self) -> Values:
        return {name: rate.value for name, rate in self.rates.values.items()}


_Law = Callable[[_Side, Values, Hits], float]
_Move = tuple[Values, Values, str]
"""Rates that are other ones for the first plan, and for the second, and the bound of hit rates."""


def predict_gain(
    facts: ModelFacts,
    machine: Machine,
    before: Plan,
    after: Plan,
    *,
    calibration: Calibration | None = None,
    curves: PlanCurves | None = None,
    learned: Learned | None = None,
) -> Gain:
    """How much faster `after` is than `before`.

    Two predictions with wide ranges may still differ by little that is in doubt: a rate that both use is wrong for
    both. One that differs between them (another number of threads, another layout) is wrong for both, and by a tenth
    for each alone; one that only one of them uses is wrong for that one.

    Args:
        facts: The model.
        machine: Where it runs.
        before: The plan that is compared with, with its predicted memory.
        after: Another plan, with its predicted memory.
        calibration: As for `predict_speed`.
        curves: The recorded hit curves of plans; not used where one of the two has none.
        learned: As for `predict_speed`; not used where the two use different devices.
    """
    found = [curves.of(plan) for plan in (before, after)] if curves is not None else []
    recorded = [curve for curve in found if curve is not None]
    if len(recorded) < 2:
        recorded = [curve_for(facts, plan) for plan in (before, after)]
    context = min(_CONTEXT_TOKENS, before.n_ctx, after.n_ctx)
    first, second = (
        _side(facts, machine, plan, calibration, curve, context)
        for plan, curve in zip((before, after), recorded, strict=True)
    )
    shared = learned.of(before) if learned is not None and devices_of(before) == devices_of(after) else None
    correction = shared or Correction()

    def decode(side: _Side, values: Values, hits: Hits) -> float:
        shares = decode_shares(side.demand, values, side.rates.overlap, hits)
        return sum(share.waited * _factor(share, correction) for share in shares)

    def prompt(side: _Side, values: Values, _hits: Hits) -> float:
        shares = prompt_shares(side.demand, values, side.rates.overlap, PROMPT_TOKENS, side.n_ubatch)
        return sum(share.waited for share in shares)

    return Gain(decode=_ratio(decode, first, second), prompt=_ratio(prompt, first, second))


def _side(
    facts: ModelFacts, machine: Machine, plan: Plan, calibration: Calibration | None, curve: HitCurve, context: int
) -> _Side:
    demand = demand_of(facts, machine, plan, context)
    return _Side(
        demand=demand,
        rates=rates_for(facts, machine, plan, calibration),
        hits=hits_of(demand, plan, facts, curve, None),
        n_ubatch=plan.n_ubatch,
    )


def _factor(share: Share, correction: Correction) -> float:
    return correction.fixed if share.name == "overhead" else correction.reading


def _ratio(law: _Law, first: _Side, second: _Side) -> Range:
    """The gain, and how far it moves when one thing at a time is at its bounds.

    What moves it errs independently, so that logarithms of the ratio add up by squares.
    """

    def logarithm(changed: Values, its: Values, hits: str = _LIKELY) -> float:
        before = law(first, {**first.values, **changed}, first.hits[hits])
        after = law(second, {**second.values, **its}, second.hits[hits])
        return math.log(max(before, 1e-12)) - math.log(max(after, 1e-12))

    likely = logarithm({}, {})
    more = less = 0.0
    hits: list[_Move] = [({}, {}, bound) for bound in ("low", "high")]
    moves = [*_rate_moves(first.rates, second.rates), hits]
    for bounds in moves:
        moved = [logarithm(*bound) - likely for bound in bounds]
        more += max(*moved, 0.0) ** 2
        less += min(*moved, 0.0) ** 2
    return Range(
        low=math.expm1(likely - math.sqrt(less)),
        likely=math.expm1(likely),
        high=math.expm1(likely + math.sqrt(more)),
    )


def _rate_moves(first: Rates, second: Rates) -> list[list[_Move]]:
    """Each rate at its two bounds, for both plans at once; and what is in doubt of it for one plan alone."""
    moves: list[list[_Move]] = []
    for name in dict.fromkeys((*first.values, *second.values)):
        one, other = first.values.get(name), second.values.get(name)
        lows = [{name: its.low} if its is not None else {} for its in (one, other)]
        highs = [{name: its.high} if its is not None else {} for its in (one, other)]
        moves.append([(lows[0], lows[1], _LIKELY), (highs[0], highs[1], _LIKELY)])
        if one is not None and other is not None and one.value != other.value:
            moves.append([({name: one.value * share}, {}, _LIKELY) for share in _ALONE])
            moves.append([({}, {name: other.value * share}, _LIKELY) for share in _ALONE])
    return moves
