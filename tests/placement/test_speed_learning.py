"""Refitting from real answers: factors come back from answers they were made with, and only for plans alike."""

import random

import msgspec
import pytest
from factories import GIB, demo, make_gpu, make_machine, qwen3_30b
from hypothesis import given
from hypothesis import strategies as st

from app.placement.cache.facts import CacheReport
from app.placement.cache.hit_rates import HitCurve, HitPoint
from app.placement.plan import CPU_LANE
from app.placement.planner import Wishes, make_plan
from app.placement.speed.learning import LEAST_DECODED, Observation, devices_of, fit_factors, learn, observation
from app.placement.speed.prediction import predict_speed

CPU_ONLY = make_machine()
LAPTOP = make_machine(make_gpu(7 * GIB))
NO_POOL = CacheReport(
    requested_bytes=0, allocated_bytes=0, used=False, reason="No pool was asked for.", hits=0, misses=900
)


def pooled_plan(pool=4 * GIB):
    facts = qwen3_30b()
    plan = make_plan(facts, LAPTOP, Wishes(pool_bytes=pool))
    return msgspec.structs.replace(plan, expert_lanes=dict.fromkeys(facts.moe_layers, CPU_LANE), pool_bytes=pool)


def answered(plan, machine, decode, *, prompt=50.0, hit=None, context=768, prompt_tokens=512):
    return Observation(
        plan=msgspec.structs.replace(plan, memory=(), model_files=()),
        hit_rate=hit,
        decode_tokens_per_second=decode,
        prompt_tokens_per_second=prompt,
        prompt_tokens=prompt_tokens,
        context_tokens=context,
        spare_ram_bytes=8 * GIB,
        at="2026-01-01T00:00:00+00:00",
    )


def test_after_one_answer_the_prediction_is_what_was_measured():
    facts, plan = qwen3_30b(), make_plan(qwen3_30b(), CPU_ONLY)
    before = predict_speed(facts, CPU_ONLY, plan)
    measured = before.decode.likely * 0.7
    seen = answered(plan, CPU_ONLY, measured, prompt=before.prompt.likely * 1.3)
    after = predict_speed(facts, CPU_ONLY, plan, learned=learn(facts, CPU_ONLY, [seen], calibration=None))
    assert (before.basis, after.basis) == ("assumed", "measured")
    assert after.decode.likely == pytest.approx(measured)
    assert after.prompt.likely == pytest.approx(before.prompt.likely * 1.3)
    assert after.decode.high / after.decode.low < before.decode.high / before.decode.low
    assert "(fitted to 1 answer)" in after.sentence


def test_more_answers_make_the_range_narrower():
    facts, plan = qwen3_30b(), make_plan(qwen3_30b(), CPU_ONLY)
    widths = []
    for count in (1, 2, 8):
        learned = learn(facts, CPU_ONLY, [answered(plan, CPU_ONLY, 12.0)] * count, calibration=None)
        found = predict_speed(facts, CPU_ONLY, plan, learned=learned).decode
        widths.append(found.high / found.low)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 1.2


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("outliers", [0, 4])
def test_hidden_constants_come_back_from_answers_with_noise_and_the_speed_is_within_five_percent(seed, outliers):
    """The constants themselves within 8 %: the fixed part is a quarter to a half of the time, and shares its noise."""
    facts, plan = qwen3_30b(), pooled_plan()
    numbers = random.Random(seed)

    def hidden(hit, context):
        fixed, reading = seconds_at(facts, plan, hit, context)
        return 1.4 * fixed + 0.75 * reading

    answers = []
    for index in range(24):
        hit, context = numbers.uniform(0.0, 0.97), numbers.randrange(256, 8000)
        noise = 1 + max(-2.0, min(numbers.gauss(0, 1), 2.0)) * 0.015
        slow = 4.0 if index % 6 == 5 and outliers else 1.0
        seconds = hidden(hit, context) * noise * slow
        answers.append(answered(plan, LAPTOP, 1 / seconds, hit=hit, context=context))
    learned = learn(facts, LAPTOP, answers, calibration=None)
    correction = learned.of(plan)
    assert correction.told_apart
    assert correction.fixed == pytest.approx(1.4, rel=0.08)
    assert correction.reading == pytest.approx(0.75, rel=0.08)
    for hit in (0.0, 0.3, 0.6, 0.9):
        speed = predict_speed(facts, LAPTOP, plan, hit_curve=flat(hit), learned=learned, context_tokens=2000)
        assert speed.decode.likely == pytest.approx(1 / hidden(hit, 2000), rel=0.05)
        assert speed.decode.low < 1 / hidden(hit, 2000) < speed.decode.high


def flat(hit):
    return HitCurve(points=(HitPoint(0, hit, hit, hit), HitPoint(20 * GIB, hit, hit, hit)), basis="trace")


def seconds_at(facts, plan, hit, context):
    """Uncorrected fixed and other seconds."""
    speed = predict_speed(facts, LAPTOP, plan, hit_curve=flat(hit), context_tokens=context)
    fixed = next(part.seconds for part in speed.decode_parts if part.name == "overhead")
    return fixed, 1 / speed.decode.likely - fixed


@given(factor=st.floats(0.2, 5.0), count=st.integers(3, 12))
def test_answers_that_are_all_alike_give_one_factor(factor, count):
    fixed, reading, spread, told_apart = fit_factors([(0.01, 0.03, 0.04 * factor)] * count)
    assert fixed == reading == pytest.approx(factor)
    assert not told_apart
    assert spread > 0


@pytest.mark.parametrize("far_off", [0.01, 0.1, 10.0, 200.0])
@pytest.mark.parametrize("others", [0, 1])
def test_one_far_off_answer_of_few_moves_a_prediction_to_the_half_or_the_double_at_most(far_off, others):
    facts, plan = qwen3_30b(), make_plan(qwen3_30b(), CPU_ONLY)
    before = predict_speed(facts, CPU_ONLY, plan)
    likely = before.decode.likely
    answers = [answered(plan, CPU_ONLY, likely, prompt=before.prompt.likely)] * others
    answers.append(answered(plan, CPU_ONLY, likely * far_off, prompt=before.prompt.likely * far_off))
    after = predict_speed(facts, CPU_ONLY, plan, learned=learn(facts, CPU_ONLY, answers, calibration=None))
    for was, now in ((before.decode, after.decode), (before.prompt, after.prompt)):
        assert was.likely / 2.001 < now.likely < was.likely * 2.001
        assert now.low > was.likely / 10


def test_no_answers_leave_everything_as_it_is():
    assert fit_factors([]) == (1.0, 1.0, 0.0, False)
    assert learn(demo(), CPU_ONLY, [], calibration=None) is None


def test_one_answer_beside_a_busy_program_does_not_count():
    facts, plan = qwen3_30b(), make_plan(qwen3_30b(), CPU_ONLY)
    answers = [answered(plan, CPU_ONLY, speed) for speed in (12.0, 12.2, 2.0, 11.9, 12.1)]
    speed = predict_speed(facts, CPU_ONLY, plan, learned=learn(facts, CPU_ONLY, answers, calibration=None))
    assert speed.decode.likely == pytest.approx(12.0, rel=0.03)


def test_what_was_learned_without_the_gpu_says_nothing_of_a_plan_with_it():
    facts = qwen3_30b()
    alone, pooled = make_plan(facts, LAPTOP, Wishes(gpu=None)), pooled_plan()
    learned = learn(facts, LAPTOP, [answered(alone, LAPTOP, 3.0)], calibration=None)
    assert devices_of(alone) != devices_of(pooled)
    assert predict_speed(facts, LAPTOP, alone, learned=learned).basis == "measured"
    assert predict_speed(facts, LAPTOP, pooled, learned=learned) == predict_speed(facts, LAPTOP, pooled)


def test_a_plan_unlike_the_ones_that_answered_is_doubted_more():
    facts = qwen3_30b()
    plan = make_plan(facts, CPU_ONLY, Wishes(threads=1, n_ctx=32768))
    other = make_plan(facts, CPU_ONLY, Wishes(threads=8, n_ctx=32768))
    learned = learn(facts, CPU_ONLY, [answered(plan, CPU_ONLY, 5.0)] * 5, calibration=None)
    near, far = (predict_speed(facts, CPU_ONLY, its, learned=learned).decode for its in (plan, other))
    assert far.high / far.low > near.high / near.low


def test_answers_of_another_shape_of_model_are_passed_over():
    plan = make_plan(demo(), CPU_ONLY)
    assert learn(qwen3_30b(), CPU_ONLY, [answered(plan, CPU_ONLY, 50.0)], calibration=None) is None


# ---- what an answer tells ----------------------------------------------------------------------


class Figures(msgspec.Struct, frozen=True):
    prompt_tokens: int = 300
    reused_tokens: int = 100
    completion_tokens: int = 60
    prompt_tokens_per_second: float = 90.0
    tokens_per_second: float = 14.0
    cache: CacheReport = NO_POOL


def told(plan, **changes):
    return observation(plan, Figures(**changes), 5 * GIB)


def test_an_observation_holds_the_figures_of_the_answer_and_no_paths():
    plan = make_plan(qwen3_30b(), LAPTOP)
    seen = told(plan)
    assert (seen.decode_tokens_per_second, seen.prompt_tokens_per_second) == (14.0, 90.0)
    assert (seen.prompt_tokens, seen.context_tokens, seen.hit_rate) == (200, 330, None)
    assert not seen.plan.model_files
    assert not seen.plan.memory
    assert seen.plan.expert_lanes == plan.expert_lanes
    assert seen.spare_ram_bytes == 5 * GIB
    assert msgspec.json.decode(msgspec.json.encode(seen), type=Observation) == seen


def test_the_pool_is_what_the_device_gave_and_its_hits_were_measured():
    cache = CacheReport(
        requested_bytes=4 * GIB, allocated_bytes=3 * GIB, used=True, reason="", hits=300, misses=100, copied_bytes=1
    )
    seen = told(pooled_plan(), cache=cache)
    assert seen.plan.pool_bytes == 3 * GIB
    assert seen.hit_rate == 0.75
    unused = msgspec.structs.replace(cache, used=False, reason="The device was lost.")
    assert told(pooled_plan(), cache=unused).plan.pool_bytes == 0


def test_hits_that_nobody_counted_tell_nothing_of_decoding():
    cache = CacheReport(requested_bytes=GIB, allocated_bytes=GIB, used=True, reason="", hits=300, misses=None)
    assert told(pooled_plan(), cache=cache).decode_tokens_per_second == 0


def test_a_short_answer_to_a_short_prompt_tells_nothing():
    plan = make_plan(qwen3_30b(), LAPTOP)
    assert told(plan, completion_tokens=LEAST_DECODED - 1).decode_tokens_per_second == 0
    assert told(plan, reused_tokens=290).prompt_tokens_per_second == 0
    assert told(plan, completion_tokens=1, reused_tokens=299) is None
