"""The places of the curve that mean something, in words: at the axis where they are drawn, else in a sentence."""

from dataclasses import dataclass

from PySide6.QtCore import QCoreApplication

from app.placement.speed.curve import SpeedCurve
from app.ui.tuning.curve_data import MEMORY_TIER, Question
from app.ui.words import in_bytes

translate = QCoreApplication.translate


@dataclass(frozen=True)
class Mark:
    """A place on the axis of sizes: what it means, in a few words; a `hard` one is a limit."""

    pool_bytes: int
    words: str
    hard: bool = False


def marks(curve: SpeedCurve, question: Question, free_bytes: int) -> tuple[Mark, ...]:
    """The marks that are in the picture.

    Args:
        curve: The predictions.
        question: What they were computed of.
        free_bytes: The largest pool that is predicted to fit now.
    """
    cycle, card = curve.cycle_bytes, question.card_bytes
    made = [Mark(cycle, translate("Curve", "one token's experts: {size}").format(size=in_bytes(cycle)))]
    if curve.axis == MEMORY_TIER and curve.break_even_bytes is not None:
        words = translate("Curve", "below {size} the disk bounds it")
        made.append(Mark(curve.break_even_bytes, words.format(size=in_bytes(curve.break_even_bytes))))
    if (paying := paying_range(curve)) is not None:
        first, last = paying
        words = translate("Curve", "beats whole layers from {first} on")
        if last < curve.points[-1].pool_bytes:
            words = translate("Curve", "beats whole layers: {first} – {last}")
        made.append(Mark(first, words.format(first=in_bytes(first), last=in_bytes(last))))
    made.append(
        Mark(
            free_bytes, translate("Curve", "fits now (predicted): {size}").format(size=in_bytes(free_bytes)), hard=True
        )
    )
    words = translate("Curve", "{card} is full: {size}").format(card=question.card, size=in_bytes(card))
    made.append(Mark(card, words, hard=True))
    return tuple(mark for mark in made if 0 < mark.pool_bytes <= question.most_bytes and not _is_all(mark, question))


def paying_range(curve: SpeedCurve) -> tuple[int, int] | None:
    """The smallest and the largest pool that are predicted to be faster than whole layers; None where none is."""
    paying = [
        point.pool_bytes
        for point in curve.points
        if point.pool_bytes and point.whole_layers is not None and point.decode.likely > point.whole_layers
    ]
    return (paying[0], paying[-1]) if paying else None


def outside_text(curve: SpeedCurve, question: Question) -> str:
    """What marks would say that are not in the picture; empty where all of them are."""
    said = []
    if curve.break_even_bytes is None and any(point.whole_layers is not None for point in curve.points):
        said.append(translate("Curve", "No pool of this range is predicted to be faster than whole layers."))
    if curve.axis == MEMORY_TIER:
        if curve.break_even_bytes is None:
            said.append(translate("Curve", "The disk is not predicted to be what slows it, whatever the memory."))
    elif curve.cycle_bytes > question.most_bytes:
        words = translate("Curve", "One token's experts are {size}, more than there is room for: a pool helps little.")
        said.append(words.format(size=in_bytes(curve.cycle_bytes)))
    if question.card_bytes > question.most_bytes:
        words = translate("Curve", "{card} would be full with a pool of {size}, which is more than all experts need.")
        said.append(words.format(card=question.card, size=in_bytes(question.card_bytes)))
    return " ".join(said)


def _is_all(mark: Mark, question: Question) -> bool:
    """Whether a limit is none: where all experts have room, "fits now" would only say how many they are."""
    return mark.hard and mark.pool_bytes >= question.all_bytes
