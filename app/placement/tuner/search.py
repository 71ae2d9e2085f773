"""The tuner's search: which plan to measure next, and which to keep. Pure: it is told outcomes and never measures.

Successive halving: every change of one thing is measured shortly beside the first plan; the better half is
measured twice as long, and so on. What was faster is put together; then micro-batches are tried for prompts. The
best plan is compared with the first in turns, and kept only beyond noise (`tuner_duel`). All gains are relative to
the first plan in the same round, for a machine is not equally fast all the time.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

from app.placement.tuner.candidates import Candidates
from app.placement.tuner.duel import LEAST_GAIN, LEAST_PROMPT, ROUNDS, figure, verdict
from app.placement.tuner.types import Budget, Candidate, Outcome, Trial, Tried, TuneResult
from app.units import format_share

SEARCH, COMPARISON = "search", "comparison"

_LADDER = (Budget(prompt_tokens=64, decode_tokens=24), Budget(prompt_tokens=128, decode_tokens=48),
           Budget(prompt_tokens=256, decode_tokens=96), Budget(prompt_tokens=512, decode_tokens=192))  # fmt: skip
_COMPARISON_SHARE = 0.5
"""Most of the whole time that the final comparison may be planned to take."""
_CONTEXT_SHARE = 4
"""A measurement fills at most one such part of the context."""
_LEAST_PROMPT_GAIN = 0.05
"""What other micro-batches must gain before they are compared."""
_MOST_TOGETHER = 3


@dataclass
class _Record:
    """A candidate and what was measured of it.

    `gain` is the latest, as a share of the first plan's decode speed; `tokens` is how long that measurement was.
    `changes` is by how much decoding and prompts differed then from the first plan's, as shares.
    """

    candidate: Candidate
    outcomes: list[Outcome] = field(default_factory=list)
    failure: str = ""
    gain: float = 0.0
    tokens: int = 0
    changes: tuple[float, float] | None = None


_Steps = Generator[tuple[Candidate, Budget, str], Outcome, None]
_Measuring = Generator[tuple[Candidate, Budget, str], Outcome, Outcome]


class Tuner:
    """One search. Ask `next_trial`, measure it, `report` the outcome; when there is no next one, read `result`.

    Args:
        candidates: What may be changed.
        limit_seconds: The whole time; the search leaves what the final comparison needs.
        clock: Seconds that pass, from anywhere.
    """

    def __init__(self, candidates: Candidates, limit_seconds: float, clock: Callable[[], float]) -> None:
        self._candidates = candidates
        self._limit = limit_seconds
        self._clock = clock
        self._started = clock()
        self._asked_at = self._started
        self._first = _Record(candidates.first)
        self._records = [self._first]
        self._best = self._first
        self._reference: Outcome | None = None  # of the first plan, the latest
        self._ladder = _ladder(self._first.candidate.plan.n_ctx)
        self._comparison = self._ladder[0]  # how long a measurement of the final comparison is
        self._planned = 0  # trials of the search that are still to come, as far as is known
        self._load_seconds = self._token_seconds = 0.0
        self._trials = 0
        self._before: list[Outcome] = []
        self._after: list[Outcome] = []
        self._cancelled = False
        self._told: Outcome | None = None
        self._asked: tuple[Candidate, Budget, str] | None = None
        self._ended_at: float | None = None
        self._steps = self._search()

    # ---- from outside ------------------------------------------------------------------------

    def next_trial(self) -> Trial | None:
        """What to measure next; the same until its outcome is reported. None at the end."""
        if self._asked is None and self._ended_at is None:
            try:
                self._asked = next(self._steps) if self._told is None else self._steps.send(self._told)
            except StopIteration:
                self._ended_at = self._clock()
                return None
            self._trials += 1
            self._asked_at = self._clock()
        if self._asked is None:
            return None
        candidate, budget, stage = self._asked
        return Trial(
            candidate=candidate,
            budget=budget,
            stage=stage,
            number=self._trials,
            remaining_seconds=self._remaining(stage),
        )

    def report(self, outcome: Outcome) -> None:
        """Tell what came of the trial that was asked for."""
        assert self._asked is not None, "no trial was asked for"
        self._note_duration(*self._asked[:2], outcome)
        self._told, self._asked = outcome, None

    def cancel(self) -> None:
        """End it with what there is; a trial that was asked for is not measured."""
        if self._ended_at is None:
            self._steps.close()
            self._cancelled, self._asked, self._ended_at = True, None, self._clock()

    @property
    def result(self) -> TuneResult:
        """What it came to, also while it is going on."""
        kept, reason = self._judged()
        best = self._best if kept or not self._refuted else self._first
        return TuneResult(
            kept=kept,
            reason=reason,
            best=best.candidate.plan,
            words=best.candidate.words,
            before=_tried(self._first, self._before),
            after=_tried(self._best, self._after) if self._best is not self._first else None,
            tried=tuple(tried for record in self._records if (tried := _tried(record)) is not None),
            cancelled=self._cancelled,
            seconds=(self._clock() if self._ended_at is None else self._ended_at) - self._started,
        )

    @property
    def _refuted(self) -> bool:
        """Whether a whole comparison spoke against the best plan of the search."""
        return len(self._after) >= ROUNDS or any(outcome.failure for outcome in self._after)

    def _judged(self) -> tuple[bool, str]:
        if self._best is self._first:
            if self._first.failure and self._reference is None:
                return False, f"The first plan failed, and so did all others: {self._first.failure}"
            if not any(record.outcomes or record.failure for record in self._records[1:]):
                return False, f"No other plan was measured: {self._why_none()}."
            return False, f"No other plan was faster by {format_share(LEAST_GAIN)} or more in the search."
        if self._first.failure and self._reference is None:
            return True, f"The first plan failed ({self._first.failure}); this one was measured."
        if not self._after:
            why = "it was cancelled" if self._cancelled else "there was no time"
            return False, f"The best plan of the search was not compared with the first one: {why}."
        return verdict(self._before, self._after)

    def _why_none(self) -> str:
        if self._cancelled:
            return "it was cancelled"
        needed = (3 + 2 * ROUNDS) * self._cost(self._comparison)
        return f"trying one and comparing it would take about {needed:.0f} s, of {self._limit:.0f} s in all"

    # ---- the search --------------------------------------------------------------------------

    def _search(self) -> _Steps:
        # The first measurement reads the file from the disk: it tells how long things take, and counts no further.
        opening = yield from self._measured(self._first, self._ladder[0], SEARCH)
        if opening.failure:
            yield from self._without_first()
            return
        self._first.outcomes.clear()
        self._choose_lengths()
        singles = [self._record(candidate) for candidate in self._candidates.single_changes()]
        yield from self._halving(singles)
        yield from self._together(singles)
        yield from self._micro_batches()
        if self._best is not self._first:
            yield from self._compare()

    def _without_first(self) -> _Steps:
        """The first plan cannot be measured: the fastest of the others, as far as there is time."""
        records = [self._record(candidate) for candidate in self._candidates.single_changes()]
        for record in records:
            if self._elapsed() + self._cost(self._ladder[0]) > self._limit:
                return
            outcome = yield from self._measured(record, self._ladder[0], SEARCH)
            if not outcome.failure and (self._best is self._first or outcome.decode > self._best.outcomes[-1].decode):
                self._best = record

    def _halving(self, records: Sequence[_Record]) -> _Steps:
        left = list(records)
        for level, budget in enumerate(self._ladder):
            if not left or budget.tokens > self._comparison.tokens:
                return
            later = len(self._ladder) - level - 1
            yield from self._round(
                left, budget, then=sum(max(len(left) >> step, 1) + 1 for step in range(1, later + 1))
            )
            left = sorted((record for record in left if not record.failure), key=lambda its: -its.gain)
            if len(left) <= 1:
                return
            left = left[: -(-len(left) // 2)]

    def _round(self, records: Sequence[_Record], budget: Budget, then: int = 0) -> _Steps:
        """Measure the first plan and all `records` once; what there is no time for is dropped from the search."""
        self._planned = len(records) + 1 + then
        if not self._affordable(budget, 2):
            return
        base = yield from self._measured(self._first, budget, SEARCH)
        if not base.failure:
            self._reference = base
        for record in records:
            if record.failure:
                continue
            if not self._affordable(budget):
                return
            outcome = yield from self._measured(record, budget, SEARCH)
            self._note_gain(record, budget, outcome)

    def _together(self, singles: Sequence[_Record]) -> _Steps:
        """Changes that were faster alone, the best first: two of them, three, and so on."""
        faster = sorted((record for record in singles if record.gain >= LEAST_GAIN), key=lambda its: -its.gain)
        made: list[_Record] = []
        for count in range(2, min(len(faster), _MOST_TOGETHER + 1) + 1):
            candidate = self._candidates.together(record.candidate.choice for record in faster[:count])
            if candidate and all(candidate.plan != record.candidate.plan for record in self._records):
                made.append(self._record(candidate))
        if made:
            # Beside the best single change, which is measured anew in the same round.
            yield from self._round([*made, faster[0]], self._comparison)

    def _micro_batches(self) -> _Steps:
        """Other micro-batches for the best plan: kept for faster prompts where decoding is as fast."""
        longest = self._ladder[-1]
        reference = self._best
        others = [self._record(candidate) for candidate in self._candidates.micro_batches(reference.candidate.choice)]
        self._planned = len(others) + 1
        if not others or not self._affordable(longest, 2):
            return
        base = yield from self._measured(reference, longest, SEARCH)
        if base.failure:
            return
        best = 1 + _LEAST_PROMPT_GAIN
        for record in others:
            if not self._affordable(longest):
                return
            outcome = yield from self._measured(record, longest, SEARCH)
            gain = outcome.prompt / max(base.prompt, 1e-9)
            record.changes = _changes(outcome, base, reference.changes)
            if not outcome.failure and gain >= best and outcome.decode >= base.decode * (1 - LEAST_GAIN):
                best, self._best = gain, record
                record.gain = reference.gain

    def _compare(self) -> _Steps:
        """The first plan and the best one in turns; who begins changes too."""
        pairs = ((self._first, self._before), (self._best, self._after))
        for number in range(ROUNDS):
            for record, outcomes in pairs if number % 2 == 0 else reversed(pairs):
                outcome = yield from self._measured(record, self._comparison, COMPARISON)
                outcomes.append(outcome)
                if outcome.failure:
                    return

    # ---- what is measured --------------------------------------------------------------------

    def _record(self, candidate: Candidate) -> _Record:
        record = _Record(candidate)
        self._records.append(record)
        return record

    def _measured(self, record: _Record, budget: Budget, stage: str) -> _Measuring:
        outcome = yield record.candidate, budget, stage
        self._planned -= 1
        if outcome.failure:
            record.failure = outcome.failure
        else:
            record.outcomes.append(outcome)
        return outcome

    def _note_gain(self, record: _Record, budget: Budget, outcome: Outcome) -> None:
        reference = self._reference
        record.tokens = budget.tokens
        record.changes = None if reference is None else _changes(outcome, reference)
        if outcome.failure or reference is None:
            record.gain = 0.0
        elif outcome.prompt < reference.prompt * LEAST_PROMPT:
            record.gain = -1.0  # no faster decoding is worth that
        else:
            record.gain = outcome.decode / max(reference.decode, 1e-9) - 1
        faster = [its for its in self._records[1:] if its.gain >= LEAST_GAIN and not its.failure]
        # What was measured longer was better than the others before, and is known better.
        self._best = max(faster, key=lambda its: (its.tokens, its.gain), default=self._first)

    # ---- time --------------------------------------------------------------------------------

    def _elapsed(self) -> float:
        return self._clock() - self._started

    def _note_duration(self, candidate: Candidate, budget: Budget, outcome: Outcome) -> None:
        """Time is counted by the first plan, where it can be measured: a slow candidate would end the search early."""
        if outcome.failure or (self._token_seconds and candidate is not self._first.candidate):
            return
        taken = self._clock() - self._asked_at
        self._load_seconds = outcome.load_seconds
        self._token_seconds = max(taken - outcome.load_seconds, 0.0) / budget.tokens

    def _cost(self, budget: Budget) -> float:
        """About how long a measurement takes, as the first plan's last one did."""
        return self._load_seconds + self._token_seconds * budget.tokens

    def _choose_lengths(self) -> None:
        """The longest comparison that takes no more than its share of the time."""
        fitting = [its for its in self._ladder if 2 * ROUNDS * self._cost(its) <= self._limit * _COMPARISON_SHARE]
        self._comparison = fitting[-1] if fitting else self._ladder[0]

    def _affordable(self, budget: Budget, trials: int = 1) -> bool:
        """Whether there is time for so many trials, and for the comparison after them."""
        reserved = 2 * ROUNDS * self._cost(self._comparison)
        return self._elapsed() + trials * self._cost(budget) + reserved <= self._limit

    def _remaining(self, stage: str) -> float | None:
        if not self._token_seconds:
            return None
        if stage == COMPARISON:
            left = 2 * ROUNDS - len(self._before) - len(self._after)
            return left * self._cost(self._comparison)
        whole = max(self._planned, 1) * self._cost(self._comparison) + 2 * ROUNDS * self._cost(self._comparison)
        return min(max(self._limit - self._elapsed(), 0.0), whole)


def _ladder(n_ctx: int) -> tuple[Budget, ...]:
    """Lengths that leave most of the context free; the shortest always."""
    fitting = [budget for budget in _LADDER if budget.tokens * _CONTEXT_SHARE <= n_ctx]
    return tuple(fitting) or _LADDER[:1]


def _changes(outcome: Outcome, beside: Outcome, its: tuple[float, float] | None = None) -> tuple[float, float] | None:
    """By how much decoding and prompts differ from the first plan's, as shares; `its` are those of the one `beside`."""
    if outcome.failure:
        return None
    ratios = outcome.decode / max(beside.decode, 1e-9), outcome.prompt / max(beside.prompt, 1e-9)
    before = its or (0.0, 0.0)
    return ratios[0] * (1 + before[0]) - 1, ratios[1] * (1 + before[1]) - 1


def _tried(record: _Record, outcomes: Sequence[Outcome] = ()) -> Tried | None:
    """What came of a candidate, in `outcomes` if there are any; None where it was never measured."""
    known = [outcome for outcome in outcomes or record.outcomes if not outcome.failure]
    if not known and not record.failure:
        return None
    return Tried(
        words=record.candidate.words,
        decode=figure([outcome.decode for outcome in known]),
        prompt=figure([outcome.prompt for outcome in known]),
        failure=record.failure,
        decode_change=record.changes[0] if record.changes else None,
        prompt_change=record.changes[1] if record.changes else None,
    )
