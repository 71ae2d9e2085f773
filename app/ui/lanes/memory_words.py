"""Main memory of mapped experts in words: how much is in memory, what reading costs, what the orders would do."""

from app.placement.cache.facts import MemoryFacts
from app.ui.lanes.memory_rates import ColdRates
from app.ui.lanes.memory_room import MemoryRoom
from app.ui.lanes.words import translate
from app.ui.words import in_bytes, in_tokens, number

MEGABYTE = 1_000_000
FEW_TOKENS = 16
"""Rates of fewer tokens are told with their count."""
_WHOLE_FROM, _TENTHS_FROM = 99.5, 0.5
_MUCH = 0.01
"""Of the budget: with less room in it, a warm-up puts experts in the place of others."""


def memory_text(memory: MemoryFacts | None, rates: ColdRates | None, *, answering: bool, answered: bool = False) -> str:
    """What is in memory and what reading the rest costs; all measured.

    What is asked for counts as in memory: the engine does not tell when the last of it was read. Example: "12.3 GiB of
    18.0 GiB of experts in memory or being read (budget 14.0 GiB), 1.4 reads a token, 210 MB/s, waiting 3.1 ms a token".

    Args:
        memory: What is in memory; None where the system decides.
        rates: What reading costs; None before there are any.
        answering: Whether an answer runs.
        answered: Whether one was seen since the load.
    """
    if memory is None:
        return translate("Lanes", "The system decides which experts of the file stay in memory")
    if not memory.reads and memory.resident_bytes >= memory.total_bytes:
        words = translate("Lanes", "All {total} of experts in memory (budget {budget}): nothing is read")
        return words.format(total=in_bytes(memory.total_bytes), budget=in_bytes(memory.budget_bytes))
    text = translate("Lanes", "{resident} of {total} of experts in memory or being read (budget {budget})").format(
        resident=in_bytes(memory.resident_bytes),
        total=in_bytes(memory.total_bytes),
        budget=in_bytes(memory.budget_bytes),
    )
    if rates is not None:
        words = translate("Lanes", "{text}; at the end of the last answer {cost}")
        if answering:
            words = translate("Lanes", "{text}, {cost}")
    elif answering:
        words = translate("Lanes", "{text}, too few tokens yet to tell what reading costs")
    elif answered:
        words = translate("Lanes", "{text}; the last answer had too few tokens to tell what reading costs")
    else:
        return text
    return words.format(text=text, cost=cost_text(rates))


def cost_text(rates: ColdRates | None) -> str:
    """What reading costs: "1.4 reads a token, 210 MB/s, waiting 3.1 ms a token"; empty where nothing was counted.

    Of few tokens it tells how many they were, for they say little of the next ones.
    """
    if rates is None:
        return ""
    if not rates.reads_per_token:
        words = translate("Lanes", "nothing read")
    elif rates.bytes_per_second is None:
        words = translate("Lanes", "{reads} reads a token, waiting {wait} ms a token")
    else:
        words = translate("Lanes", "{reads} reads a token, {rate} MB/s, waiting {wait} ms a token")
    text = words.format(
        reads=_short(rates.reads_per_token),
        rate=_short((rates.bytes_per_second or 0.0) / MEGABYTE),
        wait=_short(1000 * rates.stall_seconds),
    )
    timed = rates.bytes_per_second is not None or not rates.reads_per_token
    if timed and rates.tokens >= FEW_TOKENS:
        return text
    words = translate("Lanes", "{text} over {tokens}")
    if not timed:
        words = translate("Lanes", "{text} over {tokens}, too short a time for a rate")
    return words.format(text=text, tokens=in_tokens(rates.tokens))


def planned_text(budget_bytes: int | None, room: MemoryRoom) -> str:
    """What a plan that is not loaded gives mapped experts."""
    total = in_bytes(room.total_bytes)
    if budget_bytes == 0:
        words = translate("Lanes", "The system will decide how much of the {total} of experts stays in memory.")
        return words.format(total=total)
    if budget_bytes is None:
        words = translate("Lanes", "From the next load on, as much of the {total} of experts as fits stays in memory.")
        return words.format(total=total)
    words = translate("Lanes", "From the next load on at most {budget} of {total} of experts stay in memory.")
    return words.format(budget=in_bytes(budget_bytes), total=total)


def warning_text(memory: MemoryFacts | None) -> str:
    """Why the budget is not what it says; empty where it is."""
    if memory is None or not memory.budget_bytes:
        return ""
    if memory.trusted_bytes < min(memory.budget_bytes, memory.total_bytes):
        words = translate(
            "Lanes",
            "Memory is shorter than the budget: the system took experts back, so only {trusted} are used. Close other "
            "programs, or choose a smaller budget.",
        )
        return words.format(trusted=in_bytes(memory.trusted_bytes))
    return ""


def tip_text(room: MemoryRoom) -> str:
    """What is to be known of the budget's handle."""
    return translate(
        "Lanes",
        "Drag the handle, or use the arrow keys, to give mapped experts another budget of main memory: up to {most}, "
        "which is what is free beside the rest (predicted) and no more than all of them. One token is routed to "
        "{cycle} of experts; a smaller budget reads nearly all of them again for every token. Takes effect at once, "
        "without a reload; at 0 the system decides what stays in memory.",
    ).format(most=in_bytes(room.most_bytes), cycle=in_bytes(room.cycle_bytes))


def warm_text(memory: MemoryFacts) -> str:
    """What a warm-up would do."""
    missing = missing_bytes(memory)
    words = translate(
        "Lanes",
        "Read the hottest experts into memory now, in the background, in place of those that are needed less. The disk "
        "is busy meanwhile.",
    )
    if is_much(memory, missing):
        words = translate(
            "Lanes",
            "Read the hottest experts into memory now, in the background: up to {size}. The next answer reads less; "
            "the disk is busy meanwhile.",
        )
    return words.format(size=in_bytes(missing))


def release_text(memory: MemoryFacts) -> str:
    """What giving the memory up would do."""
    words = translate(
        "Lanes",
        "Give {size} of main memory back to other programs. Experts are read from the disk again as they are needed: "
        "the next answer begins slowly.",
    )
    return words.format(size=in_bytes(memory.resident_bytes))


def missing_bytes(memory: MemoryFacts) -> int:
    """Bytes that the budget has room for and that are not in memory."""
    return max(min(memory.trusted_bytes or memory.budget_bytes, memory.total_bytes) - memory.resident_bytes, 0)


def is_much(memory: MemoryFacts, missing: int) -> bool:
    """Whether there is room for so many bytes that a warm-up fills it, and does not only put some in others' place."""
    return missing >= _MUCH * memory.budget_bytes


def share_text(letters_in_memory: int, experts: int) -> str:
    """How much of a layer is in memory: "61 of 128 of its experts are in memory"."""
    return translate("Lanes", "{count} of {total} of its experts are in memory").format(
        count=number(letters_in_memory), total=number(experts)
    )


def _short(value: float) -> str:
    """A figure with as many digits as say something: "0.04", "1.4", "210"."""
    return number(value, 0 if value >= _WHOLE_FROM else 1 if value >= _TENTHS_FROM else 2)
