"""`probe`: what this machine is."""

import argparse

import msgspec

from app.commands.common import AddCommand, machine_of, print_json
from app.engine.client import EngineClient
from app.errors import EXIT_OK
from app.hardware import words as hardware_words
from app.library.load_memory import with_learnt
from app.placement.memory_learning import learnt_words


def add(add_command: AddCommand) -> None:
    """Add the command."""
    add_command("probe", _run, "what this machine is")


def _run(parsed: argparse.Namespace) -> int:
    with EngineClient() as client:
        machine = with_learnt(machine_of(client))
    if parsed.json:
        print_json(msgspec.to_builtins(machine))
        return EXIT_OK
    print(f"System   {machine.os}")
    print(f"CPU      {hardware_words.describe_cpu(machine.cpu)}")
    print(f"RAM      {hardware_words.describe_ram(machine.ram)}")
    for gpu in machine.gpus:
        print(f"GPU      {gpu.device}: {hardware_words.describe_gpu(gpu)}")
    if not machine.gpus:
        print("GPU      none found")
    print(f"Disk     {hardware_words.describe_disk(machine.disk)}")
    if machine.engine:
        engine = machine.engine
        print(f"Engine   llama-cpp-python {engine.llama_cpp_python}, ggml {engine.ggml}, {engine.build}")
        if not engine.expert_device:
            print(f"         without the expert device: {engine.expert_device_reason}")
        for note in engine.notes:
            print(f"         {note}")
    for words in learnt_words(machine):
        print(f"Learnt   {words}")
    for note in machine.notes:
        print(f"Note     {note}")
    return EXIT_OK
