"""Heat arithmetic: shares, the colour scale, and what is left out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ui.lanes.heat import fractions_of

COUNTS = st.lists(st.integers(0, 100_000), min_size=1, max_size=512).map(lambda counts: np.array([counts]))
SOME = COUNTS.filter(lambda counts: counts.sum() > 0)


@given(COUNTS)
def test_fractions_lie_between_zero_and_one_and_keep_the_order_of_the_counts(counts):
    fractions, _hottest = fractions_of(counts)
    assert fractions.shape == counts.shape
    assert ((fractions >= 0) & (fractions <= 1)).all()
    order = np.argsort(counts[0], kind="stable")
    assert (np.diff(fractions[0][order]) >= 0).all()
    assert ((fractions == 0) == (counts == 0)).all()


@given(SOME)
def test_the_hottest_expert_of_the_scale_gets_the_end_of_it(counts):
    fractions, hottest = fractions_of(counts)
    assert fractions.max() == pytest.approx(1.0)
    assert hottest == pytest.approx(counts.max() / counts.sum(), rel=1e-6)


@given(SOME, st.integers(2, 1000))
def test_colours_do_not_depend_on_how_many_tokens_were_counted(counts, times):
    np.testing.assert_allclose(fractions_of(counts * times)[0], fractions_of(counts)[0], rtol=1e-5)


def test_the_scale_is_logarithmic_in_multiples_of_the_even_share():
    fractions, hottest = fractions_of(np.array([[5, 1, 1, 1]]))
    assert hottest == pytest.approx(0.625)
    assert fractions[0, 1] == pytest.approx(math.log1p(0.125 * 4) / math.log1p(0.625 * 4))


def test_all_layers_share_one_scale():
    fractions, hottest = fractions_of(np.array([[1, 5], [4, 4], [0, 0]]))
    assert hottest == pytest.approx(5 / 6)
    assert fractions[1].max() < fractions[0].max() == 1.0
    assert not fractions[2].any()


@pytest.mark.parametrize("shape", [(0, 0), (0, 8), (2, 8)])
def test_nothing_counted_is_cold_everywhere(shape):
    fractions, hottest = fractions_of(np.zeros(shape, int))
    assert not fractions.any()
    assert hottest == 0.0
