"""`probe`: what this machine is; also into and from a file that holds what every source returned."""

import argparse
from pathlib import Path

import msgspec

from app.commands.common import DEVICES_SECONDS, AddCommand, machine_of, print_json
from app.engine import protocol
from app.engine.client import EngineClient
from app.errors import EXIT_OK
from app.hardware import snapshot
from app.hardware import words as hardware_words
from app.hardware.facts import Machine, one_row_per_card
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
        with EngineClient() as client:
            if parsed.record:
                machine, taken_out = _recorded(client, folders.user_path(parsed.record))
            else:
                machine = machine_of(client)
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


def _recorded(client: EngineClient, path: Path) -> tuple[Machine, tuple[str, ...]]:
    """This machine as the engine and the system see it now, written to `path`; and what was taken out of that."""
    devices = client.request(protocol.ListDevices, protocol.Devices, timeout=DEVICES_SECONDS)
    record, machine = snapshot.record(folders.models_folder(), devices.gpus, devices.build)
    snapshot.write_snapshot(path, record)
    return machine, record.scrubbed


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
        rows.append(("GPU", "none found"))
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
        print(f"{label:<9}{words}")
