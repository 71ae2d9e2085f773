"""Fits of the speed model: the line of hit rate, and factors on two terms with outliers among the answers."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import AppError
from app.placement.speed.fit import fit_hit_line, fit_two_terms, weighted_median

# Published for an RTX 2060 and a 35B model: hit rate to tokens a second.
PUBLISHED = (
    (0.2263, 18.35),
    (0.2821, 19.07),
    (0.3531, 20.05),
    (0.4190, 21.23),
    (0.4833, 22.80),
    (0.5454, 24.34),
    (0.6076, 25.77),
    (0.6251, 26.12),
)


def noisy(random_numbers, sigma):
    return 1 + max(-2.5, min(random_numbers.gauss(0, 1), 2.5)) * sigma


def test_the_line_is_within_one_percent_of_every_published_point():
    line = fit_hit_line(PUBLISHED)
    errors = [abs(line.tokens_per_second(hit) / speed - 1) for hit, speed in PUBLISHED]
    assert max(errors) < 0.01
    assert line.largest_error == max(errors)


def test_the_published_break_even_of_46_percent_is_where_the_line_meets_whole_layers():
    line = fit_hit_line(PUBLISHED)
    whole_layers = line.tokens_per_second(0.46)
    assert 22.0 < whole_layers < 22.5
    assert line.break_even(whole_layers) == pytest.approx(0.46)


def test_no_hit_rate_breaks_even_with_what_is_faster_than_all_hits_and_every_one_with_what_is_slower_than_none():
    line = fit_hit_line(PUBLISHED)
    assert line.break_even(1000.0) is None
    assert line.break_even(1.0) == 0.0


def test_one_disturbed_point_does_not_move_the_line():
    line = fit_hit_line(PUBLISHED)
    disturbed = fit_hit_line([*PUBLISHED, (0.5, 9.0)])
    for hit, _ in PUBLISHED:
        assert disturbed.tokens_per_second(hit) == pytest.approx(line.tokens_per_second(hit), rel=0.005)


@pytest.mark.parametrize("points", [[], [(0.5, 10.0)], [(0.5, 10.0), (0.5, 11.0)], [(0.2, 0.0), (0.4, 3.0)], [(2, 1)]])
def test_points_that_make_no_line_are_refused(points):
    with pytest.raises(AppError):
        fit_hit_line(points)


@given(
    a=st.floats(0.01, 0.5),
    saved=st.floats(0.05, 0.9),
    hits=st.lists(st.floats(0.0, 1.0), min_size=2, max_size=8, unique_by=lambda hit: round(hit, 2)),
)
def test_points_on_a_line_give_that_line(a, saved, hits):
    line = fit_hit_line([(hit, 1 / (a - a * saved * hit)) for hit in hits])
    assert line.a == pytest.approx(a, rel=1e-6)
    assert line.b == pytest.approx(a * saved, rel=1e-5)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("outliers", [0, 5])
def test_factors_come_out_of_noisy_answers_within_five_percent(seed, outliers):
    numbers = random.Random(seed)
    rows = []
    for _ in range(30):
        fixed, reading = numbers.uniform(0.004, 0.03), numbers.uniform(0.005, 0.08)
        rows.append((fixed, reading, (1.7 * fixed + 0.8 * reading) * noisy(numbers, 0.02)))
    for index in numbers.sample(range(30), outliers):
        fixed, reading, measured = rows[index]
        rows[index] = (fixed, reading, measured * numbers.choice((1.6, 3.0, 8.0)))
    found = fit_two_terms(rows)
    assert found is not None
    assert found.first == pytest.approx(1.7, rel=0.05)
    assert found.second == pytest.approx(0.8, rel=0.05)
    assert found.spread < 0.05


def test_rows_that_are_multiples_of_each_other_tell_nothing_apart():
    assert fit_two_terms([(1.0, 2.0, 3.0), (2.0, 4.0, 6.1), (3.0, 6.0, 9.0)]) is None


def test_the_weighted_median_is_the_middle_of_the_weights():
    assert weighted_median([1, 2, 30], [1, 1, 1]) == 2
    assert weighted_median([1, 2, 30], [1, 1, 5]) == 30
    assert weighted_median([1.0, 3.0], [1, 1]) == 2.0
    assert weighted_median([], []) == 0.0
