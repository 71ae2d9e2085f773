"""The ring buffer behind a graph."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ui.graphs.ring import RingSeries


@given(st.integers(1, 20), st.lists(st.one_of(st.none(), st.floats(0, 1e6)), max_size=70))
def test_it_holds_exactly_the_newest_samples_in_order(capacity, values):
    series = RingSeries(capacity)
    for time, value in enumerate(values):
        series.append(time, value)
    kept = values[-capacity:]
    assert len(series) == len(kept)
    assert series.times.tolist() == list(range(len(values)))[-capacity:]
    np.testing.assert_array_equal(series.values, [math.nan if value is None else value for value in kept])
    assert series.latest == (kept[-1] if kept else None)


def test_its_arrays_are_views_of_one_piece_and_not_copies():
    series = RingSeries(4)
    for time in range(7):
        series.append(time, time)
    assert series.values.flags.c_contiguous
    assert series.values.base is not None
    assert series.values.tolist() == [3, 4, 5, 6]


def test_a_gap_is_neither_a_value_nor_zero():
    series = RingSeries(4)
    series.append(0, None)
    assert series.latest is None
    assert series.highest(0) is None
    series.append(1, 5.0)
    series.append(2, None)
    assert series.highest(0) == 5.0
    assert series.highest(1.5) is None


def test_the_nearest_sample_is_found_on_both_sides():
    series = RingSeries(8)
    assert series.nearest(1) is None
    for time, value in ((0, 1.0), (10, 2.0), (20, None)):
        series.append(time, value)
    assert series.nearest(-5) == (0, 1.0)
    assert series.nearest(4) == (0, 1.0)
    assert series.nearest(6) == (10, 2.0)
    assert series.nearest(99) == (20, None)


def test_a_series_without_room_is_refused():
    with pytest.raises(ValueError, match="room"):
        RingSeries(0)
