"""What is drawn into cells that are large enough: the shapes of pins, numbers, and on cards share and size."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PySide6.QtGui import QColor, QPixmap

from app.ui.lanes.lane_contents import LaneContents
from app.ui.lanes.lane_layout import CARD, LaneLayout, Places
from app.ui.lanes.lane_pixels import Grid, Window
from app.ui.lanes.lane_stamps import CARD_PADDING, MOST_CARDS, Line, Stamps
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
_MOST_NEW = 16
"""Cards that become one picture in a frame: each takes as long as drawing the lines of eight."""
_CODES = 10_003
"""More than there are codes of shares."""
_NUMBER_TOP = 2.0
"""Logical pixels above a number, and below the pin in its cell."""


@dataclass(frozen=True, eq=False)
class Inks:
    """Colours that can be read on cells.

    Attributes:
        pale: Which cells are light, in the shape of their shades.
        dark, light: What is written on light cells and on others.
        shape, halo: The shape of a pin, and its edge.
    """

    pale: Grid
    dark: QColor
    light: QColor
    shape: QColor
    halo: QColor


@dataclass(frozen=True, eq=False)
class Inscriptions:
    """Pictures that lie in cells, from the top downwards.

    Attributes:
        pictures: Left and top of each in device pixels of the window, and its pixels.
        tops: The top of the cell that each lies in, rising.
    """

    pictures: list[tuple[int, int, QPixmap]]
    tops: list[int]

    def between(self, first: float, last: float) -> list[tuple[int, int, QPixmap]]:
        """The pictures of cells that begin from a row on and before another."""
        return self.pictures[bisect_left(self.tops, first) : bisect_left(self.tops, last)]


class Inscriber:
    """Says what is drawn into cells; one for each painter, for it keeps the cards of what is shown."""

    def __init__(self, stamps: Stamps) -> None:
        self._stamps = stamps
        self._cards: dict[int, tuple[Line, ...]] = {}
        self._cards_of: tuple[object, ...] = ()

    def inscriptions(
        self,
        contents: LaneContents,
        layout: LaneLayout,
        window: Window,
        shades: NDArray[np.intp],
        inks_of: Callable[[NDArray[np.intp]], Inks],
        between: tuple[int, int],
    ) -> Inscriptions:
        """What is drawn into every cell on screen that reaches between two rows of the window's device pixels.

        Args:
            contents: What is in the lane.
            layout: Where its cells are.
            window: What of them is seen.
            shades: The shade of each place of the packing's table.
            inks_of: What can be read on shades.
            between: The first row and the one after the last.
        """
        pitch = layout.pitch / self._stamps.ratio
        lines, columns, lefts, tops = _on_screen(contents.packing, layout, window, between)
        if pitch < NUMBERED:
            # Most have nothing to draw.
            pinned = (contents.on_gpu | contents.on_cpu)[lines, columns]
            lines, columns, lefts, tops = lines[pinned], columns[pinned], lefts[pinned], tops[pinned]
        rows, experts = contents.packing.rows[lines], contents.packing.table[lines, columns]
        inks = inks_of(shades[lines, columns])
        lefts, tops = (lefts - window.left).tolist(), (tops - window.top).tolist()
        words: list[tuple[Line, ...]] = [()] * len(tops)
        if pitch >= CARD:
            words = self._cards_on(contents, layout, rows, experts, inks)
        elif pitch >= NUMBERED:
            words = self._numbers_on(contents, layout, experts, inks)
        return self._laid_out(lefts, tops, words, contents.board.pin[rows, experts].tolist(), layout, inks)

    def _laid_out(
        self,
        lefts: list[int],
        tops: list[int],
        words: list[tuple[Line, ...]],
        pins: list[int],
        layout: LaneLayout,
        inks: Inks,
    ) -> Inscriptions:
        """Words and pins where they belong in each cell."""
        ratio, cell = self._stamps.ratio, layout.cell
        card = layout.pitch / ratio >= CARD
        padding, above = round(CARD_PADDING * ratio), round(_NUMBER_TOP * ratio)
        shapes = _shapes(self._stamps, inks, layout)
        pictures: list[tuple[int, int, QPixmap]] = []
        their_tops: list[int] = []
        add, add_top = pictures.append, their_tops.append
        for left, top, its, pin in zip(lefts, tops, words, pins, strict=True):
            for below, picture in its:
                x = left + (padding if card else (cell - picture.width()) // 2)
                add((x, top + below + (padding if card else above), picture))
                add_top(top)
            if pin:
                shape, across, down = shapes[pin]
                add((left + across, top + down, shape))
                add_top(top)
        return Inscriptions(pictures, their_tops)

    def _numbers_on(
        self, contents: LaneContents, layout: LaneLayout, experts: NDArray[np.int32], inks: Inks
    ) -> list[tuple[Line, ...]]:
        """The number of each cell, where there is room for it."""
        stamps, points = self._stamps, _NUMBER_POINTS * text_points(1.0)
        made: list[tuple[Line, ...]] = []
        for expert, pale in zip(experts.tolist(), inks.pale.tolist(), strict=True):
            its = stamps.words(contents.names[expert], points, inks.dark if pale else inks.light)
            made.append(((0, its),) if its.width() <= layout.cell - 2 * stamps.ratio else ())
        return made

    def _cards_on(
        self,
        contents: LaneContents,
        layout: LaneLayout,
        rows: NDArray[np.intp],
        experts: NDArray[np.int32],
        inks: Inks,
    ) -> list[tuple[Line, ...]]:
        """The words of each card, kept by what they say: with a token few of them change.

        Where many are new not all become one picture at once: the next frames make the others.
        """
        scale = text_points(1.0)
        now = (contents.board.model, contents.board.experts, layout.cell, scale)
        if self._cards_of != now or len(self._cards) > MOST_CARDS:
            self._cards_of, self._cards = now, {}
        cards, board = self._cards, contents.board
        sizes = np.searchsorted(np.unique(board.expert_bytes), board.expert_bytes)[rows]
        codes = contents.share_codes(rows, experts) + 2
        keys = ((sizes * board.experts + experts) * 2 + inks.pale) * _CODES + codes
        made: list[tuple[Line, ...]] = []
        new = 0
        for place, key in enumerate(keys.tolist()):
            its = cards.get(key)
            if its is None:
                ink, cell = inks.dark if inks.pale[place] else inks.light, (int(rows[place]), int(experts[place]))
                its = self._card(contents, layout, cell, ink, scale, whole=new < _MOST_NEW)
                if new < _MOST_NEW:
                    cards[key] = its
                new += 1
            made.append(its)
        return made

    def _card(
        self,
        contents: LaneContents,
        layout: LaneLayout,
        place: tuple[int, int],
        ink: QColor,
        scale: float,
        *,
        whole: bool,
    ) -> tuple[Line, ...]:
        """The words of one card, as one picture if it is to be `whole`."""
        row, expert = place
        cell = layout.cell / self._stamps.ratio
        larger = scale if cell < _LARGE_CARD * scale else 1.3 * scale
        sizes = (_NAME_POINTS * larger, _SHARE_POINTS * larger, _SIZE_POINTS * larger)
        texts = (contents.names[expert], contents.share_text(row, expert), contents.size_texts[row])
        return (self._stamps.card if whole else self._stamps.lines)(texts, sizes, ink, cell)


def _shapes(stamps: Stamps, inks: Inks, layout: LaneLayout) -> dict[int, tuple[QPixmap, int, int]]:
    """The shape of each pin and its distance from a cell's corner in device pixels.

    In the middle of a cell without a number, below the number where there is one, in the corner of a card.
    """
    ratio = stamps.ratio
    pitch, cell = layout.pitch / ratio, layout.cell / ratio
    if pitch >= CARD:
        size = _LARGEST_PIN
        across, down = cell - size - CARD_PADDING, CARD_PADDING
    elif pitch >= NUMBERED:
        size = min(cell * 0.42, _LARGEST_PIN)
        across, down = (cell - size) / 2, cell - size - _NUMBER_TOP
    else:
        size = cell * 0.62
        across = down = (cell - size) / 2
    corner = round(across * ratio), round(down * ratio)
    return {pin: (stamps.pin(pin, round(size), inks.shape, inks.halo), *corner) for pin in (1, 2)}


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
