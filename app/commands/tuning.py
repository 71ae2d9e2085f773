"""Measures the tuner's trials in an engine child, which is started anew after it died."""

from collections.abc import Callable

from app.engine import protocol
from app.engine.client import EngineClient
from app.errors import AppError, ErrorCode
from app.placement.scenarios import texts as scenario_texts
from app.placement.scenarios.results import divided
from app.placement.tuner.types import Budget, Outcome, Trial

# What is wrong with the model or the installation is wrong with every plan.
_FATAL = {
    ErrorCode.FILE_MISSING,
    ErrorCode.FILE_UNREADABLE,
    ErrorCode.NOT_GGUF,
    ErrorCode.MODEL_DAMAGED,
    ErrorCode.SHARD_MISSING,
    ErrorCode.ARCHITECTURE_UNKNOWN,
    ErrorCode.MODEL_UNSUPPORTED,
    ErrorCode.ENGINE_MISSING,
    ErrorCode.ENGINE_PROTOCOL,
    ErrorCode.CANCELLED,
}
_WARM_UP = scenario_texts.report(800)
"""Read before every measurement: it touches pages and buffers for the first time, and tells characters of a token."""
_WARM_UP_STEPS = 4


class TrialRunner:
    """Measures trials, one after the other.

    Args:
        client: The engine to begin with; its owner closes it.
        start: Starts another.
        clock: Seconds that pass.
    """

    def __init__(self, client: EngineClient, start: Callable[[], EngineClient], clock: Callable[[], float]) -> None:
        self._client: EngineClient | None = client
        self._own: EngineClient | None = None
        self._start = start
        self._clock = clock

    def close(self) -> None:
        """End the engine that was started here, if any."""
        if self._own is not None:
            self._own.close()
            self._own = None

    def measure(self, trial: Trial) -> Outcome:
        """Load the trial's plan and measure it; a plan that cannot be measured gives an outcome with the reason.

        Raises:
            AppError: the model or the engine as such cannot be used.
        """
        begun = self._clock()
        client = self._living()
        try:
            client.request(protocol.Load, protocol.Loaded, plan=trial.candidate.plan)
            read = client.request(
                protocol.Measure, protocol.Measured, prompts=(_WARM_UP,), decode_tokens=_WARM_UP_STEPS
            )
            load_seconds = self._clock() - begun
            text = _prompt(trial.budget, read.prompt_tokens)
            measured = client.request(
                protocol.Measure, protocol.Measured, prompts=(text,), decode_tokens=trial.budget.decode_tokens
            )
        except AppError as error:
            if error.code in _FATAL:
                raise
            if error.code is ErrorCode.ENGINE_CRASHED:
                self._drop()
            return Outcome(failure=error.message)
        _, steady = divided((measured.step_seconds,))
        return Outcome(
            decode=len(steady) / max(sum(steady), 1e-9),
            prompt=measured.prompt_tokens / max(measured.prompt_seconds, 1e-9),
            load_seconds=load_seconds,
        )

    def _living(self) -> EngineClient:
        if self._client is None:
            self._client = self._own = self._start()
        return self._client

    def _drop(self) -> None:
        self.close()
        self._client = None


def _prompt(budget: Budget, warm_up_tokens: int) -> str:
    """A text of about so many tokens as the budget says."""
    characters_per_token = len(_WARM_UP) / max(warm_up_tokens, 1)
    return scenario_texts.report(int(budget.prompt_tokens * characters_per_token))
