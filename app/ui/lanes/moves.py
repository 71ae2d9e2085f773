"""Moving layers between lanes: each move is one step of an undo stack over the controller's plan."""

from collections.abc import Iterable

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoCommand, QUndoStack

from app.errors import AppError, ErrorCode
from app.placement.plan import Plan
from app.placement.planner import with_lanes
from app.ui.controller import Controller
from app.ui.lanes.lane_info import ABSENT
from app.ui.lanes.words import lane_name, layers_text, no_room_text
from app.ui.machine_words import why_no_gpu


class Moves(QObject):
    """Changes the controller's plan and remembers how to take each change back.

    A plan that someone else sets (another model, the wizard) ends the history: its steps would put
    back a plan that was not chosen any more.

    Signals:
        moved: Layers are in another lane now (tuple of layer indices, lane).
        refused: A move, or a part of it, was not made (AppError).
    """

    moved = Signal(tuple, str)
    refused = Signal(object)

    def __init__(self, controller: Controller, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self._stack = QUndoStack(self)
        self._setting = False
        controller.plan_changed.connect(self._plan_changed)
        controller.model_changed.connect(self._stack.clear)

    @property
    def stack(self) -> QUndoStack:
        """The history."""
        return self._stack

    def planned(self, layers: Iterable[int], lane: str) -> Plan | None:
        """The plan with `layers` in `lane`, or None if that changes nothing.

        Raises:
            AppError: the lane takes no layers.
        """
        plan, facts, machine = self._controller.plan, self._controller.facts, self._controller.machine
        if plan is None or facts is None or machine is None:
            return None
        going = [layer for layer in layers if plan.expert_lanes.get(layer, lane) != lane]
        if not going:
            return None
        if lane == ABSENT:
            raise AppError(ErrorCode.DEVICE_MISSING, why_no_gpu(machine))
        after = with_lanes(plan, facts, machine, going, lane)
        if after.expert_lanes == plan.expert_lanes:
            raise AppError(ErrorCode.OUT_OF_MEMORY, no_room_text(going))
        return after

    def move(self, layers: Iterable[int], lane: str) -> bool:
        """Move layers to a lane; False if nothing changed. A refusal is told by `refused`."""
        layers = tuple(layers)
        try:
            after = self.planned(layers, lane)
        except AppError as error:
            self.refused.emit(error)
            return False
        if after is None:
            return False
        text = self.tr("move of {layers} to {lane}").format(layers=layers_text(len(layers)), lane=lane_name(lane))
        self._push(after, text)
        self.moved.emit(tuple(layer for layer in layers if after.expert_lanes[layer] == lane), lane)
        elsewhere = [layer for layer in layers if after.expert_lanes[layer] != lane]
        if elsewhere:
            self.refused.emit(AppError(ErrorCode.OUT_OF_MEMORY, no_room_text(elsewhere)))
        return True

    def discard(self) -> bool:
        """Go back to the loaded plan, as a step that can be undone; False if there is none."""
        loaded = self._controller.loaded_plan
        if loaded is None or loaded == self._controller.plan:
            return False
        self._push(loaded, self.tr("discarding the changes"))
        return True

    def set_plan(self, plan: Plan) -> None:
        """Set a plan of the history."""
        self._setting = True
        try:
            self._controller.set_plan(plan)
        finally:
            self._setting = False

    def _push(self, after: Plan, text: str) -> None:
        before = self._controller.plan
        if before is not None:
            self._stack.push(_SetPlan(self, before, after, text))

    def _plan_changed(self, _plan: Plan) -> None:
        if not self._setting:
            self._stack.clear()


class _SetPlan(QUndoCommand):
    """One step: a whole plan before and after, so that undoing is exact."""

    def __init__(self, moves: Moves, before: Plan, after: Plan, text: str) -> None:
        super().__init__(text)
        self._moves = moves
        self._before = before
        self._after = after

    def redo(self) -> None:
        """Make the change."""
        self._moves.set_plan(self._after)

    def undo(self) -> None:
        """Take it back."""
        self._moves.set_plan(self._before)
