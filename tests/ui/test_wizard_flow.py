"""The wizard without Qt: what may be entered when, what going back keeps, what a new choice drops."""

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ui_factories import make_facts, make_machine

from app.errors import AppError, ErrorCode
from app.placement.evidence import NO_EVIDENCE, Evidence
from app.placement.planner import NO_WISHES, Wishes, make_plan
from app.ui.wizard import flow as flow_module
from app.ui.wizard.flow import VIEWS, Flow, Lack, LoadState, View

FACTS = make_facts()
OTHER_FACTS = make_facts(layers=6, name="Another", fingerprint="9d", files=("/models/other.gguf",))


class Planner:
    """The planner over what the flow has accepted, as the controller is; counts how often it is asked."""

    def __init__(self):
        self.facts, self.machine, self.asked = FACTS, make_machine(), 0

    def __call__(self, wishes, evidence):
        self.asked += 1
        self.evidence = evidence
        return make_plan(self.facts, self.machine, wishes)


@pytest.fixture
def planner():
    return Planner()


@pytest.fixture
def flow(planner):
    return Flow(planner)


@pytest.fixture
def ready(flow):
    """A flow with model and machine, still in the first view."""
    flow.accept_model(FACTS)
    flow.accept_machine(make_machine())
    return flow


def go_to(flow, view):
    while flow.view is not view:
        assert flow.next()


def test_the_flow_imports_no_qt():
    tree = ast.parse(Path(flow_module.__file__).read_text("utf-8"))
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert imported
    assert not [name for name in imported if name.startswith(("PySide6", "app.ui"))]


def test_it_begins_with_the_model_and_lacks_one(flow):
    assert flow.view is View.MODEL
    assert flow.lack() is Lack.MODEL
    assert not flow.can_go_back()


def test_without_a_model_no_later_view_can_be_entered(flow):
    flow.accept_machine(make_machine())
    assert not flow.next()
    assert [view for view in VIEWS if flow.can_enter(view)] == [View.MODEL]


def test_without_a_machine_the_plan_cannot_be_entered(flow):
    flow.accept_model(FACTS)
    assert flow.next()
    assert flow.view is View.MACHINE
    assert flow.lack() is Lack.MACHINE
    assert not flow.next()


def test_with_model_and_machine_there_is_a_plan_and_every_view_can_be_entered(ready):
    assert ready.choices.plan is not None
    for view in VIEWS[1:]:
        assert ready.next()
        assert ready.view is view
    assert not ready.next()


def test_while_a_file_is_read_the_model_view_cannot_be_left_although_a_model_is_chosen(ready):
    ready.read_started()
    assert ready.lack() is Lack.READING
    assert not ready.next()
    ready.read_failed()
    assert ready.choices.facts is FACTS
    assert ready.next()


def test_going_back_keeps_every_choice(ready):
    go_to(ready, View.PLAN)
    ready.wish(Wishes(gpu=None, n_ctx=2048))
    chosen = ready.choices
    while ready.can_go_back():
        ready.back()
    assert ready.view is View.MODEL
    assert ready.choices is chosen


def test_choosing_the_same_model_again_keeps_the_wishes_and_another_model_drops_them(ready, planner):
    ready.wish(Wishes(n_ctx=2048))
    ready.accept_model(make_facts())
    assert ready.choices.wishes == Wishes(n_ctx=2048)
    planner.facts = OTHER_FACTS
    ready.accept_model(OTHER_FACTS)
    assert ready.choices.wishes == NO_WISHES
    assert ready.choices.plan.model_files == OTHER_FACTS.files


def test_another_look_at_the_machine_keeps_the_wishes_and_plans_anew(ready, planner):
    ready.wish(Wishes(gpu="Vulkan0", n_ctx=2048))
    planner.machine = make_machine(gpu=False)
    ready.accept_machine(planner.machine)
    assert ready.choices.wishes.gpu == "Vulkan0"
    assert ready.choices.plan is None
    assert ready.choices.plan_error.code is ErrorCode.DEVICE_MISSING


def test_impossible_wishes_give_a_typed_error_and_block_the_load_until_they_change(ready):
    go_to(ready, View.PLAN)
    ready.wish(Wishes(n_ctx=10**6))
    assert ready.choices.plan_error.code is ErrorCode.BAD_USAGE
    assert ready.lack() is Lack.PLAN
    assert not ready.next()
    ready.wish(Wishes(n_ctx=4096))
    assert ready.choices.plan_error is None
    assert ready.choices.plan.n_ctx == 4096
    assert ready.next()


def test_nothing_is_planned_before_model_and_machine_are_known(flow, planner):
    flow.accept_model(FACTS)
    flow.wish(Wishes(n_ctx=2048))
    assert planner.asked == 0
    flow.accept_machine(make_machine())
    assert planner.asked == 1
    assert flow.choices.plan.n_ctx == 2048


def test_a_running_load_can_be_left_neither_way_and_keeps_its_plan(ready):
    go_to(ready, View.LOAD)
    ready.load_started()
    plan = ready.choices.plan
    ready.accept_machine(make_machine(gpu=False))
    assert ready.choices.plan is plan
    assert not ready.can_go_back()
    assert not ready.back()
    assert not ready.restart()
    assert ready.view is View.LOAD
    assert ready.lack() is Lack.LOADED


def test_a_cancelled_load_leads_back_to_the_plan(ready):
    go_to(ready, View.LOAD)
    ready.load_started()
    ready.load_cancelled()
    assert ready.view is View.PLAN
    assert ready.load is LoadState.NONE
    assert ready.lack() is None


def test_a_loaded_model_lacks_nothing_and_the_view_can_still_be_left_backwards(ready):
    go_to(ready, View.LOAD)
    ready.load_started()
    ready.load_done()
    assert ready.lack() is None
    assert ready.back()


def test_a_failed_load_stays_in_its_view_and_takes_a_smaller_plan_as_the_wishes(ready, planner):
    go_to(ready, View.LOAD)
    ready.load_started()
    ready.load_failed()
    assert ready.view is View.LOAD
    assert ready.lack() is Lack.LOADED
    smaller = make_plan(FACTS, planner.machine, Wishes(gpu=None, n_ctx=1024))
    ready.take_smaller(smaller)
    assert ready.choices.plan is smaller
    assert ready.choices.reduced
    wishes = Wishes(gpu=None, n_ctx=1024, kv_type=smaller.kv_type, threads=smaller.threads, tuned=False)
    assert ready.choices.wishes == wishes
    ready.wish(Wishes(n_ctx=2048))
    assert not ready.choices.reduced


def test_restarting_keeps_every_choice(ready):
    go_to(ready, View.LOAD)
    ready.load_started()
    ready.load_done()
    chosen = ready.choices
    assert ready.restart()
    assert ready.view is View.MODEL
    assert ready.choices is chosen


def test_what_was_measured_is_planned_by_in_the_plan_view_and_dropped_with_model_or_machine(ready, planner):
    known = Evidence(notes=("Measured.",))
    assert not ready.accept_evidence(known)  # nobody looks at a plan
    go_to(ready, View.PLAN)
    asked = planner.asked
    assert ready.accept_evidence(known)
    assert (planner.asked, planner.evidence) == (asked + 1, known)
    assert not ready.accept_evidence(Evidence(notes=("Measured.",)))
    assert planner.asked == asked + 1
    ready.accept_machine(make_machine())
    assert planner.evidence == known
    ready.accept_machine(make_machine(False))
    assert planner.evidence == NO_EVIDENCE
    ready.accept_evidence(known)
    ready.accept_model(OTHER_FACTS)
    assert planner.evidence == NO_EVIDENCE


def test_what_was_measured_does_not_replace_the_smaller_plan_of_a_failed_load(ready):
    go_to(ready, View.PLAN)
    ready.take_smaller(ready.choices.plan)
    assert not ready.accept_evidence(Evidence(notes=("Measured.",)))
    assert not ready.choices.wishes.tuned


MOVES = ("next", "back", "restart", "read", "fail read", "model", "machine", "wish", "bad wish", "load", "done", "stop")


@given(st.lists(st.sampled_from(MOVES), max_size=40))
def test_no_order_of_events_shows_a_view_whose_conditions_are_not_met(moves):
    planner = Planner()
    flow = Flow(planner)
    doing = {
        "next": flow.next,
        "back": flow.back,
        "restart": flow.restart,
        "read": flow.read_started,
        "fail read": flow.read_failed,
        "model": lambda: flow.accept_model(FACTS),
        "machine": lambda: flow.accept_machine(planner.machine),
        "wish": lambda: flow.wish(Wishes(n_ctx=1024)),
        "bad wish": lambda: flow.wish(Wishes(threads=-1)),
        "load": lambda: flow.load_started() if flow.view is View.LOAD else None,
        "done": lambda: flow.load_done() if flow.load is LoadState.RUNNING else None,
        "stop": lambda: flow.load_cancelled() if flow.load is LoadState.RUNNING else None,
    }
    for move in moves:
        before = flow.view
        could = flow.can_enter(VIEWS[min(VIEWS.index(before) + 1, len(VIEWS) - 1)])
        doing[move]()
        if VIEWS.index(flow.view) > VIEWS.index(before):
            assert move == "next"
            assert could
        if flow.load is LoadState.RUNNING:
            assert flow.view is View.LOAD
        assert (flow.choices.plan is None) or (flow.choices.plan_error is None)


def test_an_error_of_the_planner_is_kept_as_it_came():
    def refuse(_wishes, _evidence):
        raise AppError(ErrorCode.DEVICE_MISSING, "Gone.")

    flow = Flow(refuse)
    flow.accept_model(FACTS)
    flow.accept_machine(make_machine())
    assert flow.choices.plan_error.message == "Gone."
    assert flow.choices.plan is None
