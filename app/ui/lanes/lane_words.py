"""What one lane's view says of a cell, a layer and itself: for tips, screen readers and help."""

from app.engine.protocol import Loaded
from app.placement.plan import CPU_LANE, DISK_LANE
from app.ui.lanes.board import FROM_DISK, FROM_MEMORY, ON_CPU, ON_GPU, UNKNOWN, Board
from app.ui.lanes.lane_info import LaneInfo
from app.ui.lanes.memory_words import share_text
from app.ui.lanes.packing import Packing
from app.ui.lanes.selection import Selection
from app.ui.lanes.words import lane_name, percent, translate
from app.ui.words import in_bytes, number


def keys_text() -> str:
    """Every key of the view."""
    return translate(
        "Lanes",
        "Arrows move from expert to expert, with Shift they select, Space selects or unselects one, Ctrl+A all of the "
        "lane. Home and End go to the ends of a layer, with Ctrl of the lane. G keeps the selected experts on the "
        "GPU, C on the CPU, A leaves them to the cache. Alt and an arrow sends them to the lane beside. Plus, minus "
        "and 0, or Ctrl and the wheel, zoom. Enter shows a layer as a table. Drag selected experts to another lane, or "
        "a layer's name to move the whole layer; the context menu does both.",
    )


def why_uncounted(board: Board, row: int, report: Loaded | None) -> str:
    """Why nothing is known of a layer's routings; empty where they are counted, or nothing is loaded."""
    if report is None or board.counted[row]:
        return ""
    lane = report.expert_layers.get(board.layers[row])
    if lane is not None and lane not in (CPU_LANE, DISK_LANE):
        words = translate("Lanes", "Loaded on {lane} as a whole: routings are not counted there.")
        return words.format(lane=lane_name(lane))
    if not report.expert_device:
        return translate("Lanes", "Routings are not counted: {reason}").format(reason=report.reason)
    return translate("Lanes", "The engine has not told of this layer's experts yet.")


def cell_text(board: Board, row: int, expert: int) -> str:
    """One expert in words, for tooltips and screen readers.

    Example: "Layer 12, expert 7: routed 312 times, 2.1 % of this layer, 2.72 MiB, CPU lane, kept on the CPU by you"
    """
    text = translate("Lanes", "Layer {layer}, expert {expert}: {routed}, {size}, {lane} lane").format(
        layer=board.layers[row],
        expert=expert,
        routed=_routed_text(board, row, expert),
        size=in_bytes(int(board.expert_bytes[row])),
        lane=lane_name(board.lanes[board.lane[row, expert]]),
    )
    if board.copying[row, expert]:
        text += translate("Lanes", ", being copied to the GPU pool")
    where = {
        FROM_MEMORY: translate("Lanes", ", in main memory"),
        FROM_DISK: translate("Lanes", ", on the disk only: read when it is needed"),
    }
    text += where.get(int(board.memory[row, expert]), "")
    orders = {
        ON_GPU: translate("Lanes", ", kept on the GPU by you"),
        ON_CPU: translate("Lanes", ", kept on the CPU by you"),
    }
    return text + orders.get(int(board.pin[row, expert]), "")


def cell_tip(board: Board, place: tuple[int, int], report: Loaded | None) -> str:
    """One expert, and why its routings are not known if they are not."""
    text, why = cell_text(board, *place), why_uncounted(board, place[0], report)
    return f"{text}.\n{why}" if why else f"{text}."


def layer_tip(board: Board, packing: Packing, row: int, lane: LaneInfo, report: Loaded | None) -> str:
    """One layer as far as it is in a lane, and what can be done with it."""
    line = packing.line_of(row)
    here = int(packing.counts[line]) if line is not None else 0
    lines = [
        translate("Lanes", "Layer {layer}: {here} of {count} experts in the {lane} lane, {size}.").format(
            layer=board.layers[row],
            here=number(here),
            count=number(board.experts),
            lane=lane_name(lane.key),
            size=in_bytes(here * int(board.expert_bytes[row])),
        )
    ]
    if (board.memory[row] != UNKNOWN).any():
        lines.append(f"{share_text(int((board.memory[row] == FROM_MEMORY).sum()), board.experts)}.")
    why = why_uncounted(board, row, report)
    if why:
        lines.append(why)
    lines.append(translate("Lanes", "A click selects them, a drag moves the whole layer: that needs a reload."))
    return "\n".join(lines)


def view_name(lane: LaneInfo, board: Board, packing: Packing, selection: Selection) -> str:
    """The view's name: which lane it shows, how much of the model is in it, and what is selected."""
    total = board.rows * board.experts
    words = translate("Lanes", "Experts in the lane {lane}: {here} of {total}. {selection}.")
    return words.format(lane=lane.title, here=number(packing.cells), total=number(total), selection=selection.spoken())


def _routed_text(board: Board, row: int, expert: int) -> str:
    share = _share_of(board, row, expert)
    if share is None:
        return translate("Lanes", "no routing counted yet")
    count = int(board.routed[row, expert])
    times = (
        translate("Lanes", "routed once")
        if count == 1
        else translate("Lanes", "routed {count} times").format(count=number(count))
    )
    return times + translate("Lanes", ", {share} % of this layer").format(share=percent(share))


def _share_of(board: Board, row: int, expert: int) -> float | None:
    """An expert's part of its layer's routings, 0 to 1; None while the layer has none."""
    total = int(board.routed[row].sum())
    return int(board.routed[row, expert]) / total if total else None
