"""Why a graph has no value: now, and at any moment of the last hour."""

from bisect import bisect
from collections.abc import Mapping
from operator import itemgetter

from app.ui.controller import ANSWERING, LOADING, Controller
from app.ui.graphs.cache_rates import COLD, COPIED, HITS, RESIDENT, STALL, has_pool
from app.ui.graphs.graph_spec import tr
from app.ui.graphs.specs import DECODE, PROMPT, SPLIT
from app.ui.lanes.memory_room import memory_room

OF_TOKENS = (HITS, COLD, STALL, SPLIT, COPIED)
"""Groups of graphs of what the expert cache does for each token."""
OF_ANSWERS = (DECODE, PROMPT, *OF_TOKENS)
"""Groups that have values only while an answer runs."""


class Absences:
    """What was said in place of values, by key and since when; kept as long as the rows of the history."""

    def __init__(self, kept_seconds: float) -> None:
        self._kept = kept_seconds
        self._told: dict[str, list[tuple[float, str]]] = {}
        self._last: dict[str, str] = {}

    def tell(self, time_seconds: float, words: Mapping[str, str]) -> None:
        """From now on these words hold, empty ones where nothing is missing; keys that are not named stay as they are.

        Args:
            time_seconds: The time; it never goes back.
            words: By key.
        """
        for key, said in words.items():
            if self._last.get(key, "") == said:
                continue
            self._last[key] = said
            told = self._told.setdefault(key, [])
            told.append((time_seconds, said))
            # The newest that began before the hour still holds in it.
            del told[: max(bisect(told, time_seconds - self._kept, key=itemgetter(0)) - 1, 0)]

    def at(self, key: str, time_seconds: float) -> str:
        """The words that held at a time; empty for none."""
        told = self._told.get(key, [])
        place = bisect(told, time_seconds, key=itemgetter(0))
        return told[place - 1][1] if place else ""


def engine_reasons(controller: Controller) -> dict[str, str]:
    """Why nothing is told now of answers, the expert cache and experts in memory, by group; empty for no reason."""
    waiting = tr("No answer is running.")
    if controller.state == ANSWERING:
        waiting = tr("An answer is running; there is no rate of it yet.")
    made = dict.fromkeys(OF_ANSWERS, waiting)
    made[RESIDENT] = memory = _why_no_memory(controller)
    report, facts = controller.loaded_report, controller.cache.facts
    if report is not None and not report.expert_device:
        made |= dict.fromkeys(OF_TOKENS, tr("The expert device is off: {why}").format(why=report.reason))
    elif facts is not None:
        if memory:
            made |= dict.fromkeys((COLD, STALL), memory)
        if not has_pool(facts):
            made[HITS] = tr("The engine has no pool of experts on a GPU.")
    return made


def _why_no_memory(controller: Controller) -> str:
    """Why the engine does not tell which experts of a mapped file are in memory; empty where it does."""
    if controller.loaded_facts is None:
        return tr("The model is being loaded.") if controller.state == LOADING else tr("No model is loaded.")
    facts, report = controller.cache.facts, controller.loaded_report
    if facts is None and (report is None or report.expert_device):
        return tr("The engine has not told of its experts yet.")
    if facts is not None and facts.memory is not None:
        return ""
    machine = controller.machine
    room = memory_room(controller.loaded_facts, controller.loaded_plan, report, machine, None)
    system = tr("The system decides which experts of the file stay in memory.")
    return (room.why_not if machine is not None else "") or system
