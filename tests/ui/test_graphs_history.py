"""The rows behind the graphs: what is kept, what a gap is, and that thinning loses no peak."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ui.graphs.history import History, bins, peaks, tops

figures = st.one_of(st.none(), st.floats(0, 1e6, width=32))


@given(st.integers(1, 20), st.lists(st.tuples(figures, figures), max_size=70))
def test_it_holds_exactly_the_newest_rows_in_order(capacity, rows):
    history = History(capacity)
    for time, (first, second) in enumerate(rows):
        history.append(time, {"a": first, "b": second})
    kept = rows[-capacity:]
    assert len(history) == len(kept)
    assert history.times.tolist() == list(range(len(rows)))[-capacity:]
    for place, key in enumerate("ab"):
        expected = [math.nan if row[place] is None else row[place] for row in kept]
        np.testing.assert_array_equal(history.column(key), expected)
        assert history.latest(key) == (kept[-1][place] if kept else None)


def test_what_is_handed_out_are_views_of_one_piece_and_not_copies():
    history = History(4)
    for time in range(7):
        history.append(time, {"a": time})
    column = history.column("a")
    assert column.flags.c_contiguous
    assert column.base is not None
    assert column.tolist() == [3, 4, 5, 6]


def test_a_figure_that_is_first_measured_late_has_gaps_before_and_one_that_stops_has_gaps_after():
    history = History(8)
    history.append(0, {"a": 1.0})
    history.append(1, {"a": 2.0, "b": 5.0})
    history.append(2, {"b": None})
    assert history.keys == ("a", "b")
    np.testing.assert_array_equal(history.column("a"), [1, 2, math.nan])
    np.testing.assert_array_equal(history.column("b"), [math.nan, 5, math.nan])
    assert history.latest("b") is None
    assert history.at("b", 1) == 5.0


def test_what_was_never_measured_takes_no_room_and_is_all_gaps():
    history = History(8)
    history.append(0, {"a": None})
    assert history.keys == ()
    assert np.isnan(history.column("a")).all()
    assert history.latest("a") is None


def test_the_nearest_row_is_found_on_both_sides():
    history = History(8)
    assert history.nearest(1) is None
    for time in (0, 10, 20):
        history.append(time, {})
    assert [history.nearest(time) for time in (-5, 4, 6, 99)] == [0, 0, 1, 2]


def test_a_stretch_of_time_has_one_more_row_at_each_end():
    history = History(16)
    for time in range(10):
        history.append(time, {"a": time})
    assert history.between(2.5, 5.5) == slice(2, 7)
    assert history.between(-9, 99) == slice(0, 10)
    assert history.between(50, 60) == slice(9, 10)


def test_a_history_without_room_is_refused():
    with pytest.raises(ValueError, match="room"):
        History(0)


@given(
    st.lists(st.floats(0.01, 5), min_size=1, max_size=200),
    st.floats(0.3, 20),
    st.data(),
)
def test_thinning_keeps_every_peak_and_every_row_belongs_to_one_stretch(steps, width, data):
    times = np.cumsum(steps)
    values = np.array(
        data.draw(st.lists(st.floats(-1e3, 1e3, width=32), min_size=len(times), max_size=len(times))), np.float32
    )
    starts = bins(times, width)
    assert starts[0] == 0
    assert (np.diff(starts) > 0).all()
    found = peaks(values, starts)
    assert found.max() == values.max()
    assert found.min() == values.min()
    for place, start in enumerate(starts):
        end = starts[place + 1] if place + 1 < len(starts) else len(times)
        assert times[end - 1] - times[start] <= width * (1 + 1e-9)
        assert found[2 * place] == values[start:end].min()
        assert found[2 * place + 1] == values[start:end].max() == tops(values, starts)[place]


def test_a_gap_is_kept_where_a_whole_stretch_is_one():
    times, values = np.arange(6.0), np.array([1, math.nan, math.nan, math.nan, 5, 6], np.float32)
    found = peaks(values, bins(times, 2))
    np.testing.assert_array_equal(found, [1, 1, math.nan, math.nan, 5, 6])


def test_a_peak_stays_in_its_stretch_while_the_picture_moves_on():
    times = np.arange(100.0)
    values = np.zeros(100, np.float32)
    values[50] = 9
    whole, later = bins(times, 7), bins(times[10:], 7)
    place = int(np.searchsorted(whole, 50, "right")) - 1
    assert whole[place] - 10 in later


def test_graphs_of_one_frame_share_their_stretches_and_a_new_row_makes_new_ones():
    history = History(64)
    for time in range(40):
        history.append(time, {})
    rows = history.between(0, 39)
    first = history.stretches(rows, 4)
    assert history.stretches(rows, 4) is first
    assert history.stretches(rows, 8) is not first
    history.append(40, {})
    assert history.stretches(rows, 8).tolist() == bins(history.times[rows], 8).tolist()


def test_no_rows_make_no_stretches():
    nothing = bins(np.empty(0), 1)
    assert (
        nothing.size == peaks(np.empty(0, np.float32), nothing).size == tops(np.empty(0, np.float32), nothing).size == 0
    )


def test_a_figure_is_held_until_its_last_row_is_gone():
    history = History(3)
    assert not history.holds("a")
    history.append(0, {"a": 0.0, "b": None})
    for time in range(1, 3):
        history.append(time, {"b": None})
        assert history.holds("a")
    history.append(3, {})
    assert not history.holds("a")
    assert not history.holds("b")
