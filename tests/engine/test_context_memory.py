"""The engine's choice of main memory for mapped experts, orders for it, and its facts in words of the protocol."""

import numpy as np
import pytest
from fake_device import EXPERT_BYTES, FakeDevice

from app.engine.cache_memory import ContextMemory, resident_budget
from app.engine.cache_types import MemoryStruct
from app.errors import AppError, ErrorCode
from app.hardware.facts import Ram
from app.model import read_facts

GIB = 1 << 30


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


@pytest.fixture
def memory(device, demo_model) -> ContextMemory:
    return ContextMemory(device, 7, read_facts(demo_model))


def test_where_there_is_room_all_experts_stay():
    assert resident_budget(Ram(total_bytes=64 * GIB, available_bytes=40 * GIB), GIB, 30 * GIB) == 30 * GIB


def test_where_there_is_none_the_rest_of_the_model_and_a_reserve_come_first():
    budget = resident_budget(Ram(total_bytes=16 * GIB, available_bytes=10 * GIB), 2 * GIB, 30 * GIB)
    assert 7 * GIB < budget < 8 * GIB


def test_with_next_to_nothing_available_there_is_still_a_budget():
    assert resident_budget(Ram(total_bytes=16 * GIB, available_bytes=GIB), 2 * GIB, 30 * GIB) > 0


def test_without_experts_on_the_cpu_nothing_is_asked_for(device, memory):
    memory.choose(0)
    assert device.told == []


def test_a_negative_budget_is_refused(device, memory):
    with pytest.raises(AppError) as caught:
        memory.set_budget(-1)
    assert caught.value.code is ErrorCode.BAD_USAGE
    assert device.told == []


def test_orders_reach_the_device(device, memory):
    memory.set_budget(5 * EXPERT_BYTES)
    memory.warm_up()
    memory.release()
    assert device.told == [("set_resident", 7, 5 * EXPERT_BYTES), ("warm_up", 7), ("release", 7)]


def test_facts_are_told_only_where_a_budget_holds_for_mapped_experts(device, memory):
    assert memory.facts() is None
    device.memory_struct = MemoryStruct(budget=9, trusted=8, resident=7, total=20, evictions=3, stale=1, on=1)
    facts = memory.facts()
    assert facts is not None
    assert (facts.budget_bytes, facts.trusted_bytes, facts.resident_bytes, facts.total_bytes) == (9, 8, 7, 20)
    assert (facts.evictions, facts.stale, facts.reads) == (3, 1, True)


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
