"""What reading experts from the disk costs now: reads a token, bytes a second and time waited, of the last seconds."""

from collections import deque
from dataclasses import dataclass

from app.placement.cache.facts import CacheTotals

WINDOW_SECONDS = 3.0
"""Figures are of so many seconds, and of one token at least."""
SLOWEST_TOKEN_SECONDS = 30.0
"""What lies longer between two tokens was no decoding."""


@dataclass(frozen=True)
class ColdRates:
    """Measured while decoding.

    Attributes:
        reads_per_token: Ranges of the file that were asked for.
        bytes_per_second: Read from the file; None where the tokens were too few to know how long they took.
        stall_seconds: Waited for it with nothing else to compute, for each token.
        tokens: Decoded tokens that all of it is of.
    """

    reads_per_token: float
    bytes_per_second: float | None
    stall_seconds: float
    tokens: int


class MemoryRates:
    """Compares readings of the decoding totals; only those after another token count, and only of one answer.

    Time between answers and that of a prompt is no decoding: rates by the second begin with the answer's second
    reading. What is counted by the token begins with the last reading before the answer, so that one which is over
    after a single reading has its figures too.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, CacheTotals]] = deque()
        self._last: CacheTotals | None = None
        self._before: CacheTotals | None = None
        self._answering = self._answered = False

    def take(self, time_seconds: float, totals: CacheTotals | None, *, answering: bool = True) -> None:
        """Another reading; None where nothing is loaded. `answering` tells whether an answer runs."""
        was, self._answering = self._answering, answering
        if totals is None:
            self._begin(None)
            self._last, self._answered = None, False
            return
        last, self._last = self._last, totals
        if last is None or totals.tokens < last.tokens:
            self._begin(None)  # another load
            self._answered = False
        elif (answering and not was) or (totals.tokens > last.tokens and not answering and not was):
            self._begin(last)  # another answer begins, or a whole one ran between two readings
        self._answered = self._answered or answering or (last is not None and totals.tokens > last.tokens)
        if last is not None and totals.tokens == last.tokens:
            return
        if self._seen and time_seconds - self._seen[-1][0] > SLOWEST_TOKEN_SECONDS:
            self._begin(None)
        self._seen.append((time_seconds, totals))
        while len(self._seen) > 2 and time_seconds - self._seen[1][0] >= WINDOW_SECONDS:
            self._seen.popleft()

    @property
    def answered(self) -> bool:
        """Whether an answer was seen since the load, so that no rates mean that it had too few tokens."""
        return self._answered

    @property
    def rates(self) -> ColdRates | None:
        """Of the last seconds with a token; None before there were two readings of which the later has more tokens."""
        if not self._seen:
            return None
        (began, old), (ended, new) = self._seen[0], self._seen[-1]
        timed = ended > began
        if not timed:
            if self._before is None:
                return None
            old = self._before
        tokens = new.tokens - old.tokens
        if tokens <= 0:
            return None
        return ColdRates(
            reads_per_token=(new.cold_reads - old.cold_reads) / tokens,
            bytes_per_second=(new.cold_bytes - old.cold_bytes) / (ended - began) if timed else None,
            stall_seconds=(new.stall_seconds - old.stall_seconds) / tokens,
            tokens=tokens,
        )

    def _begin(self, before: CacheTotals | None) -> None:
        """Compare with no reading but this one, which is older than any token that is compared; None for none."""
        self._seen.clear()
        self._before = before
