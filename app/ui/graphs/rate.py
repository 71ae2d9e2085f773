"""Rates of things that are told as they happen: tokens that arrive, prompts that are computed, counters that grow."""

from collections import deque

WINDOW_SECONDS = 1.0
SHORTEST_SECONDS = 0.25
"""Less than this is no rate yet: the first arrivals of an answer often come in one packet."""


class TokenRate:
    """The rate of a running answer over a sliding window of at least a second.

    The window reaches back to the last arrival before it, so whole intervals are measured: the rate
    of a steady stream is exact, however few tokens a second it has.
    """

    def __init__(self, window_seconds: float = WINDOW_SECONDS) -> None:
        self._window = window_seconds
        self._arrivals: deque[tuple[float, int]] = deque()

    def start(self) -> None:
        """A new answer begins: forget the last one."""
        self._arrivals.clear()

    def arrived(self, time_seconds: float, count: int) -> None:
        """`count` tokens of the answer exist at this time."""
        self._arrivals.append((time_seconds, count))

    def tokens_per_second(self, time_seconds: float) -> float | None:
        """The measured rate at this time; None until SHORTEST_SECONDS of the answer were measured.

        A stream that pauses longer than the window slows down: its open interval counts too.
        """
        arrivals = self._arrivals
        newest_start = time_seconds - self._window
        # The last interval stays whole, however long ago it began.
        while len(arrivals) > 2 and arrivals[1][0] <= newest_start:
            arrivals.popleft()
        if len(arrivals) < 2:
            return None
        (first_time, first_count), (last_time, last_count) = arrivals[0], arrivals[-1]
        end = last_time if last_time > newest_start else time_seconds
        if end - first_time < SHORTEST_SECONDS:
            return None
        return (last_count - first_count) / (end - first_time)


class PromptRate:
    """The rate at which a prompt is computed: from piece to piece, and once more as a whole when it is done.

    A prompt that is one piece is told when it is over: nothing is known of its rate before.
    """

    def __init__(self) -> None:
        self._pieces: list[tuple[float, int]] = []
        self._whole: float | None = None

    def start(self) -> None:
        """A new answer begins: forget the last prompt."""
        self._pieces.clear()
        self._whole = None

    def progressed(self, time_seconds: float, done: int) -> None:
        """`done` tokens are computed at this time."""
        if self._pieces and self._pieces[-1][1] == done:
            return
        self._pieces.append((time_seconds, done))

    def ended(self) -> None:
        """The first token of the answer is there: the prompt's rate as a whole is told once more."""
        if len(self._pieces) >= 2:
            self._whole = _rate(self._pieces[0], self._pieces[-1])
        self._pieces.clear()

    def take(self) -> float | None:
        """Tokens per second now, or None; the rate as a whole is given once."""
        whole, self._whole = self._whole, None
        if whole is not None:
            return whole
        return _rate(self._pieces[-2], self._pieces[-1]) if len(self._pieces) >= 2 else None


class CounterRate:
    """What a second adds to a counter that only grows; None while there is nothing to compare with."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None

    def reset(self) -> None:
        """The counter belongs to another process now."""
        self._last = None

    def take(self, time_seconds: float, count: float | None) -> float | None:
        """The rate since the call before; None where one of the two was not counted, or the counter went back."""
        last, self._last = self._last, None if count is None else (time_seconds, count)
        if last is None or self._last is None or count is None or count < last[1] or time_seconds <= last[0]:
            return None
        return (count - last[1]) / (time_seconds - last[0])


def _rate(first: tuple[float, int], last: tuple[float, int]) -> float | None:
    return (last[1] - first[1]) / (last[0] - first[0]) if last[0] > first[0] else None
