"""A conversation as Markdown text, to be kept or shared outside the app."""

import re
from collections.abc import Iterable

from app.chat.records import AnswerFigures, StoredConversation, StoredMessage

_SPEAKERS = {"system": "System", "user": "You", "assistant": "Assistant"}
_ENDINGS = {
    "streaming": "still being written",
    "stopped": "stopped",
    "interrupted": "interrupted, incomplete",
    "failed": "failed, incomplete",
}
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


def conversation_markdown(conversation: StoredConversation, messages: Iterable[StoredMessage]) -> str:
    """The messages under a heading each, in the order given, every word as it was written.

    A code block that an unfinished answer left open is closed, so that it does not swallow the rest.
    """
    parts = [f"# {conversation.title or 'Conversation'}", _facts(conversation)]
    for message in messages:
        parts.append(f"## {_SPEAKERS[message.role]}")
        parts.append(_closed(message.content.rstrip()))
        if note := _note(message):
            parts.append(f"*{note}*")
    return "\n\n".join(part for part in parts if part) + "\n"


def _facts(conversation: StoredConversation) -> str:
    begun = f"Begun {conversation.created:%Y-%m-%d %H:%M} UTC"
    return f"*{begun}, model {conversation.model}*" if conversation.model else f"*{begun}*"


def _note(message: StoredMessage) -> str:
    words = [_ENDINGS[message.state]] if message.state in _ENDINGS else []
    if message.figures is not None:
        words += _figures(message.figures)
    return ", ".join(words)


def _figures(figures: AnswerFigures) -> list[str]:
    words = [figures.model] if figures.model else []
    words.append(f"{figures.completion_tokens} tokens")
    if figures.tokens_per_second > 0:
        words.append(f"{figures.tokens_per_second:.1f} tokens/s")
    if figures.completion_tokens:
        words.append(f"first token after {figures.ttft_seconds:.2f} s")
    return words


def _closed(text: str) -> str:
    """`text` with the fence of a code block that never ended added at its end."""
    open_fence = ""
    for line in text.splitlines():
        found = _FENCE.fullmatch(line)
        if found is None:
            continue
        fence, rest = found.groups()
        if not open_fence:
            # A line of backticks with another backtick after them is inline code, not a fence.
            open_fence = "" if fence[0] == "`" and "`" in rest else fence
        elif fence.startswith(open_fence) and not rest.strip():
            open_fence = ""
    return f"{text}\n{open_fence}" if open_fence else text
