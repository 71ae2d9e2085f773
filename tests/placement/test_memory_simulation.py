"""Main memory of any size against a recorded routing: beside a cache that is run step by step."""

import itertools

import pytest
from made_traces import make_trace, skewed_trace
from two_tiers import missed

from app.placement.cache.memory_simulation import memory_points


def test_every_size_holds_what_a_cache_of_all_layers_holds_that_is_run_step_by_step():
    trace = skewed_trace(tokens=400, layers=(2, 5, 7), experts=16)
    points = memory_points(trace)
    assert [points[0].experts, points[-1].experts] == [0, 48]
    for point in points:
        if 8 < point.experts < 12:  # just below a token cycle all hangs on which of a token's experts goes first
            continue
        assert 1 - missed(trace, 16, 0, point.experts, skip=0) == pytest.approx(point.whole, abs=0.015)
        assert 1 - missed(trace, 16, 0, point.experts, skip=0.5) == pytest.approx(point.steady, abs=0.015)
    for less, more in itertools.pairwise(points):
        assert (less.whole, less.transient, less.steady) <= (more.whole, more.transient, more.steady)


def test_sizes_are_told_in_bytes_where_they_are_known():
    trace = skewed_trace(layers=(0, 1), experts=16)
    assert {point.bytes for point in memory_points(trace)} == {None}
    points = memory_points(trace, {0: 1000, 1: 3000})
    assert (points[0].bytes, points[-1].bytes) == (0, 16 * 4000)


def test_below_one_token_cycle_nothing_is_found_again():
    trace = make_trace([(token, layer, expert, 0.5) for token in range(50) for layer in (0, 1) for expert in (0, 1)],
                       {0: 8, 1: 8})  # fmt: skip
    found = {point.experts: point.whole for point in memory_points(trace)}
    assert (found[2], found[4]) == (0, pytest.approx(0.98))


def test_more_experts_than_can_be_counted_have_no_points():
    assert memory_points(make_trace([(0, 0, 1, 1.0)], dict.fromkeys(range(40), 1024))) == ()
