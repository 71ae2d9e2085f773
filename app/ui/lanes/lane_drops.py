"""What a lane does with drags that hang over it: says what a drop would do, and asks for it when dropped."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDragMoveEvent, QDropEvent

from app.placement.plan import DISK_LANE
from app.ui.announce import say
from app.ui.lanes.board import FROM_DISK, Cells
from app.ui.lanes.drop_words import Offer, cells_offer, layers_offer
from app.ui.lanes.lane_scroll import EdgeScroll
from app.ui.lanes.mime import unpack, unpack_cells
from app.ui.lanes.words import translate

if TYPE_CHECKING:
    from app.ui.lanes.lane_view import LaneView


class LaneDrops(QObject):
    """The drags over one lane.

    Attributes:
        offer: What a drop would do now; None while nothing hangs over the lane.
    """

    def __init__(self, view: "LaneView") -> None:
        super().__init__(view)
        self._view = view
        self._scroll = EdgeScroll(view)
        self._cells: Cells = {}
        self._layers: tuple[int, ...] = ()
        self._model = ""
        self.offer: Offer | None = None

    def enter(self, event: QDragEnterEvent) -> None:
        """Something of ours hangs over the lane, taken or not: only who takes it in is told when it leaves."""
        board = self._view.state.board
        model, data = board.model, event.mimeData()
        self._model = model
        # Only what is here: another program, or another version of ours, may name layers that this model has not.
        self._cells = board.cells(board.mask(unpack_cells(data, model)))
        self._layers = tuple(layer for layer in dict.fromkeys(unpack(data, model)) if layer in board.layers)
        if not model or not (self._cells or self._layers):
            event.ignore()
            return
        self._say(self._considered())
        event.setDropAction(Qt.DropAction.MoveAction)
        event.accept()

    def move(self, event: QDragMoveEvent) -> None:
        """It moves on."""
        self._scroll.follow(event.position().toPoint())
        self._answer(event)

    def leave(self, event: QDragLeaveEvent) -> None:
        """It went elsewhere."""
        event.accept()
        self._end()

    def drop(self, event: QDropEvent) -> None:
        """It was dropped."""
        view, cells, layers = self._view, self._cells, self._layers
        self._answer(event)
        taken = self.offer is not None and self.offer.taken
        self._end()
        if taken:
            model = self._model
            # After the drag's own event loop: a move may end the lane that the drag came from.
            QTimer.singleShot(0, view, lambda: self._ask_for(model, cells, layers))

    def _ask_for(self, model: str, cells: Cells, layers: tuple[int, ...]) -> None:
        """Ask for what was dropped, unless another model came while it hung in the air."""
        view = self._view
        if model != view.state.model:
            say(view, translate("Lanes", "Another model is shown now: nothing was moved."))
        elif cells:
            view.cells_wanted.emit(cells, view.lane.key)
        else:
            view.layers_wanted.emit(layers, view.lane.key)

    def _considered(self) -> Offer:
        view = self._view
        state, board = view.state, view.state.board
        live = state.shown_is_loaded
        if self._cells:
            mask = board.mask(self._cells)
            here = board.cells(mask & board.on(view.lane.key))
            room = bool(board.slots[mask.any(axis=1)].any())
            on_disk = int((mask & board.on(DISK_LANE) & (board.memory == FROM_DISK)).sum())
            return cells_offer(view.lane, self._cells, here, state.pool_device, live=live, room=room, on_disk=on_disk)
        homes = {layer: board.lanes[board.home[row]] for row, layer in enumerate(board.layers)}
        here = [layer for layer in self._layers if homes.get(layer) == view.lane.key]
        rows = [board.row_of(layer) for layer in self._layers]
        on_disk = bool((board.memory[rows] == FROM_DISK).any())
        return layers_offer(view.lane, self._layers, here, live=live, on_disk=on_disk)

    def _answer(self, event: QDropEvent) -> None:
        if self.offer is not None and self.offer.taken:
            event.setDropAction(Qt.DropAction.MoveAction)
            event.accept()
        else:
            event.ignore()

    def _say(self, offer: Offer) -> None:
        self.offer = offer
        view = self._view
        view.viewport().update()
        say(view, offer.text)
        if offer.taken and self._cells:
            view.drag_over.emit(self._cells)
        elif offer.taken:
            view.layers_over.emit(self._layers)

    def _end(self) -> None:
        self._scroll.stop()
        if self.offer is None:
            return
        said, self.offer = self.offer, None
        view = self._view
        view.viewport().update()
        cells, self._cells, self._layers = self._cells, {}, ()
        if said.taken and cells:
            view.drag_over.emit(None)
        elif said.taken:
            view.layers_over.emit(())
