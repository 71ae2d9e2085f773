"""What can be done of an order for single experts, why the rest cannot, and what would help. Pure functions, no Qt."""

import itertools
import operator
from collections import Counter
from collections.abc import Iterable, Mapping

from app.placement.cache.guard import divide_pool
from app.placement.plan import CPU_LANE, DISK_LANE, CachePolicy, Plan
from app.ui.lanes.words import runs_text, translate
from app.ui.live_plan import (
    AUTO_PIN,
    CPU_PIN,
    GPU_PIN,
    Pins,
    cells_of,
    pins_of,
    with_pins,
    with_policy,
    with_pool_bytes,
)
from app.ui.order_scene import Scene, planned_slots
from app.ui.verdicts import Verdict, Way
from app.ui.words import in_bytes, number

MIB = 1024**2
POOL_STEP = 16 * MIB
"""A pool that is offered where there is none is a multiple of this."""

Cells = Mapping[int, Iterable[int]]
"""Experts by the index of their layer."""


def judge_pins(scene: Scene, cells: Cells, pin: str) -> Verdict:
    """What can be done of pinning `cells`: whole layers whose experts all find room are, the others are told."""
    # A selection can be all experts of the model: they are gone through layer by layer, and as seldom as can be.
    wanted = {
        layer: _known(experts, scene.facts.expert_count)
        for layer, experts in sorted(cells.items())
        if layer in scene.lanes
    }
    count = sum(map(len, wanted.values()))
    if not count:
        return Verdict({}, translate("Lanes", "Select experts first."))
    if scene.blind:
        return Verdict({}, translate("Lanes", "Experts cannot be told apart: {reason}").format(reason=scene.blind))
    texts: list[str] = []
    ways: list[Way] = []
    fixed = [layer for layer, its in wanted.items() if its and scene.lanes[layer] not in (CPU_LANE, DISK_LANE)]
    if fixed:
        text, way = _fixed_layers(scene, fixed, pin)
        texts.append(text)
        ways += way
    changes = _unlike(
        [(layer, expert) for layer, experts in wanted.items() if layer not in fixed for expert in experts],
        scene.pins,
        pin,
    )
    if not changes:
        if not fixed:
            texts.append(_already(count, pin))
        return Verdict({}, " ".join(texts), tuple(ways))
    if pin != GPU_PIN:
        return Verdict(changes, " ".join(texts), tuple(ways))
    if not scene.plan.pool_bytes:
        text, more = _no_pool(scene, changes)
        return Verdict({}, " ".join([text, *texts]), (*more, *ways))
    lacking = _lacking(scene, changes)
    fitting = changes
    if lacking:
        fitting = {cell: pin for cell in changes if cell[0] not in lacking}
        rest = {cell: pin for cell in changes if cell[0] in lacking}
        text, more = _no_slots(scene, rest, fitting, lacking)
        texts.insert(0, text)
        ways = [*more, *ways]
    return Verdict(fitting, " ".join(texts), tuple(ways))


def judge_lane(scene: Scene, cells: Cells, lane: str, no_gpu: str) -> Verdict | str:
    """The pin that sending experts to a lane means, or why the lane takes none.

    Args:
        scene: How things are.
        cells: The experts.
        lane: The plan's word for the lane; empty for the GPU lane of a machine without a GPU.
        no_gpu: Why there is no GPU, in words.
    """
    if lane == CPU_LANE:
        return CPU_PIN
    if lane == DISK_LANE:
        way = Way(translate("Lanes", "Keep them on the CPU"), pins=judge_pins(scene, cells, CPU_PIN).pins)
        words = translate(
            "Lanes",
            "What is read from disk follows from main memory and cannot be chosen. Keep these experts on the CPU "
            "instead.",
        )
        return Verdict({}, words, (way,) if way.pins else ())
    if not lane:
        return Verdict({}, no_gpu)
    device = scene.room.device
    if lane == device:
        return GPU_PIN
    if not device:
        return Verdict({}, scene.room.why_not)
    verdict = judge_pins(scene, cells, GPU_PIN)
    way = Way(translate("Lanes", "Keep them on {device}").format(device=device), pins=verdict.pins)
    words = translate("Lanes", "Single experts are kept in the pool, which is on {device} and not on {lane}.")
    return Verdict({}, words.format(device=device, lane=lane), (way,) if way.pins else verdict.ways)


def judge_pool(scene: Scene, pool_bytes: int) -> tuple[int, str]:
    """The size that the pool can have of what is wanted, and why it is not more; an empty text for all of it."""
    if pool_bytes <= 0:
        return 0, ""
    room = scene.room
    if room.why_not:
        return 0, room.why_not
    if pool_bytes <= room.most_bytes:
        return pool_bytes, ""
    words = translate(
        "Lanes", "The pool can have {most} on {device}, not {wanted}: that is what is free there (predicted)."
    )
    if room.most_bytes >= sum(scene.pooled.values()) * scene.facts.expert_count:
        words = translate("Lanes", "The pool needs no more than {most} on {device}: that is all experts it is for.")
    return room.most_bytes, words.format(
        most=in_bytes(room.most_bytes), device=room.device, wanted=in_bytes(pool_bytes)
    )


def ordered_plan(
    scene: Scene, plan: Plan, pins: Pins, policy: CachePolicy, pool_bytes: int | None
) -> tuple[Plan, tuple[str, ...]]:
    """`plan` with these pins and no others, this policy and pool, and in words what of it has no effect.

    Args:
        scene: How things are.
        plan: The plan as it is edited.
        pins: Experts to keep somewhere; those that the model does not have are told and left out.
        policy: How the pool is filled.
        pool_bytes: The pool's size; None to leave it.
    """
    remarks = []
    known = {
        cell: pin
        for cell, pin in pins.items()
        if cell[0] in plan.expert_lanes and 0 <= cell[1] < scene.facts.expert_count
    }
    if len(known) < len(pins):
        words = (
            translate("Lanes", "1 expert of it is not in this model.")
            if len(pins) - len(known) == 1
            else translate("Lanes", "{count} experts of it are not in this model.")
        )
        remarks.append(words.format(count=number(len(pins) - len(known))))
    after = with_policy(with_pins(plan, dict.fromkeys(pins_of(plan), AUTO_PIN) | known), policy)
    slots = scene.slots
    if pool_bytes is not None and pool_bytes != plan.pool_bytes:
        size, why = judge_pool(scene, pool_bytes)
        if why:
            remarks.append(why)
        if size != plan.pool_bytes and (size or not why):
            after = with_pool_bytes(after, size, scene.facts, scene.machine)
            slots = planned_slots(scene.lanes, scene.facts, after, known)
    fixed = {layer for layer, _expert in known if scene.lanes.get(layer, CPU_LANE) not in (CPU_LANE, DISK_LANE)}
    if fixed:
        words = translate("Lanes", "Layers {layers} are on a GPU as a whole: what is kept there has no effect now.")
        remarks.append(words.format(layers=runs_text(sorted(fixed))))
    kept = Counter(layer for (layer, _expert), pin in known.items() if pin == GPU_PIN and layer not in fixed)
    lacking = sum(max(count - slots.get(layer, 0), 0) for layer, count in kept.items())
    if lacking:
        words = (
            translate("Lanes", "1 expert that you keep on the GPU has no slot in the pool.")
            if lacking == 1
            else translate("Lanes", "{count} experts that you keep on the GPU have no slot in the pool.")
        )
        remarks.append(words.format(count=number(lacking)))
    return after, tuple(remarks)


def pin_text(count: int, pin: str) -> str:
    """An order for experts, as the history calls it: "keeping 3 experts on the GPU"."""
    texts = {
        GPU_PIN: (
            translate("Lanes", "keeping 1 expert on the GPU"),
            translate("Lanes", "keeping {count} experts on the GPU"),
        ),
        CPU_PIN: (
            translate("Lanes", "keeping 1 expert on the CPU"),
            translate("Lanes", "keeping {count} experts on the CPU"),
        ),
        AUTO_PIN: (translate("Lanes", "1 expert automatic"), translate("Lanes", "{count} experts automatic")),
    }
    one, many = texts[pin]
    return one if count == 1 else many.format(count=number(count))


def _known(experts: Iterable[int], count: int) -> list[int]:
    """Those of the experts of a layer that there are, rising."""
    found = sorted(set(experts))
    if not found or (found[0] >= 0 and found[-1] < count and set(map(type, found)) == {int}):
        return found
    return [int(expert) for expert in found if 0 <= expert < count]


def _unlike(cells: list[tuple[int, int]], pins: Pins, pin: str) -> dict[tuple[int, int], str]:
    """The change that gives cells a pin: of those that have another now."""
    if pin == AUTO_PIN:
        cells = [cell for cell in cells if cell in pins]
    elif pin in pins.values():
        now = pins.get
        cells = [cell for cell in cells if now(cell) != pin]
    return dict.fromkeys(cells, pin)


# ---- reasons and ways out -------------------------------------------------------------------------


def _already(count: int, pin: str) -> str:
    one, many = {
        GPU_PIN: (
            translate("Lanes", "Nothing to do: you keep this expert on the GPU already."),
            translate("Lanes", "Nothing to do: you keep these experts on the GPU already."),
        ),
        CPU_PIN: (
            translate("Lanes", "Nothing to do: you keep this expert on the CPU already."),
            translate("Lanes", "Nothing to do: you keep these experts on the CPU already."),
        ),
        AUTO_PIN: (
            translate("Lanes", "Nothing to do: this expert is automatic already."),
            translate("Lanes", "Nothing to do: these experts are automatic already."),
        ),
    }[pin]
    return one if count == 1 else many


def _fixed_layers(scene: Scene, layers: list[int], pin: str) -> tuple[str, tuple[Way, ...]]:
    """Layers that are on a GPU as a whole."""
    device = scene.lanes[layers[0]]
    one = len(layers) == 1
    text = (
        translate("Lanes", "Layer {layers} is on {device} as a whole, and all its experts with it.")
        if one
        else translate("Lanes", "Layers {layers} are on {device} as a whole, and all their experts with them.")
    ).format(layers=runs_text(layers), device=device)
    movable = tuple(layer for layer in layers if scene.plan.expert_lanes.get(layer) not in (CPU_LANE, DISK_LANE))
    if pin != CPU_PIN or not movable:
        return text, ()
    words = (
        translate("Lanes", "Move layer {layers} to the CPU")
        if one
        else translate("Lanes", "Move layers {layers} to the CPU")
    )
    return text, (Way(words.format(layers=runs_text(movable)), layers=movable, lane=CPU_LANE),)


def _no_pool(scene: Scene, changes: Pins) -> tuple[str, tuple[Way, ...]]:
    """There is no pool at all: give it what the experts need, at least one token cycle."""
    room = scene.room
    text = translate("Lanes", "There is no pool on the GPU that could hold single experts.")
    if room.why_not:
        return f"{text} {room.why_not}", ()
    kept = {cell for cell, pin in scene.pins.items() if pin == GPU_PIN and cell[0] in scene.pooled} | changes.keys()
    needed = sum(scene.pooled[layer] for layer, _expert in kept)
    size = -(-max(needed, room.cycle_bytes) // POOL_STEP) * POOL_STEP
    size = min(size, room.most_bytes)
    if needed <= size:
        words = translate("Lanes", "Give the pool {size} and keep them there").format(size=in_bytes(size))
        return text, (Way(words, pins=changes, pool_bytes=size),)
    slots = divide_pool(scene.pooled, scene.facts.expert_count, size)
    hottest = _hottest_fitting(scene, changes, slots)
    if not hottest:
        return text, ()
    words = translate("Lanes", "Give the pool {size} and keep the {count} hottest there")
    return text, (Way(words.format(size=in_bytes(size), count=number(len(hottest))), pins=hottest, pool_bytes=size),)


def _lacking(scene: Scene, changes: Pins) -> dict[int, int]:
    """Layer to the slots that its experts lack, beside those that are kept there already."""
    wanted = Counter(map(operator.itemgetter(0), changes))
    free = {layer: scene.slots.get(layer, 0) - len(scene.kept_on_gpu(layer)) for layer in wanted}
    return {layer: count - free[layer] for layer, count in wanted.items() if count > free[layer]}


def _no_slots(scene: Scene, rest: Pins, fitting: Pins, lacking: dict[int, int]) -> tuple[str, tuple[Way, ...]]:
    """Layers whose slots are too few: a larger pool, only the hottest, or in place of others."""
    layers = sorted(lacking)
    if len(layers) == 1:
        layer = layers[0]
        kept = len(scene.kept_on_gpu(layer))
        text = translate(
            "Lanes",
            "Layer {layer} has {slots} slots in the pool, of which {kept} hold experts that you keep there: "
            "{lacking} more are needed.",
        ).format(
            layer=layer,
            slots=number(scene.slots.get(layer, 0)),
            kept=number(min(kept, scene.slots.get(layer, 0))),
            lacking=number(lacking[layer]),
        )
    else:
        text = translate(
            "Lanes",
            "Layers {layers} lack {lacking} slots in the pool for these experts beside those that you keep there.",
        ).format(layers=runs_text(layers), lacking=number(sum(lacking.values())))
    if fitting:
        done = (
            translate("Lanes", "{count} experts are kept on the GPU now.")
            if len(fitting) > 1
            else translate("Lanes", "1 expert is kept on the GPU now.")
        )
        text = f"{done.format(count=number(len(fitting)))} {text}"
    ways = [_growing(scene, rest, lacking), _only_hottest(scene, rest), _in_place_of_others(scene, rest, lacking)]
    return text, tuple(way for way in ways if way is not None)


def _growing(scene: Scene, rest: Pins, lacking: dict[int, int]) -> Way | None:
    """A pool that is larger by the slots that lack: it serves pins first, so that no other layer loses any."""
    missing = sum(scene.facts.expert_bytes[layer] * count for layer, count in lacking.items())
    # One MiB more for the gaps that a device wants between tensors.
    size = (scene.plan.pool_bytes + missing + 2 * MIB - 1) // MIB * MIB
    everything = sum(scene.pooled.values()) * scene.facts.expert_count
    size = min(size, max(everything, scene.plan.pool_bytes + missing))
    if scene.room.why_not or size > scene.room.most_bytes:
        return None
    words = translate("Lanes", "Grow the pool from {before} to {after}")
    return Way(words.format(before=in_bytes(scene.plan.pool_bytes), after=in_bytes(size)), pins=rest, pool_bytes=size)


def _only_hottest(scene: Scene, rest: Pins) -> Way | None:
    hottest = _hottest_fitting(scene, rest, scene.slots)
    if not hottest:
        return None
    words = (
        translate("Lanes", "Keep only the hottest one that fits")
        if len(hottest) == 1
        else translate("Lanes", "Keep only the {count} hottest that fit").format(count=number(len(hottest)))
    )
    return Way(words, pins=hottest)


def _in_place_of_others(scene: Scene, rest: Pins, lacking: dict[int, int]) -> Way | None:
    """The coldest others that are kept there become automatic, as many as needed."""
    freed: dict[tuple[int, int], str] = {}
    for layer, count in lacking.items():
        others = sorted(((layer, expert) for expert in scene.kept_on_gpu(layer)), key=scene.heat, reverse=True)
        if len(others) < count:
            return None
        freed |= dict.fromkeys(others[:count], AUTO_PIN)
    words = (
        translate("Lanes", "Make 1 other automatic instead")
        if len(freed) == 1
        else translate("Lanes", "Make {count} others automatic instead").format(count=number(len(freed)))
    )
    return Way(words, pins=freed | dict(rest))


def _hottest_fitting(scene: Scene, changes: Pins, slots: Mapping[int, int]) -> dict[tuple[int, int], str]:
    """The hottest of `changes` that find a slot beside what is kept on the GPU already."""
    fitting: dict[tuple[int, int], str] = {}
    for layer, experts in cells_of(changes).items():
        free = max(slots.get(layer, 0) - len(scene.kept_on_gpu(layer)), 0)
        counts = scene.routed.get(layer, ())
        counts = (*counts, *itertools.repeat(0, experts[-1] + 1 - len(counts)))  # nobody counted the last ones
        hottest = sorted(experts, key=counts.__getitem__, reverse=True)  # of equally hot ones the first
        fitting |= {(layer, expert): changes[layer, expert] for expert in hottest[:free]}
    return fitting
