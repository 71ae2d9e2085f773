"""Conversations as Markdown."""

from datetime import UTC, datetime

import pytest
from markdown_it import MarkdownIt

from app.chat.export import conversation_markdown
from app.chat.records import StoredConversation, StoredMessage

WHEN = datetime(2026, 3, 4, 5, 6, tzinfo=UTC)
CONVERSATION = StoredConversation(id=1, title="The sky", created=WHEN, updated=WHEN, model="demo")


def message(role, content, state="complete", figures=None):
    return StoredMessage(
        id=1,
        conversation_id=1,
        parent_id=None,
        role=role,
        content=content,
        state=state,
        created=WHEN,
        figures=figures,
    )


def test_a_conversation_is_exported_whole_with_its_measured_figures(figures):
    text = conversation_markdown(
        CONVERSATION,
        [message("user", "Why *blue*?"), message("assistant", "Because…\n", figures=figures)],
    )
    assert text == (
        "# The sky\n\n*Begun 2026-03-04 05:06 UTC, model demo*\n\n"
        "## You\n\nWhy *blue*?\n\n"
        "## Assistant\n\nBecause…\n\n*demo, 120 tokens, 38.2 tokens/s, first token after 0.41 s*\n"
    )


@pytest.mark.parametrize(("state", "word"), [("stopped", "stopped"), ("interrupted", "incomplete")])
def test_an_answer_that_did_not_end_says_so(state, word):
    assert word in conversation_markdown(CONVERSATION, [message("assistant", "half", state=state)])


@pytest.mark.parametrize(
    "answer",
    [
        "```python\nprint(1)",
        "text\n~~~~\n```\nstill code",
        "````\n```\nnested\n```",
        "```\nclosed\n```\nand\n```\nopen",
        "```\nnot closed by this: ``` x",
        "`` `inline` ``\n``` a`b\ntext",
        "```\nclosed\n```",
        "no code",
    ],
)
def test_an_open_code_block_does_not_swallow_the_next_message(answer):
    text = conversation_markdown(
        CONVERSATION,
        [message("assistant", answer, state="interrupted"), message("user", "next")],
    )
    tokens = MarkdownIt().parse(text)
    headings = [tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open"]
    assert headings == ["The sky", "Assistant", "You"]


def test_a_closed_code_block_gets_no_second_end():
    text = conversation_markdown(CONVERSATION, [message("assistant", "```\ncode\n```")])
    assert text.count("```") == 2
