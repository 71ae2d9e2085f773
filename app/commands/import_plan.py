"""`import`: what a llama.cpp command line, or a plan of this app's, means for a model on this machine."""

import argparse
import sys
from pathlib import Path

import msgspec

from app import terminal
from app.commands.common import AddCommand, add_model, facts_of, machine_of, print_json
from app.engine.client import EngineClient
from app.errors import EXIT_OK, AppError, ErrorCode
from app.library import folders, models
from app.library.load_memory import with_learnt
from app.model import read_tensor_bytes
from app.placement import words as plan_words
from app.placement.exchange.command_line import SHELLS
from app.placement.exchange.export_flags import PROGRAMS
from app.placement.exchange.import_flags import import_flags
from app.placement.exchange.plan_file import import_json

_STANDARD_INPUT = "-"
_MOST_BYTES = 4 * 1024**2
"""More than any plan: pins of every expert of the largest models are below 2 MiB."""


class _Exported(msgspec.Struct):
    """What `export --json` prints, as far as it is read here."""

    format: str
    text: str


def add(add_command: AddCommand) -> None:
    """Add the command."""
    command = add_command("import", _run, "what a llama.cpp command line, or a plan as JSON, means here")
    add_model(command)
    command.add_argument("source", metavar="FILE", help="a file with the command line or the JSON; - for the input")
    command.add_argument(
        "--shell", choices=SHELLS, help="the shell that the command line is quoted for (default: told by its signs)"
    )


def _run(parsed: argparse.Namespace) -> int:
    facts = facts_of(parsed.model)
    text = _exported_text(_text(parsed.source))
    with EngineClient() as client:
        machine = with_learnt(machine_of(client))
    if text.lstrip().startswith("{"):
        imported = import_json(text, facts, machine)
    else:
        tensors = read_tensor_bytes(models.resolve(parsed.model))
        imported = import_flags(text, facts, machine, tuple(tensors), parsed.shell)
    if parsed.json:
        print_json(msgspec.to_builtins(imported, str_keys=True))
        return EXIT_OK
    print(plan_words.describe_plan(imported.plan, facts))
    for line in plan_words.describe_lanes(imported.plan, facts):
        print(f"  {line}")
    for sentence in imported.remarks:
        print(f"  note: {terminal.printable(sentence)}")
    for sentence in imported.shortfalls:
        print(f"  does not fit: {sentence}")
    return EXIT_OK


def _exported_text(text: str) -> str:
    """The text inside of what `export --json` prints; any other text as it is."""
    try:
        exported = msgspec.json.decode(text, type=_Exported)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return text
    if exported.format not in (*PROGRAMS, "json"):
        raise AppError(
            ErrorCode.BAD_USAGE,
            f"What was exported as '{exported.format}' does not say all of a plan; import reads "
            f"{', '.join((*PROGRAMS, 'json'))}.",
        )
    return exported.text


def _text(source: str) -> str:
    try:
        if source == _STANDARD_INPUT:
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(folders.user_path(source)).open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise AppError(ErrorCode.FILE_MISSING, f"{source} is not there.", str(error)) from error
    except (OSError, ValueError) as error:
        raise AppError(ErrorCode.FILE_UNREADABLE, f"{source} cannot be read.", str(error)) from error
    if len(data) > _MOST_BYTES:
        raise AppError(ErrorCode.BAD_USAGE, f"{source} is too large to be a plan or a command line.")
    # Windows' programs put a mark before UTF-8, and PowerShell writes UTF-16.
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise AppError(ErrorCode.BAD_USAGE, f"{source} is no text in UTF-8.", str(error)) from error
