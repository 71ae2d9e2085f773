"""Whether an expert pool can help at all, and what is said when it cannot."""

import re

from factories import GIB, MIB, demo, make_facts, qwen3_30b
from hypothesis import given, settings
from hypothesis import strategies as st

from app.placement.cache.guard import divide_pool, guard_pool
from app.units import parse_size

sizes_of_layers = st.dictionaries(st.integers(0, 60), st.integers(1, 20 * MIB), min_size=1, max_size=20)


def guard(facts, pool_bytes):
    return guard_pool(facts.expert_bytes, facts.expert_count, facts.experts_used, pool_bytes)


def test_a_pool_of_one_token_cycle_has_top_k_slots_in_every_layer_and_helps():
    facts = demo()
    held = guard(facts, facts.token_cycle_bytes)
    assert held.cycle_bytes == facts.token_cycle_bytes == 30 * 2 * 1_658_880
    assert held.slots == dict.fromkeys(range(30), 2)
    assert held.helps
    assert held.sentence == ""


def test_one_byte_less_than_a_cycle_helps_little_and_what_would_help_is_said():
    facts = qwen3_30b()
    held = guard(facts, facts.token_cycle_bytes - 1)
    assert not held.helps
    assert held.slots == {**dict.fromkeys(range(47), 8), 47: 7}
    assert held.sentence == (
        "An expert pool of 1.0 GiB helps little or not at all: it has 7 slots in each layer, but every token is routed "
        "to 8 experts there, and most lose their slots before they are used again. What would help: a pool of 1.1 GiB "
        "or more, or all experts of 2 layers (of 48) on the GPU, which that much memory is enough for."
    )


def test_a_pool_too_small_for_any_whole_layer_names_what_one_takes():
    held = guard(make_facts(layers=4, experts=64, used=1, expert_sizes=[3 * MIB, 2 * MIB, 3 * MIB, 3 * MIB]), 4 * MIB)
    assert held.sentence == (
        "An expert pool of 4.0 MiB helps little or not at all: it has no slot in some layers, but every token is "
        "routed to 1 expert there, and most lose their slots before they are used again. What would help: a pool of "
        "11.0 MiB or more, or all experts of single layers on the GPU, from 128.0 MiB a layer."
    )


def test_a_single_whole_layer_is_named_as_one():
    held = guard(make_facts(layers=2, experts=4, used=4), 7 * MIB)
    assert held.sentence.endswith("or all experts of 1 layer (of 2) on the GPU, which that much memory is enough for.")


def test_no_pool_does_not_help_but_is_not_warned_of():
    held = guard(demo(), 0)
    assert not held.helps
    assert held.sentence == ""
    assert set(held.slots.values()) == {0}


def test_a_model_without_experts_has_no_slots():
    held = guard(make_facts(experts=0), GIB)
    assert (held.cycle_bytes, held.slots, held.helps, held.sentence) == (0, {}, False, "")


def test_a_pool_larger_than_all_experts_has_a_slot_for_each_and_no_more():
    assert divide_pool({0: MIB, 1: 2 * MIB}, 8, GIB) == {0: 8, 1: 8}


def test_what_is_left_over_goes_to_the_first_layers_that_it_is_enough_for():
    assert divide_pool({0: 10, 1: 10, 2: 10}, 8, 50) == {0: 2, 1: 2, 2: 1}
    assert divide_pool({0: 40, 1: 10, 2: 10}, 8, 98) == {0: 1, 1: 3, 2: 2}
    assert divide_pool({0: 40, 1: 10, 2: 10}, 2, 98) == {0: 1, 1: 2, 2: 2}


@settings(max_examples=200, deadline=None)
@given(sizes_of_layers, st.integers(1, 32), st.integers(1, 8), st.integers(0, 2 * GIB))
def test_slots_never_take_more_than_the_pool_and_leave_room_for_none(sizes, count, used, pool):
    slots = divide_pool(sizes, count, pool)
    left = pool - sum(sizes[layer] * n for layer, n in slots.items())
    assert left >= 0
    assert all(0 <= n <= count for n in slots.values())
    assert all(n == count or sizes[layer] > left for layer, n in slots.items())
    assert min(slots.values()) == min(pool // sum(sizes.values()), count)


@settings(max_examples=200, deadline=None)
@given(sizes_of_layers, st.integers(1, 32), st.integers(1, 8), st.integers(1, 2 * GIB))
def test_it_helps_exactly_when_every_layer_has_the_slots_of_a_token_and_what_is_written_is_enough(
    sizes, count, used, pool
):
    count = max(count, used)
    held = guard_pool(sizes, count, used, pool)
    # Equal rounds: a whole cycle is what gives each layer top-k slots.
    assert held.helps == (pool // sum(sizes.values()) >= used)
    assert bool(held.sentence) == (not held.helps)
    if held.sentence:
        written = re.search(r"a pool of ([\d.]+ \w+) or more", held.sentence)[1]
        enough = guard_pool(sizes, count, used, parse_size(written))
        assert enough.helps
        assert min(enough.slots.values()) >= used
