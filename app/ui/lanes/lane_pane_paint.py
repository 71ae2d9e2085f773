"""Paints the panes of a lane side by side: each is painted as if it were a lane of its own."""

import numpy as np
from PySide6.QtGui import QFont, QPainter

from app.ui.lanes.lane_contents import LaneContents
from app.ui.lanes.lane_paint import LanePainter, Tint
from app.ui.lanes.lane_panes import LanePanes
from app.ui.lanes.lane_pixels import Window
from app.ui.theme import Theme


class PanesPainter:
    """Has a painter for each pane, for each keeps what it drew; one of these for each view."""

    def __init__(self, theme: Theme, font: QFont) -> None:
        self._theme = theme
        self._font = font
        self._painters = [LanePainter(theme, font)]
        self._shown: list[tuple[LanePainter, float]] = []
        self._cut: tuple[LaneContents, tuple[int, ...], list[LaneContents]] | None = None

    def take_theme(self) -> None:
        """The theme has other colours."""
        for painter in self._painters:
            painter.take_theme()

    def take_font(self, font: QFont) -> None:
        """The interface has another font."""
        self._font = font
        for painter in self._painters:
            painter.take_font(font)

    def header_width(self) -> int:
        """Logical pixels of the layers' names beside the cells of each pane."""
        return self._painters[0].header_width()

    def prepare(
        self, contents: LaneContents, panes: LanePanes, window: Window, ratio: float, tints: tuple[Tint, ...] = ()
    ) -> None:
        """Work out what `draw` draws; as `LanePainter.prepare`, for every pane."""
        self._shown = [(self._painters[0], 0.0)]
        if panes.count == 1:
            self._cut = None
            self._painters[0].prepare(contents, panes.sheet, window, ratio, tints)
            return
        while len(self._painters) < panes.count:
            self._painters.append(LanePainter(self._theme, self._font))
        self._shown = []
        for pane, (part, its) in enumerate(zip(panes.parts, self._contents(contents, panes), strict=True)):
            left = pane * panes.stride
            # The last one has all the room that is left.
            width = panes.stride if pane < panes.count - 1 else max(window.width - left, 1)
            seen = Window(window.left, window.top, width, window.height, window.header)
            flashes = _of_lines(tints, panes.firsts[pane], part.lines)
            self._painters[pane].prepare(its, part, seen, ratio, flashes)
            self._shown.append((self._painters[pane], left / ratio))

    def draw(self, painter: QPainter, top: int, bottom: int) -> None:
        """Draw what was prepared, from its row of device pixels `top` to before `bottom`."""
        for its, left in self._shown:
            painter.save()
            painter.translate(left, 0)
            its.draw(painter, top, bottom)
            painter.restore()

    def _contents(self, contents: LaneContents, panes: LanePanes) -> list[LaneContents]:
        """What is in each pane, made once for each change."""
        if self._cut is None or self._cut[0] is not contents or self._cut[1] != panes.firsts:
            made = [
                LaneContents(
                    board=contents.board,
                    packing=contents.packing.part(first, first + part.lines),
                    selected=contents.selected,
                    hatched=contents.hatched,
                )
                for first, part in zip(panes.firsts, panes.parts, strict=True)
            ]
            self._cut = (contents, panes.firsts, made)
        return self._cut[2]


def _of_lines(tints: tuple[Tint, ...], first: int, lines: int) -> tuple[Tint, ...]:
    """The tints of some lines, which are counted from the first of them."""
    made = []
    for tint in tints:
        inside = (tint.lines >= first) & (tint.lines < first + lines)
        if np.any(inside):
            made.append(Tint(tint.lines[inside] - first, tint.columns[inside], tint.color, tint.fraction))
    return tuple(made)
