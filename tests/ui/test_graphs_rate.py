"""Tokens per second over the sliding window."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ui.graphs.rate import CounterRate, PromptRate, TokenRate


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


# ---- prompts and counters ---------------------------------------------------------------------------


def test_a_prompt_is_told_piece_by_piece_and_once_as_a_whole():
    prompt = PromptRate()
    prompt.start()
    prompt.progressed(0.0, 100)  # found in the cache
    assert prompt.take() is None
    prompt.progressed(1.0, 612)
    assert prompt.take() == 512
    prompt.progressed(3.0, 1124)
    assert prompt.take() == prompt.take() == 256
    prompt.ended()
    assert prompt.take() == pytest.approx(1024 / 3)
    assert prompt.take() is None


def test_a_prompt_of_one_piece_is_told_when_it_is_over_however_short():
    prompt = PromptRate()
    prompt.start()
    prompt.progressed(0.0, 0)
    prompt.progressed(0.0, 0)
    prompt.progressed(0.05, 40)
    prompt.ended()
    assert prompt.take() == pytest.approx(800)
    prompt.ended()
    assert prompt.take() is None


def test_a_prompt_that_was_wholly_in_the_cache_has_no_rate():
    prompt = PromptRate()
    prompt.start()
    prompt.progressed(0.0, 40)
    prompt.ended()
    assert prompt.take() is None


def test_a_new_answer_forgets_the_prompt_before():
    prompt = PromptRate()
    prompt.progressed(0.0, 0)
    prompt.progressed(1.0, 40)
    prompt.ended()
    prompt.start()
    assert prompt.take() is None


def test_a_counter_has_a_rate_from_its_second_reading_on():
    counter = CounterRate()
    assert counter.take(1.0, 100) is None
    assert counter.take(1.5, 150) == 100
    assert counter.take(2.5, 150) == 0


@pytest.mark.parametrize("odd", [None, 3], ids=["not counted", "went back"])
def test_a_counter_that_was_not_read_or_went_back_has_no_rate_then(odd):
    counter = CounterRate()
    counter.take(0.0, 10)
    assert counter.take(1.0, odd) is None
    counter.take(2.0, 50)
    assert counter.take(3.0, 60) == 10
    counter.reset()
    assert counter.take(4.0, 70) is None
    assert counter.take(4.0, 80) is None, "no time has passed"
