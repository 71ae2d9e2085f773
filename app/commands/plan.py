"""`plan`: how a model would be loaded here."""

import argparse

import msgspec

from app.commands.common import AddCommand, add_model, add_wishes, facts_of, machine_of, print_json, wishes
from app.engine.client import EngineClient
from app.errors import EXIT_OK
from app.model import ModelFacts
from app.placement import planner
from app.placement import words as plan_words
from app.placement.plan import Plan
from app.units import format_bytes


def add(add_command: AddCommand) -> None:
    """Add the command."""
    command = add_command("plan", _run, "how a model would be loaded here; its figures are predictions")
    add_model(command)
    add_wishes(command)


def _run(parsed: argparse.Namespace) -> int:
    facts = facts_of(parsed.model)
    with EngineClient() as client:
        machine = machine_of(client)
    plan = planner.make_plan(facts, machine, wishes(parsed))
    if parsed.json:
        print_json(msgspec.to_builtins(plan, str_keys=True))
        return EXIT_OK
    _print_plan(plan, facts)
    return EXIT_OK


def _print_plan(plan: Plan, facts: ModelFacts) -> None:
    print(plan_words.describe_plan(plan, facts))
    for part in plan.memory:
        print(f"  {part.device:10} {part.part:10} {format_bytes(part.bytes)} (predicted)")
    for step in plan.steps:
        print(f"  step: {step.name}: {step.reason}")
