"""The cache policy by hand-worked routings: who gets a slot, who loses it, and what a replay counts."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.placement.cache.policy import Insert, LayerPolicy, Move
from app.placement.cache.replay import BEFORE_THE_TRACE, Decision, LayerPool, LayerReplay, replay
from app.placement.plan import CachePolicy, ExpertPin

AT_ONCE = CachePolicy(kind="lru", insert_cap=8, window=0, decay=1.0)
DECAY = CachePolicy(kind="decay", insert_cap=8, decay=1.0, margin=1.5)
FROZEN = CachePolicy(kind="frozen", insert_cap=8)
MANUAL = CachePolicy(kind="manual", insert_cap=8)


def layer_with(policy, experts, slots, *, heat=None, pins=()):
    layer = LayerPolicy(experts)
    layer.resize(policy, slots)
    for expert, pin in pins:
        layer.set_pin(expert, pin)
    if heat is not None:
        layer.set_heat(heat)
    copied(layer, layer.fill(policy, slots))
    return layer


def copied(layer, inserts):
    for insert in inserts:
        layer.complete(insert.slot, insert.expert)
    return inserts


def residents(layer):
    return {expert for expert in range(layer.experts) if layer.lane(expert) == "gpu"}


def trace_of(*tokens, layer=0, weight=math.nan):
    return [(token, layer, expert, weight) for token, routed in enumerate(tokens) for expert in routed]


# ---- lru


def test_lru_follows_a_hand_worked_trace():
    trace = trace_of([0, 1], [0, 2], [3, 0], [1, 0], [3, 1])
    result = replay(trace, {0: LayerPool(experts=5, slots=3)}, AT_ONCE)
    assert result == {
        0: LayerReplay(
            hits=5,  # 0 in the three tokens after the first, both of the last token
            misses=5,
            evictions=2,
            decisions=(
                Decision(0, Insert(0, 0)),
                Decision(0, Insert(1, 1)),
                Decision(1, Insert(2, 2)),
                Decision(2, Insert(3, 1, evicted=1)),  # 0 and 2 were routed to later than 1
                Decision(3, Insert(1, 2, evicted=2)),
            ),
        )
    }
    assert result[0].hit_rate == 0.5


def test_lru_evicts_for_an_expert_only_when_it_comes_back_within_the_window():
    policy = CachePolicy(kind="lru", insert_cap=8, window=2)
    layer = layer_with(policy, experts=6, slots=1)
    assert copied(layer, layer.step(policy, [0])) == [Insert(0, 0)]  # a free slot takes anyone
    assert layer.step(policy, [1]) == []
    assert layer.step(policy, [2]) == []
    assert layer.step(policy, [5]) == []
    assert layer.step(policy, [1]) == []  # three tokens ago
    assert layer.step(policy, [5]) == [Insert(5, 0, evicted=0)]  # two tokens ago


def test_lru_never_takes_the_slot_of_an_expert_that_the_token_uses_or_that_is_still_copied():
    layer = layer_with(AT_ONCE, experts=4, slots=2)
    copied(layer, layer.step(AT_ONCE, [0]))
    assert layer.step(AT_ONCE, [0, 1, 2]) == [Insert(1, 1)]  # 0 is in use, 1 on its way
    assert layer.step(AT_ONCE, [2, 3]) == [Insert(2, 0, evicted=0)]


def test_of_residents_that_left_together_the_less_hot_goes_and_a_saved_profile_keeps_its_best():
    layer = layer_with(AT_ONCE, experts=5, slots=3, heat=[5, 9, 7, 0, 0])
    assert residents(layer) == {0, 1, 2}
    assert [insert.evicted for insert in copied(layer, layer.step(AT_ONCE, [3, 4]))] == [0, 2]


def test_no_more_experts_than_the_cap_are_inserted_and_the_heaviest_are():
    policy = CachePolicy(kind="lru", insert_cap=2, window=0)
    layer = layer_with(policy, experts=6, slots=6)
    inserts = layer.step(policy, [0, 1, 2, 3, 4], [0.1, math.nan, 0.3, 0.1, 0.5])
    assert [insert.expert for insert in copied(layer, inserts)] == [4, 2]
    # Of equals the first given; unknown weights last.
    assert [insert.expert for insert in copied(layer, layer.step(policy, [1, 3, 0], [math.nan, 0.1, 0.1]))] == [3, 0]


def test_an_expert_routed_below_the_threshold_gets_no_slot_unless_its_weight_is_unknown():
    policy = CachePolicy(kind="lru", insert_cap=8, window=0, threshold=0.2)
    layer = layer_with(policy, experts=6, slots=6)
    inserts = layer.step(policy, [0, 1, 2, 3], [0.1999, 0.2, 0.9, math.nan])
    # 0.2 is compared as the float32 that both settings and weights are carried in.
    assert [insert.expert for insert in inserts] == [2, 1, 3]


# ---- decay


def test_heat_counts_tokens_and_cools_with_every_one():
    policy = CachePolicy(kind="lru", decay=0.5)
    layer = layer_with(policy, experts=3, slots=0)
    layer.step(policy, [0])
    layer.step(policy, [0, 1])
    layer.step(policy, [2])
    assert [layer.heat(expert) for expert in range(3)] == [0.75, 0.5, 1.0]


def test_a_changed_decay_cools_from_the_next_token_on():
    layer = layer_with(AT_ONCE, experts=2, slots=0, heat=[8, 4])
    layer.step(CachePolicy(decay=0.5), [])
    layer.step(CachePolicy(decay=0.25), [1])
    assert [layer.heat(expert) for expert in range(2)] == [1.0, 1.5]


def test_decay_replaces_the_least_hot_only_by_an_expert_hotter_by_the_margin():
    layer = layer_with(DECAY, experts=4, slots=2, heat=[4, 2, 0, 0])
    assert residents(layer) == {0, 1}
    for _ in range(3):
        assert layer.step(DECAY, [2]) == []  # heat 3 is not above 1.5 times 2
    assert copied(layer, layer.step(DECAY, [2])) == [Insert(2, 1, evicted=1)]
    assert layer.step(DECAY, [3]) == []


# ---- frozen and manual


def test_frozen_is_filled_by_heat_and_routing_moves_nothing():
    layer = layer_with(FROZEN, experts=6, slots=3, heat=[0, 3, 1, 9, 2, 0])
    assert residents(layer) == {3, 1, 4}
    for _ in range(20):
        assert layer.step(FROZEN, [0, 5]) == []
    layer.set_pin(3, "cpu")
    assert layer.step(FROZEN, [0, 5]) == []  # not even into a free slot
    assert copied(layer, layer.fill(FROZEN, 8)) == [Insert(0, 0)]  # the hottest outside by now: 20 tokens


def test_frozen_gives_way_to_a_pin():
    layer = layer_with(FROZEN, experts=4, slots=2, heat=[5, 4, 0, 0])
    layer.set_pin(3, "gpu")
    assert layer.step(FROZEN, [2]) == [Insert(3, 1, evicted=1)]


def test_what_has_no_heat_is_not_copied_to_fill_a_slot():
    assert residents(layer_with(FROZEN, experts=4, slots=3, heat=[0, math.nan, -1, 2])) == {3}


def test_manual_holds_pins_only_but_takes_nothing_away_before_a_pin_needs_the_slot():
    layer = layer_with(AT_ONCE, experts=5, slots=2)
    copied(layer, layer.step(AT_ONCE, [0, 1]))
    assert layer.step(MANUAL, [2, 3]) == []
    assert residents(layer) == {0, 1}
    layer.set_pin(4, "gpu")
    assert copied(layer, layer.step(MANUAL, [0])) == [Insert(4, 1, evicted=1)]
    layer.set_pin(4, "auto")
    assert residents(layer) == {0, 4}
    layer.set_heat([1] * 5)
    layer.set_pin(0, "cpu")
    assert layer.fill(MANUAL, 8) == []


# ---- pins


@pytest.mark.parametrize("policy", [AT_ONCE, DECAY, FROZEN, MANUAL])
def test_pins_win_in_every_policy(policy):
    layer = layer_with(policy, experts=5, slots=2, heat=[1, 9, 8, 0, 0], pins=[(0, "gpu"), (1, "cpu")])
    assert layer.lane(0) == "gpu"
    for token in range(30):
        copied(layer, layer.step(policy, [1, 2 + token % 3]))
        assert layer.lane(0) == "gpu"
        assert layer.lane(1) == "cpu"


def test_waiting_pins_come_before_candidates_the_hottest_first_and_count_towards_the_cap():
    policy = CachePolicy(kind="lru", insert_cap=2, window=0, threshold=0.5)
    layer = layer_with(policy, experts=6, slots=4)
    layer.set_heat([0, 0, 0, 1, 2, 1])
    for expert in (3, 4, 5):
        layer.set_pin(expert, "gpu")
    assert [insert.expert for insert in copied(layer, layer.step(policy, [0], [0.9]))] == [4, 3]
    assert [insert.expert for insert in copied(layer, layer.step(policy, [0], [0.9]))] == [5, 0]


def test_pins_beyond_the_slots_are_counted_and_push_no_pin_out():
    layer = layer_with(AT_ONCE, experts=5, slots=2, pins=[(0, "gpu"), (1, "gpu"), (2, "gpu")])
    assert (layer.pinned_to_gpu, layer.unplaced_pins) == (3, 1)
    assert layer.step(AT_ONCE, [2, 3]) == []
    assert residents(layer) == {0, 1}


def test_a_pin_between_tokens_gets_even_the_slot_of_an_expert_of_the_last_token():
    layer = layer_with(AT_ONCE, experts=3, slots=1)
    copied(layer, layer.step(AT_ONCE, [0]))
    layer.set_pin(1, "gpu")
    assert layer.step(AT_ONCE, [0]) == []
    assert layer.fill(AT_ONCE, 1) == [Insert(1, 0, evicted=0)]


def test_a_pin_to_the_cpu_frees_a_slot_at_once_but_one_being_copied_into_when_the_copy_ends():
    layer = layer_with(AT_ONCE, experts=4, slots=2)
    copied(layer, layer.step(AT_ONCE, [0]))
    layer.step(AT_ONCE, [1])
    layer.set_pin(0, "cpu")
    layer.set_pin(1, "cpu")
    assert (layer.lane(0), layer.lane(1)) == ("cpu", "copying")
    layer.complete(1, 1)
    assert layer.lane(1) == "cpu"
    assert layer.evictions == 0
    assert [insert.slot for insert in layer.step(AT_ONCE, [2, 3])] == [0, 1]


def test_a_slot_freed_while_a_token_computes_from_it_is_not_taken_for_that_token():
    layer = layer_with(AT_ONCE, experts=4, slots=1)
    copied(layer, layer.step(AT_ONCE, [0]))
    layer.set_pin(0, "cpu")  # the token below has looked its hits up already
    assert layer.step(AT_ONCE, [0, 1]) == []
    assert layer.step(AT_ONCE, [0, 1]) == [Insert(1, 0)]


def test_a_failed_copy_leaves_the_slot_free_and_the_evicted_expert_out():
    layer = layer_with(AT_ONCE, experts=3, slots=1)
    copied(layer, layer.step(AT_ONCE, [0]))
    layer.step(AT_ONCE, [1])
    layer.complete(0, 1, ok=False)
    assert residents(layer) == set()
    assert layer.step(AT_ONCE, [1]) == [Insert(1, 0)]
    layer.complete(0, 2)  # nobody copies that
    assert layer.lane(1) == "copying"


# ---- size


def test_a_smaller_pool_keeps_pins_first_then_the_most_recent_and_moves_only_what_must():
    layer = layer_with(AT_ONCE, experts=6, slots=5, pins=[(0, "gpu")])
    for expert in (1, 2, 3, 4):
        copied(layer, layer.step(AT_ONCE, [expert]))
    assert layer.resize(AT_ONCE, 2) == [Move(0, 0, 0), Move(4, 4, 1)]
    assert layer.ready_slot(4) == 1
    assert residents(layer) == {0, 4}
    assert layer.evictions == 0


def test_a_smaller_pool_keeps_the_hottest_where_heat_is_the_measure():
    layer = layer_with(DECAY, experts=4, slots=4, heat=[1, 4, 2, 3])
    layer.resize(DECAY, 2)
    assert residents(layer) == {1, 3}


def test_a_larger_pool_keeps_all_where_they_are():
    layer = layer_with(AT_ONCE, experts=4, slots=2)
    copied(layer, layer.step(AT_ONCE, [0, 1]))
    assert layer.resize(AT_ONCE, 4) == [Move(0, 0, 0), Move(1, 1, 1)]
    assert [insert.slot for insert in layer.step(AT_ONCE, [2])] == [2]


# ---- replay


def test_layers_are_replayed_each_by_itself_in_whatever_order_their_entries_lie():
    first, second = trace_of([0], [1], [0], [1], layer=3), trace_of([2], [2], [2], layer=7)
    pools = {3: LayerPool(4, 1), 7: LayerPool(4, 1)}
    apart = replay(first + second, pools, AT_ONCE)
    assert replay(sorted(first + second), pools, AT_ONCE) == apart
    assert (apart[3].hits, apart[3].misses, apart[3].evictions) == (0, 4, 3)  # below one cycle: never a hit
    assert (apart[7].hits, apart[7].misses, apart[7].evictions) == (2, 1, 0)


def test_a_replay_starts_with_pins_and_saved_heat_and_leaves_layers_without_a_pool_out():
    trace = trace_of([0, 1], layer=0) + trace_of([0, 1], layer=1)
    result = replay(
        trace, {1: LayerPool(4, 2)}, FROZEN, pins=[ExpertPin(layer=1, expert=3, pin="gpu")], heat={1: [2, 5, 1, 0]}
    )
    assert list(result) == [1]
    assert result[1].decisions == (
        Decision(BEFORE_THE_TRACE, Insert(3, 0)),
        Decision(BEFORE_THE_TRACE, Insert(1, 1)),
    )
    assert (result[1].hits, result[1].misses) == (1, 1)


def test_a_layer_that_nothing_was_routed_to_has_no_hit_rate():
    assert replay([], {0: LayerPool(4, 2)}, AT_ONCE)[0].hit_rate == 0


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.integers(0, 7), min_size=2, max_size=2, unique=True), min_size=1, max_size=60))
def test_a_larger_lru_pool_that_admits_at_once_never_has_fewer_hits(tokens):
    hits = [
        replay(trace_of(*tokens), {0: LayerPool(8, slots)}, AT_ONCE)[0].hits
        for slots in range(2, 9)  # from one token cycle on
    ]
    assert hits == sorted(hits)
    assert all(count <= 2 * len(tokens) for count in hits)
