"""The tuner's search on machines that are played: what it keeps, and what it does with noise, failures and time."""

import statistics

import msgspec
import pytest
from factories import GIB, MIB, demo, make_gpu, make_machine, qwen3_30b
from hypothesis import given, settings
from hypothesis import strategies as st
from tuned_machine import LOAD_SECONDS, PROMPT, PlayedMachine, tune

from app.hardware.facts import GpuKind
from app.placement.memory import expert_bytes, fits
from app.placement.plan import CachePolicy
from app.placement.planner import make_plan
from app.placement.tuner.candidates import Candidates
from app.placement.tuner.duel import ROUNDS, beyond_noise, verdict
from app.placement.tuner.search import COMPARISON, SEARCH, Tuner
from app.placement.tuner.types import Choice, Outcome
from app.placement.wishes import Wishes

MACHINE = make_machine(cores=8, performance=8)
FACTS = demo()


def candidates(machine=MACHINE, facts=FACTS, **wishes):
    wished = Wishes(**wishes)
    return Candidates(facts, machine, make_plan(facts, machine, wished), wished)


def by_threads(best, width=8.0, top=50.0):
    """Fastest with `best` threads, slower to both sides."""
    return lambda plan: top - abs(plan.threads - best) * top / width / 2


# ---- what is kept ----------------------------------------------------------------------------


def test_a_plan_that_is_faster_is_found_and_kept():
    result = tune(PlayedMachine(by_threads(4), noise=0.01), candidates())
    assert result.kept
    assert result.best.threads == result.best.threads_batch == 4
    assert result.words == "4 threads"
    assert result.after.decode.median > result.before.decode.median * 1.2
    assert result.before.decode.samples == result.after.decode.samples == ROUNDS
    assert result.tried[0].words == ""


def test_changes_that_are_faster_alone_are_put_together():
    def speed(plan):
        return 20 + 5 * (plan.threads == 4) + 4 * (plan.residency == "mapped")

    result = tune(PlayedMachine(speed, noise=0.005), candidates())
    assert result.kept
    assert (result.best.threads, result.best.residency) == (4, "mapped")


def test_where_nothing_is_faster_the_first_plan_stays():
    result = tune(PlayedMachine(by_threads(8)), candidates())
    assert (result.kept, result.best.threads, result.after) == (False, 8, None)
    assert result.reason == "No other plan was faster by 2 % or more in the search."


def test_a_gain_below_two_percent_is_not_worth_a_comparison():
    machine = PlayedMachine(lambda plan: 30.3 if plan.threads == 4 else 30.0)
    result = tune(machine, candidates())
    assert not result.kept
    assert not [trial for trial in machine.trials if trial.stage == COMPARISON]


def test_equal_plans_are_hardly_ever_kept_whatever_the_noise():
    kept = [tune(PlayedMachine(lambda plan: 30.0, noise=0.08, seed=seed), candidates()).kept for seed in range(200)]
    assert sum(kept) <= 4


def test_a_machine_that_gets_slower_all_the_time_misleads_nobody():
    kept = [
        tune(PlayedMachine(lambda plan: 30.0, noise=0.01, seed=seed, drift=0.01), candidates()).kept
        for seed in range(50)
    ]
    assert not any(kept)
    faster = tune(PlayedMachine(by_threads(4), noise=0.01, drift=0.004), candidates())
    assert faster.kept


def test_faster_decoding_is_not_bought_with_slow_prompts():
    def prompt(plan):
        return PROMPT * (0.7 if plan.residency == "mapped" else 1.0)

    result = tune(PlayedMachine(lambda plan: 40 if plan.residency == "mapped" else 30, prompt=prompt), candidates())
    assert not result.kept
    assert result.best.residency == "repacked"


def test_micro_batches_are_chosen_by_prompts_where_decoding_is_as_fast():
    result = tune(PlayedMachine(lambda plan: 30.0, prompt=lambda plan: plan.n_ubatch, noise=0.01), candidates())
    assert result.kept
    assert result.best.n_ubatch == 2048
    assert result.best.n_batch == 2048
    assert result.reason.startswith("Prompts are read faster")


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from([4, 7, 8, 16]), st.floats(5, 100)), st.floats(0, 0.1), st.integers(0, 999))
def test_what_is_kept_was_faster_in_all_rounds_of_the_comparison(speeds, noise, seed):
    machine = PlayedMachine(lambda plan: speeds.get(plan.threads, 30.0), noise=noise, seed=seed)
    result = tune(machine, candidates())
    if result.kept:
        apart = [getattr(result.after, name).least > getattr(result.before, name).most for name in ("decode", "prompt")]
        assert any(apart)
        assert result.best != candidates().first.plan
    else:
        assert result.best == candidates().first.plan
    assert fits(result.best, MACHINE) == ()


# ---- the comparison --------------------------------------------------------------------------


def outcomes(*decode, prompt=PROMPT):
    return [Outcome(decode=value, prompt=prompt) for value in decode]


def test_a_difference_counts_where_ranges_are_apart_and_medians_beyond_their_spread_and_two_percent():
    before = [10.0, 10.2, 9.8, 10.1, 9.9]
    assert beyond_noise(before, [11.0, 11.2, 10.8, 11.1, 10.9])
    assert not beyond_noise(before, [11.0, 11.2, 10.8, 11.1])  # a round is missing
    assert not beyond_noise(before, [11.0, 11.2, 10.15, 11.1, 10.9])  # ranges overlap
    assert not beyond_noise(before, [10.3, 13.0, 10.3, 10.25, 10.3])  # within the spread
    assert not beyond_noise([10.0] * 5, [10.1] * 5)  # one percent


def test_a_failure_in_the_comparison_keeps_nothing_and_says_whose():
    failed = [Outcome(failure="Out of memory.")]
    assert verdict(outcomes(10), failed) == (
        False, "The plan that was best in the search failed in the comparison: Out of memory."
    )  # fmt: skip
    assert verdict(failed, outcomes(10))[1].startswith("The first plan failed in the comparison")


def test_a_verdict_has_both_figures():
    kept, words = verdict(outcomes(*[10] * 5), outcomes(*[12] * 5, prompt=95))
    assert kept
    assert "decoding 10.0 → 12.0 tokens/s (+20.0 %), prompts 100.0 → 95.0 tokens/s (−5.0 %); 5 rounds." in words
    kept, words = verdict(outcomes(*[10] * 5), outcomes(*[12] * 5, prompt=85))
    assert not kept
    assert "reads prompts too slowly" in words


def test_both_plans_take_turns_and_who_begins_changes():
    machine = PlayedMachine(by_threads(4))
    tune(machine, candidates())
    order = [trial.candidate.words for trial in machine.trials if trial.stage == COMPARISON]
    assert order == ["", "4 threads", "4 threads", ""] * 2 + ["", "4 threads"]


# ---- failures, time, cancelling --------------------------------------------------------------


def test_running_out_of_memory_is_a_result_and_the_search_goes_on():
    def speed(plan):
        return "The engine was killed." if plan.threads == 16 else by_threads(4)(plan)

    machine = PlayedMachine(speed)
    result = tune(machine, candidates())
    assert result.kept
    failed = [tried for tried in result.tried if tried.failure]
    assert [(tried.words, tried.decode) for tried in failed] == [("16 threads", None)]
    assert sum(trial.candidate.plan.threads == 16 for trial in machine.trials) == 1


def test_where_the_first_plan_fails_one_that_works_is_kept():
    result = tune(PlayedMachine(lambda plan: "Too large." if plan.threads == 8 else float(plan.threads)), candidates())
    assert result.kept
    assert (result.best.threads, result.before.failure) == (16, "Too large.")
    nothing = tune(PlayedMachine(lambda plan: "Too large."), candidates())
    assert (nothing.kept, nothing.best.threads) == (False, 8)
    assert "all others" in nothing.reason


@pytest.mark.parametrize("limit", [1.0, 20.0, 60.0, 120.0, 600.0])
def test_the_time_is_kept(limit):
    machine = PlayedMachine(by_threads(4), noise=0.02)
    result = tune(machine, candidates(), limit)
    longest = max(
        LOAD_SECONDS + its.budget.decode_tokens / 25 + its.budget.prompt_tokens / PROMPT for its in machine.trials
    )
    assert result.seconds <= max(limit, longest) + longest


def test_one_slow_plan_does_not_end_the_search_for_those_after_it():
    def speed(plan):
        return {4: 1.5, 7: 40.0}.get(plan.threads, 25.0)

    result = tune(PlayedMachine(speed), candidates(), 180.0)
    assert [tried.words for tried in result.tried][:3] == ["", "4 threads", "7 threads"]
    assert result.kept
    assert result.words == "7 threads"


def test_with_too_little_time_nothing_is_kept_and_it_is_said():
    result = tune(PlayedMachine(by_threads(4)), candidates(), 5.0)
    assert (result.kept, result.best.threads) == (False, 8)
    assert "trying one and comparing it would take about 30 s, of 5 s in all" in result.reason


def test_more_time_measures_more():
    counts = []
    for limit in (60.0, 200.0, 3600.0):
        machine = PlayedMachine(by_threads(4))
        tune(machine, candidates(), limit)
        counts.append(sum(trial.budget.tokens for trial in machine.trials))
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 60))
def test_cancelling_at_any_moment_leaves_the_best_so_far(trials):
    machine = PlayedMachine(by_threads(4), noise=0.01)
    result = tune(machine, candidates(), trials=trials)
    whole = len(machine.trials) < trials or not result.cancelled
    assert result.kept == whole
    if not whole and any(trial.candidate.plan.threads == 4 for trial in machine.trials[1:]):
        assert result.best.threads == 4
        assert "cancelled" in result.reason or "not reached" in result.reason


def test_cancelling_tells_no_outcome_and_is_the_end():
    tuner = Tuner(candidates(), 600.0, PlayedMachine(by_threads(4)).clock)
    assert tuner.next_trial() == tuner.next_trial()
    tuner.cancel()
    assert tuner.next_trial() is None
    assert tuner.result.tried == ()
    tuner.cancel()


def test_the_time_that_is_left_is_told_and_comes_down_to_one_trial():
    machine = PlayedMachine(by_threads(4))
    tuner = Tuner(candidates(), 600.0, machine.clock)
    left = []
    while (trial := tuner.next_trial()) is not None:
        left.append((trial.stage, trial.remaining_seconds))
        tuner.report(machine.measure(trial))
    assert left[0] == (SEARCH, None)
    compared = [seconds for stage, seconds in left if stage == COMPARISON]
    assert all(later < before for before, later in zip(compared, compared[2:], strict=False))
    assert compared[-1] < compared[0] / 5


# ---- candidates ------------------------------------------------------------------------------


def words_of(made):
    return {candidate.words for candidate in made}


def test_without_a_gpu_threads_and_residency_are_tried():
    assert words_of(candidates().single_changes()) == {"4 threads", "7 threads", "16 threads", "experts mapped"}


def test_what_was_wished_is_not_changed():
    assert words_of(candidates(threads=3, residency="mapped").single_changes()) == set()


def test_a_goal_is_kept_while_tuning():
    quiet = candidates(make_machine(cores=8, performance=8, gpus=(make_gpu(8 * GIB),)), qwen3_30b(), goal="quiet")
    assert quiet.first.plan.threads == 4
    changes = quiet.single_changes()
    assert changes
    assert all(its.plan.threads <= 4 and not its.choice.lock_bytes for its in changes)
    long = candidates(make_machine(gpus=(make_gpu(8 * GIB),)), qwen3_30b(), goal="context")
    assert long.single_changes()
    assert all(its.plan.n_ctx == long.first.plan.n_ctx for its in long.single_changes())


def test_performance_cores_are_tried_only_where_cores_differ_and_are_known():
    machine = make_machine(cores=8, performance=4)
    cpu = msgspec.structs.replace(machine.cpu, performance_cpus=(0, 1, 2, 3))
    hybrid = msgspec.structs.replace(machine, cpu=cpu)
    made = [its for its in candidates(hybrid).single_changes() if its.plan.cpu_cores]
    assert [(its.plan.cpu_cores, its.plan.threads) for its in made] == [((0, 1, 2, 3), 4)]
    assert not [its for its in candidates(machine).single_changes() if its.plan.cpu_cores]


def test_no_more_threads_than_this_program_may_use():
    machine = make_machine(cores=8, performance=8)
    cpu = msgspec.structs.replace(machine.cpu, allowed_threads=4)
    limited = msgspec.structs.replace(machine, cpu=cpu)
    assert max(its.plan.threads for its in candidates(limited).single_changes()) <= 4


def test_with_a_gpu_pool_cache_type_and_context_are_tried_and_all_fit():
    machine = make_machine(make_gpu(8 * GIB))
    facts = qwen3_30b()
    made = candidates(machine, facts).single_changes()
    changed = {name for its in made for name in its.choice.changes}
    assert {"threads", "pool_bytes", "kv_type", "n_ctx", "residency"} <= changed
    assert all(fits(its.plan, machine) == () for its in made)
    pools = [its.plan.pool_bytes for its in made if its.plan.pool_bytes]
    assert pools
    smaller = next(its for its in made if its.choice.kv_type)
    assert len(smaller.plan.gpus) == 1
    kept = candidates(machine, facts, n_ctx=8192, kv_type="f16", pool_bytes=GIB).single_changes()
    changed = {name for its in kept for name in its.choice.changes}
    assert changed.isdisjoint({"n_ctx", "kv_type", "pool_bytes"})
    assert {"policy", "stream"} <= changed


def locks(machine, facts=None, **wishes):
    made = candidates(machine, facts or qwen3_30b(), **wishes).single_changes()
    return [its for its in made if its.choice.lock_bytes]


def test_page_locked_memory_is_tried_for_copies_to_a_card_and_bounded():
    machine = make_machine(make_gpu(8 * GIB), ram=60 * GIB, ram_total=64 * GIB)
    (found,) = locks(machine)
    on_cpu = expert_bytes(qwen3_30b(), [layer for layer, lane in found.plan.expert_lanes.items() if lane == "CPU"])
    assert found.plan.policy.lock_bytes == min(on_cpu, 16 * GIB) > GIB
    assert found.words.endswith(" page-locked for copies")
    assert msgspec.structs.replace(found.plan.policy, lock_bytes=0) == found.plan.policy.__class__()
    (bounded,) = locks(make_machine(make_gpu(8 * GIB), ram=30 * GIB, ram_total=32 * GIB))
    assert bounded.plan.policy.lock_bytes == 8 * GIB


def test_locking_that_the_planner_chose_is_compared_with_none():
    machine = make_machine(make_gpu(8 * GIB), ram=60 * GIB, ram_total=64 * GIB)
    plain = make_plan(qwen3_30b(), machine)
    base = msgspec.structs.replace(plain, policy=CachePolicy(lock_bytes=2 * GIB))
    made = Candidates(qwen3_30b(), machine, base, Wishes()).single_changes()
    tried = {its.plan.policy.lock_bytes: its.words for its in made if its.choice.lock_bytes is not None}
    assert tried[0] == "nothing page-locked"
    assert max(tried) > 2 * GIB
    wished = Candidates(qwen3_30b(), machine, base, Wishes(lock_bytes=2 * GIB)).single_changes()
    assert not [its for its in wished if its.choice.lock_bytes is not None]
    assert {its.plan.policy.lock_bytes for its in wished} == {2 * GIB}


def test_page_locked_memory_is_never_tried_where_it_does_harm_or_nothing():
    card = make_gpu(8 * GIB)
    little = make_machine(card, ram=8 * GIB, ram_total=16 * GIB)
    assert "disk" in candidates(little, qwen3_30b()).first.plan.expert_lanes.values()
    assert locks(little) == []
    assert locks(make_machine(ram=60 * GIB)) == []
    assert locks(make_machine(make_gpu(8 * GIB, device="Vulkan0", kind=GpuKind.INTEGRATED), ram=60 * GIB)) == []
    roomy = make_machine(card, ram=60 * GIB)
    assert locks(roomy, policy=CachePolicy(stream="off")) == []  # a policy that was wished is not changed
    changed = {name for its in candidates(roomy, qwen3_30b(), policy=CachePolicy()).single_changes()
               for name in its.choice.changes}  # fmt: skip
    assert changed.isdisjoint({"policy", "stream", "lock_bytes"})


def test_a_gpu_that_computes_on_the_processor_gets_no_experts():
    machine = make_machine(make_gpu(8 * GIB, device="Vulkan0", kind=GpuKind.SOFTWARE))
    made = candidates(machine, gpu="Vulkan0").single_changes()
    assert not [its for its in made if its.plan.pool_bytes]


def test_choices_are_put_together_the_first_before_the_later():
    both = candidates().together([Choice(threads=4), Choice(threads=16, residency="mapped")])
    assert (both.plan.threads, both.plan.residency) == (4, "mapped")
    assert both.words == "4 threads, experts mapped"


def test_micro_batches_are_near_and_fit_the_context():
    sizes = {its.plan.n_ubatch for its in candidates().micro_batches(Choice())}
    assert sizes == {128, 256, 1024, 2048}
    assert {its.plan.n_ubatch for its in candidates(n_ctx=1024).micro_batches(Choice())} == {128, 256, 1024}


def test_a_small_machine_is_offered_nothing_that_does_not_fit():
    machine = make_machine(make_gpu(600 * MIB), ram=2 * GIB, ram_total=4 * GIB)
    made = candidates(machine).single_changes()
    assert all(fits(its.plan, machine) == () for its in made)
    assert statistics.fmean(len(its.words) for its in made) > 0


def test_a_plan_with_copies_and_a_budget_that_does_nothing_is_tuned_like_one_without():
    facts, machine = qwen3_30b(), make_machine(make_gpu(7 * GIB), ram=40 * GIB)
    base = make_plan(facts, machine, Wishes(pool_bytes=2 * GIB))
    assert base.residency == "repacked"
    idle = msgspec.structs.replace(base, resident_bytes=5 * GIB)
    wanted, found = (
        [one.choice for one in Candidates(facts, machine, plan, Wishes()).single_changes()] for plan in (base, idle)
    )
    assert wanted
    assert found == wanted
