"""`plan`: how a model would be loaded, here or on a machine that a file describes."""

import argparse

import msgspec

from app.commands.common import (
    AddCommand,
    add_model,
    add_tuned,
    add_wishes,
    facts_of,
    machine_of,
    print_json,
    size,
    wishes,
)
from app.commands.memory import checked_plan
from app.engine.client import EngineClient
from app.errors import EXIT_OK
from app.hardware.facts import Machine
from app.hardware.profile_file import read_profile, with_memory
from app.library import folders
from app.library.load_memory import notes_of, with_learnt
from app.library.speed_evidence import evidence_of
from app.model import ModelFacts
from app.placement import words as plan_words
from app.placement.evidence import evidence_for, planned
from app.placement.exchange import plan_file
from app.placement.memory_share import memory_share
from app.placement.placing import STEP_DOES_NOT_FIT
from app.placement.plan import Plan
from app.units import format_bytes


def add(add_command: AddCommand) -> None:
    """Add the command."""
    command = add_command("plan", _run, "how a model would be loaded; its figures are predictions")
    add_model(command)
    add_wishes(command)
    add_tuned(command)
    command.add_argument(
        "--hardware", metavar="FILE", help="plan for the machine in this file, which `probe --json` printed there"
    )
    command.add_argument("--vram", metavar="SIZE", type=size, help="plan as if every GPU had so much free")
    command.add_argument("--ram", metavar="SIZE", type=size, help="plan as if so much main memory were available")


def _run(parsed: argparse.Namespace) -> int:
    facts = facts_of(parsed.model)
    plan, notes = _plan(parsed, facts)
    if parsed.json:
        data = msgspec.to_builtins(plan, str_keys=True)
        model = plan_file.named_model(facts)  # `import` reads it
        told = {"words": plan_words.describe_plan(plan, facts), "lanes": list(plan_words.describe_lanes(plan, facts))}
        share = msgspec.to_builtins(memory_share(plan, facts))
        print_json({**data, "model": model, "experts_in_memory": share, **told, "notes": list(notes)})
        return EXIT_OK
    _print_plan(plan, facts)
    for note in notes:
        print(f"  note: {note}")
    return EXIT_OK


def _plan(parsed: argparse.Namespace, facts: ModelFacts) -> tuple[Plan, tuple[str, ...]]:
    """The plan, and what it does not rest on.

    On this machine llama.cpp itself is asked for its memory, for another one it is estimated.
    """

    def given(machine: Machine) -> Machine:
        return with_memory(machine, vram_bytes=parsed.vram, ram_bytes=parsed.ram)

    if parsed.hardware is not None:
        profile = read_profile(folders.user_path(parsed.hardware))
        machine = given(profile)
        evidence = evidence_for(machine, evidence_of(facts, profile))
        return planned(facts, machine, wishes(parsed), evidence), evidence.notes
    with EngineClient() as client:
        here = with_learnt(machine_of(client))
        machine = given(here)
        evidence = evidence_for(machine, evidence_of(facts, here))
        return checked_plan(client, facts, machine, wishes(parsed), evidence), (*notes_of(here), *evidence.notes)


def _print_plan(plan: Plan, facts: ModelFacts) -> None:
    print(plan_words.describe_plan(plan, facts))
    if plan.speed is not None and not any(step.name == STEP_DOES_NOT_FIT for step in plan.steps):
        print(f"  {plan.speed.sentence}")
    for line in plan_words.describe_lanes(plan, facts):
        print(f"  {line}")
    for part in plan.memory:
        words = f"{format_bytes(part.bytes)} (predicted; {plan_words.BASIS_WORDS[part.basis]})"
        print(f"  {part.device:10} {part.part:10} {words}")
    for step in plan.steps:
        print(f"  step: {step.name}: {step.reason}")
