"""Hit rate against pool size: from a recorded routing, and assumed from published figures."""

import itertools

import msgspec
import pytest
from factories import MIB, demo, gpt_oss_20b, make_facts, qwen3_30b
from hypothesis import given
from hypothesis import strategies as st

from app.placement.cache.guard import divide_pool
from app.placement.cache.hit_rates import HitCurve, assumed, from_trace

FEW, MANY = demo(), qwen3_30b()
EVERY_MODEL = pytest.mark.parametrize(
    "facts",
    [FEW, MANY, gpt_oss_20b(), make_facts(experts=512, used=10), make_facts(experts=8, used=8)],
    ids=["8 experts", "128 experts", "32 experts", "512 experts", "all experts used"],
)


def all_bytes(facts):
    return facts.expert_count * sum(facts.expert_bytes.values())


@st.composite
def recorded(draw):
    """Hits by slots, routed experts and bytes of one expert, each by layer."""
    experts = draw(st.integers(1, 12))
    layers = draw(st.lists(st.integers(0, 60), min_size=1, max_size=6, unique=True))
    hits, routed = {}, {}
    for layer in layers:
        gains = draw(st.lists(st.integers(0, 50), min_size=experts, max_size=experts))
        hits[layer] = [sum(gains[:slots]) for slots in range(experts + 1)]
        routed[layer] = hits[layer][-1] + draw(st.integers(1, 20))
    sizes = {layer: draw(st.integers(1, 1000)) for layer in layers}
    return hits, routed, sizes


@given(recorded())
def test_a_curve_of_a_trace_has_at_its_points_the_hits_of_the_pool_divided_as_the_cache_divides_it(made):
    hits, routed, sizes = made
    curve = from_trace(hits, routed, sizes)
    experts = len(next(iter(hits.values()))) - 1
    routed_bytes = sum(sizes[layer] * routed[layer] for layer in sizes)
    for point in curve.points:
        slots = divide_pool(sizes, experts, point.pool_bytes)
        hit_bytes = sum(sizes[layer] * hits[layer][slots[layer]] for layer in sizes)
        assert curve.at(point.pool_bytes) == point.likely == hit_bytes / routed_bytes
    assert curve.points[0].pool_bytes == 0
    assert curve.points[-1].pool_bytes == experts * sum(sizes.values())
    assert curve.basis == "trace"


@given(recorded(), st.integers(0, 20_000), st.integers(0, 20_000))
def test_a_larger_pool_never_has_a_lower_hit_rate_in_a_curve_of_a_trace(made, one, other):
    curve = from_trace(*made)
    assert curve.at(min(one, other)) <= curve.at(max(one, other)) + 1e-12


def test_layers_whose_experts_are_larger_count_more_than_those_of_small_ones():
    curve = from_trace({0: [0, 5, 10], 1: [0, 0, 0]}, {0: 10, 1: 10}, {0: 30, 1: 10})
    assert curve.at(80) == 0.75
    assert curve.at(40) == 0.375
    assert curve.at(60) == pytest.approx((0.375 + 0.75) / 2, abs=0.2)


def test_between_two_points_lies_a_straight_line_and_beyond_the_last_nothing_changes():
    curve = from_trace({0: [0, 50, 80]}, {0: 100}, {0: 1000})
    assert [curve.at(size) for size in (-5, 0, 500, 1000, 1500, 2000, 9999)] == pytest.approx(
        [0, 0, 0.25, 0.5, 0.65, 0.8, 0.8]
    )


def test_a_layer_that_was_not_recorded_takes_room_and_counts_no_further():
    curve = from_trace({0: [0, 50, 80]}, {0: 100}, {0: 1000, 1: 1000})
    assert curve.at(2000) == 0.5
    assert curve.at(4000) == 0.8


def test_a_large_model_has_no_more_points_than_a_graph_needs():
    hits = {layer: list(range(513)) for layer in range(48)}
    curve = from_trace(hits, dict.fromkeys(hits, 600), dict.fromkeys(hits, MIB))
    assert len(curve.points) <= 1025
    hits = {layer: list(range(9)) for layer in range(32)}
    assert len(from_trace(hits, dict.fromkeys(hits, 10), dict.fromkeys(hits, MIB)).points) == 1 + 8 * 32


@EVERY_MODEL
def test_an_assumed_curve_is_zero_below_one_token_cycle_and_never_below_uniform_routing_from_there(facts):
    curve = assumed(facts)
    assert curve.basis == "assumed"
    for size in (0, 1, facts.token_cycle_bytes // 2, facts.token_cycle_bytes - 1):
        assert curve.range_at(size).high == 0
    everything = all_bytes(facts)
    for part in range(101):
        size = facts.token_cycle_bytes + (everything - facts.token_cycle_bytes) * part // 100
        told = curve.range_at(size)
        assert size / everything - 1e-9 <= told.low <= told.likely <= told.high <= 1 + 1e-12


@EVERY_MODEL
def test_an_assumed_curve_never_falls_and_ends_with_every_expert_in_the_pool(facts):
    points = assumed(facts).points
    for before, after in itertools.pairwise(points):
        assert before.pool_bytes < after.pool_bytes
        assert (before.low, before.likely, before.high) <= (after.low, after.likely, after.high)
    assert points[-1].pool_bytes == all_bytes(facts)
    assert (points[-1].low, points[-1].likely, points[-1].high) == (1, 1, 1)


@pytest.mark.parametrize(
    ("experts", "used", "slots", "rate"),
    [
        (128, 8, 8, 0.37), (128, 8, 24, 0.74), (128, 8, 49, 0.89), (128, 8, 82, 0.96),
        (512, 10, 64, 0.67), (512, 10, 128, 0.81),
        (256, 6, 24, 0.69), (256, 6, 32, 0.73), (256, 6, 40, 0.75), (256, 8, 75, 0.84), (256, 8, 100, 0.89),
    ],
)  # fmt: skip
def test_published_hit_rates_lie_within_the_assumed_bounds_and_are_the_likeliest_of_as_many_experts(
    experts, used, slots, rate
):
    facts = make_facts(experts=experts, used=used)
    told = assumed(facts).range_at(slots * sum(facts.expert_bytes.values()))
    assert told.low <= rate <= told.high
    assert told.likely == pytest.approx(rate, abs=0.01)


def test_a_model_of_few_experts_is_expected_to_hit_less_than_one_of_many_with_wider_bounds():
    few, many = make_facts(experts=32, used=4), make_facts(experts=128, used=8)
    a, b = (assumed(facts).range_at(all_bytes(facts) // 4) for facts in (few, many))
    assert a.likely < b.likely
    assert a.low == pytest.approx(0.25)
    assert a.high - a.low > b.high - b.low


def test_a_pool_for_some_layers_needs_only_their_cycle():
    facts = make_facts(layers=4, experts=8, used=2, expert_sizes=MIB)
    curve = assumed(facts, layers=(2, 3))
    assert curve.at(4 * MIB - 1) == 0
    assert curve.at(4 * MIB) > 0
    assert curve.at(16 * MIB) == 1


def test_a_model_without_experts_never_hits():
    assert assumed(make_facts(experts=0)).at(10 * MIB) == 0
    assert from_trace({}, {}, {}).at(10 * MIB) == 0


def test_a_curve_survives_being_written_down():
    curve = assumed(MANY)
    assert msgspec.json.decode(msgspec.json.encode(curve), type=HitCurve) == curve
