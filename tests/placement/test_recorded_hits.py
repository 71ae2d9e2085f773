"""Recorded routing as evidence: hit curves of plans from it, and what plans and speeds do with them."""

import itertools

import msgspec
import pytest
from factories import GIB, MIB, make_facts, make_gpu, make_machine, qwen3_30b
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from made_traces import make_trace, skewed_trace
from never_slower import is_no_slower
from test_placement_properties import free_memory, memories, models

from app.placement.cache import simulator
from app.placement.cache.recorded_hits import LayerRates, PlanCurves, RecordedHits, curve_of, least_tokens
from app.placement.evidence import Evidence, evidence_for, planned, speed_law, with_speed
from app.placement.memory import fits, predict
from app.placement.plan import CPU_LANE
from app.placement.planner import Wishes, make_plan

some = settings(max_examples=60, deadline=None)
SIZES = {0: 1000, 1: 3000, 2: 1000}


def recorded(trace=None, sizes=None):
    return simulator.recorded_hits(trace or skewed_trace(), sizes or SIZES)


def constant(facts, rate, layers=None, tokens=5000):
    """Every layer with this hit rate from one slot on."""
    rates = (0.0, *(rate,) * facts.expert_count)
    chosen = facts.moe_layers if layers is None else layers
    found = dict.fromkeys(chosen, LayerRates((rates, rates, rates)))
    return RecordedHits(tokens=tokens, least_tokens=64, layers=found)


# ---- the curve -------------------------------------------------------------------------------


def test_with_as_many_slots_everywhere_the_curve_is_that_of_the_simulator():
    trace = skewed_trace()
    curve = curve_of(recorded(trace), SIZES, SIZES)
    layers = simulator.split_layers(trace)
    whole = simulator.hit_curve(simulator.lru_hits(layers), layers, SIZES)
    for slots in range(17):
        assert curve.at(slots * 5000) == pytest.approx(whole.at(slots * 5000), abs=1e-12)
    assert (curve.basis, curve.tokens) == ("trace", 400)


def test_the_bounds_are_those_of_the_later_quarters_and_hold_the_likeliest():
    curve = curve_of(recorded(), SIZES, SIZES)
    for point in curve.points:
        assert 0 <= point.low <= point.likely <= point.high <= 1
    assert any(point.high - point.low > 0.005 for point in curve.points)
    for before, after in itertools.pairwise(curve.points):
        assert before.pool_bytes < after.pool_bytes
        assert (before.low, before.likely, before.high) <= (after.low, after.likely, after.high)


def test_a_layer_recorded_for_longer_counts_by_its_bytes_and_not_by_its_tokens():
    rows = [(token, layer, expert, 0.5) for token in range(200) for layer in (0, 1) for expert in (0, 1)]
    rows += [(token, 1, (token % 2) * 2 + rank, 0.5) for token in range(200, 1000) for rank in (0, 1)]
    curve = curve_of(recorded(make_trace(rows, {0: 4, 1: 4}), {0: 1000, 1: 1000}), {0: 1000, 1: 1000}, (0, 1))
    # With two slots in each, layer 0 always hits, and layer 1, whose two pairs take turns at the end, never.
    assert curve.at(4000) == 0.5


def test_only_the_layers_that_share_the_pool_make_its_curve():
    found = recorded()
    alone = curve_of(found, SIZES, (1,))
    assert alone.points[-1].pool_bytes == 16 * 3000
    assert alone.at(4 * 3000) == pytest.approx(sum(found.layers[1].quarters[part][4] for part in (1, 2)) / 2)


def test_a_layer_that_was_not_recorded_or_a_short_recording_makes_no_curve():
    assert curve_of(recorded(), {**SIZES, 3: 1000}, (0, 1, 2, 3)) is None
    assert curve_of(recorded(), SIZES, ()) is None
    short = recorded(skewed_trace(tokens=63))
    assert (short.tokens, short.enough, short.layers) == (63, False, {})
    assert curve_of(short, SIZES, SIZES) is None
    assert recorded(skewed_trace(tokens=64)).enough


@pytest.mark.parametrize(("experts", "used", "least"), [(8, 2, 64), (128, 8, 128), (512, 10, 410), (4, 0, 64)])
def test_how_long_a_recording_must_be_grows_with_the_experts_that_are_seldom_routed_to(experts, used, least):
    assert least_tokens(experts, used) == least


def test_layers_that_the_model_does_not_have_are_left_out():
    assert set(recorded(sizes={0: 1000, 2: 1000}).layers) == {0, 2}


# ---- evidence --------------------------------------------------------------------------------

FACTS = qwen3_30b()
LAPTOP = make_machine(make_gpu(8 * GIB))


def pooled(pool_bytes=2 * GIB, **changes):
    plan = make_plan(FACTS, LAPTOP, Wishes(pool_bytes=pool_bytes))
    plan = msgspec.structs.replace(plan, expert_lanes=dict.fromkeys(FACTS.moe_layers, CPU_LANE), **changes)
    return msgspec.structs.replace(plan, memory=predict(FACTS, LAPTOP, plan))


def test_the_speed_of_a_plan_rests_on_the_recorded_routing_and_says_so():
    plan = pooled()
    assumed = with_speed(plan, FACTS, LAPTOP).speed
    better, worse = (
        with_speed(plan, FACTS, LAPTOP, Evidence(recorded=constant(FACTS, rate))).speed for rate in (0.9, 0.1)
    )
    assert worse.decode.likely < assumed.decode.likely < better.decode.likely
    assert better.hit_rate == pytest.approx(0.9)
    assert "(assumed, hit rate from 5,000 recorded tokens)" in better.sentence
    assert "recorded" not in assumed.sentence
    assert speed_law(FACTS, LAPTOP, Evidence(recorded=constant(FACTS, 0.9)))(plan) == better


def test_plans_without_a_pool_or_of_layers_that_were_not_recorded_rest_on_what_is_assumed():
    evidence = Evidence(recorded=constant(FACTS, 0.9, layers=FACTS.moe_layers[1:]))
    plan = pooled()
    assert with_speed(plan, FACTS, LAPTOP, evidence) == with_speed(plan, FACTS, LAPTOP)
    whole_first = msgspec.structs.replace(plan, expert_lanes={**plan.expert_lanes, 0: "CUDA0"})
    assert "recorded" in with_speed(whole_first, FACTS, LAPTOP, evidence).speed.sentence
    none = pooled(0)
    assert with_speed(none, FACTS, LAPTOP, Evidence(recorded=constant(FACTS, 0.9))) == with_speed(none, FACTS, LAPTOP)


def test_another_number_of_active_experts_is_another_routing():
    curves = PlanCurves(FACTS, constant(FACTS, 0.9))
    assert curves.of(pooled()) is not None
    assert curves.of(pooled(experts_used=FACTS.experts_used)) is not None
    assert curves.of(pooled(experts_used=4)) is None


def test_the_planner_makes_each_curve_once(monkeypatch):
    made = []
    real = curve_of
    monkeypatch.setattr(
        "app.placement.cache.recorded_hits.curve_of", lambda *given: made.append(given[2]) or real(*given)
    )
    planned(FACTS, LAPTOP, Wishes(), Evidence(recorded=constant(FACTS, 0.8)))
    assert len(made) > 5
    assert len([*made]) <= len(set(made)) + 1  # once more to tell the speed of the one that was chosen


def test_recorded_routing_is_the_models_and_holds_on_every_machine():
    evidence = Evidence(recorded=constant(FACTS, 0.9))
    assert evidence_for(make_machine(), evidence) is evidence
    assert planned(FACTS, LAPTOP, Wishes(), evidence).speed.decode.likely > planned(FACTS, LAPTOP).speed.decode.likely


def test_routing_without_favourites_makes_whole_layers_the_better_plan():
    uniform = LayerRates((tuple(slots / 128 for slots in range(129)),) * 3)
    evidence = Evidence(
        recorded=RecordedHits(tokens=900, least_tokens=64, layers=dict.fromkeys(FACTS.moe_layers, uniform))
    )
    plan = planned(FACTS, LAPTOP, Wishes(gpu="CUDA0"), evidence)
    assert plan.pool_bytes == 0 or plan.pool_bytes < planned(FACTS, LAPTOP, Wishes(gpu="CUDA0")).pool_bytes


# ---- properties of plans ---------------------------------------------------------------------


@st.composite
def recordings(draw, facts):
    """Any rising hit rates in each layer; sometimes not of all layers."""
    layers = {}
    for layer in facts.moe_layers:
        if draw(st.integers(0, 9)) == 0:
            continue
        gains = draw(st.lists(st.sampled_from([0.0, 0.1, 1.0, 8.0]), min_size=4, max_size=4))
        ends = list(itertools.accumulate(gains))
        most = draw(st.floats(0.2, 1.0)) / max(ends[-1], 1e-9)
        slots = range(facts.expert_count + 1)
        rates = tuple(
            ends[min(s * 4 // facts.expert_count, 4) - 1] * most if s * 4 >= facts.expert_count else 0.0 for s in slots
        )
        layers[layer] = LayerRates((rates,) * 3)
    return RecordedHits(tokens=1000, least_tokens=64, layers=layers)


def machine_with(free, ram):
    return make_machine(make_gpu(free, total=16 * GIB), ram=ram, ram_total=32 * GIB)


@some
@given(st.data(), models(), free_memory, memories(most=4 * GIB), free_memory)
def test_more_graphics_memory_is_never_slower_by_any_recorded_routing(data, facts, free, more, ram):
    evidence = Evidence(recorded=data.draw(recordings(facts)))
    less, roomy = (planned(facts, machine_with(size, ram), Wishes(), evidence) for size in (free, free + more))
    assume(not fits(less, machine_with(free, ram)))  # the speed of what does not load is no measure
    assert is_no_slower(roomy, less)


@some
@given(st.data(), models(), free_memory, free_memory, memories(most=4 * GIB))
def test_more_main_memory_is_never_slower_by_any_recorded_routing(data, facts, free, ram, more):
    evidence = Evidence(recorded=data.draw(recordings(facts)))
    less, roomy = (planned(facts, machine_with(free, size), Wishes(), evidence) for size in (ram, ram + more))
    assume(not fits(less, machine_with(free, ram)))  # the speed of what does not load is no measure
    assert is_no_slower(roomy, less)


@some
@given(st.data(), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_pool_is_never_hit_less(data, one, other):
    facts = make_facts(layers=5, experts=64, used=4, expert_sizes=[MIB, 2 * MIB, MIB, 3 * MIB, MIB])
    found = data.draw(recordings(facts))
    assume(found.layers)
    curve = curve_of(found, facts.expert_bytes, found.layers)
    whole = curve.points[-1].pool_bytes
    assert curve.at(int(min(one, other) * whole)) <= curve.at(int(max(one, other) * whole)) + 1e-12
