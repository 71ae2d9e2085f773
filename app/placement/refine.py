"""A plan checked by llama.cpp's own dry run of it, and made again where that shows that it would not fit."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from app.errors import AppError, ErrorCode
from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.memory import fits, predict, predicted_use
from app.placement.plan import CPU_LANE, Plan, Step
from app.placement.report import BufferReport
from app.units import format_bytes

# Names of the steps a plan may tell of.
STEP_DRY_RUN = "dry run"
STEP_NO_DRY_RUN = "no dry run"

_MOST_PLANS = 4
"""Each plan leaves room for all that the ones before lacked, so that a second one fits nearly always."""

_NO_PLAN = {ErrorCode.CANCELLED, ErrorCode.ARCHITECTURE_UNKNOWN}

DryRun = Callable[[Plan], Sequence[BufferReport]]


class Refinement:
    """One plan on its way: `plan` is what a dry run is to be made of, until `done`.

    Args:
        facts: The model.
        machine: What is free where.
        make: Makes the plan for a machine; called again with one on which more is taken.
        plan: The plan to begin with; made by `make` unless told.

    Attributes:
        plan: The latest plan; when `done` with the memory that the dry run gave.
        done: Whether no further dry run is needed.
    """

    def __init__(
        self, facts: ModelFacts, machine: Machine, make: Callable[[Machine], Plan], plan: Plan | None = None
    ) -> None:
        self._facts = facts
        self._machine = machine
        self._make = make
        self._lacking: dict[str, int] = {}
        self._plans = 1
        self.plan = plan or make(machine)
        self.done = False

    def take(self, buffers: Sequence[BufferReport]) -> None:
        """Take what llama.cpp would allocate for `plan`."""
        estimated = self.plan
        fitted = not fits(estimated, self._machine)
        checked = msgspec.structs.replace(estimated, memory=predict(self._facts, self._machine, estimated, buffers))
        shortfalls = fits(checked, self._machine)
        if shortfalls and fitted and self._plans < _MOST_PLANS:
            for device in (CPU_LANE, *checked.gpus):
                more = predicted_use(checked, device) - predicted_use(estimated, device)
                self._lacking[device] = max(self._lacking.get(device, 0), more)
            self._plans += 1
            self.plan = self._again()
            return
        steps = self.plan.steps
        if self._plans > 1:
            steps += (Step(name=STEP_DRY_RUN, reason=_made_again(self._lacking)),)
        if shortfalls and fitted:
            steps += (Step(name=STEP_DRY_RUN, reason=" ".join(short.sentence for short in shortfalls)),)
        self.plan = msgspec.structs.replace(checked, steps=steps)
        self.done = True

    def fail(self, error: AppError) -> None:
        """There is no dry run of `plan`: its memory stays an estimate, which a step says."""
        reason = f"llama.cpp could not lay this plan out, so its memory is estimated: {error.message}"
        self.plan = msgspec.structs.replace(
            self.plan, steps=(*self.plan.steps, Step(name=STEP_NO_DRY_RUN, reason=reason))
        )
        self.done = True

    def _again(self) -> Plan:
        """The plan for a machine on which what was lacking is taken, its memory predicted for this one."""
        plan = self._make(_with_more_taken(self._machine, self._lacking))
        return msgspec.structs.replace(plan, memory=predict(self._facts, self._machine, plan))


def refine(facts: ModelFacts, machine: Machine, make: Callable[[Machine], Plan], lay_out: DryRun) -> Plan:
    """The plan that `make` makes, with the memory that a dry run of it gives.

    Args:
        facts: The model.
        machine: What is free where.
        make: Makes the plan for a machine.
        lay_out: What llama.cpp would allocate for a plan. Where it raises an `AppError`, the plan keeps its
            estimates and says so in a step.

    Raises:
        AppError: as `make`; cancelled; architecture_unknown, for no plan of such a model could be loaded.
    """
    refinement = Refinement(facts, machine, make)
    while not refinement.done:
        try:
            buffers = lay_out(refinement.plan)
        except AppError as error:
            if error.code in _NO_PLAN:
                raise
            refinement.fail(error)
        else:
            refinement.take(buffers)
    return refinement.plan


def _with_more_taken(machine: Machine, lacking: Mapping[str, int]) -> Machine:
    """`machine` on which so much less is free."""
    gpus = tuple(
        msgspec.structs.replace(gpu, free_bytes=max(gpu.free_bytes - lacking.get(gpu.device, 0), 0))
        for gpu in machine.gpus
    )
    ram = msgspec.structs.replace(
        machine.ram, available_bytes=max(machine.ram.available_bytes - lacking.get(CPU_LANE, 0), 0)
    )
    return msgspec.structs.replace(machine, gpus=gpus, ram=ram)


def _made_again(lacking: Mapping[str, int]) -> str:
    more = ", ".join(
        f"{format_bytes(size)} more {'of RAM' if device == CPU_LANE else f'on {device}'}"
        for device, size in lacking.items()
        if size
    )
    return f"llama.cpp's dry run of the first plan took {more} than was estimated; this plan leaves room for it."
