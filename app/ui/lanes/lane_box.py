"""One lane of the dock: its header over its experts."""

from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from app.ui.lanes.board_state import BoardState
from app.ui.lanes.header import LaneHeader
from app.ui.lanes.lane_info import DISK, LaneInfo
from app.ui.lanes.lane_view import LaneView
from app.ui.theme import GRID, Theme, set_role

LEAST_HEIGHT = 72
"""Pixels of the experts of a lane that has any: enough to see where they are, and to drop some."""
EMPTY_HEIGHT = 48
MOST_PIXELS = 16_777_215
"""Qt's own limit."""


class LaneBox(QFrame):
    """A lane; its view takes drops."""

    def __init__(self, state: BoardState, info: LaneInfo, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, "card")
        self.info = info
        self._state = state
        self.header = LaneHeader(info, theme, self)
        self.view = LaneView(state, info, theme, self)
        column = QVBoxLayout(self)
        column.setContentsMargins(2, 2, 2, 4)
        column.setSpacing(GRID // 2)
        column.addWidget(self.header)
        column.addWidget(self.view, 1)

    @property
    def cells(self) -> int:
        """Experts that are here."""
        return int(self._state.board.on(self.info.key).sum())

    @property
    def rows(self) -> int:
        """Layers that have experts here."""
        return int(self._state.board.on(self.info.key).any(axis=1).sum())

    def set_info(self, info: LaneInfo) -> None:
        """Another probe: the same lane, told anew."""
        self.info = info
        self.header.set_info(info)
        self.view.set_info(info)

    def set_stacked(self, stacked: bool, *, compact: bool) -> None:
        """Among lanes one over the other, an empty one keeps a strip to drop on, unless it takes no drops."""
        empty = stacked and not self.cells
        self.header.set_compact(stacked and compact)
        self.view.setVisible(not (empty and self.info.kind == DISK))
        self.view.setMinimumHeight(EMPTY_HEIGHT if empty else LEAST_HEIGHT)
        self.view.setMaximumHeight(EMPTY_HEIGHT if empty else MOST_PIXELS)
