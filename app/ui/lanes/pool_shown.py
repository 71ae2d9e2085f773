"""What the head of a lane shows of the expert pool: requested, allocated and used, in words."""

from app.placement.cache.facts import CacheReport, PoolFacts
from app.ui.lanes.cache_words import last_answer_text, pool_note, pool_text, pool_warning, staging_text
from app.ui.lanes.header import PoolShown
from app.ui.lanes.pool import PoolRoom
from app.ui.lanes.words import translate
from app.ui.words import in_bytes


def pool_shown(
    room: PoolRoom, planned: int, pool: PoolFacts | None, last: CacheReport | None, *, live: bool, resizing: bool
) -> PoolShown:
    """The pool in words.

    Args:
        room: What it may be.
        planned: Its bytes in the plan being edited.
        pool: What it is, as the engine reports; None where it reports none.
        last: What it did for the last answer.
        live: Whether the engine has the model, so that its report counts.
        resizing: True while the engine changes its size.
    """
    most = 0 if room.why_not else room.most_bytes
    if resizing:
        words = translate("Lanes", "The engine changes the pool's size…")
    elif not planned and room.why_not:
        words = room.why_not
    elif live:
        words = " · ".join(part for part in (pool_text(pool), last_answer_text(last)) if part) + "."
        if planned:
            words = f"{words} {pool_note(pool, room.cycle_bytes)}".rstrip()
    elif planned:
        words = translate("Lanes", "Expert pool of {size} from the next load on.").format(size=in_bytes(planned))
    else:
        words = translate("Lanes", "No expert pool planned.")
    return PoolShown(
        most_bytes=most,
        bytes=planned,
        words=words,
        tip=_tip(room, pool if live else None),
        warning=pool_warning(pool, room.cycle_bytes) if live and not resizing else "",
    )


def _tip(room: PoolRoom, pool: PoolFacts | None) -> str:
    if room.why_not:
        return room.why_not
    words = translate(
        "Lanes",
        "Drag the handle, or use the arrow keys, to give the expert pool another size: up to {most}, which is what the "
        "plan leaves free on {device} (predicted) and no more than the experts need. One token is routed to {cycle} of "
        "experts; a smaller pool hardly helps. Takes effect at once, without a reload; at 0 the memory is given back.",
    ).format(most=in_bytes(room.most_bytes), device=room.device, cycle=in_bytes(room.cycle_bytes))
    return "\n".join(part for part in (words, staging_text(pool)) if part)
