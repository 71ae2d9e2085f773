"""What the head of the CPU lane shows of main memory: the budget of mapped experts, what is in it, and its cost."""

from app.placement.cache.facts import MemoryFacts
from app.ui.lanes.header import PoolShown
from app.ui.lanes.memory_rates import MemoryRates
from app.ui.lanes.memory_room import MemoryRoom
from app.ui.lanes.memory_words import memory_text, planned_text, tip_text, warning_text
from app.ui.lanes.words import translate


def memory_shown(
    room: MemoryRoom,
    planned: int | None,
    memory: MemoryFacts | None,
    rates: MemoryRates,
    *,
    live: bool,
    answering: bool,
    changing: bool,
) -> PoolShown | None:
    """The budget in words and for its bar; None where there is none to choose.

    Args:
        room: What it may be.
        planned: The budget of the plan being edited.
        memory: What is in memory, as the engine tells; None where it tells nothing.
        rates: What reading costs.
        live: Whether the engine has the model, so that what it tells counts.
        answering: Whether an answer runs, so that the rates are of now.
        changing: True while the engine changes the budget.
    """
    if room.why_not:
        return None
    memory = memory if live else None
    if changing:
        budget, words = planned, translate("Lanes", "The engine changes the budget of memory…")
    elif live:
        budget = memory.budget_bytes if memory is not None else 0
        words = memory_text(memory, rates.rates, answering=answering, answered=rates.answered) + "."
    else:
        budget, words = planned, planned_text(planned, room)
    return PoolShown(
        most_bytes=room.most_bytes,
        bytes=room.most_bytes if budget is None else budget,
        words=words,
        tip=tip_text(room),
        warning="" if changing else warning_text(memory),
        filled_bytes=memory.resident_bytes if memory is not None else 0,
        of_memory=True,
    )
