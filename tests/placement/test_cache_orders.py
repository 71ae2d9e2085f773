"""Orders to the expert cache that cannot be carried out are refused with what is possible."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import AppError, ErrorCode
from app.placement.cache.orders import check_pins, check_policy, check_pool, check_residency
from app.placement.plan import PINS, POLICIES, STREAMS, CachePolicy, ExpertPin


def pinned(layer, expert, pin) -> ExpertPin:
    return ExpertPin(layer=layer, expert=expert, pin=pin)


def refused(check, *arguments) -> str:
    with pytest.raises(AppError) as caught:
        check(*arguments)
    assert caught.value.code is ErrorCode.BAD_USAGE
    return caught.value.message


@given(
    st.builds(
        CachePolicy,
        kind=st.sampled_from(POLICIES),
        insert_cap=st.integers(1, 1024),
        window=st.integers(0, 10_000),
        decay=st.floats(0, 1, exclude_min=True),
        margin=st.floats(1, 1000),
        threshold=st.floats(0, 1),
        stream=st.sampled_from(STREAMS),
    )
)
def test_every_policy_within_the_bounds_is_taken(policy):
    check_policy(policy)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "random"}, "lru, decay, frozen, manual"),
        ({"stream": "sometimes"}, "off, auto, always"),
        ({"insert_cap": 0}, "insert cap of 0 is impossible: it is from 1"),
        ({"window": -1}, "window of -1"),
        ({"window": 2**31}, "to 2,147,483,647"),
        ({"margin": 0.5}, "margin of 0.5 is impossible: it is from 1 on"),
        ({"margin": math.inf}, "margin"),
        ({"margin": math.nan}, "margin"),
        ({"threshold": 1.5}, "from 0 to 1"),
        ({"lock_bytes": -1}, "A locked memory of -1"),
        ({"decay": 0.0}, "above 0 and at most 1"),
        ({"decay": 1.01}, "above 0 and at most 1"),
        ({"decay": math.nan}, "above 0 and at most 1"),
    ],
)
def test_a_policy_beyond_them_is_refused_and_the_bound_named(changes, words):
    assert words in refused(check_policy, CachePolicy(**changes))


def test_sizes_that_no_memory_has_are_refused():
    check_pool(0, 0)
    check_pool(2**40, 2**30)
    assert "pool of -1 bytes" in refused(check_pool, -1, 0)
    assert "staging area of -5 bytes" in refused(check_pool, 1, -5)
    assert "8.0 EiB" in refused(check_pool, 2**63, 0)


def test_pins_of_experts_that_exist_are_taken():
    check_pins([pinned(3, expert, pin) for expert in (0, 7) for pin in PINS], {3: 8})


@pytest.mark.parametrize(
    ("pin", "words"),
    [
        (pinned(2, 0, "gpu"), "Layer 2 has no experts that can be pinned; layers that have: 3, 5."),
        (pinned(3, 8, "gpu"), "Layer 3 has no expert 8; it has 0 to 7."),
        (pinned(3, -1, "gpu"), "Layer 3 has no expert -1"),
        (pinned(5, 0, "disk"), "There is no pin 'disk'; there are: auto, gpu, cpu."),
    ],
)
def test_a_pin_of_what_does_not_exist_is_refused(pin, words):
    assert words in refused(check_pins, [pinned(3, 0, "cpu"), pin], {5: 4, 3: 8})


def test_where_nothing_can_be_pinned_the_refusal_says_so():
    assert "layers that have: none" in refused(check_pins, [pinned(0, 0, "gpu")], {})


def test_an_unknown_residency_is_refused():
    check_residency("repacked")
    assert "repacked, mapped" in refused(check_residency, "compressed")
