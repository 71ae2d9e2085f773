"""What comes of orders for main memory: another budget, and single experts that are sent there or to the disk."""

from app.placement.cache.facts import IN_MEMORY, ON_DISK
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.ui.lanes.memory_room import judge_memory
from app.ui.lanes.memory_words import is_much, missing_bytes
from app.ui.lanes.words import budget_text, translate
from app.ui.live_plan import CPU_PIN, MemoryBudget, with_memory_budget
from app.ui.order_scene import Scene
from app.ui.refusals import Cells, judge_pins
from app.ui.verdicts import Verdict, Way
from app.ui.words import in_bytes

_STEPS = 16
"""A budget is raised by this part of all experts at least: a few experts more would hardly help."""


def judge_mapped(scene: Scene, cells: Cells, lane: str) -> Verdict | None:
    """Why experts do not come into memory or leave it by hand, and what would do it; None where that is not asked.

    The engine keeps the experts in memory that are needed most, within the budget: it takes no order for a single one.

    Args:
        scene: How things are.
        cells: The experts.
        lane: The plan's word for the lane they are sent to.
    """
    if lane not in (CPU_LANE, DISK_LANE) or scene.in_memory is None:
        return None
    wanted = [(layer, int(expert)) for layer, experts in cells.items() for expert in experts]
    here = ON_DISK if lane == CPU_LANE else IN_MEMORY
    going = {cell for cell in wanted if scene.computed_from(cell) == here}
    if not going:
        return None
    if lane == DISK_LANE:
        return Verdict({}, _why_not_out(len(going)), _ways_out(scene))
    rest: dict[int, list[int]] = {}
    for layer, expert in wanted:
        if (layer, expert) not in going:
            rest.setdefault(layer, []).append(expert)
    verdict = judge_pins(scene, rest, CPU_PIN) if rest else Verdict({})
    return Verdict(verdict.pins, _why_not_in(len(going)), _ways_in(scene, going))


def judge_budget(scene: Scene, budget_bytes: int | None) -> tuple[Plan | None, str, str]:
    """What comes of another budget of main memory.

    Args:
        scene: How things are.
        budget_bytes: As `Plan.resident_bytes`.

    Returns:
        The plan with as much of it as there is room for, the same one where the engine keeps less than it says, or
        None where that changes nothing; the step's name; and why it is not all of it, else empty.
    """
    room = scene.memory_room
    size, why = (None, room.why_not) if budget_bytes is None else judge_memory(room, budget_bytes)
    text = translate("Lanes", "memory for experts: {budget}").format(budget=budget_text(size))
    if (size == scene.plan.resident_bytes and not _falls_short(scene, size)) or (why and not size):
        return None, text, why
    return with_memory_budget(scene.plan, MemoryBudget(size), scene.facts, scene.machine), text, why


def _falls_short(scene: Scene, size: int | None) -> bool:
    """Whether the engine has another budget than the plan's: at its load there was no room for it."""
    if not size or scene.in_memory is None or scene.budgeting:
        return False
    return scene.in_memory.budget_bytes != size


def _why_not_in(count: int) -> str:
    one = translate("Lanes", "This expert is on the disk.")
    many = translate("Lanes", "{count} of these experts are on the disk.").format(count=count)
    why = translate(
        "Lanes",
        "No single one can be called into memory: those that are needed most stay there, as far as the budget reaches.",
    )
    return f"{one if count == 1 else many} {why}"


def _ways_in(scene: Scene, going: set[tuple[int, int]]) -> tuple[Way, ...]:
    memory, room = scene.in_memory, scene.memory_room
    if memory is None:
        return ()
    missing = missing_bytes(memory)
    words = translate("Lanes", "Warm up: read {size} of the hottest in")
    if not is_much(memory, missing):
        words = translate("Lanes", "Warm up: read the hottest in, in place of others")
    ways = [Way(words.format(size=in_bytes(missing)), warm=True)]
    needed = sum(scene.facts.expert_bytes.get(layer, 0) for layer, _expert in going)
    budget = min(memory.budget_bytes + max(needed, memory.total_bytes // _STEPS), room.most_bytes)
    before, after = in_bytes(memory.budget_bytes), in_bytes(budget)
    if budget > memory.budget_bytes and before != after:
        words = translate("Lanes", "Raise the budget from {before} to {after} and warm up")
        ways.append(Way(words.format(before=before, after=after), memory_bytes=budget, warm=True))
    return tuple(ways)


def _why_not_out(count: int) -> str:
    one = translate("Lanes", "This expert is in memory.")
    many = translate("Lanes", "{count} of these experts are in memory.").format(count=count)
    why = translate(
        "Lanes",
        "No single one can be sent to the disk: where the budget is full, those that were not needed for longest go. A "
        "smaller budget of the CPU lane sends more of them.",
    )
    return f"{one if count == 1 else many} {why}"


def _ways_out(scene: Scene) -> tuple[Way, ...]:
    if scene.in_memory is None or not scene.in_memory.resident_bytes:
        return ()
    words = translate("Lanes", "Give up all {size}").format(size=in_bytes(scene.in_memory.resident_bytes))
    return (Way(words, release=True),)
