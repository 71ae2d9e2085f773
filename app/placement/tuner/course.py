"""The course of one trial: load its plan, warm up, measure. Pure: it says what comes next and is told the outcome."""

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from app.errors import AppError, ErrorCode
from app.placement.plan import Plan
from app.placement.scenarios import texts
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
_WARM_UP = texts.report(800)
"""Read before every measurement: it touches pages and buffers for the first time, and tells characters of a token."""
_WARM_UP_STEPS = 4


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A text to compute, and how many tokens to decode after it."""

    text: str
    decode_tokens: int


class Figures(Protocol):
    """What a measurement gave, as `engine.protocol.Measured` has it."""

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the text."""

    @property
    def prompt_seconds(self) -> float:
        """Time they took."""

    @property
    def step_seconds(self) -> Sequence[float]:
        """Time of each decoded token."""


class TrialCourse:
    """One trial. Have `step` done and tell what came of it, until it is None; then `outcome` is there.

    Args:
        trial: What to measure.
        clock: Seconds that pass, from anywhere.
    """

    def __init__(self, trial: Trial, clock: Callable[[], float]) -> None:
        self._budget = trial.budget
        self._clock = clock
        self._begun = clock()
        self._load_seconds = 0.0
        self._warm = False
        self._outcome = Outcome()
        self._step: Plan | Reading | None = trial.candidate.plan

    @property
    def step(self) -> Plan | Reading | None:
        """What comes next: a plan to load, or a text to read with the plan that is loaded; None at the end."""
        return self._step

    @property
    def outcome(self) -> Outcome:
        """What the trial gave."""
        assert self._step is None, "the trial goes on"
        return self._outcome

    def loaded(self) -> None:
        """The plan is loaded."""
        self._step = Reading(text=_WARM_UP, decode_tokens=_WARM_UP_STEPS)

    def measured(self, figures: Figures) -> None:
        """The text is read."""
        if not self._warm:
            self._warm = True
            self._load_seconds = self._clock() - self._begun
            text = _prompt(self._budget, figures.prompt_tokens)
            self._step = Reading(text=text, decode_tokens=self._budget.decode_tokens)
            return
        _, steady = divided((figures.step_seconds,))
        self._end(
            Outcome(
                decode=len(steady) / max(sum(steady), 1e-9),
                prompt=figures.prompt_tokens / max(figures.prompt_seconds, 1e-9),
                load_seconds=self._load_seconds,
            )
        )

    def failed(self, error: AppError) -> None:
        """The step could not be done: that is an outcome of the trial, unless no other plan can fare better.

        Raises:
            AppError: `error` itself, where the model or the engine as such cannot be used.
        """
        if error.code in _FATAL:
            raise error
        self._end(Outcome(failure=error.message))

    def _end(self, outcome: Outcome) -> None:
        self._outcome, self._step = outcome, None


def _prompt(budget: Budget, warm_up_tokens: int) -> str:
    """A text of about so many tokens as the budget says."""
    characters_per_token = len(_WARM_UP) / max(warm_up_tokens, 1)
    return texts.report(int(budget.prompt_tokens * characters_per_token))
