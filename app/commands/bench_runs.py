"""Runs the visits of a benchmark: each in an engine of its own that lives for this visit only."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from app import terminal
from app.engine import protocol
from app.engine.client import EngineClient, engine_command
from app.errors import AppError, ErrorCode
from app.placement.plan import Plan
from app.placement.scenarios import texts as scenario_texts
from app.placement.scenarios.results import Sample
from app.placement.scenarios.schedule import STOCK, Case, Turn, Visit, remaining_seconds
from app.units import format_share

# Before every measurement so much is read, untimed: it touches pages and buffers for the first time, and tells how
# many characters of such text make a token.
_WARM_UP_CHARACTERS = 400
# A text of so many characters as should make the tokens wanted is cut short by this, for its parts differ.
_REPORT_SHARE = 0.97
_SHORTER = 0.9
_MOST_TRIES = 5
_ERASE = "\r\x1b[K"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A case that a variant could not be measured in; `reason` is a sentence."""

    case: str
    variant: str
    reason: str


class BenchRun:
    """Runs visits in order and keeps what they gave.

    Args:
        visits: What is measured, in order.
        plans: By name of case and variant; cases that are missing are passed over.
        show: Shows progress on standard error.

    Attributes:
        samples: What was measured so far.
        failures: What could not be measured; it is not tried again in later rounds.
        first_error: Of the first failure.
        complete: Whether every visit was made.
    """

    def __init__(self, visits: Sequence[Visit], plans: Mapping[tuple[str, str], Plan], show: "Progress") -> None:
        self._visits = [visit for visit in visits if (visit.case.name, visit.variant) in plans]
        self._plans = plans
        self._show = show
        self.samples: list[Sample] = []
        self.failures: list[Failure] = []
        self.first_error: AppError | None = None
        self.complete = False

    def run(self) -> None:
        """Make all visits; Ctrl-C ends it with what there is."""
        taken: list[float] = []
        try:
            for number, visit in enumerate(self._visits):
                started = time.perf_counter()
                left = remaining_seconds(self._visits, taken)
                self._show.begin(visit, number + 1, len(self._visits), left)
                self._visit(visit)
                taken.append(time.perf_counter() - started)
            self.complete = True
        except KeyboardInterrupt:
            pass
        finally:
            self._show.end()

    def _visit(self, visit: Visit) -> None:
        if any((its.case, its.variant) == (visit.case.name, visit.variant) for its in self.failures):
            return
        try:
            self.samples.append(measure(visit, self._plans[visit.case.name, visit.variant], self._show))
        except AppError as error:
            self.first_error = self.first_error or error
            self.failures.append(Failure(case=visit.case.name, variant=visit.variant, reason=error.message))


class Progress:
    """Shows on standard error what is measured and how long it will take; the engine's warnings once each."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._line = ""
        self._seen: set[str] = set()

    def begin(self, visit: Visit, number: int, count: int, left: float | None) -> None:
        """A visit begins; `left` is the predicted time for this one and those after it."""
        time_left = f", about {_duration(left)} left" if left is not None else ""
        self._line = f"[{number}/{count}] {visit.case.name}, {visit.variant}, round {visit.round + 1}{time_left}"
        self._print(self._line, lasting=not self._terminal)

    def done(self, fraction: float) -> None:
        """So much of the turn is computed."""
        if self._terminal:
            self._print(f"{self._line}: {format_share(fraction):>6}", lasting=False)

    def log(self, line: protocol.LogLine) -> None:
        """A warning or error of the engine."""
        if line.text not in self._seen:
            self._seen.add(line.text)
            self.end()
            terminal.show_log(line)

    def end(self) -> None:
        """Nothing is going on any more."""
        if self._terminal:
            print(_ERASE, end="", file=sys.stderr, flush=True)

    def _print(self, text: str, *, lasting: bool) -> None:
        if lasting:
            print(text, file=sys.stderr, flush=True)
        else:
            print(f"{_ERASE}{text}", end="", file=sys.stderr, flush=True)


def measure(visit: Visit, plan: Plan, show: Progress) -> Sample:
    """Load, warm up, and measure all turns of the visit's case.

    Raises:
        AppError: why it cannot be measured.
    """
    command = engine_command() + (["--stock"] if visit.variant == STOCK else [])
    with EngineClient(command, on_log=show.log) as client:
        loaded = client.request(protocol.Load, protocol.Loaded, plan=plan)
        warm_up = scenario_texts.report(_WARM_UP_CHARACTERS)
        read = client.request(protocol.Measure, protocol.Measured, prompts=(warm_up,), decode_tokens=0)
        characters_per_token = len(warm_up) / read.prompt_tokens
        measured: list[protocol.Measured] = []
        for turn in visit.case.turns:
            measured.append(_turn(client, turn, characters_per_token, go_on=bool(measured), on_done=show.done))
    return _sample(visit, loaded, measured)


def _turn(
    client: EngineClient,
    turn: Turn,
    characters_per_token: float,
    *,
    go_on: bool,
    on_done: Callable[[float], None],
) -> protocol.Measured:
    if not turn.report_tokens:
        return _request(client, turn.prompts, turn.decode_tokens, go_on, on_done)
    characters = turn.report_tokens * characters_per_token * _REPORT_SHARE
    for tries_left in reversed(range(_MOST_TRIES)):
        try:
            prompt = scenario_texts.report(int(characters))
            return _request(client, (prompt,), turn.decode_tokens, go_on, on_done)
        except AppError as error:
            # It is refused before anything is computed: a shorter one costs no time.
            if error.code is not ErrorCode.CONTEXT_FULL or not tries_left:
                raise
            characters *= _SHORTER
    raise AssertionError("unreachable: the last try returns or raises")


def _request(
    client: EngineClient, prompts: tuple[str, ...], decode_tokens: int, go_on: bool, on_done: Callable[[float], None]
) -> protocol.Measured:
    request = client.send(protocol.Measure, prompts=prompts, decode_tokens=decode_tokens, go_on=go_on)
    for event in client.events(request, protocol.Measured):
        if isinstance(event, protocol.MeasureProgress):
            on_done(event.done / max(event.total, 1))
        if isinstance(event, protocol.Measured):
            return event
    raise AssertionError("unreachable: events ends with its last event or raises")


def _sample(visit: Visit, loaded: protocol.Loaded, measured: Sequence[protocol.Measured]) -> Sample:
    counted = [its.decode_cache for its in measured if its.decode_cache is not None]
    return Sample(
        case=visit.case.name,
        variant=visit.variant,
        round=visit.round,
        load_seconds=loaded.seconds,
        prompt_tokens=sum(its.prompt_tokens for its in measured),
        prompt_seconds=sum(its.prompt_seconds for its in measured),
        stretches=_stretches(visit.case, measured),
        sequences=measured[-1].sequences,
        context_tokens=measured[-1].context_tokens,
        peak_bytes=measured[-1].peak_bytes,
        buffers=loaded.buffers,
        hits=sum(its.hits for its in counted) if counted else None,
        misses=sum(its.misses for its in counted) if counted else None,
        text="".join(its.text for its in measured),
    )


def _stretches(case: Case, measured: Sequence[protocol.Measured]) -> tuple[tuple[float, ...], ...]:
    """The steps of all turns, joined as long as the subject stays."""
    stretches: list[tuple[float, ...]] = []
    for turn, its in zip(case.turns, measured, strict=True):
        if turn.new_subject or not stretches:
            stretches.append(its.step_seconds)
        else:
            stretches[-1] += its.step_seconds
    return tuple(stretches)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
