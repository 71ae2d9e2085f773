"""Heat arithmetic: shares, the colour scale, and what is left out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ui_factories import make_experts

from app.ui.lanes.heat import HeatMap, heat_fractions, heat_map

COUNTS = st.lists(st.integers(0, 100_000), min_size=1, max_size=512).map(np.array)


def shares(counts):
    return counts / counts.sum()


@given(COUNTS)
def test_fractions_lie_between_zero_and_one_and_keep_the_order_of_the_counts(counts):
    hottest = float(shares(counts).max()) if counts.sum() else 0.0
    fractions = heat_fractions(counts, hottest)
    assert fractions.shape == counts.shape
    assert ((fractions >= 0) & (fractions <= 1)).all()
    order = np.argsort(counts, kind="stable")
    assert (np.diff(fractions[order]) >= 0).all()
    assert ((fractions == 0) == (counts == 0)).all()


@given(COUNTS.filter(lambda counts: counts.sum() > 0))
def test_the_hottest_expert_of_the_scale_gets_the_end_of_it(counts):
    fractions = heat_fractions(counts, float(shares(counts).max()))
    assert fractions.max() == pytest.approx(1.0)


@given(COUNTS.filter(lambda counts: counts.sum() > 0), st.integers(2, 1000))
def test_colours_do_not_depend_on_how_many_tokens_were_counted(counts, times):
    hottest = float(shares(counts).max())
    np.testing.assert_allclose(heat_fractions(counts * times, hottest), heat_fractions(counts, hottest))


def test_a_layer_that_nothing_was_routed_through_is_cold_everywhere():
    assert not heat_fractions(np.zeros(8, dtype=int), 0.5).any()
    assert not heat_fractions(np.arange(8), 0.0).any()


def test_even_routing_is_told_apart_from_the_hottest_and_from_nothing():
    even, hot = heat_fractions(np.array([10] * 8), 0.5)[0], heat_fractions(np.array([10, 10]), 0.5)[0]
    assert 0.3 < even < 0.6
    assert hot == 1.0


def test_all_layers_share_one_scale():
    heat = heat_map({5: make_experts((0, 0)), 3: make_experts((1, 5)), 4: make_experts((4, 4))})
    assert list(heat.layers) == [3, 4, 5]
    assert heat.layers[3].counts.tolist() == [1, 5]
    assert heat.layers[3].share(1) == pytest.approx(5 / 6)
    assert heat.hottest_share == pytest.approx(5 / 6)
    assert heat.even_share == 0.5
    assert heat.layers[4].fractions.max() < heat.layers[3].fractions.max() == 1.0
    assert heat.layers[5].total == 0
    assert heat.layers[5].share(0) == 0.0


def test_the_hottest_experts_come_first_and_unused_ones_are_left_out():
    heat = heat_map({0: make_experts((0, 7, 9, 7))})
    assert heat.layers[0].hottest(4) == [2, 1, 3]


@pytest.mark.parametrize("layers", [{}, {0: make_experts((0, 0))}])
def test_nothing_counted_is_an_empty_map(layers):
    heat = heat_map(layers)
    assert isinstance(heat, HeatMap)
    assert heat.is_empty


def test_a_map_knows_whether_any_layer_has_a_pool():
    assert not heat_map({0: make_experts((1, 2)), 1: make_experts((1, 2))}).has_pool
    assert heat_map({0: make_experts((1, 2)), 1: make_experts((1, 2), slots=1, lanes="gc")}).has_pool
