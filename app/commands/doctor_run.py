"""Loads a model for `doctor` and watches one answer: what engine and machine use while it decodes."""

import os
import sys
import time

import msgspec

from app import terminal
from app.doctor.observation import Observation
from app.doctor.record import AnyLine, ProgramsLine, SampleLine
from app.engine import protocol
from app.engine.client import EngineClient
from app.hardware.ram_programs import read_ram_programs
from app.hardware.sampling import Sampler
from app.library.load_memory import remember
from app.model import ModelFacts
from app.placement.plan import Plan

QUESTION = "Explain in some detail how a bicycle stays upright, and what a rider does for it."
TOKENS, MOST_SECONDS = 512, 30.0
ENOUGH_TOKENS, ENOUGH_SECONDS = 96, 6.0
"""The answer is stopped after so many tokens and seconds, both, or after the most of either."""
BETWEEN_SECONDS = 0.25
"""Least time between two samples, and two looks at the expert cache."""


def watch_answer(
    client: EngineClient, seen: Observation, plan: Plan, facts: ModelFacts, lines: list[AnyLine], *, quiet: bool
) -> None:
    """Add what a load and one measured answer show to `lines`, in order; what was seen before a failure stays there.

    Raises:
        AppError: the model could not be loaded, or there is no answer.
    """
    loaded = terminal.load(client, plan, quiet=quiet)
    remember(seen.machine, loaded.buffers, loaded.observed)
    lines.append(loaded)
    sampler = Sampler(client.pid, seen.machine.gpus, facts.files)
    try:
        finished = _answer(client, sampler, lines)
        lines += [
            client.request(protocol.ReadCache, protocol.CacheFacts, experts=True),
            msgspec.structs.replace(finished, text=""),  # what was said is nobody's business
            SampleLine(sample=sampler.sample(), decoding=False),
            ProgramsLine(programs=read_ram_programs(but=frozenset((os.getpid(), client.pid)))),
        ]
    finally:
        sampler.close()
    if not quiet:
        print(f"[{terminal.figures(finished)}]\n", file=sys.stderr)


def _answer(client: EngineClient, sampler: Sampler, lines: list[AnyLine]) -> protocol.Finished:
    """One answer; adds samples and the cache's facts between its tokens, the first when the prompt is done."""
    request = client.send(
        protocol.Generate,
        messages=(protocol.Message(role="user", content=QUESTION),),
        max_tokens=TOKENS,
        sampling=protocol.Sampling(temperature=0.0),
    )

    since = 0

    def other(event: protocol.AnyEvent) -> None:
        nonlocal since
        if isinstance(event, protocol.CacheFacts):
            since = event.next_batch
            lines.append(event)

    started = last = 0.0
    stopping = False
    for event in client.events(request, protocol.Finished, others=other):
        now = time.monotonic()
        if isinstance(event, protocol.Token):
            started = started or now
            if now - last >= BETWEEN_SECONDS:
                last = now
                client.send(protocol.ReadCache, experts=False, since=since)
                lines.append(SampleLine(sample=sampler.sample(), decoding=True))
            enough = event.count >= ENOUGH_TOKENS and now - started >= ENOUGH_SECONDS
            if not stopping and (enough or now - started >= MOST_SECONDS):
                stopping = True
                client.send(protocol.Cancel, target=request)
        if isinstance(event, protocol.Finished):
            lines.append(SampleLine(sample=sampler.sample(), decoding=True))
            return event
    raise AssertionError("unreachable: events ends with its last event or raises")
