"""What the expert cache did between two readings: hits, copies, reads, and where the time of a token went."""

from app.engine.protocol import CacheFacts
from app.placement.cache.facts import CacheTotals, MemoryFacts

HITS, COPIED = "hits", "copied"
SPLIT_CPU, SPLIT_GPU, SPLIT_WAIT, SPLIT_ALL = "split.cpu", "split.gpu", "split.wait", "split.all"
RESIDENT, RESIDENT_BUDGET = "resident", "resident.budget"
COLD, STALL = "cold", "stall"
FRESH_SECONDS = 0.8
"""Facts come four times a second while the model answers: older ones say nothing of now."""
LOOK_SECONDS, MEMORY_SECONDS = 2.0, 6.0
"""Memory is read so often for its graph, also while nothing is computed; a reading that is older is not shown."""
SLOWEST_TOKEN_SECONDS = 10.0
"""What lies longer between two tokens was no decoding."""
_MIB = 1024**2


def has_pool(facts: CacheFacts | None) -> bool:
    """True where the engine holds a pool that experts can be hit in."""
    return facts is not None and facts.pool is not None and facts.pool.allocated_bytes > 0


class CacheRates:
    """Compares each reading with one before; all figures are of decoding, copies of prompts too.

    Copies are those since the last reading. Hits and times are those since the last reading that came after another
    token: in between, the totals hold parts of a token, and a slow model has several readings for one.
    """

    def __init__(self) -> None:
        self._before: tuple[float, CacheFacts] | None = None
        self._token_before: tuple[float, CacheTotals] | None = None
        self._figures: dict[str, float] = {}
        self._of_tokens: dict[str, float] = {}
        self._told_until = self._tokens_told_at = self._tokens_last = 0.0

    def reset(self) -> None:
        """What comes next has nothing before it: another load, or nobody looked for a while."""
        self._before = self._token_before = None
        self._figures, self._of_tokens = {}, {}

    def take(self, time_seconds: float, facts: CacheFacts | None) -> None:
        """Another reading, or None: nothing is loaded."""
        if facts is None:
            self.reset()
            return
        before = self._before
        if before is not None and (facts is before[1] or time_seconds <= before[0]):
            return  # the same facts again: something else about the cache changed
        self._before = time_seconds, facts
        self._take_tokens(time_seconds, facts.decode, pooled=has_pool(facts), mapped=facts.memory is not None)
        if before is None:
            return
        seconds, old = time_seconds - before[0], before[1]
        figures = {}
        copied = _copied(facts) - _copied(old)
        if facts.pool is not None and copied >= 0:
            figures[COPIED] = copied / seconds / _MIB
        self._figures, self._told_until = figures, time_seconds + FRESH_SECONDS

    def figures(self, time_seconds: float, *, answering: bool = True) -> dict[str, float]:
        """Percent, MiB a second, reads and milliseconds a token as of the last readings; without those that are old.

        Args:
            time_seconds: The time.
            answering: Whether another token is being computed: the times of the last one stand until it is there.
        """
        found = dict(self._figures) if time_seconds <= self._told_until else {}
        if time_seconds <= self._tokens_told_at + (self._tokens_last if answering else FRESH_SECONDS):
            found |= self._of_tokens
        memory = self._memory
        if memory is not None and time_seconds <= self._read_at + MEMORY_SECONDS:
            found |= {
                RESIDENT: 100 * memory.resident_bytes / memory.total_bytes,
                RESIDENT_BUDGET: 100 * min(memory.budget_bytes / memory.total_bytes, 1.0),
            }
        return found

    def should_look(self, time_seconds: float) -> bool:
        """Whether what is in memory is to be asked for again, which nothing else does between answers."""
        return self._memory is not None and time_seconds >= self._read_at + LOOK_SECONDS

    @property
    def _memory(self) -> MemoryFacts | None:
        memory = self._before[1].memory if self._before is not None else None
        return memory if memory is not None and memory.total_bytes else None

    @property
    def _read_at(self) -> float:
        return self._before[0] if self._before is not None else 0.0

    def _take_tokens(self, time_seconds: float, new: CacheTotals, *, pooled: bool, mapped: bool) -> None:
        if self._token_before is None:
            self._token_before = time_seconds, new
            return
        told_at, old = self._token_before
        tokens = new.tokens - old.tokens
        if not tokens:
            return
        self._token_before = time_seconds, new
        hits, misses = new.hits - old.hits, new.misses - old.misses
        if min(tokens, hits, misses) >= 0 and new.layers > old.layers:
            self._of_tokens = {HITS: 100 * hits / (hits + misses)} if pooled and hits + misses else {}
            self._of_tokens |= {
                SPLIT_CPU: 1000 * (new.cpu_seconds - old.cpu_seconds) / tokens,
                SPLIT_GPU: 1000 * (new.gpu_seconds - old.gpu_seconds) / tokens,
                SPLIT_WAIT: 1000 * (new.wait_seconds - old.wait_seconds) / tokens,
                SPLIT_ALL: 1000 * (new.seconds - old.seconds) / tokens,
            }
            seconds = new.seconds - old.seconds
            if mapped and seconds > 0:
                self._of_tokens |= {
                    COLD: (new.cold_reads - old.cold_reads) / tokens,
                    STALL: 100 * min((new.stall_seconds - old.stall_seconds) / seconds, 1.0),
                }
            # The next token of a slow model may take as long again: until then this is the newest there is.
            token_seconds = min((time_seconds - told_at) / tokens, SLOWEST_TOKEN_SECONDS)
            self._tokens_told_at, self._tokens_last = time_seconds, max(FRESH_SECONDS, 2 * token_seconds)


def _copied(facts: CacheFacts) -> int:
    return facts.decode.copied_bytes + facts.prompt.copied_bytes
