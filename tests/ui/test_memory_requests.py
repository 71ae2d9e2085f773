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
        """Budgets that were told, in MiB."""
        return [its.budget_bytes // MIB for its in self.sent if isinstance(its, protocol.SetMemory)]


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
        requests.set_budget(MemoryBudget(mib * MIB), 0)
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
    requests.set_budget(MemoryBudget(16 * MIB), 0)
    requests.take(engine.facts(1), NOTHING)
    requests.set_budget(MemoryBudget(99 * MIB), 0)
    assert requests.take(refusal(2), NOTHING) == (MemoryBudget(99 * MIB), MemoryBudget(16 * MIB))
    assert requests.set == MemoryBudget(16 * MIB)


def test_a_refused_first_budget_leaves_that_of_the_load(engine, requests):
    requests.set_budget(MemoryBudget(99 * MIB), 0)
    assert requests.take(refusal(1), MemoryBudget(8 * MIB)) == (MemoryBudget(99 * MIB), MemoryBudget(8 * MIB))
    assert requests.set is None


def test_a_wish_that_came_meanwhile_is_tried_after_a_refusal(engine, requests):
    requests.set_budget(MemoryBudget(99 * MIB), 0)
    requests.set_budget(MemoryBudget(4 * MIB), 0)
    requests.take(refusal(1), NOTHING)
    assert engine.told() == [99, 4]
    assert requests.set == MemoryBudget(4 * MIB)


def test_the_engines_own_choice_is_what_it_told_before_it_was_told_anything(engine, requests):
    requests.see(engine.facts(0), None)
    assert requests.chosen == 32 * MIB
    requests.set_budget(MemoryBudget(8 * MIB), 0)
    engine.cache.set_memory(8 * MIB)
    requests.take(engine.facts(1), NOTHING)
    requests.see(engine.facts(0), None)
    assert requests.chosen == 32 * MIB
    requests.set_budget(NOTHING, 5 * MIB)
    assert engine.told() == [8, 32]


def test_where_the_plan_had_a_budget_what_fits_is_told_for_the_engines_choice(engine, requests):
    requests.see(engine.facts(0), 8 * MIB)
    assert requests.chosen is None
    requests.set_budget(NOTHING, 24 * MIB)
    assert engine.told() == [24]


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
    requests.set_budget(MemoryBudget(8 * MIB), 0)
    requests.forget()
    assert (requests.chosen, requests.set, requests.busy) == (None, None, False)
    assert not requests.concerns(1)
