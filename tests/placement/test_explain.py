"""Explanations of a plan's speed: what bounds it, which change would help, and when nothing would."""

import msgspec
import pytest
from factories import GIB, MIB, demo, make_gpu, make_machine, qwen3_30b
from hypothesis import given, settings
from hypothesis import strategies as st

from app.placement.cache.facts import CacheTotals
from app.placement.evidence import NO_EVIDENCE, Evidence, planned
from app.placement.explain import MUCH, Seen, explain
from app.placement.explain_changes import change_words, changes_of
from app.placement.explain_words import LEAST_GAIN, consequence_words, measured_words, percent_range
from app.placement.memory import fits, predict
from app.placement.plan import CPU_LANE
from app.placement.planner import make_plan
from app.placement.speed.gain import predict_gain
from app.placement.speed.learning import Correction, Learned, devices_of
from app.placement.speed.prediction import predict_speed
from app.placement.speed.types import Range
from app.placement.wishes import Wishes

LAPTOP = make_machine(make_gpu(8 * GIB), ram=40 * GIB, ram_total=48 * GIB)
FACTS = qwen3_30b()


def plan_of(machine=LAPTOP, facts=FACTS, **wishes):
    return make_plan(facts, machine, Wishes(**wishes))


def changed(plan, machine=LAPTOP, facts=FACTS, **fields):
    made = msgspec.structs.replace(plan, **fields)
    return msgspec.structs.replace(made, memory=predict(facts, machine, made))


def totals(**fields):
    zero = dict.fromkeys(CacheTotals.__struct_fields__, 0)
    return CacheTotals(**{**zero, **fields})


# ---- gains as ranges -------------------------------------------------------------------------


def test_a_plan_gains_nothing_over_itself_however_unsure_its_speed_is():
    plan = plan_of()
    gain = predict_gain(FACTS, LAPTOP, plan, plan)
    for its in (gain.decode, gain.prompt):
        assert (its.low, its.likely, its.high) == pytest.approx((0, 0, 0), abs=1e-9)
    speed = predict_speed(FACTS, LAPTOP, plan).decode
    assert speed.high > speed.low * 1.3, "its own speed is in doubt"


def test_the_likeliest_gain_is_that_of_the_two_likeliest_speeds():
    plan = plan_of(pool_bytes=GIB)
    larger = changed(plan, pool_bytes=2 * GIB)
    gain = predict_gain(FACTS, LAPTOP, plan, larger)
    speeds = [predict_speed(FACTS, LAPTOP, its) for its in (plan, larger)]
    assert gain.decode.likely == pytest.approx(speeds[1].decode.likely / speeds[0].decode.likely - 1, rel=1e-6)
    assert gain.prompt.likely == pytest.approx(speeds[1].prompt.likely / speeds[0].prompt.likely - 1, rel=1e-6)


def test_a_gain_is_surer_than_the_speeds_that_it_is_made_of():
    plan = plan_of(pool_bytes=GIB)
    larger = changed(plan, pool_bytes=2 * GIB)
    gain = predict_gain(FACTS, LAPTOP, plan, larger).decode
    first, second = (predict_speed(FACTS, LAPTOP, its).decode for its in (plan, larger))
    assert gain.low > second.low / first.high - 1
    assert gain.high < second.high / first.low - 1


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 8),
    st.integers(1, 8),
    st.sampled_from([0, GIB, 2 * GIB]),
    st.sampled_from([0, GIB, 3 * GIB]),
    st.booleans(),
)
def test_ranges_are_in_order_and_turn_round_with_the_plans(threads, others, pool, other_pool, mapped):
    plan = changed(plan_of(), threads=threads, pool_bytes=pool)
    other = changed(plan, threads=others, pool_bytes=other_pool, residency="mapped" if mapped else "repacked")
    gain = predict_gain(FACTS, LAPTOP, plan, other)
    back = predict_gain(FACTS, LAPTOP, other, plan)
    for one, two in ((gain.decode, back.decode), (gain.prompt, back.prompt)):
        assert -1 < one.low <= one.likely <= one.high
        assert (1 + one.likely) * (1 + two.likely) == pytest.approx(1, rel=1e-6)
        assert (1 + one.high) * (1 + two.low) == pytest.approx(1, rel=1e-6)


# ---- changes ---------------------------------------------------------------------------------


def test_every_change_is_another_plan_that_fits_and_has_words():
    plan = plan_of(pool_bytes=GIB)
    changes = changes_of(FACTS, LAPTOP, plan)
    kinds = {change.kind for change in changes}
    assert {"threads", "residency", "pool_bytes", "kv_type", "n_ctx", "stream", "n_ubatch", "experts_used"} <= kinds
    for change in changes:
        assert change.words
        assert change.words[0].isupper()
        assert not change.plan.loads_like(plan)
        assert fits(change.plan, LAPTOP) == ()
    assert [change.words for change in changes if change.changes_answers] == [
        "Compute each token with 6 experts instead of 8"
    ]


def test_words_say_what_was_and_what_would_be():
    plan = plan_of(pool_bytes=GIB)
    assert change_words(plan, changed(plan, threads=2), FACTS) == f"Compute with 2 threads instead of {plan.threads}"
    assert change_words(plan, changed(plan, pool_bytes=2 * GIB), FACTS) == (
        "Enlarge the expert pool from 1.0 GiB to 2.0 GiB"
    )
    assert change_words(plan, changed(plan, pool_bytes=512 * MIB), FACTS).startswith("Shrink")
    assert change_words(plan, changed(plan, pool_bytes=0), FACTS) == "Give up the expert pool"
    both = changed(plan, kv_type="q8_0", pool_bytes=2 * GIB)
    assert change_words(plan, both, FACTS) == (
        "Store the KV cache as q8_0 instead of f16, and enlarge the expert pool from 1.0 GiB to 2.0 GiB"
    )


def test_what_else_changes_is_told_by_device():
    plan = plan_of(pool_bytes=GIB)
    device = plan.gpu
    assert consequence_words(plan, changed(plan, pool_bytes=2 * GIB), LAPTOP) == (
        f"Takes 1.0 GiB more of {device} (predicted)."
    )
    assert consequence_words(plan, plan, LAPTOP) == ""
    assert "Long conversations end sooner." in consequence_words(plan, changed(plan, n_ctx=1024), LAPTOP)
    assert "answers differ a little" in consequence_words(plan, changed(plan, kv_type="q8_0"), LAPTOP)


# ---- the explanation -------------------------------------------------------------------------


def test_too_few_threads_are_found_and_what_would_help_is_ranked():
    machine = make_machine(cores=8, performance=8)
    plan = changed(plan_of(machine, demo()), machine, demo(), threads=1, threads_batch=1)
    told = explain(demo(), machine, plan)
    best = told.advice[0]
    assert best.kind == "threads"
    assert best.words.startswith("Compute with ")
    assert best.words.endswith(" threads instead of 1")
    assert best.decode.likely >= MUCH
    assert told.verdict == f"What would help most: {best.words[0].lower()}{best.words[1:]}."
    gains = [its.decode.likely for its in told.advice if not its.changes_answers]
    assert gains == sorted(gains, reverse=True)
    assert len({its.kind for its in told.advice}) == len(told.advice), "the best of each kind alone"


def test_every_advice_has_a_range_marked_predicted_and_evidence_with_figures():
    plan = plan_of(pool_bytes=GIB)
    told = explain(FACTS, LAPTOP, plan)
    assert told.advice
    for its in told.advice:
        assert its.gain.startswith("Predicted: decoding")
        assert " to " in its.gain
        assert "ms of a token" in its.evidence
        assert its.plan.speed is not None
        assert its.decode.likely >= LEAST_GAIN or its.prompt.likely >= 0.1


def test_fewer_experts_are_marked_and_never_come_before_what_leaves_answers_as_they_are():
    told = explain(FACTS, LAPTOP, plan_of(pool_bytes=GIB))
    marks = [its.changes_answers for its in told.advice]
    assert True in marks
    assert marks == sorted(marks)
    assert told.advice[-1].kind == "experts_used"


def test_where_nothing_would_help_much_that_is_said():
    best = planned(FACTS, LAPTOP, Wishes(), NO_EVIDENCE)
    for _ in range(12):  # take the best advice until there is none left
        told = explain(FACTS, LAPTOP, best)
        helping = [its for its in told.advice if its.helps and not its.changes_answers]
        if not helping:
            break
        best = helping[0].plan
    assert not helping
    assert told.verdict.startswith("Nothing")
    dense = msgspec.structs.replace(FACTS, moe_layers=(), expert_count=0, experts_used=0, expert_bytes={})
    machine = make_machine(cores=1, performance=1, ram=40 * GIB, ram_total=48 * GIB)
    told = explain(dense, machine, make_plan(dense, machine))
    assert told.verdict.startswith("Nothing would help decoding much")


def test_the_bound_is_the_predictions_own_sentence_and_doubts_are_told():
    plan = plan_of(pool_bytes=GIB)
    told = explain(FACTS, LAPTOP, plan)
    assert told.bound == predict_speed(FACTS, LAPTOP, plan).sentence
    assert any("no measurement of this machine is used" in doubt for doubt in told.doubts)
    assert any("routing was not recorded" in doubt for doubt in told.doubts)


def test_where_answers_corrected_the_rates_it_is_not_said_that_nothing_was_measured():
    plan = plan_of(pool_bytes=GIB)
    twice = Correction(fixed=2.0, reading=2.0, prompt=2.0, decode_spread=0.1, prompt_spread=0.1, answers=3, prompts=3)
    told = explain(FACTS, LAPTOP, plan, evidence=Evidence(learned=Learned(corrections={devices_of(plan): twice})))
    assert "fitted to 3 answers" in told.bound
    assert any("only answers here corrected them" in doubt for doubt in told.doubts)
    assert not any("no measurement" in doubt for doubt in told.doubts)


def test_what_was_measured_stands_beside_what_was_predicted():
    plan = plan_of(pool_bytes=GIB)
    speed = predict_speed(FACTS, LAPTOP, plan)
    seen = Seen(
        decode=speed.decode.likely,
        hits=71,
        misses=29,
        totals=totals(seconds=2.0, cpu_seconds=1.5, wait_seconds=0.1, tokens=9),
    )
    told = explain(FACTS, LAPTOP, plan, seen=seen).measured
    assert f"{speed.decode.likely:.1f} tokens/s (measured)" in told[0]
    assert "outside" not in told[0]
    assert told[1] == "The pool held 71 % of the experts that the last answer needed (measured)."
    assert "the processor computed 75 % and waited for the GPU 5 %" in told[2]
    assert explain(FACTS, LAPTOP, plan).measured == ()
    assert "outside the prediction" in measured_words(speed.decode.high * 2, speed, None, None)[0]
    assert measured_words(None, speed, None, totals()) == ()


def test_a_plan_on_the_processor_alone_is_explained_too():
    machine = make_machine(ram=40 * GIB, ram_total=48 * GIB)
    told = explain(FACTS, machine, plan_of(machine))
    assert told.bound
    assert all(its.kind != "pool_bytes" for its in told.advice)
    assert set(plan_of(machine).expert_lanes.values()) == {CPU_LANE}


def test_a_range_in_words_has_signs():
    assert percent_range(Range(low=-0.031, likely=0.12, high=0.4)) == "+12 % (−3 % to +40 %)"


def test_threads_that_share_a_core_or_have_a_slow_one_are_not_promised_anything():
    machine = make_machine(cores=8, performance=4, ram=40 * GIB, ram_total=48 * GIB)
    changes = changes_of(FACTS, machine, plan_of(machine))
    assert max(change.plan.threads for change in changes) <= 4


def test_a_smaller_cache_gives_its_memory_to_the_pool_and_moves_no_layer():
    plan = plan_of(pool_bytes=GIB, whole_layers=4)
    made = {change.kind: change for change in changes_of(FACTS, LAPTOP, plan)}
    for kind in ("kv_type", "n_ctx"):
        after = made[kind].plan
        assert after.expert_lanes == plan.expert_lanes
        assert after.pool_bytes > plan.pool_bytes
        assert after.bytes_on(plan.gpu) == pytest.approx(plan.bytes_on(plan.gpu), rel=0.001)
