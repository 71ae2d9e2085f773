"""Rules about experts that are read from the disk while answering: thrashing, and the warm-up that is none.

Two sources tell of it. Where the engine keeps experts in main memory within a budget it counts them itself: what was
cold, what it gave up, and what the system took back behind its back. Where the system decides, its page faults and disk
reads of the engine tell.
"""

from dataclasses import dataclass

from app.doctor.hints import NOTE, SLOWER, Hint, UnjudgedError
from app.doctor.observation import NO_ANSWER, Observation
from app.doctor.remedies import remedy
from app.engine.protocol import CacheFacts
from app.hardware.samples import Sample
from app.model.facts import ModelFacts
from app.placement.active_experts import facts_with
from app.placement.cache.facts import MemoryFacts
from app.placement.memory_share import memory_share
from app.placement.plan import DISK_LANE, Plan
from app.units import format_bytes, format_share

THRASHING, WARM_UP = "thrashing", "warm-up"
CALM, THRASHES, WARMS = "calm", "thrashes", "warms"

THRASHING_SECONDS = 4.0
"""Shortest stretch of decoding that is judged by what the system counts."""
COURSE_TOKENS, SLOW_TOKENS = 32, 8
"""Fewest decoded tokens that are judged by what the engine counts; where each takes so long that they fill
THRASHING_SECONDS in expert layers, fewer are enough."""
FAULTS_A_SECOND, READ_A_SECOND = 20.0, 10e6
"""Less is no thrashing: a busy system reads a page now and then."""
COLD_SHARE, STALL_SHARE = 0.05, 0.1
"""Of a token's experts, and of the time in expert layers: less of them cold, or less waiting, costs next to nothing."""
FALLING = 0.5
"""Reading that falls to this share from the first half to the second is a warm-up."""
STAYING = 0.5
"""So is reading of which at least this share stays in memory."""
FULL = 0.95
"""Of the budget: a single expert may be larger than what is left."""


@dataclass(frozen=True)
class _Course:
    """How reading went over one answer.

    Attributes:
        state: CALM, THRASHES or WARMS.
        evidence: The figures, without a full stop.
        memory: The engine's own table at the end; None where the system decides.
    """

    state: str
    evidence: str = ""
    memory: MemoryFacts | None = None


def thrashing(seen: Observation) -> Hint | None:
    """Experts that are read again and again while answering, because main memory cannot hold them."""
    plan, facts = seen.needed_plan
    course = _course(seen)
    if course.state != THRASHES:
        return None
    found = remedy(seen, course.memory)
    told = _planned_reading(plan, facts)
    evidence = f"{course.evidence}{f'. {told}' if told else ''}{f'. {found.evidence}' if found.evidence else ''}"
    return Hint(
        rule=THRASHING,
        title="The model does not fit into main memory",
        evidence=f"{evidence}.",
        action=found.action,
        severity=NOTE if told else SLOWER,
        fix=found.fix,
    )


def warm_up(seen: Observation) -> Hint | None:
    """Experts that are read for the first time: slow now, and over soon."""
    course = _course(seen)
    if course.state != WARMS:
        return None
    action = "Wait: answers get faster as the experts that they need come into memory."
    if course.memory is not None:
        action = "Wait for some more answers; “Warm up” in the window reads the hottest experts in at once."
    return Hint(
        rule=WARM_UP,
        title="Experts are still being read into memory",
        evidence=f"{course.evidence}.",
        action=action,
        severity=NOTE,
    )


def _planned_reading(plan: Plan, facts: ModelFacts) -> str:
    share = memory_share(plan, facts)
    if share is None or DISK_LANE not in plan.expert_lanes.values():
        return ""
    room, total = format_bytes(share.kept_bytes), format_bytes(share.total_bytes)
    return f"The plan has room in main memory for {room} of {total} of experts (predicted)"


def _course(seen: Observation) -> _Course:
    """How reading went.

    Raises:
        UnjudgedError: too little was seen.
    """
    plan, facts = seen.needed_plan
    _ = seen.needed_load
    if seen.cache is not None and seen.cache.memory is not None:
        return _by_engine(seen, facts_with(facts, plan.experts_used))
    return _by_system(seen, facts)


# ---- what the engine counts --------------------------------------------------------------------


@dataclass(frozen=True)
class _Stretch:
    """What the engine counted between two moments of one answer."""

    tokens: int
    cold_bytes: int
    seconds: float
    stall_seconds: float
    grown_bytes: int
    lost: int

    @property
    def cold_per_token(self) -> float:
        return self.cold_bytes / self.tokens

    @property
    def stalled(self) -> float:
        return self.stall_seconds / self.seconds if self.seconds > 0 else 0.0


def _by_engine(seen: Observation, facts: ModelFacts) -> _Course:
    course = _moments(seen)
    now = _memory(course[-1])
    if not now.reads or now.resident_bytes >= now.total_bytes:
        return _Course(CALM)
    full = [its for its in course if _is_full(_memory(its))]
    thrashes = _judged(full)
    if thrashes is not None:
        first, second = thrashes
        if _harmless(second, facts):
            return _Course(CALM)
        if second.lost > 0 and second.cold_per_token >= FALLING * first.cold_per_token:
            return _Course(THRASHES, _thrashing_words(first, second, now, facts), now)
    halves = _judged(course)
    if halves is None:
        raise UnjudgedError(f"It is judged over {COURSE_TOKENS} tokens of one answer, or {SLOW_TOKENS} slow ones.")
    first, second = halves
    grown = first.grown_bytes + second.grown_bytes
    stays = grown >= STAYING * (first.cold_bytes + second.cold_bytes)
    falls = second.cold_per_token < FALLING * first.cold_per_token
    if grown > 0 and not _is_full(now) and (stays or falls) and not _harmless(second, facts):
        return _Course(WARMS, _warming_words(first, second, now), now)
    return _Course(CALM)


def _moments(seen: Observation) -> list[CacheFacts]:
    """The facts during one answer, each of more tokens than the one before; counts that go back begin anew."""
    course: list[CacheFacts] = []
    for its in (*seen.earlier, seen.cache):
        if its is None or its.memory is None:
            continue
        if course and its.decode.tokens < course[-1].decode.tokens:
            course = []
        if not course or its.decode.tokens > course[-1].decode.tokens:
            course.append(its)
    if len(course) < 3:
        raise UnjudgedError(NO_ANSWER)
    return course


def _memory(its: CacheFacts) -> MemoryFacts:
    assert its.memory is not None
    return its.memory


def _is_full(memory: MemoryFacts) -> bool:
    return memory.resident_bytes >= FULL * min(memory.trusted_bytes, memory.budget_bytes)


def _judged(course: list[CacheFacts]) -> tuple[_Stretch, _Stretch] | None:
    """Both halves of a course by tokens; None where it is too short."""
    if len(course) < 3:
        return None
    begin, end = course[0].decode, course[-1].decode
    least = SLOW_TOKENS if end.seconds - begin.seconds >= THRASHING_SECONDS else COURSE_TOKENS
    if end.tokens - begin.tokens < least:
        return None
    half = (course[0].decode.tokens + course[-1].decode.tokens) / 2
    middle = min(course[1:-1], key=lambda its: abs(its.decode.tokens - half))
    return _stretch(course[0], middle), _stretch(middle, course[-1])


def _stretch(one: CacheFacts, other: CacheFacts) -> _Stretch:
    before, after, then, now = one.decode, other.decode, _memory(one), _memory(other)
    counted = _Stretch(
        tokens=after.tokens - before.tokens,
        cold_bytes=after.cold_bytes - before.cold_bytes,
        seconds=after.seconds - before.seconds,
        stall_seconds=after.stall_seconds - before.stall_seconds,
        grown_bytes=now.resident_bytes - then.resident_bytes,
        lost=now.evictions + now.stale - then.evictions - then.stale,
    )
    if min(counted.cold_bytes, counted.seconds, counted.stall_seconds, counted.lost) < 0:
        raise UnjudgedError("The engine's counts went back during the answer.")
    return counted


def _harmless(its: _Stretch, facts: ModelFacts) -> bool:
    return its.cold_per_token < COLD_SHARE * facts.token_cycle_bytes or its.stalled < STALL_SHARE


def _thrashing_words(first: _Stretch, second: _Stretch, now: MemoryFacts, facts: ModelFacts) -> str:
    words = (
        f"{format_bytes(now.resident_bytes)} of the {format_bytes(now.total_bytes)} of experts are in memory, which is "
        f"all that the budget of {format_bytes(now.budget_bytes)} lets stay. Each token read "
        f"{_megabytes(first.cold_per_token)} and, {second.tokens} tokens later, still "
        f"{_megabytes(second.cold_per_token)} from the disk, where the experts that it needs have "
        f"{_megabytes(facts.token_cycle_bytes)}; {format_share(second.stalled)} of the time in expert layers "
        "went by waiting for "
        f"that. Meanwhile {first.lost + second.lost:,} experts went out of memory again"
    )
    if now.trusted_bytes < now.budget_bytes:
        words += (
            f"; the system took pages back, so that only {format_bytes(now.trusted_bytes)} of the budget can be used"
        )
    return words


def _warming_words(first: _Stretch, second: _Stretch, now: MemoryFacts) -> str:
    return (
        f"{format_bytes(now.resident_bytes)} of the {format_bytes(now.total_bytes)} of experts are in memory, and "
        f"{format_bytes(now.budget_bytes)} may be: {format_bytes(first.grown_bytes + second.grown_bytes)} came in "
        f"during the last {first.tokens + second.tokens} tokens, of which each read "
        f"{_megabytes(first.cold_per_token)} in the first half and {_megabytes(second.cold_per_token)} in the second"
    )


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.1f} MB" if size < 100e6 else f"{size / 1e6:,.0f} MB"


# ---- what the system counts --------------------------------------------------------------------


@dataclass(frozen=True)
class _Half:
    """What was read in one half of a stretch."""

    seconds: float
    faults: int
    read_bytes: int


def _by_system(seen: Observation, facts: ModelFacts) -> _Course:
    samples = [
        its for its in seen.decoding if its.engine_major_faults is not None and its.engine_read_bytes is not None
    ]
    if seen.decoding and not samples:
        reasons = seen.decoding[-1].reasons
        why = reasons.get("engine_major_faults") or reasons.get("engine_read_bytes")
        raise UnjudgedError(why or "Page faults and disk reads of the engine are not counted here.")
    if len(samples) < 3 or samples[-1].time_seconds - samples[0].time_seconds < THRASHING_SECONDS:
        raise UnjudgedError(f"It is judged over at least {THRASHING_SECONDS:g} seconds of one answer.")
    first, second = _halves(samples)
    if min(first.faults, second.faults, first.read_bytes, second.read_bytes) < 0:
        raise UnjudgedError("The system's counts of the engine went back during the answer.")
    faults, read = second.faults / second.seconds, second.read_bytes / second.seconds
    if faults < FAULTS_A_SECOND or read < READ_A_SECOND:
        return _Course(CALM)
    seconds = samples[-1].time_seconds - samples[0].time_seconds
    counted = (
        f"In {seconds:.0f} seconds of answering the engine read {first.read_bytes / 1e6:,.0f} MB and then "
        f"{second.read_bytes / 1e6:,.0f} MB from the disk: at last {read / 1e6:,.0f} MB/s, with {faults:,.0f} page "
        "faults a second that waited for it"
    )
    share, available = _share(samples[-1]), samples[-1].ram_available_bytes
    if share is not None:
        counted += f"; {format_share(share)} of the file's {format_bytes(facts.file_bytes)} are in memory"
    if read < FALLING * first.read_bytes / first.seconds or _stays(samples, second, facts.file_bytes):
        return _Course(WARMS, f"{counted}. It reads less and less, or what it reads stays in memory")
    if available is not None:
        counted += f", {format_bytes(available)} are available"
    return _Course(THRASHES, f"{counted}. It does not read less and less, as a warm-up would")


def _halves(samples: list[Sample]) -> tuple[_Half, _Half]:
    middle_time = (samples[0].time_seconds + samples[-1].time_seconds) / 2
    inner = samples[1:-1]
    middle = min(inner, key=lambda its: abs(its.time_seconds - middle_time))
    return _between(samples[0], middle), _between(middle, samples[-1])


def _between(one: Sample, other: Sample) -> _Half:
    return _Half(
        seconds=max(other.time_seconds - one.time_seconds, 1e-9),
        faults=(other.engine_major_faults or 0) - (one.engine_major_faults or 0),
        read_bytes=(other.engine_read_bytes or 0) - (one.engine_read_bytes or 0),
    )


def _share(its: Sample) -> float | None:
    """The share of the file in memory; None where nobody told, or what no share can be."""
    share = its.model_share
    return share if share is not None and 0 <= share <= 1 else None


def _stays(samples: list[Sample], second: _Half, file_bytes: int) -> bool:
    """Whether most of what was read in the second half stayed in the page cache: then it is read once only."""
    middle_time = samples[-1].time_seconds - second.seconds
    before = _share(min(samples, key=lambda its: abs(its.time_seconds - middle_time)))
    after = _share(samples[-1])
    if before is None or after is None or not file_bytes:
        return False
    return (after - before) * file_bytes >= STAYING * second.read_bytes
