"""The command line: arguments in, text or one JSON object out, exit status by kind of failure."""

import argparse
import errno
import importlib.metadata
import io
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from app import terminal
from app.advice import what_to_do
from app.commands import (
    bench,
    calibrate,
    chat,
    demo,
    doctor,
    export,
    import_plan,
    inspect,
    plan,
    probe,
    simulate,
    tune,
)
from app.commands.common import Json, print_json
from app.errors import EXIT_BAD_USAGE, EXIT_OK, AppError, ErrorCode

_COMMANDS = (probe, doctor, inspect, plan, chat, bench, calibrate, tune, export, import_plan, simulate, demo)


def version() -> str:
    """The installed version."""
    return importlib.metadata.version("expert-lanes")


def main(arguments: list[str]) -> int:
    """Run one command; returns the process exit status."""
    _open_missing_streams()
    _speak_utf8()
    try:
        parsed = _parser().parse_args(arguments)
    except _BadArgumentsError as error:
        if "--json" in arguments:
            print_json(_as_json(error.reason))
        print(error.told, file=sys.stderr)
        return error.reason.exit_status
    command: Callable[[argparse.Namespace], int] = parsed.command
    try:
        status = command(parsed)
        sys.stdout.flush()
        return status
    except AppError as error:
        _report(error, as_json=getattr(parsed, "json", False))
        return error.exit_status
    except BrokenPipeError:
        # The reader of our output is gone (`| head`); nothing is left to tell it, also not at exit.
        _drop_output()
        return EXIT_OK
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _drop_output()
        _report(AppError(ErrorCode.DISK_FULL, "The output could not be written: its disk is full."), as_json=False)
        return EXIT_BAD_USAGE


def _drop_output() -> None:
    """Nothing more can be written to standard output: also not what waits in its buffer at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _open_missing_streams() -> None:
    """Give every standard stream that the parent closed a place to go."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - the process's own


def _speak_utf8() -> None:
    """Write UTF-8 whatever the console's or pipe's own encoding is: answers and paths hold any character."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _report(error: AppError, *, as_json: bool) -> None:
    if as_json:
        print_json(_as_json(error))
    print(f"expert-lanes: {terminal.printable(error.message)}\n{what_to_do(error.code)}", file=sys.stderr)


def _as_json(error: AppError) -> Json:
    return {
        "error": {
            "code": str(error.code),
            "message": error.message,
            "advice": what_to_do(error.code),
            "detail": error.detail,
        }
    }


class _BadArgumentsError(Exception):
    """Arguments that no command takes: `reason` as an error, `told` with the usage before it."""

    def __init__(self, usage: str, program: str, message: str) -> None:
        super().__init__(message)
        self.reason = AppError(ErrorCode.BAD_USAGE, f"{message}.")
        self.told = f"{usage}{program}: {terminal.printable(message)}"


class _Parser(argparse.ArgumentParser):
    """argparse that leaves it to `main` how bad usage is told."""

    def error(self, message: str) -> NoReturn:
        """Tell `main`."""
        raise _BadArgumentsError(self.format_usage(), self.prog, message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="expert-lanes",
        description="Local chat with Mixture-of-Experts models. "
        "Without arguments, or with nothing but a .gguf file, it opens the window.",
    )
    parser.add_argument("--version", action="version", version=f"expert-lanes {version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)

    def add(name: str, command: Callable[[argparse.Namespace], int], words: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=words, description=words)
        added.set_defaults(command=command)
        added.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
        return added

    for module in _COMMANDS:
        module.add(add)
    return parser
