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
    print_json,
    why_no_engine,
    wishes,
    writable,
)
from app.commands.doctor_model import NOT_LOADED, NamedModel, named_model
from app.commands.doctor_run import watch_answer
from app.commands.memory import checked_plan
from app.commands.patience import PatientClient, StillError
from app.doctor.diagnosis import RULES, Diagnosis, examine
from app.doctor.hints import Hint
from app.doctor.observation import NO_ENGINE, NO_MODEL, Observation, SilentFile
from app.doctor.record import (
    AnyLine,
    CalibrationLine,
    DiskLine,
    FilesLine,
    ModelLine,
    SilentLine,
    folders_of,
    observed,
    read_record,
    write_record,
)
from app.engine import protocol
from app.errors import EXIT_OK, AppError, ErrorCode
from app.hardware.engine_files import read_engine_files
from app.hardware.facts import Machine
from app.hardware.probe import probe
from app.hardware.profile_file import read_profile
from app.hardware.snapshot import Snapshot, read_snapshot, record
from app.library import folders
from app.library.disk_speed import with_disk_speed
from app.library.load_memory import with_learnt
from app.library.speed_evidence import calibration_of, evidence_of
from app.model import ModelFacts
from app.placement.evidence import evidence_for, planned
from app.placement.placing import refuse_hopeless
from app.placement.refine import STEP_NO_DRY_RUN
from app.units import format_bytes

_MIB = 1024**2
_OPTIONS = {
    "gpu": "--gpu",
    "n_ctx": "--ctx",
    "threads": "--threads",
    "pool_bytes": "--pool",
    "kind": "--policy",
    "lock_bytes": "--lock",
    "residency": "--residency",
    "resident_bytes": "--resident",
}
"""Which argument of `plan`, `chat` and this command changes what of a plan."""
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
    other.add_argument(
        "--replay", metavar="FILE", help="judge once more what `doctor --record` wrote there: machine, model and answer"
    )
    command.add_argument(
        "--record",
        metavar="FILE",
        help="also write what is judged by, for tests and reports of faults: the machine as `probe --record` does, "
        "the model's tables, the plan, what the engine told, and the names of programs that hold memory; nothing that "
        "was said",
    )
    add_wishes(command)
    add_tuned(command)


def _run(parsed: argparse.Namespace) -> int:
    if parsed.replay is not None and (parsed.model is not None or parsed.load):
        raise AppError(ErrorCode.BAD_USAGE, "--replay takes no MODEL: the record names its own.")
    described = _described(parsed)
    if parsed.load and (parsed.model is None or described is not None):
        raise AppError(ErrorCode.BAD_USAGE, "--load needs a MODEL, and this machine.")
    if parsed.record is not None and (described is not None or parsed.replay is not None):
        raise AppError(ErrorCode.BAD_USAGE, "--record is for this machine.")
    if parsed.record is not None:
        writable(parsed.record)
    model = named_model(parsed.model) if parsed.model is not None else NamedModel()
    notes: list[str] = []
    if parsed.replay is not None:
        seen = read_record(folders.user_path(parsed.replay)).observation()
    elif described is not None:
        seen = _planned_for(described, model, parsed)
    else:
        seen = _here(parsed, model, notes)
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


def _planned_for(machine: Machine, model: NamedModel, parsed: argparse.Namespace) -> Observation:
    """A described machine with the model's plan for it, by what was measured there."""
    facts = model.facts
    if facts is None:
        return observed(Observation(machine=machine, calibration=calibration_of(machine)), _silence(model))
    evidence = evidence_for(machine, evidence_of(facts, machine))
    plan = planned(facts, machine, wishes(parsed), evidence)
    return Observation(machine=machine, calibration=evidence.calibration, facts=facts, plan=plan)


def _here(parsed: argparse.Namespace, model: NamedModel, notes: list[str]) -> Observation:
    """This machine, also where its engine cannot be used: that is what it is asked for then."""
    facts = model.facts
    lines: list[AnyLine] = [FilesLine(files=read_engine_files(contents=True)), *_silence(model)]
    # The disk is that of the model, where there is one.
    folder = model.folder or folders.models_folder()
    with contextlib.ExitStack() as stack:
        try:
            client = stack.enter_context(PatientClient(on_log=terminal.show_log))
            devices = client.request(protocol.ListDevices, protocol.Devices, timeout=DEVICES_SECONDS)
        except AppError as error:
            if parsed.load:
                raise
            notes.append(f"The engine cannot be used, and no model is judged: {why_no_engine(error)}")
            snapshot, machine = _probed(parsed, folder, None)
            no_plan = NO_ENGINE if facts is not None else NO_MODEL
            return _recorded(parsed, folder, snapshot, lines, Observation(machine=machine, no_plan=no_plan))
        snapshot, machine = _probed(parsed, folder, devices)
        machine = with_disk_speed(with_learnt(machine))
        lines.append(DiskLine(disk=machine.disk))
        calibration = calibration_of(machine)
        if facts is not None:
            evidence = evidence_of(facts, machine)
            plan = checked_plan(client, facts, machine, wishes(parsed), evidence)
            notes += [*evidence.notes, *(step.reason for step in plan.steps if step.name == STEP_NO_DRY_RUN)]
            calibration = evidence.calibration or calibration
            lines.append(ModelLine(facts=facts, plan=plan))
        if calibration is not None:
            lines.append(CalibrationLine(calibration=calibration))
        seen = Observation(machine=machine, engine_pid=client.pid)
        if parsed.load and facts is None:
            notes.append(NOT_LOADED)
        elif facts is not None and parsed.load:
            refuse_hopeless(plan, machine)
            try:
                watch_answer(client, seen, plan, facts, lines, quiet=parsed.json)
            except StillError as error:
                notes.append(error.message)
                lines.append(SilentLine(file=_stopped(facts, lines, error)))
            except AppError:
                _keep_cut(parsed, folder, snapshot, lines, seen)
                raise
        return _recorded(parsed, folder, snapshot, lines, seen)


def _silence(model: NamedModel) -> list[AnyLine]:
    """That the model's file did not answer, where it did not."""
    return [SilentLine(file=model.silent)] if model.silent is not None else []


def _stopped(facts: ModelFacts, lines: list[AnyLine], error: StillError) -> SilentFile:
    """What an engine waited for that was given up."""
    answers = any(isinstance(line, protocol.Loaded) for line in lines)
    return SilentFile(path=facts.files[0], seconds=error.seconds, step="answer" if answers else "load")


def _probed(
    parsed: argparse.Namespace, folder: Path, devices: protocol.Devices | None
) -> tuple[Snapshot | None, Machine]:
    """This machine, and what its sources returned where that is to be written."""
    gpus, build = (devices.gpus, devices.build) if devices is not None else ((), None)
    return record(folder, gpus, build) if parsed.record is not None else (None, probe(folder, gpus, build))


def _recorded(
    parsed: argparse.Namespace, folder: Path, snapshot: Snapshot | None, lines: list[AnyLine], seen: Observation
) -> Observation:
    """What is judged by, written to the file where one was named."""
    if snapshot is not None:
        private = (Path.home(), folders.data_folder(), folders.models_folder(), folder, *folders_of(lines))
        write_record(folders.user_path(parsed.record), snapshot, lines, private)
    return observed(seen, lines)


def _keep_cut(
    parsed: argparse.Namespace, folder: Path, snapshot: Snapshot | None, lines: list[AnyLine], seen: Observation
) -> None:
    """Write what was seen before a failure, which a report of it is made for; the failure itself is told after."""
    if snapshot is None:
        return
    try:
        _recorded(parsed, folder, snapshot, lines, seen)
    except AppError as error:
        print(f"No record: {terminal.printable(error.message)}", file=sys.stderr)
    else:
        print(f"What was seen until then is in {terminal.printable(parsed.record)}.", file=sys.stderr)


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


def _word(key: str, value: object) -> str:
    """A plan's value as a person reads it."""
    if value is None:
        return "as fits" if key == "resident_bytes" else "none"
    if key == "resident_bytes" and value == 0:
        return "as the system decides"
    return format_bytes(value) if key.endswith("_bytes") and isinstance(value, int) else str(value)


def _option(key: str, value: object) -> str:
    """The argument of `add_wishes` that makes a change; empty where there is none."""
    name = _OPTIONS.get(key)
    if name is None:
        return ""
    if value is None or (key.endswith("_bytes") and not value):
        return f" ({name} {'none' if value is None else 'off'})"
    if key.endswith("_bytes") and isinstance(value, int):
        # The experts in memory are to have room for the last of them, too; of the others no more is free.
        return f" ({name} {-(-value // _MIB) if key == 'resident_bytes' else value // _MIB}MiB)"
    return f" ({name} {value})"


def _print(diagnosis: Diagnosis, seen: Observation, notes: list[str]) -> None:
    for hint in diagnosis.hints:
        _print_hint(hint, seen)
    if not diagnosis.hints:
        judged = "The rules that could be judged found nothing" if seen.machine.engine is None else "Nothing was found"
        print(f"{judged} that should be changed.")
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
        now, then = (_word(change.key, value) for value in (_now(seen, change.key), change.value))
        print(terminal.printable(f"      plan: {change.key} {now} → {then}{_option(change.key, change.value)}"))
    print()
