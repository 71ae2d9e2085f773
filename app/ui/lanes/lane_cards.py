"""Draws into cells that are large enough: the shapes of pins, numbers, and on cards share and size."""

from dataclasses import dataclass

import numpy as np
from PySide6.QtGui import QColor, QPainter

from app.ui.lanes.lane_contents import LaneContents
from app.ui.lanes.lane_layout import CARD, LaneLayout, Places
from app.ui.lanes.lane_pixels import Grid, Window
from app.ui.lanes.lane_stamps import CARD_PADDING, Stamp, Stamps
from app.ui.lanes.packing import EMPTY, Packing
from app.ui.theme import text_points

DRAWN = 16.0
"""Logical pixels from which on shapes are drawn smoothly, one by one."""
NUMBERED = 27.0
"""Logical pixels from which on a cell has its number."""
_NAME_POINTS, _SHARE_POINTS, _SIZE_POINTS, _NUMBER_POINTS = 10.0, 8.5, 7.5, 8.0
_LARGEST_PIN = 14.0
_LARGE_CARD = 80.0
"""Logical pixels from which on a card's words are larger, where the system's own are not."""


@dataclass(frozen=True, eq=False)
class Inks:
    """Colours that can be read on cells.

    Attributes:
        pale: Which cells are light, shape of the packing's table.
        dark, light: What is written on light cells and on others.
        shape, halo: The shape of a pin, and its edge.
    """

    pale: Grid
    dark: QColor
    light: QColor
    shape: QColor
    halo: QColor


def draw_cells(
    painter: QPainter,
    stamps: Stamps,
    contents: LaneContents,
    layout: LaneLayout,
    window: Window,
    inks: Inks,
    between: tuple[int, int],
    unit: float,
) -> None:
    """Draw into every cell on screen that reaches between two rows of the window's device pixels.

    `unit` is a logical pixel in what the painter counts in: 1, or as many as there are device pixels in one.
    """
    board, packing, ratio = contents.board, contents.packing, stamps.ratio
    pitch, cell = layout.pitch / ratio, layout.cell / ratio
    lines, columns, lefts, tops = _on_screen(packing, layout, window, between)
    scale = text_points(1.0)
    larger = scale if cell < _LARGE_CARD * scale else 1.3 * scale
    sizes = (_NAME_POINTS * larger, _SHARE_POINTS * larger, _SIZE_POINTS * larger)
    if pitch < NUMBERED:
        # Most have nothing to draw.
        pinned = (contents.on_gpu | contents.on_cpu)[lines, columns]
        lines, columns, lefts, tops = lines[pinned], columns[pinned], lefts[pinned], tops[pinned]
    rows, experts = packing.rows[lines], packing.table[lines, columns]
    shapes = _shapes(stamps, inks, pitch, cell)
    for x, y, row, expert, pin, pale in zip(
        ((lefts - window.left) / ratio).tolist(),
        ((tops - window.top) / ratio).tolist(),
        rows.tolist(),
        experts.tolist(),
        board.pin[rows, experts].tolist(),
        inks.pale[lines, columns].tolist(),
        strict=True,
    ):
        ink = inks.dark if pale else inks.light
        if pitch >= CARD:
            texts = (contents.names[expert], contents.share_text(row, expert), contents.size_texts[row])
            card = stamps.card(texts, sizes, ink, cell)
            if card is not None:
                card.draw(painter, x + CARD_PADDING, y + CARD_PADDING, unit)
        elif pitch >= NUMBERED:
            its = stamps.words(contents.names[expert], _NUMBER_POINTS * scale, ink)
            if its.width <= cell - 2:
                its.draw(painter, x + (cell - its.width) // 2, y + 2, unit)
        if pin:
            shape, across, down = shapes[pin]
            shape.draw(painter, x + across, y + down, unit)


def _shapes(stamps: Stamps, inks: Inks, pitch: float, cell: float) -> dict[int, tuple[Stamp, float, float]]:
    """The shape of each pin and its distance from a cell's corner.

    In the middle of a cell without a number, below the number where there is one, in the corner of a card.
    """
    if pitch >= CARD:
        size = _LARGEST_PIN
        across, down = cell - size - CARD_PADDING, CARD_PADDING
    elif pitch >= NUMBERED:
        size = min(cell * 0.42, _LARGEST_PIN)
        across, down = (cell - size) / 2, cell - size - 2
    else:
        size = cell * 0.62
        across = down = (cell - size) / 2
    ratio = stamps.ratio
    across, down = round(across * ratio) / ratio, round(down * ratio) / ratio
    return {pin: (stamps.pin(pin, round(size), inks.shape, inks.halo), across, down) for pin in (1, 2)}


def _on_screen(
    packing: Packing, layout: LaneLayout, window: Window, between: tuple[int, int]
) -> tuple[Places, Places, Places, Places]:
    """Lines, columns, lefts and tops of the cells on screen."""
    top, bottom = window.top + max(between[0], 0), window.top + min(between[1], window.height)
    first, last = layout.lines_between(top, bottom)
    lines, columns = np.nonzero(packing.table[first:last] != EMPTY)
    lines += first
    lefts, tops = layout.corners(lines, columns)
    seen = (
        (lefts + layout.pitch > window.left + window.header)
        & (lefts < window.left + window.width)
        & (tops + layout.pitch > top)
        & (tops < bottom)
    )
    return lines[seen], columns[seen], lefts[seen], tops[seen]
