"""The engine's choice of main memory for mapped experts, orders for it, and its facts in words of the protocol."""

import numpy as np
import pytest
from fake_device import EXPERT_BYTES, FakeDevice

from app.engine import cache_memory
from app.engine.cache_memory import ContextMemory, resident_budget
from app.engine.cache_types import MemoryStruct, Residency
from app.errors import AppError, ErrorCode
from app.hardware.facts import Ram
from app.model import read_facts

GIB = 1 << 30
ALL = 3 * 4 * EXPERT_BYTES


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


@pytest.fixture
def memory(device, demo_model) -> ContextMemory:
    return ContextMemory(device, 7, read_facts(demo_model), device.layer_structs)


@pytest.fixture
def available(monkeypatch):
    """Sets how much main memory is available."""

    def set_to(available_bytes):
        ram = Ram(total_bytes=64 * GIB, available_bytes=available_bytes)
        monkeypatch.setattr(cache_memory, "read_ram", lambda _root: (ram, ()))

    return set_to


def without_mapped(device, demo_model, residency=None) -> ContextMemory:
    for layer in device.layer_structs:
        layer.residency = Residency.REPACKED
    layers = device.layer_structs if residency else []
    return ContextMemory(device, 7, read_facts(demo_model), layers)


def refused(order, *arguments) -> AppError:
    with pytest.raises(AppError) as caught:
        order(*arguments)
    return caught.value


def test_where_there_is_room_all_experts_stay():
    assert resident_budget(Ram(total_bytes=64 * GIB, available_bytes=40 * GIB), GIB, 30 * GIB) == 30 * GIB


def test_where_there_is_none_the_rest_of_the_model_and_a_reserve_come_first():
    budget = resident_budget(Ram(total_bytes=16 * GIB, available_bytes=10 * GIB), 2 * GIB, 30 * GIB)
    assert 7 * GIB < budget < 8 * GIB


def test_with_next_to_nothing_available_there_is_still_a_budget():
    assert resident_budget(Ram(total_bytes=16 * GIB, available_bytes=GIB), 2 * GIB, 30 * GIB) > 0


# ---- at a load -----------------------------------------------------------------------------------


def test_before_the_plan_is_carried_out_the_system_decides(device, memory):
    """Between the load and the engine's own choice: no facts, no order given, none taken but to give memory up."""
    assert (memory.facts(), memory.fault, device.told) == (None, "", [])
    assert "only within a budget" in refused(memory.warm_up).message
    memory.release()
    assert device.told == [("release", 7)]


def test_a_plan_without_a_budget_gets_what_fits(device, memory, available):
    available(40 * GIB)
    memory.prepare(None)
    assert device.told == [("set_resident", 7, ALL)]
    assert memory.fault == ""


def test_a_plan_that_leaves_it_to_the_system_asks_for_nothing(device, memory):
    memory.prepare(0)
    assert (device.told, memory.fault) == ([], "")
    assert memory.facts() is None


def test_a_plans_budget_is_used_as_it_is(device, memory, available):
    available(40 * GIB)
    memory.prepare(5 * EXPERT_BYTES)
    assert device.told == [("set_resident", 7, 5 * EXPERT_BYTES)]
    assert memory.fault == ""


def test_a_plan_that_asks_for_more_than_is_available_gets_what_fits_and_is_told_so(device, memory, available):
    available(4 * EXPERT_BYTES)
    memory.prepare(5 * EXPERT_BYTES)
    [(order, _context, budget)] = device.told
    assert order == "set_resident"
    assert 0 < budget < 5 * EXPERT_BYTES
    assert "3.9 KiB is available now" in memory.fault


@pytest.mark.parametrize(("residency", "words"), [("repacked", "faster layout"), (None, "no experts of this model")])
def test_without_experts_in_a_file_nothing_is_asked_for(device, demo_model, residency, words):
    memory = without_mapped(device, demo_model, residency)
    memory.prepare(None)
    assert memory.fault == ""
    memory.prepare(5 * EXPERT_BYTES)
    assert words in memory.fault
    assert device.told == []


# ---- orders --------------------------------------------------------------------------------------


def test_a_negative_budget_is_refused(device, memory):
    error = refused(memory.set_budget, -1)
    assert error.code is ErrorCode.BAD_USAGE
    assert "-1 bytes" in error.message
    assert device.told == []


def test_more_than_is_available_is_refused_with_what_is(device, memory, available):
    available(5 * EXPERT_BYTES)
    error = refused(memory.set_budget, 6 * EXPERT_BYTES)
    assert error.code is ErrorCode.OUT_OF_MEMORY
    assert "4.9 KiB is available" in error.message
    assert device.told == []
    memory.set_budget(5 * EXPERT_BYTES)


def test_what_experts_hold_for_good_is_theirs_again(device, memory, available):
    available(5 * EXPERT_BYTES)
    device.memory_struct = MemoryStruct(locked=3 * EXPERT_BYTES)
    memory.set_budget(8 * EXPERT_BYTES)
    assert refused(memory.set_budget, 9 * EXPERT_BYTES).code is ErrorCode.OUT_OF_MEMORY


def test_where_the_system_does_not_tell_what_is_in_memory_it_decides(device, demo_model, available, monkeypatch):
    available(GIB)
    monkeypatch.setattr(cache_memory, "tells_of", lambda _path: False)
    memory = ContextMemory(device, 7, read_facts(demo_model), device.layer_structs)
    memory.prepare(None)
    assert (device.told, memory.fault) == ([], "")
    memory.prepare(5 * EXPERT_BYTES)
    assert device.told == []
    assert "only the owner" in memory.fault
    for budget in (EXPERT_BYTES, None):
        assert refused(memory.set_budget, budget).code is ErrorCode.BAD_USAGE
    memory.set_budget(0)


def test_less_than_before_is_taken_however_little_is_available(device, memory, available):
    available(GIB)
    memory.set_budget(8 * EXPERT_BYTES)
    available(EXPERT_BYTES)
    memory.set_budget(6 * EXPERT_BYTES)
    assert device.told[-1] == ("set_resident", 7, 6 * EXPERT_BYTES)
    assert refused(memory.set_budget, 7 * EXPERT_BYTES).code is ErrorCode.OUT_OF_MEMORY


def test_more_than_all_experts_is_all_of_them(device, memory, available):
    available(GIB)
    memory.set_budget(2 * GIB)
    assert device.told == [("set_resident", 7, ALL)]


def test_what_fits_is_chosen_by_what_is_available_now_and_what_experts_hold_for_good(device, memory, available):
    available(40 * GIB)
    memory.set_budget(5 * EXPERT_BYTES)
    memory.set_budget(None)
    assert device.told[-1] == ("set_resident", 7, ALL)
    available(4 * EXPERT_BYTES)
    memory.set_budget(None)
    order, _context, budget = device.told[-1]
    assert order == "set_resident"
    assert 0 < budget < ALL
    device.memory_struct = MemoryStruct(locked=40 * GIB)
    memory.set_budget(None)
    assert device.told[-1] == ("set_resident", 7, ALL)


@pytest.mark.parametrize(("residency", "words"), [("repacked", "faster layout"), (None, "No experts of this model")])
def test_without_experts_in_a_file_every_order_is_refused(device, demo_model, residency, words):
    memory = without_mapped(device, demo_model, residency)
    budgets = [lambda budget=budget: memory.set_budget(budget) for budget in (1, 0, None)]
    for order in (*budgets, memory.warm_up, memory.release):
        error = refused(order)
        assert error.code is ErrorCode.BAD_USAGE
        assert words in error.message
    assert device.told == []


def test_orders_reach_the_device(device, memory):
    memory.set_budget(5 * EXPERT_BYTES)
    memory.warm_up()
    memory.release()
    memory.set_budget(0)
    orders = [("set_resident", 7, 5 * EXPERT_BYTES), ("warm_up", 7), ("release", 7), ("set_resident", 7, 0)]
    assert device.told == orders


def test_where_the_system_decides_there_is_nothing_to_warm_up(device, memory):
    assert "only within a budget" in refused(memory.warm_up).message
    assert device.told == []


# ---- facts ---------------------------------------------------------------------------------------


def test_facts_are_told_only_where_a_budget_holds_for_mapped_experts(device, memory):
    assert memory.facts() is None
    memory.set_budget(9)
    assert memory.facts() is None
    device.memory_struct = MemoryStruct(budget=9, trusted=8, resident=7, total=20, evictions=3, stale=1, on=1)
    facts = memory.facts()
    assert facts is not None
    assert (facts.budget_bytes, facts.trusted_bytes, facts.resident_bytes, facts.total_bytes) == (9, 8, 7, 20)
    assert (facts.evictions, facts.stale, facts.reads) == (3, 1, True)


def test_the_budget_is_the_one_asked_for_while_a_layer_puts_it_off(device, memory):
    memory.set_budget(9)
    device.memory_struct = MemoryStruct(budget=9, trusted=8, resident=7, total=20)
    memory.set_budget(5)
    facts = memory.facts()
    assert facts is not None
    assert (facts.budget_bytes, facts.trusted_bytes, facts.resident_bytes) == (5, 5, 7)
    memory.set_budget(0)
    assert memory.facts() is None


def test_each_expert_has_a_letter_for_where_it_is(device, memory):
    device.resident = np.array([[1, 0, 1], [0, 0, 1]], np.uint8)
    assert memory.letters() == ["rdr", "ddr"]


def test_experts_that_could_not_be_read_are_told_once(device, memory):
    assert memory.reading_error() is None
    device.memory_struct = MemoryStruct(failures=2)
    error = memory.reading_error()
    assert error is not None
    assert error.code is ErrorCode.MODEL_DAMAGED
    assert "2 experts" in error.detail
    assert memory.reading_error() is None


def test_experts_that_the_system_had_no_memory_for_are_told_once_as_that(device, memory):
    device.memory_struct = MemoryStruct(refused=3)
    error = memory.reading_error()
    assert error is not None
    assert error.code is ErrorCode.OUT_OF_MEMORY
    assert "--resident" in error.message
    assert "3 experts" in error.detail
    assert memory.reading_error() is None
    device.memory_struct = MemoryStruct(refused=4, failures=1)
    error = memory.reading_error()
    assert error is not None
    assert error.code is ErrorCode.MODEL_DAMAGED
