"""Tokens per second now, from the times at which tokens arrived."""

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
