"""From the engine's reports and the cache's totals to the figures of a row: no byte twice, none made up."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ui_factories import GIB, MIB, make_facts, make_machine, make_pool

from app.engine.protocol import CacheFacts, Loaded
from app.hardware.samples import GpuSample
from app.placement.cache.facts import CacheTotals, MemoryFacts
from app.placement.memory import predicted_use
from app.placement.plan import CachePolicy
from app.placement.planner import make_plan
from app.placement.report import BufferReport
from app.ui.graphs.cache_rates import (
    COLD,
    COPIED,
    FRESH_SECONDS,
    HITS,
    LOOK_SECONDS,
    MEMORY_SECONDS,
    RESIDENT,
    RESIDENT_BUDGET,
    SPLIT_ALL,
    SPLIT_CPU,
    SPLIT_GPU,
    SPLIT_WAIT,
    STALL,
    CacheRates,
)
from app.ui.graphs.gpu_parts import BANDS, figure_key, gpu_figures, reported_parts

DEVICE = "Vulkan0"


def loaded(*buffers, lanes=None):
    reports = tuple(BufferReport(device=device, part=part, bytes=size) for device, part, size in buffers)
    return Loaded(seconds=1, n_ctx=4096, buffers=reports, expert_layers=lanes or {}, differences=(), expert_device=True)


def card(**fields):
    return GpuSample(**{"device": DEVICE, "source": "a test", "total_bytes": 8 * GIB} | fields)


def stacked(figures):
    return sum(figures.get(figure_key(DEVICE, part)) or 0 for part in BANDS if part != "spill")


# ---- parts of a GPU ---------------------------------------------------------------------------------


def test_buffers_of_the_device_are_counted_and_those_of_others_and_mappings_are_not():
    report = loaded(
        (DEVICE, "weights", 900), (DEVICE, "kv", 50), (DEVICE, "compute", 30), (DEVICE, "output", 5),
        (DEVICE, "mapped", 7000), ("CPU", "weights", 4000),
    )  # fmt: skip
    assert reported_parts(DEVICE, report, None, None) == {"weights": 900, "kv": 50, "compute": 35}


def test_experts_are_told_from_other_weights_by_the_models_own_tables():
    facts = make_facts(layers=4, experts=8, expert_mib=1.0)
    report = loaded((DEVICE, "weights", 100 * MIB), lanes={0: DEVICE, 1: DEVICE, 2: "CPU", 3: "CPU"})
    assert reported_parts(DEVICE, report, facts, None) == {"weights": 84 * MIB, "experts": 16 * MIB}


def test_never_more_experts_than_the_engine_reports_weights():
    facts = make_facts(layers=4, experts=8, expert_mib=1.0)
    report = loaded((DEVICE, "weights", 9 * MIB), lanes=dict.fromkeys(range(4), DEVICE))
    assert reported_parts(DEVICE, report, facts, None) == {"experts": 9 * MIB}


def test_the_pool_is_that_of_now_and_not_that_of_the_load():
    report = loaded((DEVICE, "kv", 50), (DEVICE, "pool", 1000), (DEVICE, "staging", 70))
    pool = make_pool(allocated_bytes=2000, staging_bytes=20, working_bytes=5)
    assert reported_parts(DEVICE, report, None, pool) == {"kv": 50, "pool": 2000, "staging": 25}
    released = make_pool(allocated_bytes=0, staging_bytes=0)
    assert reported_parts(DEVICE, report, None, released) == {"kv": 50}
    elsewhere = make_pool(device="CUDA0")
    assert reported_parts(DEVICE, report, None, elsewhere)["pool"] == 1000


def test_nothing_loaded_has_no_parts():
    assert reported_parts(DEVICE, None, None, None) == {}


@given(st.integers(0, 9 * GIB), st.one_of(st.none(), st.integers(0, 9 * GIB)), st.integers(0, 9 * GIB))
def test_the_bands_together_are_what_is_in_use_or_what_the_engine_reports(used, process, reported):
    figures = gpu_figures(DEVICE, {"weights": reported}, card(used_bytes=used, process_bytes=process), None)
    assert stacked(figures) == pytest.approx(max(used, reported, process or 0) / GIB)
    assert all(value is None or value >= 0 for value in figures.values())


def test_what_the_driver_takes_is_told_from_other_programs_only_where_the_engines_share_is_known():
    known = gpu_figures(DEVICE, {"kv": 1 * GIB}, card(used_bytes=4 * GIB, process_bytes=2 * GIB), None)
    assert known[figure_key(DEVICE, "driver")] == 1.0
    assert known[figure_key(DEVICE, "others")] == 2.0
    assert figure_key(DEVICE, "rest") not in known
    unknown = gpu_figures(DEVICE, {"kv": 1 * GIB}, card(used_bytes=4 * GIB), None)
    assert unknown[figure_key(DEVICE, "rest")] == 3.0
    assert figure_key(DEVICE, "others") not in unknown


def test_a_card_that_nobody_measures_shows_the_engines_own_report_and_nothing_else():
    figures = gpu_figures(DEVICE, {"kv": 1 * GIB}, card(missing="no driver"), None)
    assert {key: value for key, value in figures.items() if value is not None} == {figure_key(DEVICE, "kv"): 1.0}
    assert gpu_figures(DEVICE, {}, None, None) == {}


def test_the_spill_is_a_band_of_its_own():
    figures = gpu_figures(DEVICE, {}, card(used_bytes=1 * GIB, process_bytes=0, shared_bytes=2 * GIB), None)
    assert figures[figure_key(DEVICE, "spill")] == 2.0
    assert stacked(figures) == 1.0


def test_the_budget_is_the_loaded_plans_prediction_for_this_device_alone():
    facts, machine = make_facts(), make_machine()
    plan = make_plan(facts, machine)
    assert gpu_figures(DEVICE, {}, None, plan) == {figure_key(DEVICE, "budget"): predicted_use(plan, DEVICE) / GIB}
    assert gpu_figures("CUDA7", {}, None, plan) == {}


# ---- the expert cache -------------------------------------------------------------------------------


def totals(tokens=0, hits=0, misses=0, copied=0, seconds=(0.0, 0.0, 0.0, 0.0)):
    everything, cpu, gpu, wait = seconds
    return CacheTotals(
        tokens=tokens,
        hits=hits,
        misses=misses,
        streamed=0,
        inserts=0,
        evictions=0,
        copied_bytes=copied,
        layers=tokens * 4,
        seconds=everything,
        cpu_seconds=cpu,
        gpu_seconds=gpu,
        wait_seconds=wait,
    )


def facts_of(decode, prompt=None, pool=True):
    return CacheFacts(
        pool=make_pool() if pool else None,
        policy=CachePolicy(),
        decode=decode,
        prompt=prompt or totals(),
        batches=(),
        next_batch=0,
        layers={},
    )


def test_figures_are_of_what_happened_between_two_readings_and_of_nothing_before():
    rates = CacheRates()
    rates.take(10.0, facts_of(totals(100, 500, 500, 64 * MIB, (9.0, 8.0, 3.0, 1.0))))
    assert rates.figures(10.0) == {}
    after = totals(104, 530, 510, 72 * MIB, (9.16, 8.1, 3.04, 1.02))
    rates.take(10.5, facts_of(after, prompt=totals(copied=2 * MIB)))
    found = rates.figures(10.5)
    assert found[HITS] == pytest.approx(75)
    assert found[COPIED] == pytest.approx(20)
    assert found[SPLIT_ALL] == pytest.approx(40)
    assert found[SPLIT_CPU] == pytest.approx(25)
    assert found[SPLIT_GPU] == pytest.approx(10)
    assert found[SPLIT_WAIT] == pytest.approx(5)


def test_old_readings_say_nothing_of_now():
    rates = CacheRates()
    rates.take(0.0, facts_of(totals(1, 1, 1)))
    rates.take(0.2, facts_of(totals(2, 2, 2)))
    assert rates.figures(0.2 + FRESH_SECONDS)
    assert rates.figures(0.3 + FRESH_SECONDS) == {}


def test_the_same_reading_again_is_no_reading():
    rates = CacheRates()
    rates.take(0.0, facts_of(totals(1, 1, 1)))
    second = facts_of(totals(2, 3, 1))
    rates.take(0.2, second)
    before = rates.figures(0.2)
    rates.take(0.3, second)
    assert rates.figures(0.3) == before


def test_without_a_token_there_is_no_time_per_token_and_no_hit_rate():
    rates = CacheRates()
    still = totals(5, 5, 5, 0, (1.0, 1.0, 0.0, 0.0))
    rates.take(0.0, facts_of(still))
    rates.take(0.2, facts_of(msgspec.structs.replace(still, copied_bytes=MIB)))
    assert rates.figures(0.2) == {COPIED: pytest.approx(5)}


def test_without_a_pool_nothing_is_hit_or_copied_and_the_time_is_told_all_the_same():
    rates = CacheRates()
    rates.take(0.0, facts_of(totals(1, 0, 4, 0, (0.1, 0.1, 0.0, 0.0)), pool=False))
    rates.take(0.2, facts_of(totals(2, 0, 8, 0, (0.2, 0.2, 0.0, 0.0)), pool=False))
    assert set(rates.figures(0.2)) == {SPLIT_ALL, SPLIT_CPU, SPLIT_GPU, SPLIT_WAIT}


def test_counts_that_began_anew_are_not_compared():
    rates = CacheRates()
    rates.take(0.0, facts_of(totals(100, 100, 100)))
    rates.take(0.2, facts_of(totals(3, 3, 3)))
    assert HITS not in rates.figures(0.2)
    rates.take(0.4, None)
    assert rates.figures(0.4) == {}
    rates.take(0.6, facts_of(totals(4, 4, 4)))
    assert rates.figures(0.6) == {}


def test_the_time_of_a_slow_token_is_all_of_it_and_not_that_since_the_last_reading():
    rates = CacheRates()
    rates.take(0.0, facts_of(totals(5, seconds=(1.0, 1.0, 0.0, 0.0))))
    for reading, spent in enumerate((0.2, 0.4, 0.6), 1):
        middle = msgspec.structs.replace(totals(5, seconds=(1 + spent, 1 + spent, 0.0, 0.0)), hits=reading)
        rates.take(reading / 4, facts_of(middle))
        assert SPLIT_CPU not in rates.figures(reading / 4)
    rates.take(1.0, facts_of(totals(6, hits=4, seconds=(1.8, 1.8, 0.0, 0.0))))
    assert rates.figures(1.0)[SPLIT_CPU] == pytest.approx(800)
    assert rates.figures(2.9)[SPLIT_CPU] == pytest.approx(800), "the next one is still being computed"
    assert SPLIT_CPU not in rates.figures(2.9, answering=False), "no other one is being computed"
    assert SPLIT_CPU not in rates.figures(3.1)


# ---- main memory ------------------------------------------------------------------------------------


def mapped(decode, resident=600, budget=700):
    memory = MemoryFacts(
        budget_bytes=budget,
        trusted_bytes=budget,
        resident_bytes=resident,
        total_bytes=1000,
        evictions=0,
        stale=0,
        reads=True,
    )
    return msgspec.structs.replace(facts_of(decode, pool=False), memory=memory)


def cold(tokens, reads, stall, seconds):
    return msgspec.structs.replace(
        totals(tokens, misses=tokens, seconds=(seconds, 0.0, 0.0, 0.0)), cold_reads=reads, stall_seconds=stall
    )


def test_reads_a_token_and_the_share_of_waiting_are_of_what_happened_between_two_readings():
    rates = CacheRates()
    rates.take(0.0, mapped(cold(10, 100, 1.0, 2.0)))
    rates.take(0.2, mapped(cold(14, 106, 1.1, 2.4), resident=650))
    found = rates.figures(0.2)
    assert found[COLD] == pytest.approx(1.5)
    assert found[STALL] == pytest.approx(25)
    assert (found[RESIDENT], found[RESIDENT_BUDGET]) == (65, 70)


def test_what_is_in_memory_stands_until_it_is_time_to_have_asked_again_and_rates_do_not():
    rates = CacheRates()
    assert not rates.should_look(100.0)
    rates.take(0.0, mapped(cold(10, 100, 1.0, 2.0), resident=400))
    assert not rates.should_look(LOOK_SECONDS - 0.1)
    assert rates.should_look(LOOK_SECONDS)
    assert rates.figures(MEMORY_SECONDS) == {RESIDENT: 40, RESIDENT_BUDGET: 70}
    assert rates.figures(MEMORY_SECONDS + 0.1) == {}
    rates.take(100.0, mapped(cold(10, 100, 1.0, 2.0), resident=500))
    assert rates.figures(100.0)[RESIDENT] == 50
    rates.take(100.0, None)
    assert rates.figures(100.0) == {}


def test_a_budget_beyond_all_experts_is_all_of_them():
    rates = CacheRates()
    rates.take(0.0, mapped(cold(1, 0, 0.0, 1.0), budget=5000))
    assert rates.figures(0.0)[RESIDENT_BUDGET] == 100


def test_where_the_system_decides_nothing_is_told_of_memory():
    rates = CacheRates()
    rates.take(0.0, facts_of(totals(1, 0, 4, 0, (0.1, 0.1, 0.0, 0.0))))
    rates.take(0.2, facts_of(totals(2, 0, 8, 0, (0.2, 0.2, 0.0, 0.0))))
    assert not {COLD, STALL, RESIDENT} & rates.figures(0.2).keys()
