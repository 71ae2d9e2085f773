"""Scales are round numbers that fit, and say what time it was."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ui.graphs.scale import (
    HEADROOM,
    LABEL_PIXELS,
    LINE_PIXELS,
    clock_words,
    round_top,
    span_words,
    time_labels,
    time_step,
    value_step,
    value_words,
)


@given(st.floats(1e-3, 1e6), st.floats(0.1, 10))
def test_the_top_holds_the_highest_value_without_wasting_the_picture(highest, smallest):
    top = round_top(highest, smallest)
    needed = max(highest * HEADROOM, smallest)
    assert needed * (1 - 1e-6) <= top <= needed * 1.34


@given(st.floats(0.5, 1e5), st.floats(60, 900))
def test_a_scale_has_a_few_lines_at_round_values(top, pixels):
    step = value_step(top, pixels)
    assert top / step <= max(1, pixels / LINE_PIXELS) + 1e-6
    assert re.fullmatch(r"(1|2|25|5)0*", f"{step * 1000:.0f}") or step < 0.01


@pytest.mark.parametrize(
    ("value", "step", "words"),
    [
        (5, 5, "5"),
        (0.5, 0.5, "0.5"),
        (1, 0.2, "1.0"),
        (400, 200, "400"),
        (7.5, 2.5, "7.5"),
        (0.25, 0.25, "0.25"),
        (50, 25, "50"),
    ],
)
def test_a_value_has_as_many_decimals_as_the_steps_need(value, step, words):
    assert value_words(value, step) == words


@given(st.floats(10, 3600), st.floats(150, 1500))
def test_labels_of_the_time_do_not_meet(span, pixels):
    for clock in (None, 1_700_000_123.4):
        labels = time_labels(span, pixels, clock)
        assert all(0 <= ago <= span + 1e-6 for ago, _ in labels)
        assert len(labels) <= pixels / LABEL_PIXELS + 1
    assert span / time_step(span, pixels) <= max(1.0, pixels / LABEL_PIXELS) or span / 3600 <= 1


def test_a_live_picture_tells_times_before_now_and_a_held_one_times_of_the_day():
    assert time_labels(60, 250, None) == [(0.0, "now"), (20.0, "20 s"), (40.0, "40 s"), (60.0, "60 s")]
    assert [words for _, words in time_labels(600, 250, None)] == ["now", "5 min", "10 min"]
    end = 1_700_000_123.0
    labels = time_labels(60, 250, end)
    assert all(words.endswith(("00", "20", "40")) for _, words in labels)
    assert labels[0][1] == clock_words(end - labels[0][0])


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (60, "Last minute"),
        (42.4, "Last 42 s"),
        (600, "Last 10 minutes"),
        (3600, "Last hour"),
        (150, "Last 2.5 minutes"),
    ],
)
def test_how_much_is_shown_is_said(seconds, words):
    assert span_words(seconds) == words
