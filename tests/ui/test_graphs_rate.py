"""Tokens per second over the sliding window."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ui.graphs.rate import TokenRate


def steady(rate, seconds, tokens_at_once=1):
    """A stream of `rate` tokens a second for a while; returns it and its last arrival."""
    stream, step = TokenRate(), tokens_at_once / rate
    stream.start()
    arrivals = max(int(seconds / step), 3)
    for place in range(arrivals):
        stream.arrived(place * step, (place + 1) * tokens_at_once)
    return stream, (arrivals - 1) * step


@given(st.floats(0.2, 500), st.floats(0, 1), st.integers(1, 3))
def test_a_steady_stream_is_measured_exactly_however_slow(rate, part, at_once):
    stream, last = steady(rate, 6, at_once)
    now = last + part * min(1.0, at_once / rate) * 0.999
    assert stream.tokens_per_second(now) == pytest.approx(rate, rel=1e-6)


def test_there_is_no_rate_before_a_quarter_of_a_second_was_measured():
    stream = TokenRate()
    stream.start()
    assert stream.tokens_per_second(0) is None
    stream.arrived(0, 1)
    assert stream.tokens_per_second(0.5) is None
    stream.arrived(0.1, 2)
    assert stream.tokens_per_second(0.1) is None
    stream.arrived(0.3, 4)
    assert stream.tokens_per_second(0.3) == pytest.approx(10)


def test_only_the_window_counts():
    stream = TokenRate()
    for place in range(11):
        stream.arrived(place * 0.1, place)
    for place in range(1, 101):
        stream.arrived(1 + place * 0.01, 10 + place)
    assert stream.tokens_per_second(2.0) == pytest.approx(100, rel=0.02)


def test_a_stream_that_stops_slows_down_and_never_below_zero():
    stream, last = steady(50, 2)
    rates = [stream.tokens_per_second(last + pause) for pause in (0.5, 1.5, 3, 10, 100)]
    assert rates[0] == pytest.approx(50)
    assert rates == sorted(rates, reverse=True)
    assert 0 < rates[-1] < 0.1


def test_a_new_answer_forgets_the_last_one():
    stream, last = steady(50, 2)
    stream.start()
    assert stream.tokens_per_second(last) is None
    stream.arrived(last + 1, 1)
    assert stream.tokens_per_second(last + 1) is None


def test_arrivals_at_one_moment_are_no_interval():
    stream = TokenRate()
    stream.arrived(5, 1)
    stream.arrived(5, 2)
    assert stream.tokens_per_second(5) is None
