"""The number of experts that compute each token, where a plan changes the model's own: checks, and the facts then."""

import msgspec

from app.errors import AppError, ErrorCode
from app.model.facts import ModelFacts

CHANGES_ANSWERS = "changes answers"
"""Said wherever the number is chosen or told: the model was trained with its own and answers otherwise with another."""


def check_experts_used(facts: ModelFacts, count: int | None) -> None:
    """Refuse a number of experts that llama.cpp cannot compute a token of this model with; None is the model's own.

    Raises:
        AppError: bad_usage, with what is possible.
    """
    if count is None:
        return
    if not facts.moe_layers:
        raise AppError(ErrorCode.BAD_USAGE, "This model has no experts, so their number cannot be chosen.")
    if facts.experts_used_listed:
        raise AppError(
            ErrorCode.BAD_USAGE,
            "This model's file lists for each layer how many experts compute a token; llama.cpp changes no such list.",
        )
    if not 1 <= count <= facts.expert_count:
        raise AppError(
            ErrorCode.BAD_USAGE,
            f"{count:,} experts for each token are impossible: a layer of this model has {facts.expert_count:,}, and "
            f"from 1 to all of them compute; its own number is {facts.experts_used:,}.",
        )


def experts_used_key(architecture: str) -> str:
    """The metadata key of a GGUF file that says how many experts compute each token."""
    return f"{architecture}.expert_used_count"


def may_change(facts: ModelFacts) -> bool:
    """Whether the number of experts that compute a token can be chosen at all."""
    return bool(facts.moe_layers) and facts.expert_count > 1 and not facts.experts_used_listed


def facts_with(facts: ModelFacts, count: int | None) -> ModelFacts:
    """`facts` as they are with `count` experts computing each token; as they are for None."""
    if count is None or not facts.moe_layers or count == facts.experts_used:
        return facts
    cycle = count * sum(facts.expert_bytes.values())
    return msgspec.structs.replace(facts, experts_used=count, token_cycle_bytes=cycle)


def active_words(facts: ModelFacts, count: int | None) -> str:
    """For a plan in words: "4 experts a token instead of 8, which changes answers"; empty for the model's own."""
    if count is None or count == facts.experts_used:
        return ""
    experts = "1 expert" if count == 1 else f"{count:,} experts"
    return f"{experts} a token instead of {facts.experts_used:,}, which {CHANGES_ANSWERS}"
