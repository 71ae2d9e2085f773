"""`probe`: what this machine is; also into and from a file that holds what every source returned."""

import argparse
from pathlib import Path

import msgspec

from app import terminal
from app.commands.common import DEVICES_SECONDS, AddCommand, print_json, why_no_engine, writable
from app.engine import protocol
from app.engine.client import EngineClient
from app.errors import EXIT_OK, AppError
from app.hardware import snapshot
from app.hardware import words as hardware_words
from app.hardware.facts import Machine, one_row_per_card
from app.hardware.probe import probe
from app.library import folders
from app.library.disk_speed import with_disk_speed
from app.library.load_memory import with_learnt
from app.placement.memory_learning import learnt_words


def add(add_command: AddCommand) -> None:
    """Add the command."""
    command = add_command("probe", _run, "what this machine is")
    files = command.add_mutually_exclusive_group()
    files.add_argument(
        "--record",
        metavar="FILE",
        help="also write what every source returned, for tests and reports of faults; without serial numbers, user "
        "names and paths below the home folder, but with the names of programs that hold graphics memory",
    )
    files.add_argument("--replay", metavar="FILE", help="the machine that such a file was recorded on, not this one")


def _run(parsed: argparse.Namespace) -> int:
    taken_out: tuple[str, ...] = ()
    if parsed.replay:
        machine = snapshot.read_snapshot(folders.user_path(parsed.replay)).machine()
    else:
        machine, taken_out = _here(writable(parsed.record) if parsed.record else None)
        machine = with_disk_speed(with_learnt(machine))
    if parsed.json:
        print_json(msgspec.to_builtins(machine))
        return EXIT_OK
    _print(machine)
    if parsed.record:
        print(f"Record   {parsed.record}")
        for words in taken_out:
            print(f"         taken out: {words}")
    return EXIT_OK


def _here(path: Path | None) -> tuple[Machine, tuple[str, ...]]:
    """This machine as the engine and the system see it now, written to `path`; and what was taken out of that.

    Where the engine cannot be used the others are asked all the same, and a note says why its devices are missing.
    """
    devices, notes, taken_out = None, tuple[str, ...](), tuple[str, ...]()
    try:
        with EngineClient() as client:
            devices = client.request(protocol.ListDevices, protocol.Devices, timeout=DEVICES_SECONDS)
    except AppError as error:
        notes = (f"The engine cannot be used: {why_no_engine(error)}",)
    gpus, build = (devices.gpus, devices.build) if devices is not None else ((), None)
    if path is None:
        machine = probe(folders.models_folder(), gpus, build)
    else:
        record, machine = snapshot.record(folders.models_folder(), gpus, build)
        snapshot.write_snapshot(path, record)
        taken_out = record.scrubbed
    return msgspec.structs.replace(machine, notes=(*notes, *machine.notes)), taken_out


def _print(machine: Machine) -> None:
    rows = [("System", machine.os)]
    if words := hardware_words.describe_identity(machine):
        rows.append(("Machine", words))
    rows += [("CPU", hardware_words.describe_cpu(machine.cpu))]
    rows += [("", words) for words in hardware_words.cpu_details(machine.cpu)]
    rows.append(("RAM", hardware_words.describe_ram(machine.ram)))
    rows += [("", words) for words in hardware_words.ram_details(machine.ram)]
    for card in one_row_per_card(machine.gpus):
        names = ", ".join(gpu.device for gpu in card)
        rows.append(("GPU", f"{names}: {hardware_words.describe_gpu(card[0])}"))
        rows += [("", words) for words in hardware_words.gpu_details(card[0])]
    if not machine.gpus:
        rows.append(("GPU", "none found" if machine.engine else "not known: it is the engine that lists them"))
    rows.append(("Disk", hardware_words.describe_disk(machine.disk)))
    if machine.power and (words := hardware_words.describe_power(machine.power)):
        rows.append(("Power", words))
    if machine.engine:
        engine = machine.engine
        rows.append(("Engine", f"llama-cpp-python {engine.llama_cpp_python}, ggml {engine.ggml}, {engine.build}"))
        if words := hardware_words.describe_engine_cpu(engine):
            rows.append(("", words))
        if not engine.expert_device:
            rows.append(("", f"without the expert device: {engine.expert_device_reason}"))
        rows += [("", note) for note in engine.notes]
    rows += [("Learnt", words) for words in learnt_words(machine)]
    rows += [("Note", note) for note in machine.notes]
    rows += [("Not seen", words) for words in hardware_words.unseen_words(machine)]
    for label, words in rows:
        print(f"{label:<9}{terminal.printable(words)}")
