"""The figures of the tuning curve: between its points, of answers, of what answers taught, and in words."""

import msgspec
import pytest
from factories import GIB, MIB, make_gpu, make_machine, qwen3_30b

from app.placement.cache.recorded_hits import LayerRates, RecordedHits
from app.placement.evidence import Evidence
from app.placement.memory import predict
from app.placement.plan import CPU_LANE, CachePolicy, ExpertPin
from app.placement.planner import Wishes, make_plan
from app.placement.speed.curve import SpeedCurve, SpeedPoint
from app.placement.speed.learning import Correction, Learned, Observation, devices_of
from app.placement.speed.types import Range
from app.ui.tuning.absent_card import AbsentCard, question_of
from app.ui.tuning.curve_data import (
    MOST_ANSWERS,
    Measured,
    Question,
    card_bytes,
    compute,
    essence,
    measured_sizes,
    point_at,
    pooled_bytes,
)
from app.ui.tuning.curve_marks import marks, outside_text, paying_range
from app.ui.tuning.curve_words import hit_basis_text, measured_text, point_text, range_text, rates_basis_text

FACTS = qwen3_30b()
MACHINE = make_machine(make_gpu(8 * GIB))


def pooled(pool_bytes=2 * GIB, **changes):
    plan = make_plan(FACTS, MACHINE, Wishes(pool_bytes=2 * GIB))
    lanes = dict.fromkeys(FACTS.moe_layers, CPU_LANE)
    plan = msgspec.structs.replace(plan, expert_lanes=lanes, pool_bytes=pool_bytes, **changes)
    return msgspec.structs.replace(plan, memory=predict(FACTS, MACHINE, plan))


PLAN = pooled()


def question(evidence=None, plan=PLAN, most=6 * GIB):
    return Question(
        facts=FACTS,
        machine=MACHINE,
        evidence=evidence or Evidence(),
        plan=essence(plan),
        card="CUDA0",
        most_bytes=most,
        card_bytes=card_bytes(FACTS, MACHINE, plan, "CUDA0"),
        all_bytes=pooled_bytes(FACTS, plan),
    )


def point(size, likely, whole=None):
    decode = Range(low=likely / 2, likely=likely, high=likely * 2)
    return SpeedPoint(pool_bytes=size, decode=decode, hit_rate=size / 1000, whole_layers=whole)


def curve(*points, cycle=100, pays=None):
    return SpeedCurve(points=points, cycle_bytes=cycle, break_even_bytes=pays)


def seen(rate, plan=PLAN, **changes):
    plan = msgspec.structs.replace(plan, model_files=(), steps=(), memory=(), speed=None, **changes)
    return Observation(
        plan=plan, hit_rate=0.5, decode_tokens_per_second=rate, prompt_tokens_per_second=0.0, prompt_tokens=0,
        context_tokens=100, spare_ram_bytes=0, at="2026-01-01T00:00:00+00:00",
    )  # fmt: skip


# ---- between points --------------------------------------------------------------------------


def test_between_two_points_lies_a_straight_line_and_beyond_the_last_nothing_changes():
    made = curve(point(0, 10.0, 9.0), point(200, 20.0, 12.0), point(400, 20.0, 15.0))
    assert point_at(made, 0) == made.points[0]
    assert point_at(made, 200) == made.points[1]
    middle = point_at(made, 50)
    assert (middle.decode.low, middle.decode.likely, middle.decode.high) == (6.25, 12.5, 25.0)
    assert (middle.hit_rate, middle.whole_layers) == (0.05, 9.0)
    assert point_at(made, 999).decode == made.points[2].decode
    assert point_at(curve(point(0, 10.0)), 5).decode.likely == 10.0


def test_plans_that_differ_in_what_speed_does_not_depend_on_have_one_curve():
    other = msgspec.structs.replace(
        PLAN, pool_bytes=0, goal="quiet", tuned="tuned", memory=(), pins=(ExpertPin(layer=0, expert=1, pin="gpu"),)
    )
    assert essence(other) == essence(PLAN)
    assert essence(msgspec.structs.replace(PLAN, threads=PLAN.threads + 1)) != essence(PLAN)
    manual = CachePolicy(kind="manual")  # holds what is pinned, so pins are all that counts
    pinned, bare = (msgspec.structs.replace(its, policy=manual) for its in (other, PLAN))
    assert essence(pinned) != essence(bare)


# ---- answers ---------------------------------------------------------------------------------


def test_answers_are_told_by_the_pool_they_had_the_latest_first():
    found = measured_sizes([seen(10.0), seen(20.0, pool_bytes=MIB), seen(12.0), seen(0.0)], PLAN)
    assert found == (Measured(2 * GIB, (10.0, 12.0)), Measured(MIB, (20.0,)))
    assert (found[0].least, found[0].median, found[0].most) == (10.0, 11.0, 12.0)


def test_only_answers_of_the_same_plan_and_only_the_newest_count():
    others = [
        seen(99.0, threads=PLAN.threads + 1),
        seen(99.0, kv_type="q8_0"),
        seen(99.0, policy=CachePolicy(kind="decay")),
    ]
    found = measured_sizes([*others, *(seen(float(rate)) for rate in range(1, 20))], PLAN)
    assert found == (Measured(2 * GIB, tuple(float(rate) for rate in range(20 - MOST_ANSWERS, 20))),)


# ---- what is predicted -----------------------------------------------------------------------


def test_the_curve_is_that_of_the_recorded_routing():
    flat = RecordedHits(
        tokens=999, least_tokens=64, layers=dict.fromkeys(FACTS.moe_layers, LayerRates(((0.0, *(0.5,) * 128),) * 3))
    )
    found = compute(question(Evidence(recorded=flat)))
    assert {round(its.hit_rate, 6) for its in found.points[2:]} == {0.5}
    assert found.points[-1].pool_bytes == 6 * GIB


def test_what_answers_taught_corrects_pool_and_whole_layers_alike():
    twice = Correction(fixed=2.0, reading=2.0, decode_spread=0.1, answers=5, least_seconds=0.01, most_seconds=0.1)
    plain = compute(question())
    told = compute(question(Evidence(learned=Learned(corrections={devices_of(PLAN): twice}))))
    for before, after in zip(plain.points, told.points, strict=True):
        assert after.decode.likely == pytest.approx(before.decode.likely / 2)
        assert after.whole_layers == pytest.approx(before.whole_layers / 2)
    assert told.break_even_bytes == plain.break_even_bytes


def test_what_answers_without_a_pool_taught_is_kept_where_it_holds():
    pool, none = (
        Correction(fixed=factor, reading=factor, decode_spread=0.1, answers=5, least_seconds=0.01, most_seconds=0.1)
        for factor in (2.0, 4.0)
    )
    bare = msgspec.structs.replace(PLAN, pool_bytes=0)
    learned = Learned(corrections={devices_of(PLAN): pool, devices_of(bare): none})
    plain, told = compute(question()), compute(question(Evidence(learned=learned)))
    assert told.points[0].decode.likely == pytest.approx(plain.points[0].decode.likely / 4)
    assert told.points[-1].decode.likely == pytest.approx(plain.points[-1].decode.likely / 2)


def test_the_card_is_full_where_the_pool_takes_what_the_rest_of_the_plan_leaves_of_it():
    size = card_bytes(FACTS, MACHINE, PLAN, "CUDA0")
    full = pooled(size)
    used = sum(part.bytes for part in full.memory if part.device == "CUDA0" and part.part != "margin")
    assert used == MACHINE.gpus[0].total_bytes
    assert card_bytes(FACTS, MACHINE, PLAN, "Vulkan7") == 0


def test_a_card_that_is_not_here_is_planned_for_without_what_was_measured_here():
    machine = make_machine()
    plan = make_plan(FACTS, machine)
    asked = question_of(AbsentCard(FACTS, machine, plan, Evidence(), 8), "The card")
    assert asked.machine.gpus[0].total_bytes == 8 * GIB
    assert (asked.plan.gpu, set(asked.plan.expert_lanes.values())) == ("CUDA0", {CPU_LANE})
    assert 0 < asked.most_bytes < asked.card_bytes < 8 * GIB
    assert (asked.evidence, asked.card) == (Evidence(), "The card")
    larger = question_of(AbsentCard(FACTS, machine, plan, Evidence(), 12), "The card")
    assert compute(larger).points[-1].decode.likely > compute(asked).points[-1].decode.likely


# ---- marks and words -------------------------------------------------------------------------


def test_marks_are_in_the_picture_and_sentences_say_the_rest():
    made = compute(question())
    said = [mark.words for mark in marks(made, question(), 5 * GIB)]
    assert said[0] == "one token's experts: 1.0 GiB"
    assert said[1].startswith("beats whole layers")
    assert said[2] == "fits now (predicted): 5.0 GiB"
    assert [mark.hard for mark in marks(made, question(), 5 * GIB)] == [False, False, True]  # the card's is further up
    assert "CUDA0 would be full with a pool of" in outside_text(made, question())


def test_where_whole_layers_are_faster_again_the_mark_says_up_to_where_the_pool_pays():
    made = curve(point(0, 9.0, 9.0), point(100, 12.0, 10.0), point(200, 14.0, 13.0), point(300, 14.0, 20.0), pays=100)
    assert paying_range(made) == (100, 200)
    asked = changed(question(), most_bytes=300, all_bytes=300, card_bytes=900)
    assert "beats whole layers: 100 B – 200 B" in [mark.words for mark in marks(made, asked, 300)]
    never = curve(point(0, 9.0, 9.0), point(300, 9.0, 10.0))
    assert paying_range(never) is None
    assert "No pool of this range is predicted to be faster" in outside_text(never, asked)
    assert not [mark for mark in marks(never, asked, 300) if mark.hard]  # all experts fit: no limit is one


def changed(asked, **changes):
    """`asked` with other figures."""
    return Question(**{**{name: getattr(asked, name) for name in asked.__dataclass_fields__}, **changes})


def test_a_cycle_that_has_no_room_is_said():
    made = curve(point(0, 9.0, 9.0), point(300, 9.0, 8.0), cycle=500)
    assert "more than there is room for" in outside_text(made, changed(question(), most_bytes=300))


def test_a_point_in_words_says_that_it_is_predicted():
    words = point_text(point(500, 20.0, 12.0))
    assert words == (
        "Pool of 500 B: 10.0–40.0 tokens/s predicted (likeliest 20.0 tokens/s); 50 % of the routed experts' bytes on "
        "the GPU; whole layers in the same memory: 12.0 tokens/s."
    )
    assert point_text(point(0, 20.0, 20.0)) == "No pool: 10.0–40.0 tokens/s predicted (likeliest 20.0 tokens/s)."


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [(1.0, 2.0, "1.0–2.0 tokens/s"), (99.0, 123.0, "99.0–123 tokens/s"), (2.0, 2.0, "2.0 tokens/s")],
)
def test_a_range_has_its_unit_once(low, high, words):
    assert range_text(low, high) == words


def test_measured_answers_in_words_say_how_many_and_how_far_apart():
    assert measured_text(Measured(2 * GIB, (19.0,))) == "Measured with a pool of 2.0 GiB: 19.0 tokens/s in 1 answer."
    words = measured_text(Measured(0, (19.0, 20.0, 24.0)))
    assert words == "Measured without a pool in use: 20.0 tokens/s, the median of 3 answers (19.0–24.0 tokens/s)."


def test_what_hit_rates_rest_on_in_words():
    rates = LayerRates(((0.0,) * 129,) * 3)
    some = RecordedHits(tokens=1204, least_tokens=128, layers=dict.fromkeys(FACTS.moe_layers[1:], rates))
    assert "of 1 of its 48 layers too little was recorded" in hit_basis_text(FACTS, PLAN, some)
    whole = msgspec.structs.replace(PLAN, expert_lanes={**PLAN.expert_lanes, 0: "CUDA0"})
    assert "LRU reaches on 1204 tokens" in hit_basis_text(FACTS, whole, some).replace(",", "")
    override = msgspec.structs.replace(whole, experts_used=4)
    assert "the model's own number of experts" in hit_basis_text(FACTS, override, some)
    nothing = msgspec.structs.replace(PLAN, expert_lanes=dict.fromkeys(FACTS.moe_layers, "CUDA0"))
    assert hit_basis_text(FACTS, nothing, some) == ""


def test_what_rates_rest_on_in_words():
    assert rates_basis_text(PLAN, Evidence()).endswith("no measurement of this machine is used.")
    learned = Learned(corrections={devices_of(PLAN): Correction(answers=3)})
    assert rates_basis_text(PLAN, Evidence(learned=learned)).endswith("What 3 answers taught corrects them.")
