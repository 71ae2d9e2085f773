"""`chat`: one answer of a model, or a conversation in the terminal."""

import argparse
import sys

import msgspec

from app import terminal
from app.commands.common import (
    AddCommand,
    Json,
    add_model,
    add_tuned,
    add_wishes,
    facts_of,
    machine_of,
    positive,
    print_json,
    wishes,
)
from app.commands.memory import checked_plan, memory_json
from app.engine import protocol
from app.engine.client import EngineClient
from app.errors import EXIT_OK, AppError, ErrorCode
from app.library import folders, speed_records
from app.library.load_memory import remember, with_learnt
from app.library.speed_evidence import evidence_of
from app.placement import words as plan_words
from app.placement.placing import refuse_hopeless


def add(add_command: AddCommand) -> None:
    """Add the command."""
    chat = add_command("chat", _run, "ask a model; without -p a conversation in the terminal")
    add_model(chat)
    add_wishes(chat)
    add_tuned(chat)
    chat.add_argument("--trace", metavar="FILE", help="record which experts every decoded token is routed to")
    chat.add_argument("-p", "--prompt", metavar="TEXT", help="ask this and end")
    chat.add_argument("--max-tokens", metavar="N", type=positive, default=2048, help="longest answer")
    chat.add_argument("--seed", metavar="S", type=int, help="makes the draw repeatable")
    chat.add_argument("--temperature", metavar="T", type=_temperature, default=0.8, help="0 takes the likeliest token")


def _temperature(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 10:
        raise argparse.ArgumentTypeError(f"'{text}' is not between 0 and 10")
    return value


def _run(parsed: argparse.Namespace) -> int:
    if parsed.prompt is None and parsed.json:
        raise AppError(ErrorCode.BAD_USAGE, "chat --json needs a prompt: -p TEXT.")
    facts = facts_of(parsed.model)
    with EngineClient(on_log=terminal.show_log) as client:
        machine = with_learnt(machine_of(client))
        plan = checked_plan(client, facts, machine, wishes(parsed), evidence_of(facts, machine))
        refuse_hopeless(plan, machine)
        loaded = terminal.load(client, plan, quiet=parsed.json)
        remember(machine, loaded.buffers, loaded.observed)
        if parsed.trace is not None:
            client.request(protocol.SetTrace, protocol.TraceState, path=str(folders.user_path(parsed.trace)))
        sampling = protocol.Sampling(temperature=parsed.temperature, seed=parsed.seed)

        def keep_speed(finished: protocol.Finished) -> None:
            if not loaded.differences:  # else it is the speed of another plan
                speed_records.remember(facts, machine, plan, finished)

        conversation = terminal.Conversation(client, sampling, parsed.max_tokens, keep_speed)
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
        print_json(
            {
                **answer,
                "plan": msgspec.to_builtins(plan, str_keys=True),
                **({"trace": traced} if traced else {}),
                **({"disk": msgspec.to_builtins(conversation.disk)} if conversation.disk else {}),
                "loaded": {
                    "seconds": loaded.seconds,
                    "expert_device": loaded.expert_device,
                    "reason": loaded.reason,
                    "differences": list(loaded.differences),
                    "buffers": msgspec.to_builtins(loaded.buffers),
                    "memory": memory_json(plan, machine, loaded),
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
