"""A machine played for the tuner: how fast a plan is follows from a rule, with noise, failures and a clock."""

import random
from collections.abc import Callable

from app.placement.plan import Plan
from app.placement.tuner.search import Tuner
from app.placement.tuner.types import Outcome, Trial

LOAD_SECONDS = 1.0
PROMPT = 100.0


class PlayedMachine:
    """Measures trials without computing: `speed` gives tokens a second of a plan.

    Args:
        speed: Decode speed of a plan; a text instead is why it fails.
        noise: Largest share that a figure is off by.
        prompt: Prompt speed of a plan.
        drift: The machine gets slower by this share with every trial.
    """

    def __init__(
        self,
        speed: Callable[[Plan], float | str],
        *,
        noise: float = 0.0,
        seed: int = 0,
        prompt: Callable[[Plan], float] = lambda plan: PROMPT,
        drift: float = 0.0,
    ) -> None:
        self._speed, self._prompt = speed, prompt
        self._noise, self._drift = noise, drift
        self._random = random.Random(seed)
        self._trials = 0
        self.now = 100.0
        self.trials: list[Trial] = []

    def clock(self) -> float:
        """Seconds."""
        return self.now

    def measure(self, trial: Trial) -> Outcome:
        """The outcome; the clock goes on by what it would have taken."""
        self.trials.append(trial)
        speed = self._speed(trial.candidate.plan)
        self.now += LOAD_SECONDS
        if isinstance(speed, str):
            return Outcome(failure=speed)
        slower = (1 - self._drift) ** len(self.trials)
        decode = speed * slower * self._off()
        prompt = self._prompt(trial.candidate.plan) * slower * self._off()
        self.now += trial.budget.decode_tokens / decode + trial.budget.prompt_tokens / prompt
        return Outcome(decode=decode, prompt=prompt, load_seconds=LOAD_SECONDS)

    def _off(self) -> float:
        return 1 + self._random.uniform(-self._noise, self._noise)


def tune(machine, candidates, limit=3600.0, trials=None):
    """Search to the end, or until so many trials were measured and it is cancelled."""
    tuner = Tuner(candidates, limit, machine.clock)
    while (trial := tuner.next_trial()) is not None:
        if trials is not None and len(machine.trials) == trials:
            tuner.cancel()
            break
        tuner.report(machine.measure(trial))
    return tuner.result
