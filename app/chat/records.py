"""What the store keeps, as plain data: conversations, messages, and the measured figures of an answer."""

from datetime import datetime

import msgspec

ROLES = ("system", "user", "assistant")
STATES = ("complete", "streaming", "stopped", "interrupted", "failed")


class AnswerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured while an answer was made.

    Attributes:
        prompt_tokens: Tokens of the whole prompt. reused_tokens: those of them that were computed before.
        completion_tokens: Tokens of the answer.
        ttft_seconds: From taking up the request to the first token.
        prompt_tokens_per_second: Over the prompt tokens really computed; 0 if none.
        tokens_per_second: Over the decoded tokens after the first; 0 with fewer than two.
        stop_reason: end_of_text | max_tokens | stopped | context_full.
        model: Name of the model that answered, or empty.
        cache_used: True where the expert cache served this answer.
        cache_hits: Routed experts that were in it. cache_misses: those that were not, None where nobody counted.
    """

    prompt_tokens: int
    completion_tokens: int
    reused_tokens: int
    ttft_seconds: float
    prompt_tokens_per_second: float
    tokens_per_second: float
    stop_reason: str
    model: str = ""
    cache_used: bool = False
    cache_hits: int = 0
    cache_misses: int | None = None


class StoredMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation.

    Attributes:
        parent_id: The message it follows; None for the first one. Several messages may follow the
            same one: they are branches.
        role: One of ROLES.
        state: One of STATES: "streaming" while it is written, "stopped" by the user, "interrupted"
            where the process that wrote it died, "failed" where the engine did not go on.
        created: When it was added, in UTC.
        figures: None but for answers that were measured.
    """

    id: int
    conversation_id: int
    parent_id: int | None
    role: str
    content: str
    state: str
    created: datetime
    figures: AnswerFigures | None


class StoredConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation as the list shows it.

    Attributes:
        title: Given by the user or taken from the first question; empty before that.
        created: When it was begun, in UTC. updated: when a message was last added or changed its state.
        model: Name of the model last used in it, or empty.
    """

    id: int
    title: str
    created: datetime
    updated: datetime
    model: str
