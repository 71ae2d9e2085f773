"""`export`: how a model would be loaded, as other programs take it."""

import argparse
import sys

from app import terminal
from app.commands.common import AddCommand, add_model, add_wishes, facts_of, machine_of, print_json, wishes
from app.commands.memory import checked_plan
from app.engine.client import EngineClient
from app.errors import EXIT_OK
from app.library.load_memory import with_learnt
from app.library.speed_evidence import evidence_of
from app.model import ModelFacts
from app.placement.exchange import device_map, export_flags, export_words, plan_file
from app.placement.exchange.command_line import SHELLS
from app.placement.exchange.formats import Exported
from app.placement.plan import Plan

FORMATS = (*export_flags.PROGRAMS, "lm-studio", "ollama", "device-map", "json")


def add(add_command: AddCommand) -> None:
    """Add the command."""
    command = add_command("export", _run, "a plan as other programs take it; what they cannot be told is listed")
    add_model(command)
    command.add_argument("--format", required=True, choices=FORMATS, help="what to write the plan as")
    command.add_argument(
        "--shell",
        choices=SHELLS,
        default="windows" if sys.platform == "win32" else "posix",
        help="how to quote a command line (default: as on this system)",
    )
    add_wishes(command)


def _run(parsed: argparse.Namespace) -> int:
    facts = facts_of(parsed.model)
    with EngineClient() as client:
        machine = with_learnt(machine_of(client))
        plan = checked_plan(client, facts, machine, wishes(parsed), evidence_of(facts, machine))
    exported = _exported(plan, facts, parsed.format, parsed.shell)
    if parsed.json:
        print_json(
            {
                "format": parsed.format,
                "text": exported.text,
                "lost": list(exported.lost),
                "notes": list(exported.notes),
            }
        )
        return EXIT_OK
    print(terminal.printable(exported.text))
    for sentence in exported.lost:
        print(f"Lost: {terminal.printable(sentence)}", file=sys.stderr)
    for sentence in exported.notes:
        print(f"Note: {terminal.printable(sentence)}", file=sys.stderr)
    return EXIT_OK


def _exported(plan: Plan, facts: ModelFacts, form: str, shell: str) -> Exported:
    if form in export_flags.PROGRAMS:
        return export_flags.export_flags(plan, facts, form, shell)
    writers = {
        "lm-studio": export_words.lm_studio,
        "ollama": export_words.ollama,
        "device-map": device_map.export_device_map,
        "json": plan_file.export_json,
    }
    return writers[form](plan, facts)
