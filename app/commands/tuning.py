"""Measures the tuner's trials in an engine child, which is started anew after it died."""

from collections.abc import Callable

from app.engine import protocol
from app.engine.client import EngineClient
from app.errors import AppError, ErrorCode
from app.placement.plan import Plan
from app.placement.tuner.course import TrialCourse
from app.placement.tuner.types import Outcome, Trial


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
        course = TrialCourse(trial, self._clock)
        client = self._living()
        while (step := course.step) is not None:
            try:
                if isinstance(step, Plan):
                    client.request(protocol.Load, protocol.Loaded, plan=step)
                    course.loaded()
                else:
                    course.measured(
                        client.request(
                            protocol.Measure,
                            protocol.Measured,
                            prompts=(step.text,),
                            decode_tokens=step.decode_tokens,
                        )
                    )
            except AppError as error:
                if error.code is ErrorCode.ENGINE_CRASHED:
                    self._drop()
                course.failed(error)
        return course.outcome

    def _living(self) -> EngineClient:
        if self._client is None:
            self._client = self._own = self._start()
        return self._client

    def _drop(self) -> None:
        self.close()
        self._client = None
