"""`bench`: speeds of a model in several scenarios, measured here, also against stock llama.cpp.

Every measurement has an engine process of its own that is started, loads, measures and ends, one after the other:
two are never loaded at once, every peak of memory is one measurement's, and every pool begins empty.
"Stock" is the same plan without the expert device; what a pool takes of a GPU goes to whole layers there.

`--json` prints one object:
    model: `name`, `files`, `fingerprint`. machine: its fingerprint. cpu: its name.
    scenarios: names of those measured. rounds: measurements wished of each. quick: too little for real figures.
    complete: false where Ctrl-C ended it before all was measured.
    rule: how decoding is divided into transient and steady state. loading: how the variants alternate.
    plans: by case, then by variant (`ours`, `stock`): the plan as `plan --json` prints it.
    results: one object for each case and variant: `scenario`, `case`, `variant`, `threads` and `n_ubatch` (sweep only),
        `prompt`, `transient`, `steady`, `decode` (tokens a second over all sequences: `median`, `least`, `most`,
        `samples`; null where nothing was computed), `hit_rate` (share of routed experts in the pool; null without a
        pool), `context_tokens`, `peak_ram_bytes` (of the process, pages of the mapped file included), `vram_bytes`,
        `steady_per_gib_ram`, `steady_per_gib_vram`, and `buffers`: `device`, `part`, `bytes`.
    ratios: for each case measured with both variants: ours by stock for `prompt`, `transient`, `steady`, `decode`,
        formed in each round; `same_text`: whether both decoded the same.
    failures: `case`, `variant`, `reason` of what could not be measured.
    samples: every measurement with the seconds of all its steps; `stretches` are divided where the subject changes.
    chart: its path; null where none was asked for or it could not be drawn, which is then said on standard error.
"""

import argparse
import sys
from pathlib import Path

import msgspec

from app import terminal
from app.commands import bench_words
from app.commands.bench_runs import BenchRun, Failure, Progress
from app.commands.common import (
    AddCommand,
    Json,
    add_model,
    add_wishes,
    facts_of,
    machine_of,
    positive,
    print_json,
    wishes,
)
from app.engine.client import EngineClient
from app.errors import EXIT_OK, AppError, ErrorCode, writing_error
from app.hardware.facts import Machine
from app.hardware.fingerprint import fingerprint
from app.library import folders
from app.library.load_memory import with_learnt
from app.library.speed_evidence import evidence_of
from app.model import ModelFacts
from app.placement import words as plan_words
from app.placement.evidence import planned
from app.placement.plan import Plan
from app.placement.scenarios import results as scenario_results
from app.placement.scenarios.plans import case_plan, stock_machine, stock_plan
from app.placement.scenarios.results import CaseResult
from app.placement.scenarios.schedule import OURS, QUICK, SCENARIOS, STOCK, Amounts, Case, make_cases, schedule

_ALL = "all"
_ROUNDS = 3
_CHART_KINDS = (".png", ".svg")
_LOADING = (
    "in turns: every measurement has an engine of its own, which is started, loads, reads a warm-up text, measures and "
    "ends; never two at once"
)


def add(add_command: AddCommand) -> None:
    """Add the command."""
    command = add_command("bench", _run, "measure a model's speed in several scenarios, also against stock llama.cpp")
    add_model(command)
    command.add_argument(
        "--scenario",
        choices=(*SCENARIOS, _ALL),
        default="chat",
        help="; ".join(f"{name}: {words}" for name, words in SCENARIOS.items()),
    )
    command.add_argument("--against", choices=(STOCK,), help="measure llama.cpp without the expert device as well")
    command.add_argument("--rounds", metavar="N", type=positive, default=_ROUNDS, help=f"how often (default {_ROUNDS})")
    command.add_argument("--quick", action="store_true", help="only try everything: too little for real figures")
    command.add_argument("--chart", metavar="FILE", type=_chart, help="draw the speeds into a .png or .svg file")
    add_wishes(command)


def _chart(text: str) -> str:
    if Path(text).suffix.lower() not in _CHART_KINDS:
        raise argparse.ArgumentTypeError(f"'{text}' ends in neither of {', '.join(_CHART_KINDS)}")
    return text


def _run(parsed: argparse.Namespace) -> int:
    chart = _chart_path(parsed.chart)
    facts = facts_of(parsed.model)
    with EngineClient() as client:
        machine = with_learnt(machine_of(client))
    plan = planned(facts, machine, wishes(parsed), evidence_of(facts, machine))
    names = tuple(SCENARIOS) if parsed.scenario == _ALL else (parsed.scenario,)
    variants = (OURS, STOCK) if parsed.against else (OURS,)
    cases = make_cases(names, QUICK if parsed.quick else Amounts(), plan, machine.cpu.physical_cores)
    plans, failures = _plans(cases, variants, plan, facts, machine, pool_wished=parsed.pool is not None)
    if not parsed.json:
        print(f"{terminal.printable(facts.name)}. {plan_words.describe_plan(plan, facts)}", file=sys.stderr)
        print(f"Measured {_LOADING}.", file=sys.stderr)
    run = BenchRun(schedule(cases, variants, parsed.rounds), plans, Progress())
    run.run()
    if not run.samples:
        raise run.first_error or _nothing(failures)
    results = scenario_results.results(cases, variants, run.samples)
    ratios = scenario_results.ratios(cases, run.samples)
    failures += run.failures
    status, drawn = EXIT_OK, None
    if chart is not None:
        try:
            _draw(chart, results, facts, complete=run.complete)
            drawn = str(chart)
        except AppError as error:  # what was measured is worth more than its picture
            print(f"No chart: {terminal.printable(error.message)}", file=sys.stderr)
            status = error.exit_status
    if parsed.json:
        print_json(
            {
                "model": {"name": facts.name, "files": list(facts.files), "fingerprint": facts.fingerprint},
                "machine": fingerprint(machine),
                "cpu": machine.cpu.name,
                "scenarios": list(names),
                "rounds": parsed.rounds,
                "quick": parsed.quick,
                "complete": run.complete,
                "rule": scenario_results.RULE,
                "loading": _LOADING,
                "plans": _plans_as_json(plans),
                "results": msgspec.to_builtins(results),
                "ratios": msgspec.to_builtins(ratios),
                "failures": msgspec.to_builtins(failures),
                "samples": msgspec.to_builtins(run.samples),
                "chart": drawn,
            }
        )
        return status
    print(terminal.printable(bench_words.tables(results, ratios)))
    for failure in failures:
        print(f"Not measured: {failure.case}, {failure.variant}: {terminal.printable(failure.reason)}")
    if parsed.quick:
        print("A quick run: too little was computed for these figures to mean anything.")
    if not run.complete:
        print("Incomplete: it was ended before all was measured.")
    return status


def _chart_path(text: str | None) -> Path | None:
    """Where the chart goes; what makes that impossible is said before hours are spent."""
    if text is None:
        return None
    path = folders.user_path(text)
    if not path.parent.is_dir():
        raise AppError(ErrorCode.FOLDER_NOT_WRITABLE, f"There is no folder {path.parent} for the chart.")
    return path


def _plans(
    cases: tuple[Case, ...],
    variants: tuple[str, ...],
    plan: Plan,
    facts: ModelFacts,
    machine: Machine,
    *,
    pool_wished: bool,
) -> tuple[dict[tuple[str, str], Plan], list[Failure]]:
    """The plan of every case and variant, by their names, and the cases for which memory is predicted to lack."""
    machines = {OURS: machine, STOCK: stock_machine(machine)}
    base = {OURS: plan, STOCK: stock_plan(plan, facts, machine)}
    plans: dict[tuple[str, str], Plan] = {}
    failures = []
    for case in cases:
        for variant in variants:
            changed, lacking = case_plan(base[variant], case, facts, machines[variant], pool_wished=pool_wished)
            if lacking:
                reason = " ".join(shortfall.sentence for shortfall in lacking)
                failures.append(Failure(case=case.name, variant=variant, reason=reason))
            else:
                plans[case.name, variant] = changed
    return plans, failures


def _plans_as_json(plans: dict[tuple[str, str], Plan]) -> Json:
    by_case: Json = {}
    for (case, variant), plan in plans.items():
        by_case.setdefault(case, {})[variant] = msgspec.to_builtins(plan, str_keys=True)
    return by_case


def _nothing(failures: list[Failure]) -> AppError:
    if failures:
        return AppError(ErrorCode.OUT_OF_MEMORY, f"Nothing can be measured. {failures[0].reason}")
    return AppError(ErrorCode.CANCELLED, "The benchmark was ended before anything was measured.")


def _draw(path: Path, results: tuple[CaseResult, ...], facts: ModelFacts, *, complete: bool) -> None:
    from app.ui import charts  # noqa: PLC0415 - Qt is loaded where a chart is asked for only

    title = f"{facts.name}: medians, least and most{'' if complete else ' (incomplete)'}"
    try:
        charts.save(path, title, charts.of_bench(results))
    except OSError as error:
        raise writing_error(error, path) from error
