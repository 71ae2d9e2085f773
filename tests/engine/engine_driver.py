"""What tests of the engine child share: plans by hand, a question, stopping at a moment."""

import time
from pathlib import Path

from app.engine import protocol
from app.model import read_facts
from app.placement.plan import CPU_LANE, Plan

GREEDY = protocol.Sampling(temperature=0)
QUESTION = (protocol.Message(role="user", content="Name three colours of the rainbow."),)
LONG = (protocol.Message(role="user", content="Tell me about the sea. " * 150),)


def plan_for(path: Path, gpu: str | None = None, **changes) -> Plan:
    facts = read_facts(path)
    lanes = dict.fromkeys(facts.moe_layers, CPU_LANE)
    values = {
        "model_files": facts.files,
        "gpu": gpu,
        "expert_lanes": lanes,
        "n_ctx": 1024,
        "threads": 2,
        "threads_batch": 2,
        **changes,
    }
    return Plan(**values)


def answer(client, messages=QUESTION, **fields):
    fields = {"sampling": GREEDY, "max_tokens": 24, **fields}
    return client.request(protocol.Generate, protocol.Finished, messages=messages, **fields)


def stop_after(client, kind, messages):
    """Cancel at the first event of `kind`; returns (seconds until it ended, its end)."""
    request = client.send(protocol.Generate, messages=messages, sampling=GREEDY, max_tokens=400)
    asked = 0.0
    for event in client.events(request, protocol.Finished):
        if isinstance(event, kind) and not asked:
            client.send(protocol.Cancel, target=request)
            asked = time.monotonic()
        if isinstance(event, protocol.Finished):
            return time.monotonic() - asked, event
    raise AssertionError("no end")


def stopped_within(seconds, client, kind, messages):
    """As `stop_after`: of a few answers the first that ended within `seconds`, or the last.

    Who does not listen is late every time; another program delays one now and then. Each is a new conversation.
    """
    for number in range(5):
        first, *rest = messages
        new = protocol.Message(role=first.role, content=f"{number}. {first.content}")
        taken, finished = stop_after(client, kind, (new, *rest))
        if taken < seconds:
            break
    return taken, finished
