"""Chat in a terminal: loads with a progress line, streams answers, shows the measured figures."""

import sys
from collections.abc import Callable

from app.advice import what_to_do
from app.engine import protocol
from app.engine.client import EngineClient
from app.errors import AppError, ErrorCode
from app.placement.cache import facts as cache_facts
from app.placement.cache.disk_report import DiskReport, disk_report, disk_words
from app.placement.plan import Plan
from app.units import format_bytes, format_share

_CONTROLS = {code: "\N{REPLACEMENT CHARACTER}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
_KEEP_TALKING = {ErrorCode.CONTEXT_FULL, ErrorCode.CANCELLED}


def printable(text: str) -> str:
    """`text` without control characters: what a model or a file name holds must not command the terminal."""
    return text.translate(_CONTROLS)


def show_log(line: protocol.LogLine) -> None:
    """Show a warning or error of the engine."""
    print(f"engine: {printable(line.text)}", file=sys.stderr)


def load(client: EngineClient, plan: Plan, *, quiet: bool) -> protocol.Loaded:
    """Load with progress on standard error; says where the result differs from the plan.

    Raises:
        AppError: why it could not be loaded.
    """
    progress = sys.stderr.isatty() and not quiet
    request = client.send(protocol.Load, plan=plan)
    for event in client.events(request, protocol.Loaded):
        if isinstance(event, protocol.LoadProgress) and progress:
            print(f"\rLoading: {format_share(event.fraction):>6}", end="", file=sys.stderr, flush=True)
        if isinstance(event, protocol.Loaded):
            if progress:
                print(f"\rLoaded in {event.seconds:.1f} s", file=sys.stderr)
            for difference in event.differences:
                print(f"Not as planned: {difference}", file=sys.stderr)
            return event
    raise AssertionError("unreachable: events ends with its last event or raises")


def figures(finished: protocol.Finished) -> str:
    """The measured figures of an answer in one line."""
    parts = [f"{finished.completion_tokens} tokens"]
    if finished.tokens_per_second:
        parts.append(f"{finished.tokens_per_second:.1f} tokens/s")
    if finished.ttft_seconds:
        parts.append(f"first token after {finished.ttft_seconds:.2f} s")
    if finished.prompt_tokens_per_second:
        computed = finished.prompt_tokens - finished.reused_tokens
        parts.append(f"prompt {computed} tokens at {finished.prompt_tokens_per_second:.0f} tokens/s")
    parts.append(finished.stop_reason.replace("_", " "))
    return " · ".join(parts)


def cache_words(cache: cache_facts.CacheReport) -> str:
    """What the expert cache did for an answer in one line; empty where no pool was asked for.

    Example: "pool 64.0 MiB: 812 of 1,440 routed experts were in it (56 %), 12.7 MiB copied".
    """
    if not cache.requested_bytes:
        return ""
    parts = []
    if cache.misses is not None and (routed := cache.hits + cache.misses):
        parts.append(f"{cache.hits:,} of {routed:,} routed experts were in it ({format_share(cache.hits / routed)})")
    if cache.streamed:
        parts.append(f"{cache.streamed:,} copied over for one token")
    if cache.copied_bytes:
        parts.append(f"{format_bytes(cache.copied_bytes)} copied")
    if not cache.used:
        parts.insert(0, "not used")
    size = format_bytes(cache.allocated_bytes)
    if cache.allocated_bytes != cache.requested_bytes:
        size += f" of {format_bytes(cache.requested_bytes)} asked for"
    words = f"pool {size}: {', '.join(parts)}"
    return f"{words}. {cache.reason}" if cache.reason else words


class Conversation:
    """The messages so far and the engine that answers them.

    Attributes:
        disk: What reading experts from the disk came to for the last answer; None where all are in memory.
    """

    def __init__(
        self,
        client: EngineClient,
        sampling: protocol.Sampling,
        max_tokens: int,
        on_answer: Callable[[protocol.Finished], None] = lambda _finished: None,
    ) -> None:
        self._on_answer = on_answer
        self._client = client
        self._sampling = sampling
        self._max_tokens = max_tokens
        self._messages: list[protocol.Message] = []
        self._next_batch = 0
        self.disk: DiskReport | None = None

    def ask(self, text: str, *, stream: bool) -> protocol.Finished:
        """Ask; the answer goes to standard output as it comes when `stream`, Ctrl-C stops it.

        Raises:
            AppError: why there is no answer; the question is taken back then.
        """
        before = self._cache_facts()
        self._messages.append(protocol.Message(role="user", content=text))
        request = self._client.send(
            protocol.Generate,
            messages=tuple(self._messages),
            max_tokens=self._max_tokens,
            sampling=self._sampling,
        )
        try:
            finished = self._receive(request, stream=stream)
        except AppError:
            self._messages.pop()
            raise
        self._messages.append(protocol.Message(role="assistant", content=finished.text))
        self._on_answer(finished)
        after = self._cache_facts()
        self.disk = disk_report(after.memory, before.decode, after.decode, finished.tokens_per_second)
        if stream:
            print(f"\n[{figures(finished)}]", file=sys.stderr)
            if words := cache_words(finished.cache):
                print(f"[{printable(words)}]", file=sys.stderr)
            if self.disk is not None:
                print(f"[{disk_words(self.disk)}]", file=sys.stderr)
        return finished

    def _cache_facts(self) -> protocol.CacheFacts:
        facts = self._client.request(protocol.ReadCache, protocol.CacheFacts, experts=False, since=self._next_batch)
        self._next_batch = facts.next_batch
        return facts

    def _receive(self, request: int, *, stream: bool) -> protocol.Finished:
        stopping = False
        while True:
            try:
                for event in self._client.events(request, protocol.Finished):
                    if stream and isinstance(event, protocol.Token):
                        print(printable(event.text), end="", flush=True)
                    if isinstance(event, protocol.Finished):
                        return event
            except KeyboardInterrupt:
                if stopping:
                    raise
                # The answer so far stays; `Finished` follows with what there is. A second Ctrl-C ends the program.
                stopping = True
                self._client.send(protocol.Cancel, target=request)


def converse(conversation: Conversation) -> None:
    """Ask and answer until the input ends."""
    interactive = sys.stdin.isatty()
    if interactive:
        print("Ctrl-C stops an answer, Ctrl-D ends the conversation.", file=sys.stderr)
    while True:
        try:
            text = input("\n> " if interactive else "").strip()
        except EOFError:
            return
        except UnicodeDecodeError as error:
            raise AppError(ErrorCode.BAD_USAGE, "The input is not valid UTF-8.", str(error)) from error
        except KeyboardInterrupt:
            print(file=sys.stderr)
            return
        if not text:
            continue
        try:
            conversation.ask(text, stream=True)
        except AppError as error:
            if error.code not in _KEEP_TALKING:
                raise
            print(f"{error.message} {what_to_do(error.code)}", file=sys.stderr)
