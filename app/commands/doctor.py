"""`doctor`: what is wrong with this machine, a model's plan, or a model that answers, with evidence and one action."""

import argparse
import contextlib
import sys
from pathlib import Path

import msgspec

from app import terminal
from app.commands.common import (
    DEVICES_SECONDS,
    AddCommand,
    Json,
    add_tuned,
    add_wishes,
    facts_of,
    print_json,
    wishes,
)
from app.commands.doctor_run import watched_answer
from app.commands.memory import checked_plan
from app.doctor.diagnosis import RULES, Diagnosis, examine
from app.doctor.hints import Hint
from app.doctor.observation import Observation
from app.engine import protocol
from app.engine.client import EngineClient
from app.errors import EXIT_OK, AppError, ErrorCode
from app.hardware.engine_files import read_engine_files
from app.hardware.facts import Machine
from app.hardware.probe import probe
from app.hardware.profile_file import read_profile
from app.hardware.snapshot import read_snapshot
from app.library import folders
from app.library.disk_speed import with_disk_speed
from app.library.load_memory import with_learnt
from app.library.speed_evidence import calibration_of, evidence_of
from app.model import ModelFacts
from app.placement.evidence import evidence_for, planned
from app.placement.placing import refuse_hopeless

_HEADINGS = {"problem": "PROBLEM", "slower": "SLOWER", "note": "NOTE"}


def add(add_command: AddCommand) -> None:
    """Add the command."""
    command = add_command("doctor", _run, "what is wrong here, each with its evidence and one thing to do")
    command.add_argument(
        "model", metavar="MODEL", nargs="?", help="judge this model's plan too: path of a GGUF file, or 'demo'"
    )
    command.add_argument(
        "--load", action="store_true", help="also load the model and judge how it answers, by one measured answer"
    )
    other = command.add_mutually_exclusive_group()
    other.add_argument(
        "--hardware", metavar="FILE", help="judge the machine in this file, which `probe --json` printed there"
    )
    other.add_argument(
        "--snapshot", metavar="FILE", help="judge the machine in this file, which `probe --record` wrote there"
    )
    add_wishes(command)
    add_tuned(command)


def _run(parsed: argparse.Namespace) -> int:
    described = _described(parsed)
    if parsed.load and (parsed.model is None or described is not None):
        raise AppError(ErrorCode.BAD_USAGE, "--load needs a MODEL, and this machine.")
    facts = facts_of(parsed.model) if parsed.model is not None else None
    notes: list[str] = []
    seen = _here(parsed, facts, notes) if described is None else _planned_for(described, facts, parsed)
    diagnosis = examine(seen)
    if parsed.json:
        print_json(_as_json(diagnosis, seen, notes))
    else:
        _print(diagnosis, seen, notes)
    return EXIT_OK


# ---- what is seen ------------------------------------------------------------------------------


def _described(parsed: argparse.Namespace) -> Machine | None:
    """The machine that a file describes; None where no file was named."""
    if parsed.snapshot is not None:
        return read_snapshot(folders.user_path(parsed.snapshot)).machine()
    return read_profile(folders.user_path(parsed.hardware)) if parsed.hardware is not None else None


def _planned_for(machine: Machine, facts: ModelFacts | None, parsed: argparse.Namespace) -> Observation:
    """A described machine with the model's plan for it, by what was measured there."""
    if facts is None:
        return Observation(machine=machine, calibration=calibration_of(machine))
    evidence = evidence_for(machine, evidence_of(facts, machine))
    plan = planned(facts, machine, wishes(parsed), evidence)
    return Observation(machine=machine, calibration=evidence.calibration, facts=facts, plan=plan)


def _here(parsed: argparse.Namespace, facts: ModelFacts | None, notes: list[str]) -> Observation:
    """This machine, also where its engine cannot be used: that is what it is asked for then."""
    files = read_engine_files(contents=True)
    # The disk is that of the model, where there is one.
    folder = Path(facts.files[0]).resolve().parent if facts is not None else folders.models_folder()
    with contextlib.ExitStack() as stack:
        try:
            client = stack.enter_context(EngineClient(on_log=terminal.show_log))
            devices = client.request(protocol.ListDevices, protocol.Devices, timeout=DEVICES_SECONDS)
        except AppError as error:
            if parsed.load:
                raise
            told = f" ({error.detail.strip().splitlines()[-1]})" if error.detail.strip() else ""
            notes.append(f"The engine cannot be used, and no model is judged: {error.message}{told}")
            return Observation(machine=probe(folder, (), None), engine_files=files)
        machine = with_disk_speed(with_learnt(probe(folder, devices.gpus, devices.build)))
        seen = Observation(
            machine=machine, calibration=calibration_of(machine), engine_files=files, engine_pid=client.pid
        )
        if facts is None:
            return seen
        evidence = evidence_of(facts, machine)
        plan = checked_plan(client, facts, machine, wishes(parsed), evidence)
        notes += evidence.notes
        seen = msgspec.structs.replace(
            seen, calibration=evidence.calibration or seen.calibration, facts=facts, plan=plan, model_disk=machine.disk
        )
        if not parsed.load:
            return seen
        refuse_hopeless(plan, machine)
        return watched_answer(client, seen, plan, facts, quiet=parsed.json)


# ---- output ------------------------------------------------------------------------------------


def _as_json(diagnosis: Diagnosis, seen: Observation, notes: list[str]) -> Json:
    about = {rule.name: rule.about for rule in RULES}
    hints = []
    for hint in diagnosis.hints:
        changes = [{**msgspec.to_builtins(its), "now": _now(seen, its.key)} for its in hint.fix]
        hints.append({**msgspec.to_builtins(hint), "fix": changes})
    return {
        "hints": hints,
        "fine": list(diagnosis.fine),
        "not_judged": [{**msgspec.to_builtins(its), "about": about[its.rule]} for its in diagnosis.not_judged],
        "notes": notes,
    }


def _now(seen: Observation, key: str) -> object:
    """What the plan has in the place that a change speaks of."""
    plan = seen.plan
    if plan is None:
        return None
    return getattr(plan.policy, key) if hasattr(plan.policy, key) else getattr(plan, key)


def _print(diagnosis: Diagnosis, seen: Observation, notes: list[str]) -> None:
    for hint in diagnosis.hints:
        _print_hint(hint, seen)
    if not diagnosis.hints:
        print("Nothing was found that should be changed.")
    print(f"{len(diagnosis.fine)} of {len(RULES)} rules found nothing.")
    if diagnosis.not_judged:
        print("Not judged:")
    about = {rule.name: rule.about for rule in RULES}
    for why in dict.fromkeys(missing.why for missing in diagnosis.not_judged):
        subjects = ", ".join(about[missing.rule] for missing in diagnosis.not_judged if missing.why == why)
        print(f"  {subjects}: {terminal.printable(why)}")
    for note in notes:
        print(f"note: {terminal.printable(note)}", file=sys.stderr)


def _print_hint(hint: Hint, seen: Observation) -> None:
    print(f"{_HEADINGS[hint.severity]}  {hint.title}")
    print(f"  {terminal.printable(hint.evidence)}")
    print(f"  Do: {terminal.printable(hint.action)}")
    for change in hint.fix:
        print(f"      plan: {change.key} {_now(seen, change.key)} → {change.value}")
    print()
