"""The native simulator: LRU of all sizes and the oracle against brute force, the policies against the Python ones."""

import math
from collections import OrderedDict
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import make_trace, skewed_trace

from app.errors import AppError, ErrorCode
from app.placement.cache import replay as cache_replay
from app.placement.cache import simulator
from app.placement.cache.replay import BEFORE_THE_TRACE, LayerPool
from app.placement.cache.simulator import STEADY, TRANSIENT, WHOLE
from app.placement.cache.simulator_library import QUARTERS, LayerTrace, SimulatorLibrary, simulator_library
from app.placement.plan import PINS, POLICIES, CachePolicy, ExpertPin

weights = st.floats(0, 1, width=32) | st.just(math.nan)


@st.composite
def routings(draw, most_experts=9, most_steps=40, most_used=4):
    """The experts of a layer, and for each step the (expert, weight) it is routed to; few experts come often."""
    experts = draw(st.integers(1, most_experts))
    expert = st.integers(0, min(2, experts - 1)) | st.integers(0, experts - 1)
    step = st.lists(st.tuples(expert, weights), min_size=1, max_size=most_used, unique_by=lambda pair: pair[0])
    return experts, draw(st.lists(step, max_size=most_steps))


def rows_of(steps, layer=0):
    return [(token, layer, expert, weight) for token, step in enumerate(steps) for expert, weight in step]


def layers_of(experts, steps):
    return simulator.split_layers(make_trace(rows_of(steps), {0: experts}))


def quarter_of(step, steps):
    return next(quarter for quarter in range(QUARTERS) if step < steps * (quarter + 1) // QUARTERS)


def brute_lru(steps, slots, decay):
    """Hits by quarter of a cache that is a list of experts, the latest first."""
    hits = [0] * QUARTERS
    heat: dict[int, float] = {}
    held: OrderedDict[int, None] = OrderedDict()
    for number, step in enumerate(steps):
        routed = [expert for expert, _ in step]
        hits[quarter_of(number, len(steps))] += sum(expert in held for expert in routed)
        heat = {expert: value * decay for expert, value in heat.items()}
        for expert in routed:
            heat[expert] = heat.get(expert, 0.0) + 1.0
        coldest_first = routed[::-1]
        coldest_first.sort(key=heat.__getitem__)
        for expert in coldest_first:
            held[expert] = None
            held.move_to_end(expert)
        while len(held) > slots:
            held.popitem(last=False)
    return hits


@settings(max_examples=150, deadline=None)
@given(routings(), st.sampled_from([1.0, 0.5]))  # both sides compute exactly with them
def test_the_hits_of_lru_with_every_number_of_slots_are_those_of_a_list_of_experts(routing, decay):
    experts, steps = routing
    hits = simulator.lru_hits(layers_of(experts, steps), decay)[0]
    assert hits.shape == (QUARTERS, experts + 1)
    for slots in range(experts + 1):
        assert hits[:, slots].tolist() == brute_lru(steps, slots, decay)


policies = st.builds(
    CachePolicy,
    kind=st.sampled_from(POLICIES),
    insert_cap=st.integers(1, 4),
    window=st.sampled_from([0, 1, 2, 5, 64]),
    decay=st.sampled_from([1.0, 0.98, 0.9, 0.3]) | st.floats(0.01, 1),
    margin=st.sampled_from([1.0, 1.1, 2.0]),
    threshold=st.sampled_from([0.0, 0.0, 0.1, 0.5]),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(routings(), min_size=1, max_size=2), policies, st.integers(0, 9), st.data())
def test_a_replay_counts_what_the_same_policy_in_python_decides(made, policy, slots, data):
    rows, experts, pins, heat = [], {}, [], {}
    for layer, (count, steps) in enumerate(made):
        rows += rows_of(steps, layer)
        experts[layer] = count
        pin = st.builds(ExpertPin, layer=st.just(layer), expert=st.integers(0, count - 1), pin=st.sampled_from(PINS))
        pins += data.draw(st.lists(pin, max_size=3, unique_by=lambda made: made.expert))
        if data.draw(st.booleans()):
            heat[layer] = data.draw(st.lists(st.integers(0, 5), min_size=count, max_size=count))
    rows.sort(key=lambda row: row[0])
    layers = simulator.split_layers(make_trace(rows, experts))
    told = simulator.replay(
        layers, policy, dict.fromkeys(experts, slots), pins=pins,
        heat={layer: np.array(values, dtype=np.float32) for layer, values in heat.items()},
    )  # fmt: skip
    # Fewer experts than slots: the cache never gives a layer more slots than it has experts.
    pools = {layer: LayerPool(count, min(slots, count)) for layer, count in experts.items()}
    simulated = cache_replay.replay(rows, pools, policy, pins=pins, heat=heat)
    for layer, its in simulated.items():
        ours, steps = told[layer], len(made[layer][1])
        assert (ours.hits.sum(), ours.misses.sum(), ours.evictions.sum()) == (its.hits, its.misses, its.evictions)
        by_quarter = [0] * QUARTERS
        for decision in its.decisions:
            if decision.token != BEFORE_THE_TRACE:
                by_quarter[quarter_of(decision.token, steps)] += 1
        assert ours.inserts.tolist() == by_quarter
        assert ours.filled == sum(decision.token == BEFORE_THE_TRACE for decision in its.decisions)


def most_hits(experts, steps, slots, prefilled):
    """The most hits of any cache, by trying every content that it can have after every step."""

    @cache
    def best(number, held):
        if number == len(steps):
            return 0
        routed = {expert for expert, _ in steps[number]}
        found = len(routed & held)
        return found + max(best(number + 1, kept) for kept in contents(routed | held))

    def contents(possible):
        for size in range(min(slots, len(possible)) + 1):
            yield from map(frozenset, combinations(sorted(possible), size))

    starts = contents(range(experts)) if prefilled else [frozenset()]
    return max(best(0, start) for start in starts)


@settings(max_examples=150, deadline=None)
@given(routings(most_experts=5, most_steps=6, most_used=3), st.integers(0, 4), st.booleans())
def test_the_oracle_hits_as_often_as_the_best_of_all_possible_caches(routing, slots, prefilled):
    experts, steps = routing
    told = simulator.oracle(layers_of(experts, steps), {0: slots}, prefilled=prefilled)[0]
    assert told.hits.sum() == most_hits(experts, steps, slots, prefilled)
    assert told.hits.sum() + told.misses.sum() == len(rows_of(steps))
    assert told.inserts.sum() <= told.misses.sum()
    assert told.evictions.sum() <= told.inserts.sum()
    assert told.filled <= (min(slots, experts) if prefilled else 0)


@settings(max_examples=150, deadline=None)
@given(routings(), policies, st.integers(0, 9), st.data())
def test_no_policy_hits_more_often_than_the_oracle(routing, policy, slots, data):
    experts, steps = routing
    layers, slots = layers_of(experts, steps), {0: slots}
    empty = simulator.oracle(layers, slots, prefilled=False)[0].hits.sum()
    filled = simulator.oracle(layers, slots)[0].hits.sum()
    assert empty <= filled
    assert simulator.replay(layers, policy, slots)[0].hits.sum() <= empty
    assert simulator.lru_hits(layers)[0][:, min(slots[0], experts)].sum() <= empty
    assert simulator.replay(layers, policy, slots, heat=simulator.hindsight_heat(layers))[0].hits.sum() <= filled
    pins = [ExpertPin(layer=0, expert=expert, pin="gpu") for expert in data.draw(st.sets(st.integers(0, experts - 1)))]
    assert simulator.replay(layers, policy, slots, pins=pins)[0].hits.sum() <= filled


@settings(max_examples=50, deadline=None)
@given(routings(), st.integers(0, 9))
def test_no_placement_that_never_changes_hits_more_often_than_the_frozen_one_with_hindsight(routing, slots):
    experts, steps = routing
    layers = layers_of(experts, steps)
    frozen = simulator.replay(layers, CachePolicy(kind="frozen"), {0: slots}, heat=simulator.hindsight_heat(layers))[0]
    counts = sorted(np.bincount([row[2] for row in rows_of(steps)] or [0], minlength=1).tolist(), reverse=True)
    assert frozen.hits.sum() == (sum(counts[:slots]) if steps else 0)
    assert frozen.inserts.sum() == 0


def test_the_policy_without_window_and_cap_hits_what_plain_lru_does_from_top_k_slots_on():
    layers = simulator.split_layers(skewed_trace(tokens=1000, experts=32))
    hits = simulator.lru_hits(layers)
    for slots in range(4, 33):
        policy = CachePolicy(kind="lru", window=0, insert_cap=4)
        for layer, told in simulator.replay(layers, policy, dict.fromkeys(layers, slots)).items():
            # Of experts with equal heat, which start with their first tokens, the one in the lowest slot goes.
            assert told.hits.sum() == pytest.approx(int(hits[layer][:, slots].sum()), abs=20)


def test_a_trace_is_split_into_the_steps_of_its_layers():
    nan = math.nan
    rows = [(7, 0, 1, 0.5), (7, 0, 3, nan), (7, 5, 0, 1.0), (8, 5, 1, 0.5), (9, 0, 1, 0.25), (9, 5, 1, 0.5)]
    layers = simulator.split_layers(make_trace(rows, {0: 4, 3: 9, 5: 2}))
    assert list(layers) == [0, 3, 5]
    assert (layers[0].starts.tolist(), layers[0].routed.tolist(), layers[0].steps) == ([0, 2, 3], [1, 3, 1], 2)
    np.testing.assert_array_equal(layers[0].weights, np.array([0.5, nan, 0.25], dtype=np.float32))
    assert (layers[3].starts.tolist(), layers[3].experts, layers[3].steps) == ([0], 9, 0)
    assert layers[5].starts.tolist() == [0, 1, 2, 3]


def test_quarters_are_divided_as_the_native_simulator_divides_them():
    for steps in range(13):
        layers = layers_of(4, [[(0, 0.5), (step % 4, 0.5)][: 1 + (step % 4 > 0)] for step in range(steps)])
        told = simulator.replay(layers, CachePolicy(), {0: 0})[0]
        assert simulator.routed_by_quarter(layers[0]).tolist() == told.misses.tolist()


def test_the_hit_curve_of_a_part_is_that_of_its_quarters():
    trace = skewed_trace()
    layers = simulator.split_layers(trace)
    hits = simulator.lru_hits(layers)
    sizes = {0: 100, 1: 200, 2: 300}
    for part in (TRANSIENT, STEADY, WHOLE):
        curve = simulator.hit_curve(hits, layers, sizes, part)
        routed = {layer: simulator.routed_by_quarter(layers[layer])[part].sum() for layer in layers}
        hit = sum(sizes[layer] * hits[layer][part, 5].sum() for layer in layers)
        assert curve.at(5 * 600) == pytest.approx(hit / sum(sizes[layer] * routed[layer] for layer in layers))
    transient, steady = (simulator.hit_curve(hits, layers, sizes, part) for part in (TRANSIENT, STEADY))
    assert transient.at(9600) < steady.at(9600)


@pytest.mark.parametrize(
    ("routed", "starts"), [([0, 4], [0, 1, 2]), ([-1, 0], [0, 1, 2]), ([3, 3], [0, 2]), ([1, 2, 1], [0, 3])]
)
def test_experts_that_do_not_exist_or_come_twice_in_a_step_are_refused(routed, starts):
    layer = LayerTrace(4, np.array(starts), np.array(routed, dtype=np.int32), np.zeros(len(routed), dtype=np.float32))
    library = simulator_library()
    for call in (
        lambda: library.lru_curve(layer, 1.0),
        lambda: library.replay(layer, CachePolicy(), 2),
        lambda: library.oracle(layer, 2, prefilled=True),
    ):
        with pytest.raises(AppError) as caught:
            call()
        assert caught.value.code is ErrorCode.FILE_UNREADABLE


@pytest.mark.parametrize(
    "layer",
    [
        LayerTrace(0, np.array([0]), np.zeros(0, np.int32), np.zeros(0, np.float32)),
        LayerTrace(40_000, np.array([0]), np.zeros(0, np.int32), np.zeros(0, np.float32)),
        LayerTrace(4, np.array([0, 2, 1, 2]), np.array([0, 1], np.int32), np.zeros(2, np.float32)),
        LayerTrace(4, np.array([1, 2]), np.array([0, 1], np.int32), np.zeros(2, np.float32)),
        LayerTrace(4, np.array([0, 3]), np.array([0, 1], np.int32), np.zeros(2, np.float32)),
        LayerTrace(4, np.array([0, 2]), np.array([0, 1], np.int32), np.zeros(1, np.float32)),
        LayerTrace(4, np.array([0, 2]), np.array([0, 1], np.int64), np.zeros(2, np.float32)),
        LayerTrace(4, np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)),
    ],
)
def test_arrays_that_are_no_routing_are_refused(layer):
    with pytest.raises(AppError) as caught:
        simulator_library().lru_curve(layer, 1.0)
    assert caught.value.code is ErrorCode.BAD_USAGE


@pytest.mark.parametrize("policy", [CachePolicy(insert_cap=0), CachePolicy(decay=math.nan), CachePolicy(margin=0.5)])
def test_a_policy_that_cannot_be_followed_is_refused(policy):
    with pytest.raises(AppError) as caught:
        simulator.replay(layers_of(2, [[(0, 0.5)]]), policy, {0: 1})
    assert caught.value.code is ErrorCode.BAD_USAGE


@pytest.mark.parametrize("decay", [0.0, -1.0, 1.5, math.nan])
def test_a_decay_that_is_none_is_refused(decay):
    with pytest.raises(AppError) as caught:
        simulator.lru_hits(layers_of(2, [[(0, 0.5)]]), decay)
    assert caught.value.code is ErrorCode.BAD_USAGE


def test_negative_slots_and_heat_of_another_layer_are_refused():
    layers = layers_of(2, [[(0, 0.5)]])
    for call in (
        lambda: simulator.replay(layers, CachePolicy(), {0: -1}),
        lambda: simulator.oracle(layers, {0: -1}),
        lambda: simulator.replay(layers, CachePolicy(), {0: 1}, heat={0: np.ones(3, dtype=np.float32)}),
    ):
        with pytest.raises(AppError) as caught:
            call()
        assert caught.value.code is ErrorCode.BAD_USAGE


def test_a_library_that_is_missing_or_another_one_is_a_typed_error(tmp_path):
    other = tmp_path / "other.so"
    other.write_bytes(b"no library")
    for path in (tmp_path / "none.so", other):
        with pytest.raises(AppError) as caught:
            SimulatorLibrary(path)
        assert caught.value.code is ErrorCode.ENGINE_MISSING
