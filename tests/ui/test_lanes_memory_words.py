"""The main-memory tier in figures and words, without a window: rates, the room for a budget, sentences."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ui_factories import GIB, MIB, make_experts, make_facts, make_machine

from app.engine.protocol import Loaded
from app.hardware.facts import Ram
from app.placement.cache.facts import CacheTotals, MemoryFacts
from app.placement.memory import predict
from app.placement.plan import CPU_LANE, DISK_LANE
from app.placement.planner import Wishes, make_plan
from app.ui.lanes.cache_words import lane_word, residency_text
from app.ui.lanes.memory_rates import SLOWEST_TOKEN_SECONDS, WINDOW_SECONDS, ColdRates, MemoryRates
from app.ui.lanes.memory_room import judge_memory, memory_room
from app.ui.lanes.memory_shown import memory_shown
from app.ui.lanes.memory_words import cost_text, memory_text, release_text, warm_text, warning_text
from app.ui.live_plan import MemoryBudget, with_memory_budget, without_change

FACTS = make_facts()  # 4 layers of 8 experts of 1 MiB
MACHINE = make_machine()
TOTALS = CacheTotals(
    tokens=0,
    hits=0,
    misses=0,
    streamed=0,
    inserts=0,
    evictions=0,
    copied_bytes=0,
    layers=0,
    seconds=0.0,
    cpu_seconds=0.0,
    gpu_seconds=0.0,
    wait_seconds=0.0,
)
EXAMPLE = ColdRates(reads_per_token=1.42, bytes_per_second=210e6, stall_seconds=0.0031, tokens=40)


def memory(**fields):
    """18 GiB of experts, 12.3 in memory, a budget of 14."""
    made = {
        "budget_bytes": 14 * GIB,
        "trusted_bytes": 14 * GIB,
        "resident_bytes": int(12.3 * GIB),
        "total_bytes": 18 * GIB,
        "evictions": 0,
        "stale": 0,
        "reads": True,
    }
    return MemoryFacts(**made | fields)


def totals(tokens, reads, stall=0.0, seconds=0.0):
    return msgspec.structs.replace(
        TOTALS, tokens=tokens, cold_reads=reads, cold_bytes=reads * MIB, stall_seconds=stall, seconds=seconds
    )


def plan_of(machine=MACHINE, **fields):
    """Everything on the CPU, in the file."""
    plan = make_plan(FACTS, machine, Wishes(residency="mapped", gpu=None))
    lanes = dict.fromkeys(FACTS.moe_layers, CPU_LANE)
    plan = msgspec.structs.replace(plan, **{"expert_lanes": lanes, **fields})
    return msgspec.structs.replace(plan, memory=predict(FACTS, machine, plan))


# ---- rates --------------------------------------------------------------------------------------


def test_neither_the_time_between_answers_nor_that_of_a_prompt_makes_a_disk_look_slow():
    rates = MemoryRates()
    rates.take(0.0, totals(10, 10), answering=True)
    rates.take(1.0, totals(20, 30), answering=True)
    before = rates.rates
    assert before.bytes_per_second == pytest.approx(20 * MIB)
    rates.take(1.5, totals(20, 30), answering=False)
    assert rates.rates == before, "what the last answer ended with stays to be told"
    rates.take(11.0, totals(20, 30), answering=True)
    assert rates.rates is None, "of the next answer nothing is known yet"
    rates.take(19.0, totals(20, 30), answering=True)  # its prompt
    rates.take(20.0, totals(22, 34), answering=True)
    assert rates.rates.bytes_per_second is None, "when its first token began nobody has seen"
    assert (rates.rates.tokens, rates.rates.reads_per_token) == (2, 2.0)
    rates.take(21.0, totals(32, 54), answering=True)
    assert rates.rates.bytes_per_second == pytest.approx(20 * MIB)


def test_reading_costs_what_two_readings_differ_by():
    rates = MemoryRates()
    assert rates.rates is None
    rates.take(10.0, totals(100, 50, 0.5, 2.0))
    assert rates.rates is None
    rates.take(10.5, totals(110, 64, 0.531, 2.124))
    found = rates.rates
    assert found.reads_per_token == pytest.approx(1.4)
    assert found.bytes_per_second == pytest.approx(28 * MIB)
    assert found.stall_seconds == pytest.approx(0.0031)


def test_an_answer_that_is_over_after_one_reading_has_its_figures_by_the_token():
    rates = MemoryRates()
    rates.take(0.0, totals(10, 10), answering=False)  # the load
    rates.take(5.0, totals(10, 10), answering=True)  # its prompt
    assert (rates.rates, rates.answered) == (None, True)
    rates.take(5.2, totals(16, 19, 0.012, 0.1), answering=False)
    found = rates.rates
    assert (found.tokens, found.reads_per_token, found.bytes_per_second) == (6, 1.5, None)
    assert found.stall_seconds == pytest.approx(0.002)
    rates.take(6.0, totals(16, 19, 0.012, 0.1), answering=False)
    assert rates.rates == found, "it stays to be told"


def test_an_answer_that_ran_between_two_readings_has_them_too_and_none_of_the_time_before():
    rates = MemoryRates()
    rates.take(0.0, totals(10, 10), answering=False)
    assert not rates.answered
    rates.take(9.0, totals(14, 30), answering=False)
    assert (rates.rates.tokens, rates.rates.reads_per_token, rates.rates.bytes_per_second) == (4, 5.0, None)
    rates.take(12.0, totals(16, 31), answering=False)
    assert (rates.rates.tokens, rates.rates.reads_per_token) == (2, 0.5), "of the newest answer alone"
    assert rates.answered


def test_an_answer_without_a_decoded_token_has_no_figures_and_was_seen():
    rates = MemoryRates()
    for answering in (False, True, False):
        rates.take(1.0, totals(10, 10), answering=answering)
    assert (rates.rates, rates.answered) == (None, True)
    rates.take(2.0, totals(0, 0), answering=False)
    assert not rates.answered, "another load"


def test_readings_without_another_token_change_nothing():
    rates = MemoryRates()
    rates.take(0.0, totals(1, 0))
    rates.take(1.0, totals(2, 4))
    before = rates.rates
    rates.take(9.0, totals(2, 4))
    assert rates.rates == before


def test_only_the_last_seconds_count_but_one_token_at_least():
    rates = MemoryRates()
    for second in range(10):
        rates.take(float(second), totals(10 * second, 100 if second > 5 else 0))
    assert rates.rates.reads_per_token == 0.0  # what was read, was read before
    slow = MemoryRates()
    slow.take(0.0, totals(1, 0))
    slow.take(2 * WINDOW_SECONDS, totals(2, 8))
    assert slow.rates.reads_per_token == 8.0


def test_another_load_another_answer_and_nothing_loaded_begin_anew():
    for later, tokens in ((1.0, 1), (SLOWEST_TOKEN_SECONDS + 1.5, 30)):
        rates = MemoryRates()
        rates.take(0.0, totals(10, 0))
        rates.take(0.5, totals(20, 20))
        rates.take(later, totals(tokens, 99))
        assert rates.rates is None
    rates.take(100.0, None)
    assert rates.rates is None


@given(st.lists(st.tuples(st.floats(0.01, 5), st.integers(0, 4), st.integers(0, 9), st.booleans()), max_size=30))
def test_rates_are_never_negative(steps):
    rates, now, tokens, reads = MemoryRates(), 0.0, 0, 0
    for seconds, more_tokens, more_reads, answering in steps:
        now, tokens, reads = now + seconds, tokens + more_tokens, reads + more_reads
        rates.take(now, totals(tokens, reads, reads * 0.001, now), answering=answering)
        if (found := rates.rates) is not None:
            assert min(found.reads_per_token, found.bytes_per_second or 0.0, found.stall_seconds) >= 0
            assert 0 < found.tokens <= tokens


# ---- words --------------------------------------------------------------------------------------


def test_the_head_says_what_is_in_memory_and_what_the_rest_costs():
    assert memory_text(memory(), EXAMPLE, answering=True) == (
        "12.3 GiB of 18.0 GiB of experts in memory or being read (budget 14.0 GiB), 1.4 reads a token, 210 MB/s, "
        "waiting 3.1 ms a token"
    )
    assert memory_text(memory(), EXAMPLE, answering=False).endswith(
        "; at the end of the last answer " + cost_text(EXAMPLE)
    )
    assert memory_text(memory(), None, answering=False).endswith("(budget 14.0 GiB)")
    full = memory(resident_bytes=18 * GIB, budget_bytes=18 * GIB, reads=False)
    assert memory_text(full, EXAMPLE, answering=True).endswith(": nothing is read")
    assert "The system decides" in memory_text(None, None, answering=True)
    assert cost_text(ColdRates(0.0, 0.0, 0.0, 40)) == "nothing read"


def test_few_tokens_are_told_with_their_count_and_too_few_in_words():
    few = ColdRates(reads_per_token=1.42, bytes_per_second=210e6, stall_seconds=0.0031, tokens=6)
    assert cost_text(few) == "1.4 reads a token, 210 MB/s, waiting 3.1 ms a token over 6 tokens"
    untimed = ColdRates(reads_per_token=1.42, bytes_per_second=None, stall_seconds=0.0031, tokens=1)
    assert cost_text(untimed) == ("1.4 reads a token, waiting 3.1 ms a token over 1 token, too short a time for a rate")
    assert cost_text(ColdRates(0.0, None, 0.0, 3)) == "nothing read over 3 tokens"
    assert memory_text(memory(), few, answering=False).endswith(f"; at the end of the last answer {cost_text(few)}")
    assert memory_text(memory(), None, answering=True).endswith(", too few tokens yet to tell what reading costs")
    assert memory_text(memory(), None, answering=False, answered=True).endswith(
        "; the last answer had too few tokens to tell what reading costs"
    )


def test_memory_that_is_shorter_than_the_budget_is_a_warning():
    assert warning_text(memory()) == warning_text(None) == ""
    assert "only 9.0 GiB are used" in warning_text(memory(trusted_bytes=9 * GIB))
    assert warning_text(memory(budget_bytes=20 * GIB, trusted_bytes=18 * GIB)) == ""  # that is all there is to keep


def test_orders_say_their_consequence():
    assert "up to 1.7 GiB" in warm_text(memory())
    assert "in place of those that are needed less" in warm_text(memory(resident_bytes=14 * GIB))
    assert release_text(memory()).startswith("Give 12.3 GiB of main memory back")


def test_where_one_expert_is_in_words():
    assert [lane_word("c", "r"), lane_word("c", "d"), lane_word("c")] == ["CPU, in memory", "CPU, from the disk", "CPU"]
    assert lane_word("g", "d") == "GPU pool"
    assert residency_text(make_experts((1, 2, 3), memory="rdr")) == "2 of 3 in main memory"


# ---- the room -----------------------------------------------------------------------------------


def test_the_room_is_what_the_rest_of_the_plan_leaves_and_no_more_than_all_experts():
    room = memory_room(FACTS, plan_of(), None, MACHINE, None)
    assert (room.total_bytes, room.most_bytes, room.cycle_bytes) == (32 * MIB, 32 * MIB, 8 * MIB)
    plan = plan_of()
    rest = sum(part.bytes for part in plan.memory if part.device == CPU_LANE and part.part != "experts")
    tight = make_machine(ram=Ram(total_bytes=16 * GIB, available_bytes=rest + 10 * MIB))
    assert memory_room(FACTS, plan, None, tight, None).most_bytes == 10 * MIB
    there = memory(budget_bytes=12 * MIB, total_bytes=32 * MIB)
    assert memory_room(FACTS, plan, None, tight, there).most_bytes == 12 * MIB  # the engine has that already


@pytest.mark.parametrize("budget", [None, 4 * MIB, 20 * MIB])
def test_the_room_does_not_depend_on_the_budget_that_the_plan_has(budget):
    assert memory_room(FACTS, plan_of(resident_bytes=budget), None, MACHINE, None).most_bytes == 32 * MIB


def test_why_there_is_nothing_to_choose():
    plan = plan_of()
    assert "Choose a model" in memory_room(None, None, None, MACHINE, None).why_not
    copied = plan_of(residency="repacked")
    assert "faster layout" in memory_room(FACTS, copied, None, MACHINE, None).why_not
    on_gpu = plan_of(expert_lanes=dict.fromkeys(FACTS.moe_layers, "Vulkan0"))
    assert "All experts are on a GPU" in memory_room(FACTS, on_gpu, None, MACHINE, None).why_not
    report = Loaded(
        seconds=1, n_ctx=1, buffers=(), expert_layers=plan.expert_lanes, differences=(), expert_device=False,
        reason="It was not built.",
    )  # fmt: skip
    assert memory_room(FACTS, plan, report, MACHINE, None).why_not.endswith("It was not built.")
    no_engine = make_machine(engine=None)
    assert "The expert device is off" in memory_room(FACTS, plan, None, no_engine, None).why_not
    assert (
        memory_shown(
            memory_room(FACTS, copied, None, MACHINE, None),
            None,
            None,
            MemoryRates(),
            live=True,
            answering=False,
            changing=False,
        )
        is None
    )


@given(st.integers(-5, 100))
def test_a_judged_budget_fits_and_is_the_wanted_one_or_says_why_not(mib):
    room = memory_room(FACTS, plan_of(), None, MACHINE, None)
    size, why = judge_memory(room, mib * MIB)
    assert 0 <= size <= room.most_bytes
    assert (size == max(mib, 0) * MIB) == (why == "")


# ---- the plan -----------------------------------------------------------------------------------


def test_a_budget_changes_the_predicted_memory_of_experts_alone():
    plan = plan_of()
    after = with_memory_budget(plan, MemoryBudget(10 * MIB), FACTS, MACHINE)
    assert after.resident_bytes == 10 * MIB
    changed = {(part.device, part.part) for part in plan.memory} ^ {
        (part.device, part.part) for part in after.memory if part.bytes != 10 * MIB or part.part != "experts"
    }
    assert changed == {(CPU_LANE, "experts")}
    assert sum(part.bytes for part in after.memory if part.part == "experts") == 10 * MIB
    back = with_memory_budget(after, MemoryBudget(None), FACTS, MACHINE)
    assert back.loads_like(plan)
    assert back.memory == plan.memory


def test_experts_that_were_in_the_disk_lane_get_the_budget_too():
    plan = plan_of(expert_lanes=dict.fromkeys(FACTS.moe_layers, DISK_LANE))
    assert not any(part.part == "experts" for part in plan.memory)
    after = with_memory_budget(plan, MemoryBudget(10 * MIB), FACTS, MACHINE)
    assert [part.bytes for part in after.memory if part.part == "experts"] == [10 * MIB]


def test_a_refused_budget_is_taken_back_where_the_plan_still_has_it():
    plan = plan_of(resident_bytes=10 * MIB)
    back = without_change(plan, MemoryBudget(10 * MIB), MemoryBudget(None), FACTS, MACHINE)
    assert back.resident_bytes is None
    assert without_change(plan, MemoryBudget(4 * MIB), MemoryBudget(None), FACTS, MACHINE) is plan
