"""Whether one plan is faster than another by more than noise: from measurements that took turns."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from app.placement.scenarios.figure import Figure
from app.placement.tuner.types import Outcome
from app.units import format_share

ROUNDS = 5
"""Of both plans, taking turns. All five figures of one plan lie above those of an equal one in 1 of 252 cases."""
LEAST_GAIN = 0.02
"""Share: what is gained less than this is not worth a change, however certain."""
LEAST_PROMPT = 0.9
"""Share of the first plan's prompt speed that a plan which decodes faster must keep."""
_LEAST_DECODE = 0.97
"""Share of the first plan's decode speed that a plan which only reads prompts faster must keep."""


class Verdict(NamedTuple):
    """Whether the second plan is to be kept, and why or why not."""

    kept: bool
    reason: str


def figure(values: Sequence[float]) -> Figure | None:
    """Median, bounds and count; None of nothing."""
    if not values:
        return None
    return Figure(median=statistics.median(values), least=min(values), most=max(values), samples=len(values))


def beyond_noise(before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether the least of `after` is above the most of `before`, and its median by more than noise and LEAST_GAIN.

    Noise is half the spread of both. Fewer than ROUNDS rounds prove nothing.
    """
    if min(len(before), len(after)) < ROUNDS:
        return False
    noise = (max(before) - min(before)) / 2 + (max(after) - min(after)) / 2
    first = statistics.median(before)
    gain = statistics.median(after) - first
    return min(after) > max(before) and gain > noise and gain >= LEAST_GAIN * first


def verdict(before: Sequence[Outcome], after: Sequence[Outcome]) -> Verdict:
    """Judge a comparison; outcomes are in the order of the rounds."""
    for outcomes, plan in ((after, "The plan that was best in the search"), (before, "The first plan")):
        if failure := next((its.failure for its in outcomes if its.failure), ""):
            return Verdict(False, f"{plan} failed in the comparison: {failure}")
    if not before or not after:
        return Verdict(False, "There was no time for a comparison.")
    decode = [its.decode for its in before], [its.decode for its in after]
    prompt = [its.prompt for its in before], [its.prompt for its in after]
    kept, words = _judged(decode, prompt)
    figures = f"decoding {_words(*decode)}, prompts {_words(*prompt)}"
    return Verdict(kept, f"{words}: {figures}; {len(after)} rounds.")


_Pair = tuple[Sequence[float], Sequence[float]]


def _judged(decode: _Pair, prompt: _Pair) -> tuple[bool, str]:
    if min(map(len, decode)) < ROUNDS:
        return False, f"{ROUNDS} rounds of comparison were not reached"
    if beyond_noise(*decode):
        if _change(*prompt) < LEAST_PROMPT:
            return False, "It decodes faster and reads prompts too slowly"
        return True, "Faster beyond noise"
    if beyond_noise(*prompt) and _change(*decode) >= _LEAST_DECODE and not beyond_noise(decode[1], decode[0]):
        return True, "Prompts are read faster beyond noise, and decoding is as fast"
    return False, "The difference is within noise"


def _change(before: Sequence[float], after: Sequence[float]) -> float:
    return statistics.median(after) / max(statistics.median(before), 1e-9)


def _words(before: Sequence[float], after: Sequence[float]) -> str:
    first, second = statistics.median(before), statistics.median(after)
    return f"{first:.1f} → {second:.1f} tokens/s ({format_share(_change(before, after) - 1, decimals=1, signed=True)})"
