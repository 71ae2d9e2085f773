"""Loads a model for `doctor` and watches one answer: what engine and machine use while it decodes."""

import sys
import time

import msgspec

from app import terminal
from app.doctor.observation import AnswerFigures, Observation
from app.engine import protocol
from app.engine.client import EngineClient
from app.hardware.samples import Sample
from app.hardware.sampling import Sampler
from app.library.load_memory import remember
from app.model import ModelFacts
from app.placement.plan import Plan

QUESTION = "Explain in some detail how a bicycle stays upright, and what a rider does for it."
TOKENS, MOST_SECONDS = 512, 30.0
ENOUGH_TOKENS, ENOUGH_SECONDS = 96, 6.0
"""The answer is stopped after so many tokens and seconds, both, or after the most of either."""
BETWEEN_SECONDS = 0.25
"""Least time between two samples."""


def watched_answer(
    client: EngineClient, seen: Observation, plan: Plan, facts: ModelFacts, *, quiet: bool
) -> Observation:
    """`seen` with what a load and one measured answer showed.

    Raises:
        AppError: the model could not be loaded, or there is no answer.
    """
    loaded = terminal.load(client, plan, quiet=quiet)
    remember(seen.machine, loaded.buffers, loaded.observed)
    sampler = Sampler(client.pid, seen.machine.gpus, facts.files)
    try:
        finished, samples = _answer(client, sampler)
        latest = sampler.sample()
    finally:
        sampler.close()
    if not quiet:
        print(f"[{terminal.figures(finished)}]\n", file=sys.stderr)
    cache = client.request(protocol.ReadCache, protocol.CacheFacts, experts=True)
    return msgspec.structs.replace(
        seen,
        loaded=loaded,
        cache=cache,
        answers=AnswerFigures(answers=1, longest_tokens=finished.prompt_tokens + finished.completion_tokens),
        decoding=tuple(samples),
        latest=latest,
    )


def _answer(client: EngineClient, sampler: Sampler) -> tuple[protocol.Finished, list[Sample]]:
    """One answer, and samples between its tokens: the first when the prompt is done."""
    samples: list[Sample] = []
    request = client.send(
        protocol.Generate,
        messages=(protocol.Message(role="user", content=QUESTION),),
        max_tokens=TOKENS,
        sampling=protocol.Sampling(temperature=0.0),
    )
    started = last = 0.0
    stopping = False
    for event in client.events(request, protocol.Finished):
        now = time.monotonic()
        if isinstance(event, protocol.Token):
            started = started or now
            if now - last >= BETWEEN_SECONDS:
                last = now
                samples.append(sampler.sample())
            enough = event.count >= ENOUGH_TOKENS and now - started >= ENOUGH_SECONDS
            if not stopping and (enough or now - started >= MOST_SECONDS):
                stopping = True
                client.send(protocol.Cancel, target=request)
        if isinstance(event, protocol.Finished):
            samples.append(sampler.sample())
            return event, samples
    raise AssertionError("unreachable: events ends with its last event or raises")
