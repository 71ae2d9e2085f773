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
        bytes_per_second: Read from the file.
        stall_seconds: Waited for it with nothing else to compute, for each token.
        stall_share: The same of the time in expert layers, 0 to 1.
    """

    reads_per_token: float
    bytes_per_second: float
    stall_seconds: float
    stall_share: float


class MemoryRates:
    """Compares readings of the decoding totals; only those after another token count, and only of one answer.

    Time between answers and that of a prompt is no decoding: rates begin with the answer's second reading.
    """

    def __init__(self) -> None:
        self._seen: deque[tuple[float, CacheTotals]] = deque()
        self._tokens: int | None = None
        self._answering = False

    def take(self, time_seconds: float, totals: CacheTotals | None, *, answering: bool = True) -> None:
        """Another reading; None where nothing is loaded. `answering` tells whether an answer runs."""
        began, self._answering = answering and not self._answering, answering
        if totals is None or began:
            self._seen.clear()
        if totals is None:
            self._tokens = None
            return
        if totals.tokens == self._tokens:
            return
        self._tokens = totals.tokens
        if self._seen:
            told_at, last = self._seen[-1]
            if totals.tokens < last.tokens or time_seconds - told_at > SLOWEST_TOKEN_SECONDS:
                self._seen.clear()  # another load, or another answer
        self._seen.append((time_seconds, totals))
        while len(self._seen) > 2 and time_seconds - self._seen[1][0] >= WINDOW_SECONDS:
            self._seen.popleft()

    @property
    def rates(self) -> ColdRates | None:
        """Of the last seconds with a token; None before there were two readings."""
        if len(self._seen) < 2:
            return None
        (began, old), (ended, new) = self._seen[0], self._seen[-1]
        tokens, seconds = new.tokens - old.tokens, new.seconds - old.seconds
        stalled = new.stall_seconds - old.stall_seconds
        if tokens <= 0 or ended <= began:
            return None
        return ColdRates(
            reads_per_token=(new.cold_reads - old.cold_reads) / tokens,
            bytes_per_second=(new.cold_bytes - old.cold_bytes) / (ended - began),
            stall_seconds=stalled / tokens,
            stall_share=min(stalled / seconds, 1.0) if seconds > 0 else 0.0,
        )
