"""Sizes are written one way and read in the ways people write them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import AppError, ErrorCode
from app.units import format_bytes, format_share, parse_size

GIB = 1024**3


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (64 * 1024**2, "64.0 MiB"),
        (int(3.14 * GIB), "3.1 GiB"),
        (1024**2 - 1, "1.0 MiB"),
        (GIB - 1, "1.0 GiB"),
        (-3 * GIB, "-3.0 GiB"),
        (2**63 - 1, "8.0 EiB"),
    ],
)
def test_bytes_are_written_in_the_largest_unit_that_leaves_at_least_one(count, text):
    assert format_bytes(count) == text


@given(st.integers(min_value=0, max_value=2**62))
def test_what_format_bytes_writes_reads_back_within_its_rounding(count):
    assert abs(parse_size(format_bytes(count)) - count) <= max(1, count * 0.05)


@given(st.integers(min_value=0, max_value=2**62))
def test_a_written_size_never_shows_1024_of_a_unit(count):
    assert not re.match(r"102[4-9]", format_bytes(count))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64MiB", 64 * 1024**2),
        ("6G", 6 * GIB),
        ("512M", 512 * 1024**2),
        ("512m", 512 * 1024**2),
        (" 1.5 GiB ", GIB + GIB // 2),
        ("2000", 2000),
        ("2000 B", 2000),
        ("0", 0),
        ("8GB", 8 * 1000**3),
        ("0.0000001K", 0),
        ("7.99EiB", int(7.99 * 100) * 1024**6 // 100),
    ],
)
def test_sizes_are_read_as_people_write_them(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "G", "six G", "-1G", "1e3", "1,5G", "6 G B", "6GiBs", "nan", "1.G", "٣G", "6\nG G", "9E", "8EiB"],
)
def test_what_is_no_size_is_refused_with_the_text_in_the_message(text):
    with pytest.raises(AppError) as refused:
        parse_size(text)
    assert refused.value.code is ErrorCode.BAD_USAGE
    assert repr(text) in refused.value.message


@given(st.text(max_size=30) | st.from_regex(r"[0-9]+(\.[0-9]+)?[kmgtpe]?(i?b)?", fullmatch=True))
def test_any_text_is_a_size_or_bad_usage(text):
    codes = {ErrorCode.BAD_USAGE}
    try:
        size = parse_size(text)
    except AppError as error:
        codes.add(error.code)
    else:
        assert 0 <= size < 2**63
    assert codes == {ErrorCode.BAD_USAGE}


@pytest.mark.parametrize(
    ("share", "options", "text"),
    [
        (0.531, {}, "53 %"),
        (1, {}, "100 %"),
        (0.2, {"decimals": 1, "signed": True}, "+20.0 %"),
        (-0.05, {"decimals": 1}, "−5.0 %"),
        (-0.031, {"signed": True}, "−3 %"),
        (0, {}, "0 %"),
        (0.003, {}, "< 1 %"),
        (0.9961, {}, "> 99 %"),
        (0.995, {"decimals": 1}, "99.5 %"),
        (-0.002, {}, "0 %"),
        (-0.002, {"signed": True}, "0 %"),
        (0.002, {"signed": True}, "0 %"),
        (0.0004, {"decimals": 1, "signed": True}, "0.0 %"),
        (0.9961, {"signed": True}, "+100 %"),
        (1.4, {}, "140 %"),
    ],
)
def test_shares_are_written_as_in_the_window(share, options, text):
    assert format_share(share, **options) == text
