"""What a drop on a lane would do, in words, and why some lanes take none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.ui.lanes.board import Cells
from app.ui.lanes.lane_info import CPU, DISK, LaneInfo
from app.ui.lanes.words import lane_name, runs_text, translate
from app.ui.words import number


@dataclass(frozen=True)
class Offer:
    """What a lane says to a drag that hangs over it.

    Attributes:
        text: What a drop would do, or why there is none.
        taken: Whether a drop is taken.
    """

    text: str
    taken: bool


def cells_offer(
    lane: LaneInfo,
    cells: Cells,
    here: Mapping[int, Sequence[int]],
    pool_device: str | None,
    *,
    live: bool,
    room: bool = True,
    on_disk: int = 0,
) -> Offer:
    """What a drop of single experts on a lane would do.

    Args:
        lane: Where they would be dropped.
        cells: The experts.
        here: Those of them that the lane has already.
        pool_device: The lane of experts in the pool; None where there is none.
        live: Whether the model is loaded, so that orders are followed at once.
        room: Whether the pool has a slot in any of their layers; without one the drop is answered with what can
            be done about it.
        on_disk: How many of them the engine reads from the disk now; those are not called into memory one by one.
    """
    count = sum(len(experts) for experts in cells.values())
    refusal = _why_no_cells(lane, pool_device)
    if refusal:
        return Offer(refusal, taken=False)
    if sum(len(experts) for experts in here.values()) == count:
        return Offer(translate("Lanes", "Here already. The keys G and C keep experts where they are."), taken=False)
    if lane.kind == CPU and on_disk == count:
        words = translate("Lanes", "No single expert is called into memory: a drop shows what would do it")
        return Offer(words, taken=True)
    text = _keep_text(lane, count - (on_disk if lane.kind == CPU else 0))
    if lane.kind != CPU and not room:
        when = translate("Lanes", "the pool needs room first")
    elif live:
        when = translate("Lanes", "takes effect with the next token")
    else:
        when = translate("Lanes", "from the next load on")
    return Offer(f"{text}: {when}", taken=True)


def layers_offer(
    lane: LaneInfo, layers: Sequence[int], here: Sequence[int], *, live: bool, on_disk: bool = False
) -> Offer:
    """What a drop of whole layers on a lane would do.

    Args:
        lane: Where they would be dropped.
        layers: The layers.
        here: Those of them that the plan has in the lane already.
        live: Whether the model is loaded, so that it must be loaded again.
        on_disk: Whether some of their experts are not in main memory.
    """
    if lane.note:
        return Offer(lane.note, taken=False)
    if lane.kind == DISK:
        words = translate("Lanes", "Layers come here by themselves when main memory is short. Move them to the CPU.")
        return Offer(words, taken=False)
    going = [layer for layer in layers if layer not in here]
    if not going and lane.kind == CPU and on_disk:
        words = translate(
            "Lanes",
            "The CPU has these layers already; what of them is not in memory is shown on the disk. A warm-up or a "
            "larger budget reads it in.",
        )
        return Offer(words, taken=False)
    if not going:
        return Offer(translate("Lanes", "Here already."), taken=False)
    words = (
        translate("Lanes", "Move layer {layers} whole to {lane}")
        if len(going) == 1
        else translate("Lanes", "Move layers {layers} whole to {lane}")
    )
    text = words.format(layers=runs_text(going), lane=lane_name(lane.key))
    when = translate("Lanes", "needs a reload") if live else translate("Lanes", "from the next load on")
    return Offer(f"{text}: {when}", taken=True)


def _why_no_cells(lane: LaneInfo, pool_device: str | None) -> str:
    if lane.note:
        return lane.note
    if lane.kind == DISK:
        return translate("Lanes", "What is read from disk follows from main memory. Keep it on the CPU instead.")
    if lane.kind != CPU and pool_device is not None and lane.key != pool_device:
        words = translate("Lanes", "{device} has the pool for single experts. Whole layers can be moved here.")
        return words.format(device=pool_device)
    return ""


def _keep_text(lane: LaneInfo, count: int) -> str:
    if lane.kind == CPU:
        if count == 1:
            return translate("Lanes", "Keep 1 expert on the CPU")
        return translate("Lanes", "Keep {count} experts on the CPU").format(count=number(count))
    if count == 1:
        return translate("Lanes", "Keep 1 expert on the GPU")
    return translate("Lanes", "Keep {count} experts on the GPU").format(count=number(count))
