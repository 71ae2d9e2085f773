"""Measures a loaded model: prompts of several sequences and decoding after them, every step timed."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from llama_cpp import llama_cpp as llama

from app.engine import protocol
from app.engine.cache import Phase
from app.engine.session import DECODE_ABORTED, DECODE_NO_ROOM, Session
from app.engine.text import CharacterStream, piece, tokenize
from app.errors import AppError, ErrorCode
from app.hardware.process import own_peak_bytes
from app.placement.cache.facts import CacheTotals


@dataclass
class _Sequence:
    """One sequence in the context: how many of its tokens are computed, and the likeliest one after them."""

    cells: int = 0
    next_token: int = -1
    decoded: list[int] = field(default_factory=list)


class _Entry(NamedTuple):
    """A token to compute; `asked` where the likeliest token after it is wanted."""

    sequence: int
    position: int
    token: int
    asked: bool


class Measurer:
    """Measures with the context of `session`, on the thread that calls it.

    A measurement takes the context from the conversation in it; `forget` gives it back.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._loaded = session.loaded
        self._vocabulary = int(llama.llama_vocab_n_tokens(session.loaded.vocab))
        self._sequences: list[_Sequence] = []

    def forget(self) -> None:
        """Drop what a measurement left in the context; does nothing after none."""
        if self._sequences:
            self._sequences = []
            self._session.forget()

    def measure(
        self, request: protocol.Measure, emit: Callable[[protocol.Event], None], stopped: Callable[[], bool]
    ) -> protocol.Measured:
        """Compute the prompts, then decode; times are of computing alone, the choice of a token included.

        Raises:
            AppError: bad_usage, impossible counts or nothing to go on after; context_full, before anything is
                computed; cancelled; model_damaged; engine_failed. After the last three nothing is left to go on after.
        """
        loaded = self._loaded
        loaded.abort.value = 0
        self._check(request)
        if not request.go_on:
            self._session.forget()
            self._sequences = [_Sequence() for _ in request.prompts]
        try:
            prompts = [self._tokens(text, at) for text, at in zip(request.prompts, self._sequences, strict=True)]
            total = sum(map(len, prompts)) + request.decode_tokens * len(prompts)
            self._check_room(total)
        except AppError:
            if not request.go_on:
                self._sequences = []
            raise
        told = _Told(request.id, total, emit)
        for sequence in self._sequences:
            sequence.decoded = []
        try:
            with self._counted(Phase.PROMPT) as prompt_cache:
                prompt_seconds = self._prompt(prompts, told, stopped)
            with self._counted(Phase.DECODE) as decode_cache:
                steps = [self._step(told, stopped) for _ in range(request.decode_tokens)]
        except BaseException:
            self._sequences = []
            self._session.forget()
            raise
        return protocol.Measured(
            id=request.id,
            prompt_tokens=sum(map(len, prompts)),
            prompt_seconds=prompt_seconds,
            step_seconds=tuple(steps),
            sequences=len(self._sequences),
            context_tokens=sum(sequence.cells for sequence in self._sequences),
            prompt_cache=prompt_cache[0] if prompt_cache else None,
            decode_cache=decode_cache[0] if decode_cache else None,
            peak_bytes=own_peak_bytes(),
            text=self._text(self._sequences[0].decoded),
        )

    # ---- what is asked -----------------------------------------------------------------------

    def _check(self, request: protocol.Measure) -> None:
        most = self._loaded.plan.n_seq_max
        if request.go_on and not self._sequences:
            raise AppError(ErrorCode.BAD_USAGE, "There is no measurement in the context to go on after.")
        if not 1 <= len(request.prompts) <= most:
            raise AppError(
                ErrorCode.BAD_USAGE, f"{len(request.prompts)} prompts cannot be measured: the plan takes 1 to {most}."
            )
        if request.go_on and len(request.prompts) != len(self._sequences):
            raise AppError(
                ErrorCode.BAD_USAGE,
                f"{len(request.prompts)} prompts cannot go on after {len(self._sequences)} sequences.",
            )
        if request.decode_tokens < 0:
            raise AppError(ErrorCode.BAD_USAGE, f"{request.decode_tokens} tokens cannot be decoded.")

    def _tokens(self, text: str, after: _Sequence) -> list[int]:
        """The prompt's tokens; a sequence begins with what the model wants at the beginning."""
        vocab = self._loaded.vocab
        tokens = tokenize(vocab, text) if text else []
        first = llama.llama_vocab_bos(vocab)
        if not after.cells and first >= 0 and llama.llama_vocab_get_add_bos(vocab):
            tokens.insert(0, first)
        if not after.cells and not tokens:
            raise AppError(ErrorCode.BAD_USAGE, "A prompt is empty.")
        return tokens

    def _check_room(self, more: int) -> None:
        used, n_ctx = sum(sequence.cells for sequence in self._sequences), self._loaded.report.n_ctx
        if used + more > n_ctx:
            raise AppError(
                ErrorCode.CONTEXT_FULL, f"The measurement needs {used + more} tokens; the context holds {n_ctx}."
            )

    # ---- computing ---------------------------------------------------------------------------

    def _prompt(self, prompts: list[list[int]], told: "_Told", stopped: Callable[[], bool]) -> float:
        """Compute all prompts, one after the other, in whole batches; returns seconds."""
        entries = [
            _Entry(index, sequence.cells + place, token, asked=place == len(tokens) - 1)
            for index, (sequence, tokens) in enumerate(zip(self._sequences, prompts, strict=True))
            for place, token in enumerate(tokens)
        ]
        return self._compute(entries, told, stopped)

    def _step(self, told: "_Told", stopped: Callable[[], bool]) -> float:
        """Decode one token of every sequence; returns seconds."""
        entries = []
        for index, sequence in enumerate(self._sequences):
            entries.append(_Entry(index, sequence.cells, sequence.next_token, asked=True))
            sequence.decoded.append(sequence.next_token)
        return self._compute(entries, told, stopped)

    def _compute(self, entries: list[_Entry], told: "_Told", stopped: Callable[[], bool]) -> float:
        """Compute `entries` in batches of the plan's size; returns the seconds that took.

        Raises:
            AppError: cancelled, context_full, or as `LoadedModel.batch_error`.
        """
        seconds = 0.0
        size = self._loaded.plan.n_batch
        for first in range(0, len(entries), size):
            if stopped():
                raise AppError(ErrorCode.CANCELLED, "The measurement was cancelled.")
            part = entries[first : first + size]
            # Not the monotonic clock: Windows advances that in steps of 16 ms.
            started = time.perf_counter()
            self._compute_batch(part)
            seconds += time.perf_counter() - started
            told.add(len(part))
        return seconds

    def _compute_batch(self, entries: list[_Entry]) -> None:
        context = self._loaded.context
        with _batch(entries) as batch:
            result = llama.llama_decode(context, batch)
            llama.llama_synchronize(context)
        if result == DECODE_ABORTED:
            raise AppError(ErrorCode.CANCELLED, "The measurement was cancelled.")
        if result == DECODE_NO_ROOM:
            raise AppError(ErrorCode.CONTEXT_FULL, "The context has no room for more tokens.")
        if result != 0:
            raise self._loaded.batch_error(result)
        for place, entry in enumerate(entries):
            sequence = self._sequences[entry.sequence]
            sequence.cells = entry.position + 1
            if entry.asked:
                logits = llama.llama_get_logits_ith(context, place)
                sequence.next_token = int(np.ctypeslib.as_array(logits, (self._vocabulary,)).argmax())

    # ---- what came of it ---------------------------------------------------------------------

    @contextmanager
    def _counted(self, phase: Phase) -> Iterator[list[CacheTotals]]:
        """Gives a list that holds, at the end, what the expert cache did meanwhile; empty where it takes no part."""
        loaded = self._loaded
        cache = loaded.cache if loaded.report.expert_device else None
        counted: list[CacheTotals] = []
        loaded.set_phase(phase)
        before = cache.totals(phase) if cache else None
        yield counted
        if cache and before:
            counted.append(_difference(cache.totals(phase), before))

    def _text(self, tokens: Iterable[int]) -> str:
        characters = CharacterStream()
        pieces = [characters.feed(piece(self._loaded.vocab, token, special=False)) for token in tokens]
        return "".join(pieces) + characters.end()


class _Told:
    """Tells how far a measurement is."""

    def __init__(self, request_id: int, total: int, emit: Callable[[protocol.Event], None]) -> None:
        self._id, self._total, self._emit = request_id, total, emit
        self._done = 0

    def add(self, tokens: int) -> None:
        self._done += tokens
        self._emit(protocol.MeasureProgress(id=self._id, done=self._done, total=self._total))


@contextmanager
def _batch(entries: list[_Entry]) -> Iterator[llama.llama_batch]:
    """llama.cpp's batch of `entries`; logits are computed where the token after an entry is asked for."""
    batch = llama.llama_batch_init(len(entries), 0, 1)
    try:
        for place, entry in enumerate(entries):
            batch.token[place] = entry.token
            batch.pos[place] = entry.position
            batch.n_seq_id[place] = 1
            batch.seq_id[place][0] = entry.sequence
            batch.logits[place] = entry.asked
        batch.n_tokens = len(entries)
        yield batch
    finally:
        llama.llama_batch_free(batch)


def _difference(after: CacheTotals, before: CacheTotals) -> CacheTotals:
    names = CacheTotals.__struct_fields__
    return CacheTotals(**{name: getattr(after, name) - getattr(before, name) for name in names})
