"""One lane of the dock: its header over its layers; the whole of it takes drops."""

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import (
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from app.ui.lanes.header import LaneHeader
from app.ui.lanes.lane_info import LaneInfo
from app.ui.lanes.model import LayersModel
from app.ui.lanes.view import LaneView
from app.ui.theme import GRID, Theme, set_role

RADIUS = 10


class LaneColumn(QFrame):
    """A lane; its frame takes the lane's colour while layers are dragged over it.

    Signals:
        drag_over: These layers hang above the lane (tuple), or none do any more.
    """

    drag_over = Signal(tuple)

    def __init__(self, layers: LayersModel, info: LaneInfo, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, "card")
        self.info = info
        self._theme = theme
        self._over: tuple[int, ...] = ()
        self.header = LaneHeader(info, theme, self)
        self.view = LaneView(layers, info, theme, self)
        set_role(self.view, "bare")
        column = QVBoxLayout(self)
        column.setContentsMargins(2, 2, 2, 4)
        column.setSpacing(GRID // 2)
        column.addWidget(self.header)
        column.addWidget(self.view, 1)
        self.setAcceptDrops(True)

    def set_info(self, info: LaneInfo) -> None:
        """Another probe: the same lane, told anew."""
        self.info = info
        self.header.set_info(info)
        self.view.set_info(info)

    def set_stacked(self, stacked: bool, *, compact: bool) -> None:
        """Among lanes one over the other, be no higher than the layers need."""
        self.header.set_compact(stacked and compact)
        self.view.setVisible(not stacked or self.view.proxy.rowCount() > 0)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Take drags of layers that are not here yet."""
        self._consider(event)
        self._set_over(self.view.proxy.dragged(event.mimeData()))

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        """As on entering: the whole lane is the target."""
        self._consider(event)

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        """The drag went elsewhere."""
        event.accept()
        self._set_over(())

    def dropEvent(self, event: QDropEvent) -> None:
        """Ask for the dropped layers to be moved here."""
        self._set_over(())
        if self.view.proxy.dropMimeData(event.mimeData(), Qt.DropAction.MoveAction, -1, -1, QModelIndex()):
            event.setDropAction(Qt.DropAction.MoveAction)
            event.accept()
        else:
            event.ignore()

    def paintEvent(self, event: QPaintEvent) -> None:
        """The frame, in the lane's colour under a drag."""
        super().paintEvent(event)
        if not self._over:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(getattr(self._theme.colors, self.info.kind), 2))
        painter.drawRoundedRect(self.rect().adjusted(1, 1, -1, -1), RADIUS, RADIUS)
        painter.end()

    def _consider(self, event: QDragMoveEvent) -> None:
        if self.view.proxy.dragged(event.mimeData()):
            event.setDropAction(Qt.DropAction.MoveAction)
            event.accept()
        else:
            event.ignore()

    def _set_over(self, layers: tuple[int, ...]) -> None:
        if layers != self._over:
            self._over = layers
            self.update()
            self.drag_over.emit(layers)
