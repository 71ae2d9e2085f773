"""What several commands share: kinds of arguments, the model and machine they speak of, output as JSON."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from app.engine import protocol
from app.engine.client import EngineClient
from app.errors import AppError, writing_error
from app.hardware.facts import Machine
from app.hardware.probe import probe
from app.library import folders, models
from app.model import ModelFacts, read_facts
from app.placement import planner
from app.placement.active_experts import CHANGES_ANSWERS
from app.placement.plan import GOALS, KV_TYPES, POLICIES, RESIDENCIES, STREAMS, CachePolicy
from app.units import parse_size

Json = dict[str, Any]

# A driver that does not answer must not hold the command for ever; the slowest seen took a few seconds.
DEVICES_SECONDS = 60.0


class AddCommand(Protocol):
    """Adds a command to the parser: its name, the function that runs it, and what it is for in words."""

    def __call__(self, name: str, command: Callable[[argparse.Namespace], int], words: str) -> argparse.ArgumentParser:
        """The command's own parser, which takes `--json` already."""
        ...


def print_json(data: Json) -> None:
    """Print the one JSON object of a command."""
    sys.stdout.write(json.dumps(data) + "\n")


def positive(text: str) -> int:
    """A whole number above 0, as an argument."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above 0")
    return value


def whole(text: str) -> int:
    """A whole number from 0 on, as an argument."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 0 on")
    return int(text)


def size(text: str) -> int:
    """Bytes from words such as 2GiB, as an argument."""
    try:
        return parse_size(text)
    except AppError as error:
        raise argparse.ArgumentTypeError(error.message.removesuffix(".")) from error


def size_or_off(text: str) -> int:
    """Bytes from words such as 2GiB, 0 from "off", as an argument."""
    if text.lower() == "off":
        return 0
    try:
        return size(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, or 'off'") from error


def add_model(command: argparse.ArgumentParser) -> None:
    """Add the argument that names a model."""
    command.add_argument("model", metavar="MODEL", help="path of a GGUF file, or 'demo'")


def add_wishes(command: argparse.ArgumentParser) -> None:
    """Add what a user may wish of a plan; `wishes` reads it."""
    command.add_argument(
        "--gpu",
        metavar="DEVICE",
        help="the one device of `probe` to use, or 'none' for the CPU; else the best, or several",
    )
    command.add_argument("--ctx", metavar="N", type=positive, help="context length in tokens")
    command.add_argument("--kv", metavar="TYPE", choices=KV_TYPES, help=f"KV cache type: {', '.join(KV_TYPES)}")
    command.add_argument("--threads", metavar="N", type=positive, help="threads of the CPU part")
    command.add_argument(
        "--goal",
        choices=GOALS,
        default=GOALS[0],
        help="speed: most tokens a second; context: the longest that fits; quiet: half the fast cores, and more "
        "memory left to other programs",
    )
    command.add_argument(
        "--layers", metavar="N", type=whole, help="all experts of the first N layers on the GPU; else as predicted best"
    )
    defaults = CachePolicy()
    command.add_argument(
        "--pool",
        metavar="SIZE",
        type=size_or_off,
        help="GPU memory for single experts, such as 2GiB; 'off' for none; else as predicted best",
    )
    command.add_argument(
        "--policy",
        choices=POLICIES,
        help="which experts the pool holds: the last used, the most used, a saved profile's, or pinned ones only "
        f"(default {defaults.kind})",
    )
    command.add_argument(
        "--stream",
        choices=STREAMS,
        help=f"whether missing experts may be copied over and computed on the GPU (default {defaults.stream})",
    )
    command.add_argument(
        "--lock",
        metavar="SIZE",
        type=size_or_off,
        help="page-lock at most so much of the experts' main memory, such as 4GiB: a graphics card with its own "
        "memory copies several times faster from there, and no other program gets that memory back meanwhile; 'off' "
        "for none (default a part of what is free, where `calibrate` measured a gain)",
    )
    command.add_argument(
        "--residency", choices=RESIDENCIES, help="experts on the CPU: copied into its faster layout, or as in the file"
    )
    command.add_argument(
        "--resident",
        metavar="SIZE",
        type=size_or_off,
        help="keep at most so much of the experts that stay in the model file in main memory, such as 8GiB: the others "
        "are read from the disk when they are needed; 'off' leaves it to the system (default what fits)",
    )
    command.add_argument(
        "--experts-used",
        metavar="N",
        type=positive,
        help="experts that compute each token (default the model's own number, which it was trained with): fewer are "
        f"faster, and another number {CHANGES_ANSWERS}",
    )


def add_tuned(command: argparse.ArgumentParser) -> None:
    """Add what keeps a tuned plan from being used; a command without it uses none."""
    command.add_argument(
        "--no-tuned",
        dest="tuned",
        action="store_false",
        help="plan anew, also where `tune` has kept a plan of this model on this machine",
    )


def machine_of(client: EngineClient) -> Machine:
    """This machine as the engine and the system see it now.

    Raises:
        AppError: the engine did not answer.
    """
    devices = client.request(protocol.ListDevices, protocol.Devices, timeout=DEVICES_SECONDS)
    return probe(folders.models_folder(), devices.gpus, devices.build)


def why_no_engine(error: AppError) -> str:
    """What kept the engine from telling its devices, with the last line of what the system or the engine said."""
    told = error.detail.strip().splitlines()
    return f"{error.message.rstrip('.')}{f' ({told[-1].strip()})' if told else ''}."


def writable(text: str) -> Path:
    """The file that a command is to write at its end; that it cannot be written is said before the work.

    Raises:
        AppError: folder_not_writable or disk_full.
    """
    path = folders.user_path(text)
    try:
        new = not path.exists()
        if not new and not (path.is_file() or path.is_dir()):
            return path  # a pipe or a terminal, which opening would change
        with path.open("ab"):
            pass
        if new:
            path.unlink()
    except OSError as error:
        raise writing_error(error, path) from error
    return path


def facts_of(word: str) -> ModelFacts:
    """What the model is that the user named.

    Raises:
        AppError: there is none, or it cannot be read.
    """
    return read_facts(models.resolve(word))


def wishes(parsed: argparse.Namespace) -> planner.Wishes:
    """What the user wishes of a plan, from the arguments of `add_wishes` and, for a tuned one, of `add_tuned`."""
    gpu: str | None = "auto"
    if parsed.gpu is not None:
        gpu = None if parsed.gpu.lower() == "none" else parsed.gpu
    policy = {"kind": parsed.policy, "stream": parsed.stream}
    wished_policy = {name: value for name, value in policy.items() if value is not None}
    return planner.Wishes(
        gpu=gpu,
        n_ctx=parsed.ctx,
        kv_type=parsed.kv,
        threads=parsed.threads,
        whole_layers=parsed.layers,
        pool_bytes=parsed.pool,
        residency=parsed.residency,
        resident_bytes=parsed.resident,
        policy=CachePolicy(**wished_policy) if wished_policy else None,
        lock_bytes=parsed.lock,
        experts_used=parsed.experts_used,
        goal=parsed.goal,
        tuned=getattr(parsed, "tuned", False),
    )
