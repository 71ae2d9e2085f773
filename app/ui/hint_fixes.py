"""What a hint's fix makes of the plan being edited: the new plan, and each choice before and after in words. No Qt."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from app.doctor.hints import Change
from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.evidence import NO_EVIDENCE
from app.placement.plan import Plan
from app.ui.tuning.knob_values import LIVE, Situation, at_plan, follows, turned, value_of
from app.ui.tuning.knob_words import knob_name, translate, value_word
from app.ui.words import number

CPU_CORES = "cpu_cores"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One choice of the plan, in words."""

    name: str
    before: str
    after: str

    @property
    def text(self) -> str:
        """As in "Threads for answers: 8 → 6"."""
        return f"{self.name}: {self.before} → {self.after}"


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """What a fix comes to.

    Attributes:
        plan: The plan with it; None where it was refused.
        differences: What changes; none where the plan is so already.
        refusal: Why it was refused, in a sentence; else empty.
        live: Whether a loaded engine follows all of it without a reload.
    """

    plan: Plan | None = None
    differences: tuple[Difference, ...] = ()
    refusal: str = ""
    live: bool = False


def fixed(
    changes: Sequence[Change], facts: ModelFacts, machine: Machine, plan: Plan, at_load: Plan | None = None
) -> Fixed:
    """`plan` with every change, or why not.

    Args:
        changes: The fix.
        facts: The model.
        machine: Where it runs.
        plan: The plan being edited.
        at_load: As in `Situation`.
    """
    before = Situation(facts=facts, machine=machine, plan=plan, evidence=NO_EVIDENCE, at_load=at_load)
    now = before
    differences: list[Difference] = []
    for change in changes:
        if change.key == CPU_CORES:
            cores = tuple(change.value) if isinstance(change.value, tuple) else ()
            after = msgspec.structs.replace(now.plan, cpu_cores=cores, speed=None, tuned="")
            words = _cores(now.plan.cpu_cores), _cores(cores)
            name = translate("Knobs", "Processors")
        else:
            assert not isinstance(change.value, tuple)
            result = turned(now, change.key, change.value)
            if result.plan is None:
                return Fixed(refusal=result.refusal)
            after = result.plan
            words = tuple(
                value_word(change.key, value_of(its, change.key, facts), machine) for its in (now.plan, after)
            )
            name = knob_name(change.key)
        if words[0] != words[1]:
            differences.append(Difference(name=name, before=words[0], after=words[1]))
        now = at_plan(now, after)
    live = all(change.key in LIVE and follows(change.key, before) for change in changes)
    return Fixed(plan=now.plan, differences=tuple(differences), live=live)


def _cores(cores: tuple[int, ...]) -> str:
    return ", ".join(number(core) for core in cores) or translate("Knobs", "the system's choice")
