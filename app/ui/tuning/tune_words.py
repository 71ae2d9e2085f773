"""A search in words: what it may change, how far it is, what it came to."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication

from app.errors import AppError
from app.model.facts import ModelFacts
from app.placement.plan import Plan
from app.placement.scenarios.figure import Figure
from app.placement.tuner.search import COMPARISON
from app.placement.tuner.types import Tried, TuneResult
from app.ui.tuning.trials_model import plan_words
from app.ui.words import in_bytes, in_percent, in_seconds, number

if TYPE_CHECKING:
    from app.ui.tuning.autotune import AutoTune

translate = QCoreApplication.translate


def held_texts(plan: Plan | None, facts: ModelFacts | None) -> dict[str, str]:
    """What a search may be told to leave as it is, by the fields of `Held`, with what the plan has."""
    if plan is None or facts is None:
        return {
            "context": translate("Tune", "context"),
            "kv_type": translate("Tune", "KV cache type"),
            "threads": translate("Tune", "threads"),
            "places": translate("Tune", "pool and layers"),
        }
    pool = in_bytes(plan.pool_bytes) if plan.pool_bytes else translate("Tune", "no pool")
    return {
        "context": translate("Tune", "context ({tokens})").format(tokens=number(plan.n_ctx)),
        "kv_type": translate("Tune", "KV cache type ({type})").format(type=plan.kv_type),
        "threads": translate("Tune", "threads ({count})").format(count=number(plan.threads)),
        "places": translate("Tune", "pool and layers ({pool})").format(pool=pool),
    }


def progress_text(tuning: "AutoTune") -> str:
    """What is measured now, and how long it goes on."""
    trial = tuning.trial
    if trial is None:
        return translate("Tune", "Looking at what is free on this machine…")
    stage = (
        translate("Tune", "Comparing in turns")
        if trial.stage == COMPARISON
        else translate("Tune", "Trial {number}").format(number=number(trial.number))
    )
    words = f"{stage}: {plan_words(trial.candidate.words)}"
    left = tuning.remaining_seconds
    if left is None:
        return words
    return translate("Tune", "{what} · about {time} left").format(what=words, time=in_seconds(round(left)))


def result_text(result: TuneResult | None, error: AppError | None) -> tuple[str, str]:
    """Before and after in a line, and why; empty where there was no search."""
    if error is not None:
        return translate("Tune", "Tuning ended early."), error.message
    if result is None:
        return "", ""
    if not result.words:
        return translate("Tune", "The plan stays as it is."), result.reason
    before, after = _decode(result.before), _decode(result.after)
    found = plan_words(result.words)
    if before is None or after is None:
        return found, result.reason
    change = after.median / before.median - 1 if before.median > 0 else 0.0
    words = translate("Tune", "{plan}: {before} → {after} tokens/s ({sign}{share}, measured)").format(
        plan=found,
        before=number(before.median, 1),
        after=number(after.median, 1),
        sign="+" if change >= 0 else "−",
        share=in_percent(abs(change)),
    )
    return words, result.reason


def _decode(tried: Tried | None) -> Figure | None:
    return tried.decode if tried is not None else None
