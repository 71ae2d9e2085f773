"""An order for the main memory of mapped experts, from the wish to what the engine made of it. No Qt."""

from dataclasses import dataclass, replace

from app.placement.cache.facts import MemoryFacts

SURE_AFTER = 2
"""Readings from the answer on: that itself can be older than the order, which waits for a layer to be computed."""
LOOKS = 8
"""Readings after which an order that changed nothing is taken to have had nothing to change."""


@dataclass(frozen=True)
class MemoryOrder:
    """“Warm up” or “Release”, and what came of it.

    Attributes:
        warm: Read the hottest experts in; False to give the memory up.
        before: What was in memory when it was given; None where nobody told.
        after: The reading since that shows most of it: the most in memory of a warm-up, the least of a release.
        answered: Whether the engine took it.
        looks: Readings since the answer.
        late: Whether the answer takes longer than it should.
        why_not: Why it is not done, else empty.
    """

    warm: bool
    before: MemoryFacts | None = None
    after: MemoryFacts | None = None
    answered: bool = False
    looks: int = 0
    late: bool = False
    why_not: str = ""

    @property
    def open(self) -> bool:
        """Whether it is not known yet what came of it."""
        if self.why_not:
            return False
        return not (self.looks >= LOOKS or (self.looks >= SURE_AFTER and self.changed))

    @property
    def changed(self) -> bool:
        """Whether what is in memory is other than before."""
        return bool(self.moved_bytes or self.replaced)

    @property
    def moved_bytes(self) -> int:
        """Bytes of experts that came into memory, or left it; 0 for none."""
        if self.before is None or self.after is None:
            return 0
        more = self.after.resident_bytes - self.before.resident_bytes
        return max(more if self.warm else -more, 0)

    @property
    def replaced(self) -> int:
        """Experts that left memory meanwhile for others, where a warm-up found it full."""
        if not self.warm or self.before is None or self.after is None:
            return 0
        return max(self.after.evictions - self.before.evictions, 0)

    def seen(self, memory: MemoryFacts | None) -> "MemoryOrder":
        """Another reading."""
        if not self.answered or not self.open:
            return self
        after = self.after
        if memory is not None and (after is None or self.warm == (memory.resident_bytes >= after.resident_bytes)):
            after = memory
        return replace(self, after=after, looks=self.looks + 1)

    def ended(self, why_not: str) -> "MemoryOrder":
        """It will not be done any more; one of which it is known what came of it stays as it is."""
        return replace(self, why_not=why_not) if self.open else self
