"""The command line: arguments in, text or one JSON object out, exit status by kind of failure."""

import argparse
import errno
import importlib.metadata
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from app import terminal
from app.advice import what_to_do
from app.engine import protocol
from app.engine.client import EngineClient
from app.errors import EXIT_BAD_USAGE, EXIT_OK, AppError, ErrorCode
from app.hardware import words as hardware_words
from app.hardware.facts import Machine
from app.hardware.probe import probe
from app.library import demo, folders, models
from app.model import ModelFacts, read_facts
from app.placement import planner
from app.placement import words as plan_words
from app.placement.plan import KV_TYPES, POLICIES, RESIDENCIES, STREAMS, CachePolicy, Plan
from app.units import format_bytes, parse_size

Json = dict[str, Any]

# A driver that does not answer must not hold the command for ever; the slowest seen took a few seconds.
DEVICES_SECONDS = 60.0


def version() -> str:
    """The installed version."""
    return importlib.metadata.version("expert-lanes")


def main(arguments: list[str]) -> int:
    """Run one command; returns the process exit status."""
    _open_missing_streams()
    _speak_utf8()
    parsed = _parser().parse_args(arguments)
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
    advice = what_to_do(error.code)
    if as_json:
        _print_json(
            {
                "error": {
                    "code": str(error.code),
                    "message": error.message,
                    "advice": advice,
                    "detail": error.detail,
                }
            }
        )
    print(f"expert-lanes: {terminal.printable(error.message)}\n{advice}", file=sys.stderr)


def _print_json(data: Json) -> None:
    sys.stdout.write(json.dumps(data) + "\n")


class _Parser(argparse.ArgumentParser):
    """argparse with our exit status for bad usage."""

    def error(self, message: str) -> NoReturn:
        """Print usage and leave."""
        self.print_usage(sys.stderr)
        print(f"{self.prog}: {message}", file=sys.stderr)
        raise SystemExit(EXIT_BAD_USAGE)


def _positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above 0")
    return value


def _temperature(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 10:
        raise argparse.ArgumentTypeError(f"'{text}' is not between 0 and 10")
    return value


def _pool(text: str) -> int:
    if text.lower() == "off":
        return 0
    try:
        return parse_size(text)
    except AppError as error:
        raise argparse.ArgumentTypeError(f"{error.message.removesuffix('.')}, or 'off'") from error


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="expert-lanes",
        description="Local chat with Mixture-of-Experts models. Without arguments it opens the window.",
    )
    parser.add_argument("--version", action="version", version=f"expert-lanes {version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)

    def add(name: str, command: Callable[[argparse.Namespace], int], words: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=words, description=words)
        added.set_defaults(command=command)
        added.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
        return added

    add("probe", _probe, "what this machine is")
    inspect = add("inspect", _inspect, "what a model file is, from its own tables")
    plan = add("plan", _plan, "how a model would be loaded here; its figures are predictions")
    chat = add("chat", _chat, "ask a model; without -p a conversation in the terminal")
    for command in (inspect, plan, chat):
        command.add_argument("model", metavar="MODEL", help="path of a GGUF file, or 'demo'")
    for command in (plan, chat):
        command.add_argument("--gpu", metavar="DEVICE", help="a device of `probe`, or 'none' for the CPU")
        command.add_argument("--ctx", metavar="N", type=_positive, help="context length in tokens")
        command.add_argument("--kv", metavar="TYPE", choices=KV_TYPES, help=f"KV cache type: {', '.join(KV_TYPES)}")
        command.add_argument("--threads", metavar="N", type=_positive, help="threads of the CPU part")
        _add_cache_arguments(command)
    chat.add_argument("--trace", metavar="FILE", help="record which experts every decoded token is routed to")
    chat.add_argument("-p", "--prompt", metavar="TEXT", help="ask this and end")
    chat.add_argument("--max-tokens", metavar="N", type=_positive, default=2048, help="longest answer")
    chat.add_argument("--seed", metavar="S", type=int, help="makes the draw repeatable")
    chat.add_argument("--temperature", metavar="T", type=_temperature, default=0.8, help="0 takes the likeliest token")
    made = add("demo", _demo, "write the demonstration model")
    made.add_argument("--experts", metavar="N", type=_positive, default=8, help="experts per layer (default 8)")
    made.add_argument("--used", metavar="K", type=_positive, default=2, help="experts per token (default 2)")
    made.add_argument("--out", metavar="PATH", type=Path, help="where to write it")
    return parser


def _add_cache_arguments(command: argparse.ArgumentParser) -> None:
    defaults = CachePolicy()
    command.add_argument(
        "--pool", metavar="SIZE", type=_pool, help="GPU memory for single experts, such as 2GiB; 'off' for none"
    )
    command.add_argument(
        "--policy",
        choices=POLICIES,
        default=defaults.kind,
        help="which experts the pool holds: the last used, the most used, a saved profile's, or pinned ones only",
    )
    command.add_argument(
        "--stream",
        choices=STREAMS,
        default=defaults.stream,
        help="whether missing experts may be copied over and computed on the GPU",
    )
    command.add_argument(
        "--residency", choices=RESIDENCIES, help="experts on the CPU: copied into its faster layout, or as in the file"
    )


# ---- commands --------------------------------------------------------------------------------


def _machine(client: EngineClient) -> Machine:
    devices = client.request(protocol.ListDevices, protocol.Devices, timeout=DEVICES_SECONDS)
    return probe(folders.models_folder(), devices.gpus, devices.build)


def _probe(parsed: argparse.Namespace) -> int:
    with EngineClient() as client:
        machine = _machine(client)
    if parsed.json:
        _print_json(msgspec.to_builtins(machine))
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
    for note in machine.notes:
        print(f"Note     {note}")
    return EXIT_OK


def _facts(word: str) -> ModelFacts:
    return read_facts(models.resolve(word))


def _inspect(parsed: argparse.Namespace) -> int:
    facts = _facts(parsed.model)
    if parsed.json:
        _print_json(msgspec.to_builtins(facts, str_keys=True))
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


def _wishes(parsed: argparse.Namespace) -> planner.Wishes:
    gpu: str | None = "auto"
    if parsed.gpu is not None:
        gpu = None if parsed.gpu.lower() == "none" else parsed.gpu
    return planner.Wishes(
        gpu=gpu,
        n_ctx=parsed.ctx,
        kv_type=parsed.kv,
        threads=parsed.threads,
        pool_bytes=parsed.pool,
        residency=parsed.residency,
        policy=CachePolicy(kind=parsed.policy, stream=parsed.stream),
    )


def _plan(parsed: argparse.Namespace) -> int:
    facts = _facts(parsed.model)
    with EngineClient() as client:
        machine = _machine(client)
    plan = planner.make_plan(facts, machine, _wishes(parsed))
    if parsed.json:
        _print_json(msgspec.to_builtins(plan, str_keys=True))
        return EXIT_OK
    _print_plan(plan, facts)
    return EXIT_OK


def _print_plan(plan: Plan, facts: ModelFacts) -> None:
    print(plan_words.describe_plan(plan, facts))
    for part in plan.memory:
        print(f"  {part.device:10} {part.part:10} {format_bytes(part.bytes)} (predicted)")
    for step in plan.steps:
        print(f"  step: {step.name}: {step.reason}")


def _chat(parsed: argparse.Namespace) -> int:
    if parsed.prompt is None and parsed.json:
        raise AppError(ErrorCode.BAD_USAGE, "chat --json needs a prompt: -p TEXT.")
    facts = _facts(parsed.model)
    with EngineClient(on_log=terminal.show_log) as client:
        plan = planner.make_plan(facts, _machine(client), _wishes(parsed))
        loaded = terminal.load(client, plan, quiet=parsed.json)
        if parsed.trace is not None:
            client.request(protocol.SetTrace, protocol.TraceState, path=str(folders.user_path(parsed.trace)))
        sampling = protocol.Sampling(temperature=parsed.temperature, seed=parsed.seed)
        conversation = terminal.Conversation(client, sampling, parsed.max_tokens)
        if parsed.prompt is None:
            print(f"{terminal.printable(facts.name)}. {plan_words.describe_plan(plan, facts)}", file=sys.stderr)
            terminal.converse(conversation)
            _end_trace(client, parsed)
            return EXIT_OK
        finished = conversation.ask(parsed.prompt, stream=not parsed.json)
        traced = _end_trace(client, parsed)
    if parsed.json:
        answer = msgspec.to_builtins(finished)
        for key in ("type", "id"):
            answer.pop(key, None)
        _print_json(
            {
                **answer,
                "plan": msgspec.to_builtins(plan, str_keys=True),
                **({"trace": traced} if traced else {}),
                "loaded": {
                    "seconds": loaded.seconds,
                    "expert_device": loaded.expert_device,
                    "reason": loaded.reason,
                    "differences": list(loaded.differences),
                    "buffers": msgspec.to_builtins(loaded.buffers),
                },
            }
        )
    return EXIT_OK


def _end_trace(client: EngineClient, parsed: argparse.Namespace) -> Json | None:
    """End the recording that was asked for; says what is in the file."""
    if parsed.trace is None:
        return None
    state = client.request(protocol.SetTrace, protocol.TraceState, path="")
    if not parsed.json:
        lost = f", {state.dropped:,} lost" if state.dropped else ""
        print(f"[{terminal.printable(parsed.trace)}: {state.entries:,} routings{lost}]", file=sys.stderr)
    return {"path": str(folders.user_path(parsed.trace)), "entries": state.entries, "dropped": state.dropped}


def _demo(parsed: argparse.Namespace) -> int:
    made = demo.build_demo(parsed.out or demo.demo_model_path(), experts=parsed.experts, used=parsed.used)
    facts: Json = {
        "path": str(made.path),
        "bytes": made.bytes,
        "sha256": made.sha256,
        "experts": made.experts,
        "used": made.used,
    }
    if parsed.json:
        _print_json(facts)
    else:
        print(f"{made.path}: {format_bytes(made.bytes)}, {made.experts} experts per layer, {made.used} used per token")
    return EXIT_OK
