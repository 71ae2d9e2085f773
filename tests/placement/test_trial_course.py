"""The course of a trial without an engine: what comes next, what is an outcome, and what ends the search."""

from dataclasses import dataclass

import pytest
from factories import demo, make_machine

from app.errors import AppError, ErrorCode
from app.placement.plan import Plan
from app.placement.planner import make_plan
from app.placement.tuner.course import Reading, TrialCourse
from app.placement.tuner.held import Held, chosen_by_hand, wishes_to_hold
from app.placement.tuner.types import Budget, Candidate, Choice, Trial
from app.placement.wishes import NO_WISHES, Wishes

FACTS, MACHINE = demo(), make_machine(cores=8, performance=8)


@dataclass
class Figures:
    prompt_tokens: int
    prompt_seconds: float
    step_seconds: tuple[float, ...]


@pytest.fixture
def now():
    """A clock that only the test winds."""
    return [100.0]


@pytest.fixture
def course(now):
    candidate = Candidate(choice=Choice(), words="", plan=make_plan(FACTS, MACHINE))
    budget = Budget(prompt_tokens=64, decode_tokens=9)
    trial = Trial(candidate=candidate, budget=budget, stage="search", number=1, remaining_seconds=None)
    return TrialCourse(trial, lambda: now[0])


def test_a_plan_is_loaded_warmed_up_and_measured(course, now):
    assert isinstance(course.step, Plan)
    course.loaded()
    warm_up = course.step
    assert isinstance(warm_up, Reading)
    now[0] += 3.0
    course.measured(Figures(200, 1.0, (1.0,) * warm_up.decode_tokens))
    reading = course.step
    assert reading.decode_tokens == 9
    assert len(reading.text) == pytest.approx(len(warm_up.text) * 64 / 200, rel=0.05)
    course.measured(Figures(60, 0.5, (1.0, 1.0, 1.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1)))
    assert course.step is None
    outcome = course.outcome
    assert outcome.decode == pytest.approx(10.0), "of the steady part alone"
    assert (outcome.prompt, outcome.load_seconds, outcome.failure) == (120.0, 3.0, "")


@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_MEMORY, ErrorCode.ENGINE_CRASHED, ErrorCode.CONTEXT_FULL])
def test_what_concerns_one_plan_is_an_outcome(course, code):
    course.failed(AppError(code, "It did not work."))
    assert course.step is None
    assert course.outcome.failure == "It did not work."


@pytest.mark.parametrize("code", [ErrorCode.FILE_MISSING, ErrorCode.ENGINE_MISSING, ErrorCode.CANCELLED])
def test_what_concerns_every_plan_is_raised(course, code):
    with pytest.raises(AppError, match="It did not work"):
        course.failed(AppError(code, "It did not work."))
    assert course.step is not None


# ---- what is left as it is ---------------------------------------------------------------------


def plan_of(**wishes):
    return make_plan(FACTS, MACHINE, Wishes(**wishes))


def test_what_differs_from_the_planners_plan_was_chosen_by_hand():
    usual = plan_of()
    assert chosen_by_hand(usual, usual) == Held()
    assert chosen_by_hand(plan_of(n_ctx=1024, threads=2), usual) == Held(context=True, threads=True)
    assert chosen_by_hand(plan_of(kv_type="q8_0"), usual) == Held(kv_type=True)


def test_of_a_tuned_plan_nothing_was():
    import msgspec

    tuned = msgspec.structs.replace(plan_of(threads=2), tuned="tuned yesterday")
    assert chosen_by_hand(tuned, plan_of()) == Held()


def test_what_is_held_becomes_a_wish_that_the_plan_meets_and_nothing_else_does():
    usual, plan = plan_of(), plan_of(n_ctx=1024, threads=2)
    assert wishes_to_hold(usual, usual, FACTS, Held()) == NO_WISHES
    wishes = wishes_to_hold(plan, usual, FACTS, Held(context=True, threads=True))
    assert wishes == Wishes(n_ctx=1024, threads=2)
    assert make_plan(FACTS, MACHINE, wishes).loads_like(plan)
    assert wishes_to_hold(plan, usual, FACTS, Held(places=True)) == Wishes(pool_bytes=0)
