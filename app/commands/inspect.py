"""`inspect`: what a model file is, from its own tables."""

import argparse

import msgspec

from app import terminal
from app.commands.common import AddCommand, add_model, facts_of, print_json
from app.errors import EXIT_OK
from app.units import format_bytes


def add(add_command: AddCommand) -> None:
    """Add the command."""
    add_model(add_command("inspect", _run, "what a model file is, from its own tables"))


def _run(parsed: argparse.Namespace) -> int:
    facts = facts_of(parsed.model)
    if parsed.json:
        print_json(msgspec.to_builtins(facts, str_keys=True))
        return EXIT_OK
    name, architecture = terminal.printable(facts.name), terminal.printable(facts.architecture)
    print(f"{name}: {architecture}, {facts.quantization}, {facts.layers} layers, up to {facts.context_length} tokens")
    if facts.expert_count:
        sizes = sorted(set(facts.expert_bytes.values()))
        each = " to ".join(format_bytes(size) for size in dict.fromkeys((sizes[0], sizes[-1])))
        print(
            f"{len(facts.moe_layers)} layers with {facts.expert_count} experts, {facts.experts_used} used per token"
            f"{f', {facts.experts_shared} shared' if facts.experts_shared else ''}; one expert is {each}"
        )
        print(f"One token reads {format_bytes(facts.token_cycle_bytes)} of experts")
    else:
        print("A dense model: it has no experts to place")
    for part, size in msgspec.to_builtins(facts.bytes).items():
        print(f"  {part:15} {format_bytes(size)}")
    return EXIT_OK
