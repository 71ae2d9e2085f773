"""A conversation with a loaded model: prefix reuse, prompt, decode loop, measurements."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from llama_cpp import llama_cpp as llama

from app.engine import protocol
from app.engine.cache import Phase
from app.engine.context_cache import Sums
from app.engine.loading import LoadedModel
from app.engine.sampler import Sampler
from app.engine.text import CharacterStream, Prompter, piece
from app.errors import AppError, ErrorCode
from app.placement.cache import facts as cache_facts
from app.placement.plan import CPU_LANE

# A device without an abort callback can be stopped only between batches: they are sized to take
# about this long, so that stopping stays under 200 ms.
_UNSTOPPABLE_SECONDS = 0.12
_SMALLEST_BATCH = 16
DECODE_ABORTED, DECODE_NO_ROOM = 2, 1  # results of llama_decode
_STOP_CHECK = Callable[[], bool]


@dataclass
class _Clock:
    """Times of one answer, seconds of the monotonic clock."""

    started: float
    prompt_started: float = 0.0
    prompt_done: float = 0.0
    first_token: float = 0.0
    last_token: float = 0.0


class Session:
    """Answers conversations with one loaded model, one at a time, on the thread that calls it.

    Raises:
        AppError: model_unsupported, the model's chat template cannot be used.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.prompter = Prompter(loaded.model or 0, loaded.vocab)
        self._memory = llama.llama_get_memory(loaded.context)
        self._cached: list[int] = []  # tokens whose cells are in the KV cache, in order
        self._batch = self._first_batch()

    def generate(
        self,
        request: protocol.Generate,
        emit: Callable[[protocol.Event], None],
        stopped: _STOP_CHECK,
    ) -> protocol.Finished:
        """Answer `request.messages`; progress and text go to `emit` as they come.

        Raises:
            AppError: context_full when the prompt does not fit, engine_failed when a decode fails.
        """
        self.loaded.abort.value = 0
        clock = _Clock(started=time.perf_counter())
        tokens = self.prompter.tokens(request.messages)
        n_ctx = self.loaded.report.n_ctx
        if len(tokens) >= n_ctx:
            raise AppError(
                ErrorCode.CONTEXT_FULL,
                f"The conversation has {len(tokens)} tokens; the context holds {n_ctx}.",
            )
        reused = self._reuse_prefix(tokens)
        before = self._sums()
        emit(protocol.PromptProgress(id=request.id, done=reused, total=len(tokens), reused=reused))
        clock.prompt_started = time.perf_counter()
        complete = self._prompt(request.id, tokens, reused, emit, stopped)
        clock.prompt_done = time.perf_counter()
        text, generated, reason = "", 0, "stopped"
        if complete:
            text, generated, reason = self._decode(request, emit, stopped, clock)
        return self._finished(request.id, clock, tokens, reused, text, generated, reason, before)

    def routing(self) -> tuple[dict[int, tuple[int, ...]], dict[int, tuple[int, ...]]]:
        """Routings since the load per MoE layer the expert device computes: (decode, prompt).

        Safe to call from another thread while generating.
        """
        loaded = self.loaded
        if loaded.device is None or not loaded.device_context or not loaded.report.expert_device:
            return {}, {}
        decode = loaded.device.routing(loaded.device_context, Phase.DECODE)
        prompt = loaded.device.routing(loaded.device_context, Phase.PROMPT)
        layers = [
            layer
            for layer, lane in loaded.report.expert_layers.items()
            if lane == CPU_LANE and layer < min(len(decode), len(prompt))
        ]
        return (
            {layer: tuple(decode[layer].tolist()) for layer in layers},
            {layer: tuple(prompt[layer].tolist()) for layer in layers},
        )

    # ---- the prompt --------------------------------------------------------------------------

    def _first_batch(self) -> int:
        """Prompt tokens per decode: small at first where only the end of a batch can be stopped."""
        loaded = self.loaded
        lanes = set(loaded.report.expert_layers.values())
        stoppable = loaded.device is not None and (not loaded.plan.gpu or CPU_LANE in lanes)
        return loaded.plan.n_ubatch if stoppable else -_SMALLEST_BATCH

    def _reuse_prefix(self, tokens: list[int]) -> int:
        """Keep the cells of the common prefix and drop the rest; returns how many were kept."""
        common = 0
        for mine, wanted in zip(self._cached, tokens, strict=False):
            if mine != wanted:
                break
            common += 1
        keep = min(common, len(tokens) - 1)  # the last token is computed again for its logits
        window = int(llama.llama_model_n_swa(self.loaded.model))
        if window > 0 and keep > 0:
            # A sliding-window cache has dropped old cells: going back needs the window before `keep`.
            oldest = int(llama.llama_memory_seq_pos_min(self._memory, 0))
            if oldest > max(0, keep - window):
                keep = 0
        if keep == len(self._cached) or (keep > 0 and llama.llama_memory_seq_rm(self._memory, 0, keep, -1)):
            self._cached = tokens[:keep]
            return keep
        self.forget()
        return 0

    def _prompt(
        self,
        request_id: int,
        tokens: list[int],
        done: int,
        emit: Callable[[protocol.Event], None],
        stopped: _STOP_CHECK,
    ) -> bool:
        """Compute the prompt from position `done`; False when stopped before its end."""
        self.loaded.set_phase(Phase.PROMPT)
        reused = done
        while done < len(tokens):
            if stopped():
                return False
            size = min(abs(self._batch), len(tokens) - done)
            started = time.perf_counter()
            if not self._compute(tokens[done : done + size]):
                return False
            # A GPU may still be at it: without this the time of a batch would be that of the one before.
            llama.llama_synchronize(self.loaded.context)
            done += size
            if self._batch < 0:
                rate = size / max(time.perf_counter() - started, 1e-6)
                most = min(self.loaded.plan.n_ubatch, abs(self._batch) * 2)
                self._batch = -int(min(max(rate * _UNSTOPPABLE_SECONDS, _SMALLEST_BATCH), most))
            emit(protocol.PromptProgress(id=request_id, done=done, total=len(tokens), reused=reused))
        return True

    # ---- the answer --------------------------------------------------------------------------

    def _decode(
        self,
        request: protocol.Generate,
        emit: Callable[[protocol.Event], None],
        stopped: _STOP_CHECK,
        clock: _Clock,
    ) -> tuple[str, int, str]:
        """Generate until an end; returns (text, tokens generated, stop reason)."""
        loaded = self.loaded
        loaded.set_phase(Phase.DECODE)
        characters = CharacterStream()
        parts: list[str] = []
        count = 0
        reason = "max_tokens"
        self._check_numbers()
        with Sampler(request.sampling) as sampler:
            while count < request.max_tokens:
                if stopped():
                    reason = "stopped"
                    break
                token = sampler.sample(loaded.context or 0)
                clock.last_token = time.perf_counter()
                clock.first_token = clock.first_token or clock.last_token
                if llama.llama_vocab_is_eog(loaded.vocab, token):
                    reason = "end_of_text"
                    break
                count += 1
                new = characters.feed(piece(loaded.vocab, token, special=False))
                parts.append(new)
                emit(protocol.Token(id=request.id, text=new, count=count))
                if count == request.max_tokens:
                    break
                if len(self._cached) >= loaded.report.n_ctx:
                    reason = "context_full"
                    break
                if not self._compute([token]):
                    reason = "stopped"
                    break
        if rest := characters.end():
            parts.append(rest)
            emit(protocol.Token(id=request.id, text=rest, count=count))
        return "".join(parts), count, reason

    def _check_numbers(self) -> None:
        """Look whether the first token can be chosen: what is no number would be answered with one token for ever.

        Raises:
            AppError: model_damaged; the cache is emptied, for its cells may be no numbers either.
        """
        size = int(llama.llama_vocab_n_tokens(self.loaded.vocab))
        logits = np.ctypeslib.as_array(llama.llama_get_logits_ith(self.loaded.context, -1), (size,))
        if np.isnan(logits).all():
            self.forget()
            raise AppError(
                ErrorCode.MODEL_DAMAGED,
                "The model computes no numbers: its file is damaged inside, or a device computes wrongly.",
            )

    def _compute(self, tokens: list[int]) -> bool:
        """Decode `tokens` after the cached ones; False when aborted by the stop flag.

        Raises:
            AppError: context_full, or as `LoadedModel.batch_error`; the cache is emptied, so the next answer starts
                clean.
        """
        array = (llama.llama_token * len(tokens))(*tokens)
        result = llama.llama_decode(self.loaded.context, llama.llama_batch_get_one(array, len(tokens)))
        if result == 0:
            self._cached += tokens
            return True
        if not llama.llama_memory_seq_rm(self._memory, 0, len(self._cached), -1):
            self.forget()
        if result == DECODE_ABORTED:
            return False
        self.forget()
        if result == DECODE_NO_ROOM:
            raise AppError(ErrorCode.CONTEXT_FULL, "The context has no room for more tokens.")
        raise self.loaded.batch_error(result)

    def forget(self) -> None:
        """Empty the context."""
        llama.llama_memory_clear(self._memory, True)
        self._cached = []

    # ---- measurements ------------------------------------------------------------------------

    def _sums(self) -> Sums | None:
        """What decoding has come to in the expert device; None when it takes no part."""
        loaded = self.loaded
        return loaded.cache.sums() if loaded.cache is not None and loaded.report.expert_device else None

    def _finished(
        self,
        request_id: int,
        clock: _Clock,
        tokens: list[int],
        reused: int,
        text: str,
        generated: int,
        reason: str,
        before: Sums | None,
    ) -> protocol.Finished:
        computed = max(len(tokens) - reused, 0)
        prompt_seconds = clock.prompt_done - clock.prompt_started
        decode_seconds = clock.last_token - clock.first_token
        # The first token comes out of the prompt: what decoding took is the time of those after it.
        decoded = generated - 1 if reason != "end_of_text" else generated
        return protocol.Finished(
            id=request_id,
            text=text,
            stop_reason=reason,
            prompt_tokens=len(tokens),
            reused_tokens=reused,
            completion_tokens=generated,
            ttft_seconds=clock.first_token - clock.started if clock.first_token else 0.0,
            prompt_tokens_per_second=(computed / prompt_seconds if clock.first_token and prompt_seconds > 0 else 0.0),
            tokens_per_second=decoded / decode_seconds if decoded > 0 and decode_seconds > 0 else 0.0,
            cache=self._cache_report(before),
        )

    def _cache_report(self, before: Sums | None) -> cache_facts.CacheReport:
        loaded = self.loaded
        if loaded.cache is not None and before is not None:
            return loaded.cache.report(before)
        return cache_facts.CacheReport(
            requested_bytes=loaded.plan.pool_bytes,
            allocated_bytes=0,
            used=False,
            reason=loaded.report.reason,
            hits=0,
            misses=None,
        )
