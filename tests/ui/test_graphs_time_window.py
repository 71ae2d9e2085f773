"""The stretch of time that all graphs show."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ui.graphs.time_window import LONGEST_SECONDS, SHORTEST_SECONDS, TimeWindow


def test_a_live_window_follows_the_time_and_a_held_one_does_not():
    window = TimeWindow()
    assert window.end(100) == 100
    window.hold(100)
    assert window.held
    assert window.end(250) == 100
    window.hold(200)
    assert window.end(250) == 100, "holding what is held changes nothing"
    window.go_live()
    assert window.end(250) == 250


def test_zooming_keeps_the_place_under_the_pointer():
    window = TimeWindow()
    window.set_span(100)
    window.hold(1000)
    window.zoom(0.5, fraction=0.25)
    assert window.span == 50
    left = window.end(0) - window.span
    assert left + 0.25 * window.span == pytest.approx(900 + 0.25 * 100)


def test_zooming_a_live_window_keeps_it_live():
    window = TimeWindow()
    window.zoom(2.0, fraction=0.3)
    assert not window.held
    assert window.span == 120


def test_no_zoom_leaves_the_bounds():
    window = TimeWindow()
    window.zoom(1e-9)
    assert window.span == SHORTEST_SECONDS
    window.zoom(1e9)
    assert window.span == LONGEST_SECONDS


def test_moving_into_the_past_holds_and_moving_back_to_now_is_live_again():
    window = TimeWindow()
    window.pan(-30, now=1000, oldest=0)
    assert window.end(1000) == 970
    window.pan(10, now=1005, oldest=0)
    assert window.end(1005) == 980
    window.pan(1e6, now=1010, oldest=0)
    assert not window.held


def test_nothing_is_shown_from_before_the_oldest_row():
    window = TimeWindow()
    window.pan(-1e9, now=1000, oldest=700)
    assert window.end(1000) == 760
    window.go_live()
    window.pan(-50, now=1000, oldest=990)
    assert not window.held, "there is nothing to move to"


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("zoom"), st.floats(0.01, 100), st.floats(0, 1)),
            st.tuples(st.just("pan"), st.floats(-5000, 5000), st.just(0)),
            st.tuples(st.just("hold"), st.just(0), st.just(0)),
            st.tuples(st.just("live"), st.just(0), st.just(0)),
            st.tuples(st.just("point"), st.floats(-10, 5000), st.just(0)),
        ),
        max_size=30,
    )
)
def test_no_sequence_of_gestures_leaves_the_hour(gestures):
    window, now, oldest = TimeWindow(), 4000.0, 400.0
    for what, first, second in gestures:
        now += 1
        if what == "zoom":
            window.zoom(first, second)
        elif what == "pan":
            window.pan(first, now, oldest)
        elif what == "hold":
            window.hold(now)
        elif what == "live":
            window.go_live()
        else:
            window.point_at(first)
        assert SHORTEST_SECONDS <= window.span <= LONGEST_SECONDS
        assert window.cursor is None or 0 <= window.cursor <= window.span


def test_one_change_is_told_once_and_none_is_not(qtbot):
    window = TimeWindow()
    told = []
    window.changed.connect(lambda: told.append(1))
    window.set_span(300)
    window.set_span(300)
    window.go_live()
    assert len(told) == 1
    with qtbot.waitSignal(window.cursor_moved):
        window.point_at(5)
    with qtbot.assertNotEmitted(window.cursor_moved):
        window.point_at(5)
