"""Tokens a second against pool size: its points, its marks."""

import itertools

import msgspec
from factories import GIB, demo, make_facts, make_gpu, make_machine, qwen3_30b

from app.placement.cache.hit_rates import HitCurve, HitPoint
from app.placement.plan import CPU_LANE
from app.placement.planner import Wishes, make_plan
from app.placement.speed.curve import speed_curve
from app.placement.speed.prediction import predict_speed

LAPTOP = make_machine(make_gpu(20 * GIB))


def pooled(facts, machine=LAPTOP):
    plan = make_plan(facts, machine, Wishes(pool_bytes=GIB))
    return msgspec.structs.replace(plan, expert_lanes=dict.fromkeys(facts.moe_layers, CPU_LANE))


def test_the_curve_goes_from_no_pool_to_all_experts_and_marks_the_token_cycle():
    facts = qwen3_30b()
    found = speed_curve(facts, LAPTOP, pooled(facts))
    sizes = [point.pool_bytes for point in found.points]
    assert sizes == sorted(set(sizes))
    assert (sizes[0], sizes[-1]) == (0, facts.bytes.experts)
    assert found.cycle_bytes == facts.token_cycle_bytes
    below, at = (next(p for p in found.points if p.pool_bytes == found.cycle_bytes - less) for less in (1, 0))
    assert below.hit_rate == 0
    assert at.decode.likely > below.decode.likely


def test_every_point_is_what_is_predicted_for_that_pool():
    facts = qwen3_30b()
    plan = pooled(facts)
    point = speed_curve(facts, LAPTOP, plan, points=9).points[5]
    alone = predict_speed(facts, LAPTOP, msgspec.structs.replace(plan, pool_bytes=point.pool_bytes))
    assert (point.decode, point.hit_rate) == (alone.decode, alone.hit_rate)


def test_the_break_even_is_the_first_pool_that_beats_whole_layers_in_the_same_memory():
    facts = qwen3_30b()
    found = speed_curve(facts, LAPTOP, pooled(facts))
    for point in found.points:
        if point.pool_bytes and point.pool_bytes < found.break_even_bytes:
            assert point.decode.likely <= point.whole_layers
    first = next(point for point in found.points if point.pool_bytes == found.break_even_bytes)
    assert first.decode.likely > first.whole_layers


def test_whole_layers_are_faster_the_more_memory_they_have():
    found = speed_curve(qwen3_30b(), LAPTOP, pooled(qwen3_30b()))
    whole = [point.whole_layers for point in found.points]
    assert all(later >= earlier for earlier, later in itertools.pairwise(whole))


def test_uniform_routing_never_breaks_even():
    facts = qwen3_30b()
    everything = facts.bytes.experts
    uniform = HitCurve(points=(HitPoint(0, 0, 0, 0), HitPoint(everything, 1, 1, 1)), basis="trace")
    assert speed_curve(facts, LAPTOP, pooled(facts), hit_curve=uniform).break_even_bytes is None


def test_the_curve_ends_at_the_memory_there_is():
    facts = qwen3_30b()
    assert speed_curve(facts, LAPTOP, pooled(facts), most_bytes=5 * GIB).points[-1].pool_bytes == 5 * GIB
    assert [p.pool_bytes for p in speed_curve(facts, LAPTOP, pooled(facts), most_bytes=0).points] == [0]


def test_without_a_gpu_or_experts_there_is_one_speed():
    machine = make_machine()
    found = speed_curve(demo(), machine, make_plan(demo(), machine), points=5)
    assert len({point.decode for point in found.points}) == 1
    assert found.break_even_bytes is None
    dense = make_facts(experts=0)
    assert len(speed_curve(dense, LAPTOP, make_plan(dense, LAPTOP)).points) == 1
