"""The lanes of the dock, side by side or stacked, with their heads: fill, contents and the expert pool."""

import time

import numpy as np
from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QBoxLayout, QScrollArea, QWidget

from app.engine.protocol import CacheFacts
from app.errors import AppError
from app.ui.controller import ANSWERING, Controller
from app.ui.lanes.board import Change
from app.ui.lanes.board_state import BoardState
from app.ui.lanes.flights import Flights
from app.ui.lanes.lane_box import MOST_PIXELS, LaneBox
from app.ui.lanes.lane_info import CPU
from app.ui.lanes.loads import lane_load
from app.ui.lanes.memory_rates import MemoryRates
from app.ui.lanes.memory_room import memory_room
from app.ui.lanes.memory_shown import memory_shown
from app.ui.lanes.pool import pool_room
from app.ui.lanes.pool_shown import pool_shown
from app.ui.orders import Orders
from app.ui.theme import GRID, Theme, set_role

COMPACT_HEIGHT = 800
"""Pixels: with less height stacked lanes leave out what can be read in their tooltips."""
COLUMN_WIDTH = 232
"""Pixels a lane needs beside others; with less room the lanes are stacked."""
ABSENT_WIDTH = 168
"""Pixels of the lane of a GPU that this machine does not have."""
MOST_STRETCH = 16
"""A lane with more layers than this gets no more room than one with these."""


class LanesArea(QScrollArea):
    """One box for each lane; all share one zoom, and drops and keys in them become orders.

    Signals:
        menu_wanted: The menu of the selection (place on the screen, the lane's view).
        pin_wanted: Keep the selected experts: "gpu", "cpu" or "auto".
        zoom_changed: Another zoom is on in all lanes.
    """

    menu_wanted = Signal(QPoint, object)
    pin_wanted = Signal(str)
    zoom_changed = Signal(float)

    def __init__(
        self, controller: Controller, state: BoardState, orders: Orders, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._controller = controller
        self._state = state
        self._orders = orders
        self._theme = theme
        self.boxes: list[LaneBox] = []
        self._view_actions: list[QAction] = []
        self._lanes = QWidget(self)
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self._lanes)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(GRID)
        set_role(self, "bare")
        set_role(self._lanes, "page")
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(self._lanes)
        self._flights = Flights(self._lanes, theme)
        self._rates = MemoryRates()
        self._width = self._height = 0
        self._zooming = False
        state.lanes_changed.connect(self.make_boxes)

    def box(self, lane: str) -> LaneBox:
        """A lane, by the plan's word for it."""
        return next(box for box in self.boxes if box.info.key == lane)

    def add_view_action(self, action: QAction) -> None:
        """An action whose keys work in every lane."""
        self._view_actions.append(action)
        for box in self.boxes:
            box.view.addAction(action)

    def controls(self) -> list[QWidget]:
        """What takes the keyboard, from the first lane to the last."""
        made: list[QWidget] = []
        for box in self.boxes:
            buttons = box.header.memory_buttons
            made += [box.header.budget, *((buttons.warm, buttons.release) if box.info.kind == CPU else ()), box.view]
        return made

    # ---- boxes --------------------------------------------------------------------------------

    def make_boxes(self) -> None:
        """A box for each lane there is; those that stay keep zoom, focus and scroll position."""
        lanes = self._state.lanes
        infos = [box.info for box in self.boxes]
        if infos == list(lanes):
            return
        if [(info.key, info.kind) for info in infos] == [(lane.key, lane.kind) for lane in lanes]:
            for box, lane in zip(self.boxes, lanes, strict=True):
                box.set_info(lane)
            return
        if any(box.view.dragging for box in self.boxes):
            return  # a view must outlive its own drag, which ends with another look at the lanes
        zoom = self.boxes[0].view.zoom if self.boxes else 0.0
        for box in self.boxes:
            self._row.removeWidget(box)
            box.hide()
            box.deleteLater()
        self.boxes = [LaneBox(self._state, info, self._theme, self._lanes) for info in lanes]
        for place, box in enumerate(self.boxes):
            view = box.view
            view.set_zoom(zoom)
            view.addActions(self._view_actions)
            view.cells_wanted.connect(self._orders.to_lane)
            view.layers_wanted.connect(self._orders.move_layers)
            view.pin_wanted.connect(self.pin_wanted)
            view.step_wanted.connect(lambda step, place=place: self._step(place, step))
            view.menu_wanted.connect(lambda point, view=view: self.menu_wanted.emit(point, view))
            view.zoom_changed.connect(self.set_zoom)
            view.layers_over.connect(lambda layers, box=box: self.show_loads(box if layers else None, layers))
            view.drag_ended.connect(self.make_boxes)
            of_memory = box.info.kind == CPU
            box.header.size_wanted.connect(self._orders.set_memory if of_memory else self._orders.set_pool)
            box.header.memory_buttons.warm_wanted.connect(self.warm_memory)
            box.header.memory_buttons.release_wanted.connect(self.release_memory)
            self._row.addWidget(box)
        self.arrange(self._width, self._height)

    def arrange(self, width: int, height: int) -> None:
        """Side by side where every lane has room, stacked where not; full lanes get more of it.

        Args:
            width: Pixels there are for all lanes beside each other.
            height: Pixels of the whole dock.
        """
        self._width, self._height = width, height
        beside = width >= len(self.boxes) * (COLUMN_WIDTH + GRID)
        direction = QBoxLayout.Direction.LeftToRight if beside else QBoxLayout.Direction.TopToBottom
        self._row.setDirection(direction)
        for place, box in enumerate(self.boxes):
            box.set_stacked(not beside, compact=height < COMPACT_HEIGHT)
            self._row.setStretch(place, (1 if box.info.key else 0) if beside else min(box.rows, MOST_STRETCH))
            # The lane of a GPU that is not there only says so.
            box.setMaximumWidth(ABSENT_WIDTH if beside and not box.info.key else MOST_PIXELS)

    # ---- what is shown ------------------------------------------------------------------------

    def show_loads(self, over: LaneBox | None = None, layers: tuple[int, ...] = ()) -> None:
        """The headers; with `over`, as they would be after a drop of `layers` there."""
        controller, plan = self._controller, self._controller.plan
        if over is not None:
            try:
                plan = self._orders.planned(layers, over.info.key) or plan
            except AppError:
                # The drop itself says why it is refused; until then nothing changes.
                over = None
        report = self._state.loaded_report if plan == self._state.loaded_plan else None
        for box in self.boxes:
            load = lane_load(box.info.key, plan, controller.facts, controller.machine, reported=report)
            box.header.show_load(load, dragging=over is box)

    def show_pool(self) -> None:
        """The expert pool, in the head of its lane."""
        controller, state = self._controller, self._state
        live = state.loaded_plan
        plan = live or controller.plan
        facts = controller.cache.facts if live is not None else None
        pool = facts.pool if facts else None
        room = pool_room(controller.facts, plan, state.loaded_report, controller.machine, pool)
        for box in self.boxes:
            here = plan is not None and box.info.key and box.info.key == state.pool_device
            shown = pool_shown(
                room,
                plan.pool_bytes if plan else 0,
                pool,
                controller.cache.last_answer if facts else None,
                live=facts is not None,
                resizing=controller.cache.resizing,
            )
            if box.info.kind != CPU:
                box.header.show_pool(shown if here else None)
        self._show_memory(facts)

    def _show_memory(self, cache: CacheFacts | None) -> None:
        """What main memory has of mapped experts, in the head of the CPU lane; `cache` is None while nobody tells."""
        controller, state = self._controller, self._state
        plan, memory = controller.plan, cache.memory if cache else None
        answering = controller.state == ANSWERING
        self._rates.take(time.monotonic(), cache.decode if cache else None, answering=answering)
        loaded, report = state.loaded_plan, state.loaded_report
        chosen = controller.cache.memory_chosen if loaded is not None else 0
        room = memory_room(controller.facts, loaded or plan, report, controller.machine, memory, chosen)
        shown = memory_shown(
            room,
            plan.resident_bytes if plan else None,
            memory,
            self._rates,
            live=cache is not None,
            answering=answering,
            changing=controller.cache.budgeting,
        )
        why_not = room.why_not or self.tr("Load the model first: nothing of it is in memory.")
        if cache is not None and not room.why_not:
            why_not = self.tr("The system decides what stays in memory: give the experts a budget first.")
        ours = state.shown_is_loaded or controller.loaded_facts is None  # nothing loaded: how it ended is told
        order = controller.cache.memory_order if ours else None
        for box in self.boxes:
            box.header.show_mapped(memory is not None)
            if box.info.kind == CPU:
                box.header.memory_buttons.show_order(order)
                box.header.show_pool(shown)
                box.header.memory_buttons.show_memory(memory, why_not)

    def give_up_sizes(self) -> None:
        """Another model is shown: what is being chosen for the pool of the one before is not sent."""
        for box in self.boxes:
            box.header.budget.give_up()

    def show_cells(self) -> None:
        """How many experts are in each lane."""
        board = self._state.board
        for box in self.boxes:
            here = board.on(box.info.key)
            box.header.show_cells(int(here.sum()), int(here.sum(axis=1) @ board.expert_bytes) if here.size else 0)

    def fly(self, change: Change) -> None:
        """Show what moved."""
        self._flights.fly(change, [box.view for box in self.boxes])
        self.show_cells()
        if change.rebuilt or change.moved:
            self.arrange(self._width, self._height)

    # ---- what the user does -------------------------------------------------------------------

    def go_to(self, layer: int, expert: int) -> None:
        """Bring the keyboard to an expert, in whatever lane it is."""
        board = self._state.board
        view = self.box(board.lanes[int(board.lane[board.row_of(layer), expert])]).view
        view.reveal(layer, expert)
        view.setFocus(Qt.FocusReason.OtherFocusReason)
        self.ensureWidgetVisible(view)

    def take_keyboard(self) -> None:
        """Bring the keyboard to the lane it was in last, else to one that has experts."""
        boxes = sorted(self.boxes, key=lambda box: (box.view.current is None, not box.cells))
        if boxes:
            boxes[0].view.setFocus(Qt.FocusReason.OtherFocusReason)

    def layer_of_now(self) -> int | None:
        """The layer that the keyboard is at, or the first that has something selected, or where the keyboard was."""
        layers = self._state.board.layers
        currents = [box.view.current for box in self.boxes if box.view.hasFocus()]
        currents += [box.view.current for box in self.boxes]
        there = [layers[current[0]] for current in currents[:1] if current is not None]
        was = [layers[current[0]] for current in currents if current is not None]
        return next(iter([*there, *self._state.selection.cells(), *was]), None)

    def set_zoom(self, zoom: float) -> None:
        """Zoom all lanes; one whose overview is larger than that shows it."""
        if self._zooming:
            return  # another lane tells of this very zoom
        self._zooming = True
        for box in self.boxes:
            if box.view.zoom != zoom:
                box.view.set_zoom(zoom, self._anchor(box))
        self._zooming = False
        self.zoom_changed.emit(zoom)

    def _anchor(self, box: LaneBox) -> QPoint:
        """What stays in place when a lane is zoomed from elsewhere: what is selected in it, else its left side."""
        view, board = box.view, self._state.board
        selected = self._state.selection.mask & board.on(box.info.key)
        inside = view.viewport().rect()
        for row in np.flatnonzero(selected.any(axis=1)):
            rect = view.cell_rect(board.layers[row], int(selected[row].argmax()))
            if rect is not None and inside.contains(rect.center()):
                return rect.center()
        return QPoint(view.header_width, inside.center().y())

    def warm_memory(self) -> None:
        """Ask for the hottest experts in memory; what comes of it is told below the buttons."""
        self._controller.cache.warm_memory()

    def release_memory(self) -> None:
        """Ask for the memory of experts; what comes of it is told below the buttons."""
        self._controller.cache.release_memory()

    def _step(self, place: int, step: int) -> None:
        if 0 <= place + step < len(self.boxes):
            self._orders.to_lane(self._state.selection.cells(), self.boxes[place + step].info.key)
