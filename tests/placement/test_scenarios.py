"""The benchmark's scenarios: what is asked of a model, in which order, by which plans, and what comes out."""

import msgspec
import pytest
from factories import GIB, MIB, demo, make_gpu, make_machine, qwen3_30b
from hypothesis import given
from hypothesis import strategies as st

from app.hardware.facts import GpuKind
from app.placement.evidence import planned
from app.placement.lanes import gpu_lanes, with_gpu_lanes
from app.placement.memory import expert_bytes, fits, predict, predicted_use, spare_bytes
from app.placement.planner import Wishes, make_plan
from app.placement.report import BufferReport
from app.placement.scenarios import texts as scenario_texts
from app.placement.scenarios.plans import case_plan, stock_machine, stock_plan
from app.placement.scenarios.results import Sample, divided, ratios, results, speeds
from app.placement.scenarios.schedule import (
    OURS,
    QUICK,
    SCENARIOS,
    STOCK,
    Amounts,
    make_cases,
    remaining_seconds,
    schedule,
)

MACHINE = make_machine(make_gpu(8 * GIB))
BUFFERS = (
    BufferReport(device="CPU", part="kv", bytes=100 * MIB),
    BufferReport(device="CPU", part="mapped", bytes=900 * MIB),
    BufferReport(device="CUDA0", part="weights", bytes=384 * MIB),
    BufferReport(device="CUDA0", part="pool", bytes=128 * MIB),
)


def plan_of(facts=None, machine=MACHINE, **wished):
    return make_plan(facts or qwen3_30b(), machine, Wishes(**wished))


def cases(*names, amounts=None, plan=None, cores=8):
    return make_cases(names or SCENARIOS, amounts or Amounts(), plan or plan_of(), cores)


def sample(variant=OURS, number=0, *, stretches=((0.5, 0.25, 0.25),), case="chat", **fields):
    made = {
        "case": case,
        "variant": variant,
        "round": number,
        "load_seconds": 1.0,
        "prompt_tokens": 100,
        "prompt_seconds": 2.0,
        "stretches": stretches,
        "sequences": 1,
        "context_tokens": 103,
        "peak_bytes": GIB,
        "buffers": BUFFERS,
        "hits": 30,
        "misses": 90,
        "text": "so",
    }
    return Sample(**{**made, **fields})


# ---- what is measured --------------------------------------------------------------------------


def test_every_scenario_has_a_case_and_names_tell_cases_apart():
    made = cases()
    assert {case.scenario for case in made} == set(SCENARIOS)
    assert len({case.name for case in made}) == len(made)


def test_the_conversation_stays_on_its_subject_and_the_conflict_changes_it_every_turn():
    chat, conflict = cases("chat", "conflict")
    assert not any(turn.new_subject for turn in chat.turns)
    assert all(turn.new_subject for turn in conflict.turns)
    assert len(conflict.turns) == 6


def test_eight_different_prompts_are_decoded_together():
    (together,) = cases("batch8")
    (turn,) = together.turns
    assert (together.sequences, len(set(turn.prompts))) == (8, 8)


def test_a_long_context_is_filled_but_for_what_is_decoded():
    (long,) = cases("long-context")
    (turn,) = long.turns
    assert 8192 - 64 - 32 < turn.report_tokens < 8192 - 64
    (short,) = cases("long-context", plan=plan_of(n_ctx=2048))
    assert 0 < short.turns[0].report_tokens < 2048 - 64


def test_the_sweep_crosses_threads_with_micro_batches_once_each():
    made = cases("sweep", plan=plan_of(threads=6), cores=8)
    settings = [(case.threads, case.n_ubatch) for case in made]
    assert settings == [(threads, batch) for threads in (4, 6, 8) for batch in (128, 512, 1024)]
    single = cases("sweep", plan=plan_of(threads=1), cores=1)
    assert [case.threads for case in single] == [1, 1, 1]


def test_no_micro_batch_of_the_sweep_exceeds_the_context():
    made = cases("sweep", plan=plan_of(n_ctx=512))
    assert {case.n_ubatch for case in made} == {128, 512}
    assert all(case.turns[0].report_tokens + case.steps <= 512 for case in made)


def test_a_quick_run_measures_the_same_scenarios_with_less():
    full, quick = cases(), cases(amounts=QUICK)
    assert {case.scenario for case in quick} == {case.scenario for case in full}
    assert sum(case.steps for case in quick) < sum(case.steps for case in full) / 5


@given(st.integers(0, 60_000))
def test_a_report_is_as_long_as_wished_and_begins_alike(characters):
    text = scenario_texts.report(characters)
    assert len(text) == max(characters, 1)
    assert scenario_texts.report(60_000).startswith(text)


# ---- the order ---------------------------------------------------------------------------------


def test_variants_are_neighbours_and_take_turns_in_being_first():
    made = cases("chat", "conflict")
    visits = schedule(made, (OURS, STOCK), 3)
    assert [(visit.round, visit.case.name, visit.variant) for visit in visits[:8]] == [
        (0, "chat", OURS),
        (0, "chat", STOCK),
        (0, "conflict", OURS),
        (0, "conflict", STOCK),
        (1, "chat", STOCK),
        (1, "chat", OURS),
        (1, "conflict", STOCK),
        (1, "conflict", OURS),
    ]
    assert len(visits) == 2 * 2 * 3


def test_the_remaining_time_follows_from_what_was_measured():
    visits = schedule(cases("chat", "conflict"), (OURS,), 2)
    assert remaining_seconds(visits, []) is None
    after_one = remaining_seconds(visits, [10.0])
    assert after_one > 10  # the same case again, and another twice
    assert remaining_seconds(visits, [10.0, 4.0]) == pytest.approx(10 + 4)
    assert remaining_seconds(visits, [10.0, 4.0, 12.0]) == pytest.approx(4)
    assert remaining_seconds(visits, [10.0, 4.0, 12.0, 4.0]) == 0


# ---- plans -------------------------------------------------------------------------------------


def test_stock_gets_whole_layers_for_the_memory_that_a_pool_takes():
    facts = qwen3_30b()
    plan = plan_of(facts, pool_bytes=3 * GIB)
    assert plan.pool_bytes == 3 * GIB
    stock = stock_plan(plan, facts, MACHINE)
    assert (stock.pool_bytes, stock.staging_bytes, stock.pool_on) == (0, 0, None)
    assert len(gpu_lanes(stock)) > len(gpu_lanes(plan))
    assert predicted_use(stock, "CUDA0") <= predicted_use(plan, "CUDA0")
    layer = max(facts.expert_bytes.values()) * facts.expert_count
    assert predicted_use(stock, "CUDA0") > predicted_use(plan, "CUDA0") - layer
    assert (stock.n_ctx, stock.kv_type, stock.threads) == (plan.n_ctx, plan.kv_type, plan.threads)


def test_without_a_pool_stock_keeps_the_layers_of_the_plan_and_gets_those_that_the_staging_area_was_as_large_as():
    facts = qwen3_30b()
    on_cpu = plan_of(facts, gpu=None)
    assert gpu_lanes(stock_plan(on_cpu, facts, MACHINE)) == gpu_lanes(on_cpu)
    plan = plan_of(facts, pool_bytes=0)
    stock = gpu_lanes(stock_plan(plan, facts, MACHINE))
    assert gpu_lanes(plan).items() <= stock.items()
    more = expert_bytes(facts, stock.keys() - gpu_lanes(plan).keys())
    assert more <= plan.staging_bytes


def test_a_case_that_changes_nothing_leaves_the_plan():
    plan = plan_of()
    (chat,) = cases("chat", plan=plan)
    assert case_plan(plan, chat, qwen3_30b(), MACHINE) == (plan, ())


def test_a_case_that_needs_more_memory_sends_layers_off_the_gpu():
    facts = qwen3_30b()
    plan = plan_of(facts, pool_bytes=0)
    full = predicted_use(plan, "CUDA0")
    case = next(case for case in cases("sweep", plan=plan) if case.n_ubatch == 1024)
    changed, lacking = case_plan(plan, case, facts, MACHINE)
    assert lacking == ()
    assert (changed.n_ubatch, changed.n_batch) == (1024, 1024)
    assert 0 < len(gpu_lanes(changed)) < len(gpu_lanes(plan))
    assert predicted_use(changed, "CUDA0") <= full + max(facts.expert_bytes.values()) * facts.expert_count


def heavier(plan, n_ubatch=2048):
    (together,) = cases("batch8", plan=plan)
    return msgspec.structs.replace(together, n_ubatch=n_ubatch)


def test_a_case_that_needs_more_memory_takes_it_from_the_pool_that_the_planner_chose():
    facts = qwen3_30b()
    plan = planned(facts, MACHINE)
    assert plan.pool_bytes > 3 * GIB
    changed, lacking = case_plan(plan, heavier(plan), facts, MACHINE)
    assert lacking == ()
    assert gpu_lanes(changed) == gpu_lanes(plan)
    assert facts.token_cycle_bytes <= changed.pool_bytes < plan.pool_bytes
    assert fits(changed, MACHINE) == ()
    assert spare_bytes(changed, MACHINE, "CUDA0") == 0
    assert changed.steps[-1].name == "smaller pool"
    assert "8 conversations at once" in changed.steps[-1].reason


def test_a_pool_that_was_wished_stays_and_what_lacks_is_said():
    facts = qwen3_30b()
    plan = planned(facts, MACHINE)
    changed, lacking = case_plan(plan, heavier(plan), facts, MACHINE, pool_wished=True)
    assert changed.pool_bytes == plan.pool_bytes
    assert [shortfall.device for shortfall in lacking] == ["CUDA0"]


def test_layers_leave_before_the_pool_gets_smaller_than_a_token_cycle_and_then_all_of_it_goes():
    facts = qwen3_30b()
    layers = msgspec.structs.replace(planned(facts, MACHINE, Wishes(whole_layers=12)), goal="speed")
    cycle = facts.experts_used * sum(facts.expert_bytes[layer] for layer in facts.moe_layers[12:])
    assert layers.pool_bytes > cycle
    tight = msgspec.structs.replace(layers, pool_bytes=cycle)
    tight = msgspec.structs.replace(tight, memory=predict(facts, MACHINE, tight))
    machine = make_machine(make_gpu(tight.bytes_on("CUDA0"), total=9 * GIB))
    changed, lacking = case_plan(tight, heavier(tight), facts, machine)
    assert lacking == ()
    assert 0 < len(gpu_lanes(changed)) < 12
    # Without a layer to give up it is the pool that goes.
    alone = with_gpu_lanes(tight, facts, MACHINE, {})
    machine = make_machine(make_gpu(alone.bytes_on("CUDA0"), total=9 * GIB))
    changed, lacking = case_plan(alone, heavier(alone), facts, machine)
    assert lacking == ()
    assert changed.pool_bytes < cycle
    assert changed.steps[-1].name in ("smaller pool", "no pool")


def test_a_case_that_cannot_fit_says_what_lacks():
    facts = demo()
    machine = make_machine(ram=2 * GIB)
    plan = plan_of(facts, machine, n_ctx=8192)
    (together,) = cases("batch8", plan=plan)
    tight = make_machine(ram=plan.bytes_on("CPU"))
    changed, lacking = case_plan(plan, together, facts, tight)
    assert lacking == ()
    assert changed.residency == "mapped"  # there is no room left for copies
    huge = msgspec.structs.replace(together, n_ubatch=8192)
    _, lacking = case_plan(plan, huge, facts, tight)
    assert [shortfall.device for shortfall in lacking] == ["CPU"]


def test_a_software_gpu_is_filled_for_stock_as_any_other():
    facts = demo()
    machine = make_machine(make_gpu(4 * GIB, device="Vulkan0", kind=GpuKind.SOFTWARE))
    plan = plan_of(facts, machine, gpu="Vulkan0", pool_bytes=128 * MIB)
    stock = stock_plan(plan, facts, machine)
    assert predicted_use(stock, "Vulkan0") <= predicted_use(plan, "Vulkan0")
    assert not stock_machine(machine).engine.expert_device


# ---- what comes out ----------------------------------------------------------------------------


@given(st.lists(st.lists(st.floats(0.001, 1), max_size=40), max_size=6))
def test_every_step_is_either_transient_or_steady(stretches):
    transient, steady = divided(stretches)
    assert sorted(transient + steady) == sorted(step for steps in stretches for step in steps)
    assert len(transient) == sum(-(-len(steps) // 3) for steps in stretches)


def test_a_change_of_subject_begins_a_transient_of_its_own():
    transient, steady = divided([(9, 1, 1), (8, 1, 1)])
    assert (transient, steady) == ([9, 8], [1, 1, 1, 1])


def test_speeds_are_tokens_of_all_sequences_by_the_time_they_took():
    one = speeds(sample())
    assert (one.prompt, one.transient, one.steady, one.decode) == (50, 2, 4, 3)
    eight = speeds(sample(sequences=8))
    assert (eight.prompt, eight.transient, eight.steady) == (50, 16, 32)


def test_what_was_not_computed_has_no_speed():
    nothing = speeds(sample(stretches=((0.5,),), prompt_tokens=0, prompt_seconds=0.0))
    assert (nothing.prompt, nothing.transient, nothing.steady) == (None, 2, None)


def test_a_result_is_the_median_with_least_and_most_and_by_memory():
    made = cases("chat")
    taken = [sample(number=n, stretches=((1.0, s, s),), peak_bytes=(n + 1) * GIB) for n, s in enumerate((1, 0.5, 0.1))]
    (result,) = results(made, (OURS, STOCK), taken)
    steady = result.steady
    assert (steady.median, steady.least, steady.most, steady.samples) == (2, 1, 10, 3)
    assert result.peak_ram_bytes == 3 * GIB
    assert result.vram_bytes == 512 * MIB
    assert result.steady_per_gib_ram == pytest.approx(2 / 3)
    assert result.steady_per_gib_vram == pytest.approx(4)
    assert result.hit_rate.median == 0.25


def test_without_graphics_memory_and_pool_there_is_no_rate_of_either():
    (result,) = results(cases("chat"), (OURS,), [sample(buffers=BUFFERS[:2])])
    assert (result.vram_bytes, result.steady_per_gib_vram, result.hit_rate) == (0, None, None)


def test_ratios_are_formed_between_neighbours_of_a_round():
    """A machine that is slower from round to round does not blur them."""
    taken = []
    for number, slow in enumerate((1.0, 4.0, 20.0)):
        taken.append(sample(OURS, number, stretches=((slow, slow, slow),), prompt_seconds=slow))
        taken.append(sample(STOCK, number, stretches=((2 * slow, slow, slow),), prompt_seconds=2 * slow))
    (ratio,) = ratios(cases("chat"), taken)
    for figure, expected in ((ratio.prompt, 2), (ratio.transient, 2), (ratio.steady, 1)):
        assert (figure.median, figure.least, figure.most, figure.samples) == (expected, expected, expected, 3)
    assert ratio.same_text


def test_a_round_that_only_one_variant_has_counts_for_no_ratio():
    taken = [sample(OURS, 0), sample(STOCK, 0, text="else"), sample(OURS, 1)]
    (ratio,) = ratios(cases("chat"), taken)
    assert ratio.steady.samples == 1
    assert not ratio.same_text
    assert ratios(cases("chat"), [sample(OURS, 0), sample(STOCK, 1)]) == ()
