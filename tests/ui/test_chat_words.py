"""Figures in words: only what was measured, and the rounded value decides how it is written."""

import pytest

from app.chat.store import AnswerFigures
from app.engine.protocol import PromptProgress
from app.ui.chat.message import AnswerMessage, figures_in_words, prompt_in_words
from app.ui.words import in_seconds, in_tokens_per_second


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.424, "0.42 s"),
        (9.994, "9.99 s"),
        (9.996, "10 s"),
        (12.3, "12 s"),
        (59.4, "59 s"),
        (59.7, "1 min 0 s"),
        (119.6, "2 min 0 s"),
        (200, "3 min 20 s"),
    ],
)
def test_a_time_never_shows_sixty_seconds_or_a_digit_too_many(seconds, words):
    assert in_seconds(seconds) == words


@pytest.mark.parametrize(
    ("rate", "words"),
    [(0.5, "0.50"), (0.996, "1.0"), (1.04, "1.0"), (24.12, "24.1"), (99.94, "99.9"), (99.96, "100"), (412.4, "412")],
)
def test_a_rate_has_as_many_digits_as_its_rounded_value_needs(rate, words):
    assert in_tokens_per_second(rate) == f"{words} tokens/s"


def test_words_for_the_prompt_tell_what_was_known():
    words = prompt_in_words(PromptProgress(done=120, total=512, reused=100))
    assert words == "Reading the prompt: 120 of 512 tokens (100 known from before)"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "24.1 tokens/s · 0.42 s to the first token · 312 tokens · prompt 412 tokens/s · complete"),
        (
            {"tokens_per_second": 0.0, "completion_tokens": 1},
            "0.42 s to the first token · 1 token · prompt 412 tokens/s · complete",
        ),
        ({"prompt_tokens_per_second": 0.0}, "24.1 tokens/s · 0.42 s to the first token · 312 tokens · complete"),
        (
            {"completion_tokens": 0, "tokens_per_second": 0.0, "stop_reason": "stopped"},
            "0 tokens · prompt 412 tokens/s · stopped by you",
        ),
        (
            {"stop_reason": "context_full"},
            "24.1 tokens/s · 0.42 s to the first token · 312 tokens · prompt 412 tokens/s · cut: the context is full",
        ),
        (
            {"prompt_tokens_per_second": 0.0, "cache_used": True, "cache_hits": 71, "cache_misses": 29},
            "24.1 tokens/s · 0.42 s to the first token · 312 tokens · 71 % of routed experts from the GPU pool "
            "· complete",
        ),
        (
            {"prompt_tokens_per_second": 0.0, "cache_used": True, "cache_hits": 71, "cache_misses": None},
            "24.1 tokens/s · 0.42 s to the first token · 312 tokens · complete",
        ),
        (
            {"prompt_tokens_per_second": 0.0, "cache_used": False, "cache_misses": 29},
            "24.1 tokens/s · 0.42 s to the first token · 312 tokens · complete",
        ),
    ],
)
def test_only_what_was_measured_is_shown(changes, words):
    figures = {
        "prompt_tokens": 40,
        "completion_tokens": 312,
        "reused_tokens": 0,
        "ttft_seconds": 0.42,
        "prompt_tokens_per_second": 412.4,
        "tokens_per_second": 24.12,
        "stop_reason": "end_of_text",
    }
    assert figures_in_words(AnswerFigures(**{**figures, **changes})) == words


@pytest.mark.parametrize("text", ["Half an ans", ""])
def test_how_an_answer_ended_is_told_apart_when_it_is_opened_again(theme, qtbot, store, text):
    said = {}
    for state in ("stopped", "interrupted", "failed", "complete"):
        conversation = store.new_conversation()
        store.add_message(conversation, None, "assistant", text, state=state)
        message = AnswerMessage(theme)
        qtbot.addWidget(message)
        message.show_stored(store.active_path(conversation)[0])
        assert message.text == text
        said[state] = message.status
    assert said["stopped"] == "stopped by you"
    assert said["interrupted"].startswith("Interrupted: the window ended")
    assert said["failed"].startswith("Failed: an error")
    assert said["complete"] == ""
