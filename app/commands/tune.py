"""`tune`: measures changes of a model's plan on this machine, and keeps what is faster beyond noise.

`--json` prints one object:
    kept: whether a plan was kept. reason: why, with the figures. cancelled: ended by Ctrl-C. seconds: time it took.
    words: what the best plan changes. plan: the best plan; the planner's own where nothing was better.
    before, after: the planner's plan and the best one: `words`, `decode`, `prompt` (tokens a second: `median`, `least`,
        `most`, `samples`), `failure`, `decode_change` and `prompt_change` (shares, beside the planner's plan in one
        round of the search; null where they were not compared so); null where it was not measured.
    tried: the same for every plan that was measured, over the whole search.
    file: where the kept plan is; null where none was kept.
"""

import argparse
import math
import sys
import time

import msgspec

from app import terminal
from app.commands.common import (
    AddCommand,
    add_model,
    add_wishes,
    facts_of,
    machine_of,
    print_json,
    wishes,
)
from app.commands.memory import checked_plan
from app.commands.tuning import TrialRunner
from app.engine.client import EngineClient
from app.errors import EXIT_OK, AppError, ErrorCode
from app.library import tuned_plans
from app.library.load_memory import with_learnt
from app.library.speed_evidence import evidence_of
from app.placement.scenarios.figure import Figure
from app.placement.tuner.candidates import Candidates
from app.placement.tuner.search import Tuner
from app.placement.tuner.types import Trial, Tried, TuneResult

_DEFAULT_MINUTES = 10.0
_MOST_MINUTES = 24 * 60.0
_ERASE = "\r\x1b[K"


def add(add_command: AddCommand) -> None:
    """Add the command."""
    command = add_command("tune", _run, "measure changes of the plan here, and keep what is faster beyond noise")
    add_model(command)
    command.add_argument(
        "--minutes",
        metavar="M",
        type=_minutes,
        default=_DEFAULT_MINUTES,
        help=f"how long it may take (default {_DEFAULT_MINUTES:.0f})",
    )
    add_wishes(command)


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = math.nan
    if not 0 < minutes <= _MOST_MINUTES:
        raise argparse.ArgumentTypeError(f"'{text}' is not above 0 and at most {_MOST_MINUTES:,.0f} minutes")
    return minutes


def _run(parsed: argparse.Namespace) -> int:
    facts = facts_of(parsed.model)
    with EngineClient(on_log=terminal.show_log) as client:
        machine = with_learnt(machine_of(client))
        tuned_plans.check_tuned(facts, machine)
        wished = wishes(parsed)
        base = checked_plan(client, facts, machine, wished, evidence_of(facts, machine))
        tuner = Tuner(Candidates(facts, machine, base, wished), parsed.minutes * 60, time.monotonic)
        runner = TrialRunner(client, lambda: EngineClient(on_log=terminal.show_log), time.monotonic)
        try:
            _search(tuner, runner)
        except KeyboardInterrupt:
            tuner.cancel()
        finally:
            runner.close()
    result = tuner.result
    if result.tried and all(tried.failure for tried in result.tried):
        raise AppError(ErrorCode.ENGINE_FAILED, result.reason)
    file = None
    if result.kept:
        record = tuned_plans.record_of(result, facts, machine, wished)
        file = str(tuned_plans.keep_tuned(record, facts, machine))
    if parsed.json:
        print_json({**msgspec.to_builtins(result, str_keys=True), "file": file})
        return EXIT_OK
    _print(result, file)
    return EXIT_OK


def _search(tuner: Tuner, runner: TrialRunner) -> None:
    while (trial := tuner.next_trial()) is not None:
        _show(trial)
        tuner.report(runner.measure(trial))
    if sys.stderr.isatty():
        print(_ERASE, end="", file=sys.stderr, flush=True)


def _show(trial: Trial) -> None:
    left = ""
    if trial.remaining_seconds is not None:
        minutes, seconds = divmod(round(trial.remaining_seconds), 60)
        left = f", about {minutes}:{seconds:02} left"
    line = f"[{trial.number}] {trial.stage}: {trial.candidate.words or 'the plan as it is'}{left}"
    if sys.stderr.isatty():
        print(f"{_ERASE}{line}", end="", file=sys.stderr, flush=True)
    else:
        print(line, file=sys.stderr, flush=True)


def _print(result: TuneResult, file: str | None) -> None:
    rows = [("", "decode tokens/s", "prompt tokens/s"), *map(_row, result.tried)]
    if result.after is not None and result.before is not None:
        rows += [("", "", ""), ("in turns:", "", ""), _row(result.before), _row(result.after)]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    if result.tried:
        for row in rows:
            print("  ".join((row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2])).rstrip())
        print()
    print(result.reason)
    if file is not None:
        print(f"Kept: {result.words}. {terminal.printable(file)}")
    elif result.words:
        print(f"Not kept; the best so far is: {result.words}.")
    else:
        print("The plan stays as it is.")


def _row(tried: Tried) -> tuple[str, str, str]:
    words = tried.words or "the plan as it is"
    if tried.decode is None:
        return words, f"failed: {terminal.printable(tried.failure)}", ""
    return words, _figure(tried.decode), _figure(tried.prompt)


def _figure(figure: Figure | None) -> str:
    if figure is None:
        return ""
    return f"{figure.median:.1f} ({figure.least:.1f} to {figure.most:.1f}, {figure.samples} times)"
