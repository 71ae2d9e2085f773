"""The board that follows the window: the controller's model and plan, and what the engine says of every expert."""

from collections.abc import Mapping

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine.protocol import Loaded
from app.placement.cache.facts import LayerExperts
from app.placement.plan import Plan
from app.ui.controller import Controller
from app.ui.lanes.board import Board
from app.ui.lanes.lane_info import LaneInfo, lanes_of
from app.ui.lanes.selection import Selection


class BoardState(QObject):
    """One board with its lanes and its selection, kept up to date while somebody looks.

    However much the controller and the cache tell in one turn of the event loop, the board takes it in one look
    at the turn's end. The engine's facts count only while the chosen model is the loaded one. What the user ordered
    and the engine has not answered yet is shown as wanted.

    Attributes:
        board: Every expert's lane, pin and heat. Its arrays are replaced, never written to.
        selection: The selected experts.

    Signals:
        lanes_changed: There are other lanes, or their words or figures are others; comes before `changed`.
        changed: Something on the board is different (Change); the selection knows it already.
    """

    lanes_changed = Signal()
    changed = Signal(object)

    def __init__(self, controller: Controller, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self._active = False
        self._lanes: tuple[LaneInfo, ...] = ()
        self.board = Board()
        self.selection = Selection(self.board, self)
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(0)
        self._soon.timeout.connect(self.refresh)
        for signal in (
            controller.machine_changed,
            controller.model_changed,
            controller.plan_changed,
            controller.loaded,
            controller.state_changed,
            controller.cache.changed,
        ):
            signal.connect(self._look_soon)

    @property
    def lanes(self) -> tuple[LaneInfo, ...]:
        """The lanes from left to right, in words; their keys are `board.lanes`."""
        return self._lanes

    @property
    def pool_device(self) -> str | None:
        """The lane of experts that are in the pool, or would be if it had any bytes; None without a GPU."""
        facts, plan = self._controller.cache.facts, self._controller.plan
        if self.shown_is_loaded and facts is not None and facts.pool is not None and facts.pool.device:
            return facts.pool.device
        loaded = self._controller.loaded_plan if self.shown_is_loaded else None
        for its in (loaded, plan):
            if its is not None and (its.pool_device or its.gpu):
                return its.pool_device or its.gpu
        return None

    @property
    def model(self) -> str:
        """The fingerprint of the chosen model, which the board shows by the turn's end; empty for none."""
        return self._controller.facts.fingerprint if self._controller.facts is not None else ""

    @property
    def shown_is_loaded(self) -> bool:
        """False while nothing is loaded, or another model than the one chosen."""
        return self._controller.facts is not None and self._controller.loaded_facts is self._controller.facts

    @property
    def loaded_report(self) -> Loaded | None:
        """What the engine loaded, if that is the model shown."""
        return self._controller.loaded_report if self.shown_is_loaded else None

    @property
    def loaded_plan(self) -> Plan | None:
        """The plan the shown model was loaded with."""
        return self._controller.loaded_plan if self.shown_is_loaded else None

    def set_active(self, active: bool) -> None:
        """Look now and from now on, and have the engine asked for its experts; or rest."""
        self._active = active
        if active:
            self._controller.cache.watch(self, experts=True)
            self.refresh()
        else:
            self._controller.cache.unwatch(self)
            self._soon.stop()

    def refresh(self) -> None:
        """Look at the controller and the engine's facts now, also while resting."""
        self._soon.stop()
        controller = self._controller
        facts = controller.facts
        plan = controller.plan if facts is not None else None
        device = self.pool_device
        lanes = lanes_of(controller.machine, plan, device)
        others = lanes != self._lanes
        self._lanes = lanes
        change = self.board.show(
            facts,
            plan,
            [lane.key for lane in lanes],
            self._reported(),
            device if self._holds_experts() else None,
            controller.cache.ordered if self.shown_is_loaded else None,
        )
        if change.rebuilt:
            self.selection.forget()
        if others:
            self.lanes_changed.emit()
        if change:
            self.changed.emit(change)

    def _look_soon(self) -> None:
        if self._active and not self._soon.isActive():
            self._soon.start()

    def _reported(self) -> Mapping[int, LayerExperts]:
        facts = self._controller.cache.facts
        return facts.layers if facts is not None and self.shown_is_loaded else {}

    def _holds_experts(self) -> bool:
        """Whether single experts can be in the pool: not where the loaded engine could not tell them apart."""
        report = self.loaded_report
        return report is None or report.expert_device
