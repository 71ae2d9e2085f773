"""What the engine is asked of main memory: one budget at a time, the newest wish next, and what a refusal leaves."""

import pytest
from scripted_cache import ScriptedCache
from ui_factories import MIB

from app.engine import protocol
from app.placement.plan import Plan
from app.ui.live_plan import MemoryBudget
from app.ui.memory_requests import MemoryRequests

NOTHING = MemoryBudget(None)


class Engine:
    """Takes requests and answers the oldest."""

    def __init__(self):
        plan = Plan(model_files=("m.gguf",), gpu=None, n_ctx=512, expert_lanes=dict.fromkeys(range(4), "CPU"))
        self.cache = ScriptedCache(plan, 8, MIB)
        self.sent = []

    def send(self, request_type, **fields):
        self.sent.append(request_type(id=len(self.sent) + 1, **fields))
        return len(self.sent)

    def facts(self, request_id):
        return self.cache.facts(request_id, experts=True)

    def told(self):
        """Budgets that were told, in MiB; None for what fits."""
        told = [its.budget_bytes for its in self.sent if isinstance(its, protocol.SetMemory)]
        return [None if size is None else size // MIB for size in told]


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def requests(engine):
    return MemoryRequests(engine.send)


def refusal(request_id):
    return protocol.Failed(id=request_id, code="out_of_memory", message="No.", detail="")


def test_the_newest_wish_follows_the_answer_and_those_between_are_never_told(engine, requests):
    for mib in (20, 16, 12):
        requests.set_budget(MemoryBudget(mib * MIB))
    assert engine.told() == [20]
    assert requests.busy
    assert requests.concerns(1)
    assert not requests.concerns(2)
    assert requests.take(engine.facts(1), NOTHING) == (MemoryBudget(20 * MIB), MemoryBudget(20 * MIB))
    assert engine.told() == [20, 12]
    requests.take(engine.facts(2), NOTHING)
    assert not requests.busy
    assert requests.set == MemoryBudget(12 * MIB)


def test_a_refused_budget_leaves_the_one_before(engine, requests):
    requests.set_budget(MemoryBudget(16 * MIB))
    requests.take(engine.facts(1), NOTHING)
    requests.set_budget(MemoryBudget(99 * MIB))
    assert requests.take(refusal(2), NOTHING) == (MemoryBudget(99 * MIB), MemoryBudget(16 * MIB))
    assert requests.set == MemoryBudget(16 * MIB)


def test_a_refused_first_budget_leaves_that_of_the_load(engine, requests):
    requests.set_budget(MemoryBudget(99 * MIB))
    assert requests.take(refusal(1), MemoryBudget(8 * MIB)) == (MemoryBudget(99 * MIB), MemoryBudget(8 * MIB))
    assert requests.set is None


def test_a_wish_that_came_meanwhile_is_tried_after_a_refusal(engine, requests):
    requests.set_budget(MemoryBudget(99 * MIB))
    requests.set_budget(MemoryBudget(4 * MIB))
    requests.take(refusal(1), NOTHING)
    assert engine.told() == [99, 4]
    assert requests.set == MemoryBudget(4 * MIB)


def test_the_engines_own_choice_is_what_it_told_last_before_it_was_told_a_budget(engine, requests):
    requests.see(engine.facts(0), None)
    assert requests.chosen == 32 * MIB
    requests.set_budget(MemoryBudget(8 * MIB))
    engine.cache.set_memory(8 * MIB)
    requests.take(engine.facts(1), NOTHING)
    requests.see(engine.facts(0), None)
    assert requests.chosen == 32 * MIB


def test_what_fits_is_left_to_the_engine_which_knows_what_is_available_now(engine, requests):
    requests.see(engine.facts(0), 8 * MIB)
    assert requests.chosen is None
    requests.set_budget(NOTHING)
    assert engine.told() == [None]
    requests.see(engine.facts(0), 8 * MIB)
    assert requests.chosen is None, "it has not answered: that is the budget before"
    engine.cache.memory.room = 12 * MIB
    engine.cache.set_memory(None)
    requests.take(engine.facts(1), MemoryBudget(8 * MIB))
    requests.see(engine.facts(0), 8 * MIB)
    assert requests.chosen == 12 * MIB


def test_a_warm_up_waits_until_the_budget_that_was_wished_before_it_is_told(engine, requests):
    for mib in (8, 16):
        requests.set_budget(MemoryBudget(mib * MIB))
    requests.warm()
    assert [type(its) for its in engine.sent] == [protocol.SetMemory]
    assert requests.order.open
    requests.take(engine.facts(1), NOTHING)
    assert engine.told() == [8, 16]
    assert [type(its) for its in engine.sent[1:]] == [protocol.SetMemory, protocol.WarmMemory]
    requests.take(engine.facts(2), NOTHING)
    requests.take(engine.facts(3), NOTHING)
    assert requests.order.answered
    assert len(engine.sent) == 3


def test_a_warm_up_that_waits_is_given_also_where_the_wish_is_the_one_that_was_answered(engine, requests):
    for mib in (8, 16, 8):
        requests.set_budget(MemoryBudget(mib * MIB))
    requests.warm()
    requests.take(engine.facts(1), NOTHING)
    assert engine.told() == [8]
    assert isinstance(engine.sent[-1], protocol.WarmMemory)


def test_an_order_that_waits_for_a_budget_is_lost_with_its_engine(engine, requests):
    for mib in (8, 16):
        requests.set_budget(MemoryBudget(mib * MIB))
    requests.release()
    requests.lose("The engine ended.")
    assert requests.order.why_not == "The engine ended."
    requests.set_budget(MemoryBudget(4 * MIB))
    requests.take(engine.facts(2), NOTHING)
    assert engine.told() == [8, 4]
    assert not any(isinstance(its, protocol.ReleaseMemory) for its in engine.sent)


def test_warm_up_and_release_change_no_budget(engine, requests):
    requests.warm()
    requests.release()
    assert [type(its) for its in engine.sent] == [protocol.WarmMemory, protocol.ReleaseMemory]
    assert not requests.busy
    for request in engine.sent:
        assert requests.concerns(request.id)
        assert requests.take(engine.facts(request.id), NOTHING) is None
        assert not requests.concerns(request.id)


def test_another_load_knows_nothing_of_what_was_asked(engine, requests):
    requests.see(engine.facts(0), None)
    requests.set_budget(MemoryBudget(8 * MIB))
    requests.forget()
    assert (requests.chosen, requests.set, requests.busy) == (None, None, False)
    assert not requests.concerns(1)


def test_an_order_is_followed_from_its_answer_on_until_it_is_known_what_came_of_it(engine, requests):
    engine.cache.set_memory(16 * MIB)
    engine.cache.release_memory()
    requests.warm(engine.facts(0).memory)
    assert not requests.following, "the engine has not taken it"
    requests.see(engine.facts(0), None)
    engine.cache.warm_memory()
    requests.take(engine.facts(1), NOTHING)
    assert requests.following
    for _ in range(2):
        requests.see(engine.facts(0), None)
    assert not requests.following
    assert requests.order.moved_bytes == 16 * MIB


def test_a_refused_order_is_over_and_an_older_ones_answer_says_nothing_of_the_newer(engine, requests):
    requests.warm()
    requests.release()
    requests.take(refusal(1), NOTHING)
    assert requests.order.open
    requests.take(refusal(2), NOTHING)
    assert (requests.order.warm, requests.order.why_not, requests.following) == (False, "No.", False)


def test_what_came_of_an_order_is_forgotten_with_the_next_answer_budget_or_load(engine, requests):
    for forget in (requests.answer_begins, lambda: requests.set_budget(NOTHING), requests.forget):
        requests.warm()
        requests.take(refusal(len(engine.sent)), NOTHING)
        assert requests.order is not None
        forget()
        assert requests.order is None


def test_an_open_order_outlives_the_beginning_of_an_answer_and_is_lost_with_its_engine(requests):
    requests.warm()
    requests.answer_begins()
    assert requests.be_late()
    assert requests.order.late
    requests.lose("The engine ended.")
    assert requests.order.why_not == "The engine ended."
    assert not requests.be_late()
    requests.lose("Again.")
    assert requests.order is None
