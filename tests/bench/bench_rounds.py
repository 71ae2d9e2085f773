"""Runs variants in turn, each in a process of its own, so that what slows the machine down meets all alike.

Every round visits all variants, every other one in reverse order. A process that is not being measured is suspended:
a thread pool that spins while it waits for work would be measured with the others. Where memory for all variants at
once is lacking, or where they share a GPU, a process lives for one visit.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import psutil
import routing_trace
from bench_variant import Amounts, Sample, Variant
from routing_trace import RoutingShape

CHILD = Path(__file__).with_name("bench_child.py")
_REPOSITORY = Path(__file__).parents[2]
_LAST_LINES = 12


class ChildError(Exception):
    """A child could not do what it was asked; the text says why."""


class ChildProcess:
    """A running `bench_child.py`; a context manager that ends it."""

    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, encoding="utf-8",
            cwd=_REPOSITORY,
        )  # fmt: skip
        self._system = psutil.Process(self._process.pid)

    def request(self, do: str, **arguments: Any) -> dict[str, Any]:
        """The answer to one request.

        Raises:
            ChildError: the child refused or died.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(json.dumps({"do": do, **arguments}), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise ChildError(f"{do}: the process died ({self._process.wait()}).\n{self._last_errors()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ChildError(f"{do}: {answer['error']}\n{self._last_errors()}")
        return answer

    def suspend(self) -> None:
        """Stop all its threads."""
        self._system.suspend()

    def resume(self) -> None:
        """Let them run again."""
        self._system.resume()

    def __enter__(self) -> "ChildProcess":
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def _last_errors(self) -> str:
        self._errors.seek(0)
        return "\n".join(self._errors.read().decode(errors="replace").splitlines()[-_LAST_LINES:])


class Rounds:
    """Measures `variants` of one model.

    Args:
        variants: What to compare.
        routing: The model's, for the token ids and what they should route to.
        vocabulary: The model's.
        amounts: How much is measured.
        keep: Processes stay for all rounds; else each lives for one visit.
        on_visit: Called with what is being done, in words.

    Attributes:
        samples: All measurements.
        facts: What each variant's process said last (`bench_child`'s `facts`), with `routing_as_intended` (None
            for stock) in place of the counts.
    """

    def __init__(
        self,
        variants: tuple[Variant, ...],
        routing: RoutingShape,
        vocabulary: int,
        amounts: Amounts,
        *,
        keep: bool,
        on_visit: Callable[[str], None],
    ) -> None:
        self._variants, self._routing, self._amounts, self._keep = variants, routing, amounts, keep
        self._on_visit = on_visit
        self._per_round = amounts.warm_up_tokens + amounts.decode_tokens
        decoded = amounts.fill_tokens + amounts.rounds * self._per_round
        self._session = routing_trace.session(routing, decoded, vocabulary, seed=0)
        self._prompts = routing_trace.session(routing, _prompt_tokens(amounts), vocabulary, seed=1)
        self._children: dict[str, ChildProcess] = {}
        self.samples: list[Sample] = []
        self.facts: dict[str, dict[str, Any]] = {}

    def run(self) -> None:
        """Run all rounds.

        Raises:
            ChildError: a variant failed.
        """
        try:
            for number in range(self._amounts.rounds):
                order = self._variants if number % 2 == 0 else self._variants[::-1]
                if self._keep:
                    self._round_together(number, order)
                else:
                    self._round_apart(number, order)
        finally:
            for child in self._children.values():
                child.__exit__(None, None, None)
            self._children.clear()

    def _round_together(self, number: int, order: tuple[Variant, ...]) -> None:
        """One measurement after another, each of all variants."""
        for variant in order:
            if variant.name not in self._children:
                self._start(variant, number)
                self._children[variant.name].suspend()
        for batch in (1, *self._amounts.prompt_batches):
            for variant in order:
                child = self._children[variant.name]
                child.resume()
                self._measure(child, variant, number, batch)
                child.suspend()
        if number == self._amounts.rounds - 1:
            for variant in order:
                self._children[variant.name].resume()
                self._finish(variant)

    def _round_apart(self, number: int, order: tuple[Variant, ...]) -> None:
        """One variant after another, all measurements of each."""
        for variant in order:
            self._start(variant, number)
            for batch in (1, *self._amounts.prompt_batches):
                self._measure(self._children[variant.name], variant, number, batch)
            self._finish(variant)
            self._children.pop(variant.name).__exit__(None, None, None)

    def _start(self, variant: Variant, number: int) -> None:
        self._on_visit(f"loading {variant.name}")
        child = self._children[variant.name] = ChildProcess()
        child.request("load", variant=variant.to_json())
        first = number * self._per_round
        child.request("fill", ids=self._session[first : first + self._amounts.fill_tokens].tolist())

    def _measure(self, child: ChildProcess, variant: Variant, number: int, batch: int) -> None:
        amounts = self._amounts
        simulated = None
        if batch == 1:
            self._on_visit(f"round {number + 1}: decode, {variant.name}")
            first = amounts.fill_tokens + number * self._per_round
            ids = self._session[first : first + self._per_round]
            answer = child.request("decode", ids=ids.tolist(), warm_up=amounts.warm_up_tokens)
            tokens = amounts.decode_tokens
            if variant.pool_device:
                simulated = self._simulated(variant, first + amounts.warm_up_tokens, first + self._per_round)
        else:
            self._on_visit(f"round {number + 1}: prompts of {batch}, {variant.name}")
            tokens = _tokens_of_batch(amounts, batch)
            answer = child.request("prompt", ids=self._prompts[:tokens].tolist(), batch=batch)
        phase = "decode" if batch == 1 else "prompt"
        self.samples.append(
            Sample(variant.name, number, phase, batch, tokens, answer["seconds"], answer["totals"] or None, simulated)
        )

    def _simulated(self, variant: Variant, first: int, end: int) -> float:
        """Hit rate of a plain LRU that has seen what the pool has seen, over the session's tokens from `first`."""
        slots = self._routing.experts * variant.pool_percent // 100
        seen_from = 0 if self._keep else first - self._amounts.warm_up_tokens - self._amounts.fill_tokens
        ids = self._session[seen_from:end]
        return routing_trace.lru_hit_rate(self._routing, ids, slots, first - seen_from)

    def _finish(self, variant: Variant) -> None:
        facts = self._children[variant.name].request("facts")
        routing, decoded = facts.pop("routing"), facts.pop("decoded")
        facts["routing_as_intended"] = None
        if routing is not None:
            intended = routing_trace.intended_counts(self._routing, np.array(decoded, dtype=np.int32))
            as_intended = bool(np.array_equal(np.array(routing, dtype=np.uint64), intended))
            before = self.facts.get(variant.name, {}).get("routing_as_intended", True)
            facts["routing_as_intended"] = before and as_intended
        self.facts[variant.name] = facts


def seen_by_engine() -> dict[str, Any]:
    """GPUs (`device`, `name`, `kind`) and versions, from a child that ends at once."""
    with ChildProcess() as child:
        return child.request("devices")


def _tokens_of_batch(amounts: Amounts, batch: int) -> int:
    return max(1, amounts.prompt_tokens // batch) * batch


def _prompt_tokens(amounts: Amounts) -> int:
    return max((_tokens_of_batch(amounts, batch) for batch in amounts.prompt_batches), default=1)
