"""`demo`: writes the demonstration model."""

import argparse
from pathlib import Path

from app.commands.common import AddCommand, Json, positive, print_json
from app.errors import EXIT_OK
from app.library import demo
from app.units import format_bytes


def add(add_command: AddCommand) -> None:
    """Add the command."""
    made = add_command("demo", _run, "write the demonstration model")
    made.add_argument("--experts", metavar="N", type=positive, default=8, help="experts per layer (default 8)")
    made.add_argument("--used", metavar="K", type=positive, default=2, help="experts per token (default 2)")
    made.add_argument("--out", metavar="PATH", type=Path, help="where to write it")


def _run(parsed: argparse.Namespace) -> int:
    made = demo.build_demo(parsed.out or demo.demo_model_path(), experts=parsed.experts, used=parsed.used)
    facts: Json = {
        "path": str(made.path),
        "bytes": made.bytes,
        "sha256": made.sha256,
        "experts": made.experts,
        "used": made.used,
    }
    if parsed.json:
        print_json(facts)
    else:
        print(f"{made.path}: {format_bytes(made.bytes)}, {made.experts} experts per layer, {made.used} used per token")
    return EXIT_OK
