"""Titles taken from the first question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat.title import LONGEST_TITLE, title_from


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Why is the sky blue?", "Why is the sky blue?"),
        ("\n\n  Why is\tthe sky   blue?  \nExplain.", "Why is the sky blue?"),
        ("", ""),
        (" \n\t\n", ""),
        ("x" * LONGEST_TITLE, "x" * LONGEST_TITLE),
        ("x" * 61, "x" * 59 + "…"),
        (f"{'a' * 59} b", "a" * 59 + "…"),
        (f"{'a' * 58} bcd", "a" * 58 + "…"),
        ("天" * 100, "天" * 59 + "…"),
    ],
)
def test_the_title_is_the_first_line_cut_between_words(text, title):
    assert title_from(text) == title


@given(st.text(max_size=300))
def test_a_title_is_one_short_line_that_the_text_begins_with(text):
    title = title_from(text)
    assert len(title) <= LONGEST_TITLE
    assert title.splitlines() in ([], [title])
    assert " ".join(text.split()).startswith(title.removesuffix("…").rstrip())
    assert bool(title) == bool(text.strip())
