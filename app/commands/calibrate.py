"""`calibrate`: measure what this machine does with expert weights, and keep it for predictions."""

import argparse
import sys

import msgspec

from app import terminal
from app.commands.common import AddCommand, machine_of, print_json
from app.engine import protocol
from app.engine.client import EngineClient
from app.errors import EXIT_OK, AppError, ErrorCode
from app.hardware.facts import GpuKind, Machine
from app.hardware.fingerprint import fingerprint
from app.library import calibrations, models
from app.model import read_expert_tensors
from app.model.tensor_types import ggml_name
from app.placement.plan import CPU_LANE
from app.placement.speed import calibration_words as words
from app.placement.speed.calibration import Calibration
from app.placement.speed.calibration_choices import COMMON_TYPES, SECONDS, devices, thread_counts
from app.units import format_share

_LEAST_SECONDS, _MOST_SECONDS = 2.0, 600.0


def add(add_command: AddCommand) -> None:
    """Add the command."""
    command = add_command(
        "calibrate", _run, "measure this machine, for predictions of speed; a loaded model is not needed"
    )
    command.add_argument(
        "model", metavar="MODEL", nargs="?", help="measure the types of this model's experts; else the common ones"
    )
    command.add_argument(
        "--gpu", metavar="DEVICE", help="the one device of `probe` to measure, or 'none'; else all but software devices"
    )
    command.add_argument("--seconds", metavar="S", type=_seconds, default=SECONDS, help="about how long it may take")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not _LEAST_SECONDS <= value <= _MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"'{text}' is not between {_LEAST_SECONDS:g} and {_MOST_SECONDS:g} seconds")
    return value


def _run(parsed: argparse.Namespace) -> int:
    types = _types(parsed.model) if parsed.model else COMMON_TYPES
    with EngineClient(on_log=terminal.show_log) as client:
        machine = machine_of(client)
        calibrations.check(fingerprint(machine))
        request = client.send(
            protocol.Calibrate,
            types=types,
            threads=thread_counts(machine.cpu),
            devices=_devices(machine, parsed.gpu),
            disk_folder=machine.disk.path,
            seconds=parsed.seconds,
            machine=fingerprint(machine),
        )
        calibration = _receive(client, request, quiet=parsed.json)
    calibrations.keep(calibration)
    if parsed.json:
        print_json(msgspec.to_builtins(calibration))
    else:
        _print(calibration, {gpu.device for gpu in machine.gpus if gpu.kind is GpuKind.SOFTWARE})
    return EXIT_OK


def _types(model: str) -> tuple[str, ...]:
    """The types of a model's experts, by how many bytes are of them."""
    size: dict[str, int] = {}
    for tensor in read_expert_tensors(models.resolve(model)):
        if not tensor.name.endswith((".bias", ".scale")):
            size[ggml_name(tensor.type)] = size.get(ggml_name(tensor.type), 0) + tensor.bytes
    if not size:
        raise AppError(ErrorCode.MODEL_UNSUPPORTED, f"{model} has no experts: measure without a model.")
    return tuple(sorted(size, key=lambda kind: -size[kind]))


def _devices(machine: Machine, wished: str | None) -> tuple[str, ...]:
    if wished is None:
        return devices(machine)
    return () if wished.lower() == "none" else (wished,)


def _receive(client: EngineClient, request: int, *, quiet: bool) -> Calibration:
    """Wait with progress on standard error; Ctrl-C stops the measurement, a second one the program."""
    progress, stopping = sys.stderr.isatty() and not quiet, False
    while True:
        try:
            for event in client.events(request, protocol.Calibrated):
                if isinstance(event, protocol.CalibrateProgress) and progress:
                    line = f"Measuring: {format_share(event.fraction):>6}  {event.what}"
                    print(f"\r{line[:78]:78}", end="", file=sys.stderr, flush=True)
                if isinstance(event, protocol.Calibrated):
                    if progress:
                        print(f"\r{'':78}\r", end="", file=sys.stderr, flush=True)
                    return event.calibration
        except KeyboardInterrupt:
            if stopping:
                raise
            stopping = True
            client.send(protocol.Cancel, target=request)


def _print(calibration: Calibration, software: set[str]) -> None:
    for device in dict.fromkeys(rate.device for rate in calibration.compute):
        if device in software:
            print(f"{device}, a software device: the processor computes:")
        else:
            print("Processor, expert weights in RAM:" if device == CPU_LANE else f"{device}, in its own memory:")
        for rate in calibration.compute:
            if rate.device == device:
                print(f"  {words.compute_words(rate)}")
    sections: tuple[tuple[str, list[str]], ...] = (
        ("Copies:", [words.copy_words(rate) for rate in calibration.copies]),
        ("Together:", [words.overlap_words(overlap) for overlap in calibration.overlaps]),
        ("Cost of a layer:", [words.layer_words(cost) for cost in calibration.layer_costs]),
        ("Disk, random places past the cache:", [words.disk_words(rate) for rate in calibration.disk]),
        ("Notes:", list(calibration.skipped)),
    )
    for heading, lines in sections:
        if lines:
            print(heading)
            for line in lines:
                print(f"  {terminal.printable(line)}")
    print(f"Measured in {calibration.seconds:.0f} s and kept; ± is half the spread of repeated runs.")
    if calibration.misleads:
        print(words.busy_note(calibration))
