"""Everything done by hand to experts, pool, policy and plan: each is one step of one history that undoes exactly."""

from collections.abc import Iterable
from dataclasses import replace

import msgspec
from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoStack

from app.errors import AppError, ErrorCode
from app.placement.plan import CPU_LANE, DISK_LANE, CachePolicy, Plan
from app.placement.planner import with_lanes
from app.ui.controller import LENT, LOADING, Controller
from app.ui.lanes.lane_info import ABSENT
from app.ui.lanes.memory_orders import judge_budget, judge_mapped
from app.ui.lanes.words import lane_name, layers_text, no_room_text
from app.ui.live_plan import (
    CPU_PIN,
    MemoryBudget,
    Pins,
    cells_of,
    changed_pins,
    with_memory_budget,
    with_pins,
    with_policy,
    with_pool_bytes,
    without_change,
)
from app.ui.machine_words import why_no_gpu
from app.ui.order_scene import Scene, scene_of
from app.ui.order_step import Step, dropped_text
from app.ui.refusals import (
    Cells,
    judge_lane,
    judge_pins,
    judge_pool,
    ordered_plan,
    pin_text,
)
from app.ui.verdicts import Done, Offer, Refusal, Verdict, Way
from app.ui.words import in_bytes

__all__ = ["Done", "Offer", "Orders", "Refusal"]


class Orders(QObject):
    """Takes orders of the user's and remembers how to take each back.

    What an engine takes while it runs (pins, the pool's size, the policy) goes to it at once where the model shown is
    the one loaded, and into the loaded plan and the one being edited, so that a reload keeps it. The rest of a plan
    waits for a load. A plan that someone else sets (another model, the wizard) ends the history: its steps would put
    back a plan that was not chosen any more.

    Signals:
        moved: An order was carried out (Done).
        refused: An order, or a part of it, was not (Refusal).
    """

    moved = Signal(object)
    refused = Signal(object)

    def __init__(self, controller: Controller, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._controller = controller
        self._stack = QUndoStack(self)
        self._setting = False
        self._silent = False
        self._missed = False
        self._taking_back = False
        self._ended = ""
        self._sent: tuple[Plan, Plan] | None = None
        controller.plan_changed.connect(self._plan_changed)
        controller.model_changed.connect(self._stack.clear)
        controller.loaded.connect(self._catch_up)
        controller.cache.not_taken.connect(self._take_back)
        controller.cache.refused.connect(self._tell)

    @property
    def stack(self) -> QUndoStack:
        """The history."""
        return self._stack

    @property
    def live(self) -> bool:
        """Whether the model shown is the one that is loaded, so that orders reach its engine."""
        controller = self._controller
        return controller.facts is not None and controller.loaded_facts is controller.facts

    # ---- single experts -----------------------------------------------------------------------

    def pin(self, cells: Cells, pin: str) -> bool:
        """Keep experts on the "gpu" or the "cpu", or leave them to the policy ("auto"); False if nothing changed."""
        scene = self.scene()
        return scene is not None and self._carry_out(scene.plan, judge_pins(scene, cells, pin), pin)

    def to_lane(self, cells: Cells, lane: str) -> bool:
        """Send experts to a lane, which pins them; False if nothing changed."""
        scene, machine = self.scene(), self._controller.machine
        if scene is None or machine is None:
            return False
        verdict = judge_mapped(scene, cells, lane) or judge_lane(scene, cells, lane, why_no_gpu(machine))
        if isinstance(verdict, Verdict):
            return self._carry_out(scene.plan, verdict, CPU_PIN)
        return self._carry_out(scene.plan, judge_pins(scene, cells, verdict), verdict)

    # ---- whole layers -------------------------------------------------------------------------

    def planned(self, layers: Iterable[int], lane: str) -> Plan | None:
        """The plan with `layers` in `lane`, or None if that changes nothing.

        Raises:
            AppError: the lane takes no layers.
        """
        plan, facts, machine = self._base(), self._controller.facts, self._controller.machine
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

    def move_layers(self, layers: Iterable[int], lane: str) -> bool:
        """Move whole layers to a lane, for the next load; False if nothing changed."""
        before = self._base()
        known = before.expert_lanes if before is not None else {}
        layers = tuple(layer for layer in dict.fromkeys(layers) if layer in known)  # a drag may name others
        try:
            after = self.planned(layers, lane)
        except AppError as error:
            self._tell(error)
            return False
        if before is None or after is None:
            return False
        text = self.tr("move of {layers} to {lane}").format(layers=layers_text(len(layers)), lane=lane_name(lane))
        self._push(before, after, text)
        there = tuple(layer for layer in layers if after.expert_lanes[layer] == lane)
        self.moved.emit(Done(text, layers=there, lane=lane))
        elsewhere = [layer for layer in layers if after.expert_lanes[layer] != lane]
        if elsewhere:
            self.refused.emit(Refusal(no_room_text(elsewhere)))
        return True

    # ---- pool, memory, policy, plan -------------------------------------------------------------------

    def set_pool(self, pool_bytes: int, gesture: object = None) -> bool:
        """Give the pool a size in bytes, 0 to release it; False if nothing changed.

        Args:
            pool_bytes: The size; what there is no room for is told and not done.
            gesture: Orders with the same object, one after the other, are one step: a handle that is dragged.
        """
        scene = self.scene()
        if scene is None:
            return False
        plan = scene.plan
        size, why = judge_pool(scene, pool_bytes)
        changed = size != plan.pool_bytes
        if changed and (size or not why):
            text = self.tr("pool of {size}").format(size=in_bytes(size)) if size else self.tr("release of the pool")
            self._push(plan, with_pool_bytes(plan, size, scene.facts, scene.machine), text, gesture)
            self.moved.emit(Done(text))
        if why:
            self.refused.emit(Refusal(why))
        return changed and bool(size or not why)

    def set_memory(self, budget_bytes: int | None, gesture: object = None) -> bool:
        """Give mapped experts a budget of memory; 0: the system's, None: the engine's choice. False if it is so."""
        scene = self.scene()
        if scene is None:
            return False
        after, text, why = judge_budget(scene, budget_bytes)
        if after is scene.plan:
            self._ask_again(scene)  # no step: undone, the plan would be the same
        elif after is not None:
            self._push(scene.plan, after, text, gesture)
        if after is not None:
            self.moved.emit(Done(text))
        if why:
            self.refused.emit(Refusal(why))
        return after is not None

    def set_policy(self, policy: CachePolicy) -> bool:
        """Have the pool filled by another policy; False if nothing changed."""
        plan = self._base()
        return plan is not None and self.edit_plan(with_policy(plan, policy), self.tr("change of policy"))

    def edit_plan(self, plan: Plan, text: str) -> bool:
        """Make `plan` the one being edited, what needs no reload at once; `text` names the step. False if it is so."""
        if self._controller.plan is None or plan == self._controller.plan:
            return False
        before = self._controller.plan
        self._push(self._base() or before, plan, text)
        self.moved.emit(Done(text, cells=cells_of(changed_pins(before, plan))))
        return True

    def set_all(
        self, pins: Pins, policy: CachePolicy, pool_bytes: int | None, text: str, memory: MemoryBudget | None = None
    ) -> bool:
        """Order everything at once, as one step: these pins and no others, a policy, sizes of pool and main memory.

        Args:
            pins: The experts to keep somewhere; all others become automatic.
            policy: How the pool is filled.
            pool_bytes: Its size; None to leave it.
            text: The name of the step.
            memory: The budget of main memory for mapped experts; None to leave it.
        """
        scene = self.scene()
        if scene is None:
            return False
        after, remarks = ordered_plan(scene, scene.plan, pins, policy, pool_bytes)
        if memory is not None and memory.bytes != after.resident_bytes:
            fitting, _name, why = judge_budget(replace(scene, plan=after), memory.bytes)
            after, remarks = fitting or after, (*remarks, *([why] if why else ()))
        changed = self.edit_plan(after, text)
        if remarks:
            self.refused.emit(Refusal(" ".join(remarks)))
        return changed

    def discard(self) -> bool:
        """Go back to the loaded plan, as a step that can be undone; False if there is none."""
        loaded = self._controller.loaded_plan
        if loaded is None or not self.live:
            return False
        return self.edit_plan(loaded, self.tr("discarding the changes"))

    # ---- how things are -----------------------------------------------------------------------

    def scene(self) -> Scene | None:
        """What orders are judged by; None without a model, a plan or a machine."""
        return scene_of(self._controller, self._base(), live=self.live)

    def _base(self) -> Plan | None:
        """The plan being edited, with what the engine was told since its load."""
        controller = self._controller
        if controller.plan is None or controller.facts is None or not self.live:
            return controller.plan
        return controller.cache.carried(controller.facts, controller.machine, controller.plan)

    # ---- carrying out -------------------------------------------------------------------------

    def _carry_out(self, plan: Plan, verdict: Verdict, pin: str) -> bool:
        done = bool(verdict.pins)
        if done:
            text = pin_text(len(verdict.pins), pin)
            self._push(plan, with_pins(plan, verdict.pins), text)
            self.moved.emit(Done(text, cells=cells_of(verdict.pins)))
        if verdict.text:
            self.refused.emit(Refusal(verdict.text, tuple(self._offer(way) for way in verdict.ways)))
        return done

    def _offer(self, way: Way) -> Offer:
        return Offer(way.text, lambda: self._go(way))

    def _go(self, way: Way) -> None:
        """Take the way out that a refusal offered."""
        plan, facts, machine = self._base(), self._controller.facts, self._controller.machine
        if way.memory_bytes is not None:
            self.set_memory(way.memory_bytes)
        if way.warm:
            self._controller.cache.warm_memory()
        elif way.release:
            self._controller.cache.release_memory()
        elif way.layers:
            self.move_layers(way.layers, way.lane)
        elif plan is not None and facts is not None and machine is not None:
            after = with_pins(plan, way.pins)
            if way.pool_bytes is not None:
                after = with_pool_bytes(after, way.pool_bytes, facts, machine)
            if after != plan:
                self._push(plan, after, way.text)
                self.moved.emit(Done(way.text, cells=cells_of(way.pins)))

    def _ask_again(self, scene: Scene) -> None:
        """Tell the engine the plan's budget of memory, of which it keeps less."""
        controller, budget = self._controller, MemoryBudget(scene.plan.resident_bytes)
        self._sent = None
        controller.cache.set_memory(budget)
        if (loaded := controller.loaded_plan) is not None:
            controller.set_live_plan(with_memory_budget(loaded, budget, scene.facts, scene.machine))

    def _push(self, before: Plan, after: Plan, text: str, gesture: object = None) -> None:
        self._stack.push(Step(self, before, after, text, gesture))

    def take(self, before: Plan, after: Plan, *, back: bool = False) -> None:
        """A step of the history, or one `back`: from one plan to the other."""
        self._setting = True
        try:
            if not self._silent:
                self._sent = None if back else (before, after)
                self._follow(before, after)
            self._controller.set_plan(after)
        finally:
            self._setting = False

    def _follow(self, before: Plan, after: Plan) -> None:
        """Tell the engine what it takes without a reload."""
        controller = self._controller
        facts, machine, loaded = controller.facts, controller.machine, controller.loaded_plan
        report = controller.loaded_report
        if facts is None or machine is None:
            return
        pins = changed_pins(before, after)
        if not self.live or loaded is None or report is None or not report.expert_device:
            controller.cache.note_pins(facts.fingerprint, pins)
            self._missed = self._missed or controller.state in (LOADING, LENT)
            return
        seen = {layer for layer, lane in report.expert_layers.items() if lane in (CPU_LANE, DISK_LANE)}
        all_seen = len(seen) == len(report.expert_layers)  # then none of thousands is looked at
        unseen = {} if all_seen else {cell: pin for cell, pin in pins.items() if cell[0] not in seen}
        if unseen:
            controller.cache.note_pins(facts.fingerprint, unseen)
            pins = {cell: pin for cell, pin in pins.items() if cell[0] in seen}
        live = loaded
        # Mostly its pins were those of the edited plan: thousands need not be put together twice.
        if pins and before.pins == loaded.pins and len(seen) == len(loaded.expert_lanes):
            live = msgspec.structs.replace(loaded, pins=after.pins, speed=None, tuned="")
        elif pins:
            live = with_pins(loaded, pins)
        controller.cache.send_pins(pins)
        device = loaded.pool_device or loaded.gpu
        if before.pool_bytes != after.pool_bytes and device and device == (after.pool_device or after.gpu) and seen:
            live = with_pool_bytes(live, after.pool_bytes, facts, machine)
            controller.cache.set_pool(after.pool_bytes)
        if before.resident_bytes != after.resident_bytes and loaded.residency == "mapped" and seen:
            budget = MemoryBudget(after.resident_bytes)
            live = with_memory_budget(live, budget, facts, machine)
            controller.cache.set_memory(budget)
        if before.policy != after.policy:
            live = with_policy(live, after.policy)
            controller.cache.set_policy(after.policy)
        controller.set_live_plan(live)

    def _catch_up(self) -> None:
        """A load ended during which orders were given that it did not know of."""
        missed, self._missed = self._missed, False
        loaded, plan = self._controller.loaded_plan, self._controller.plan
        if missed and self.live and loaded is not None and plan is not None:
            self.take(loaded, plan)

    # ---- what others do -----------------------------------------------------------------------

    def _take_back(self, wanted: object, instead: object) -> None:
        """The engine did not make a change and goes on with something else: the plans say so again.

        The last step leaves the history if it was just that. If others came after it, or it was more than that, the
        history ends: its steps would put back what never was.
        """
        controller, sent = self._controller, self._sent
        facts, machine = controller.loaded_facts, controller.machine
        loaded, plan = controller.loaded_plan, controller.plan
        if facts is None or machine is None or loaded is None:
            return

        def without(its: Plan) -> Plan:
            return without_change(its, wanted, instead, facts, machine)

        self._sent = None
        controller.set_live_plan(without(loaded))
        if not self.live or plan is None:
            return  # another model is shown meanwhile: it has nothing of the change
        step = self._stack.command(self._stack.index() - 1) if self._stack.index() else None
        just_that = sent is not None and without(sent[1]).loads_like(sent[0])
        if not just_that or not isinstance(step, Step) or step.after is not sent[1]:
            if (left := without(plan)) is not plan:
                self._taking_back = True
                controller.set_plan(left)
                self._taking_back = False
            return
        self._silent = step.before is sent[0]  # else it is a gesture that had been taken up to here
        try:
            step.undo()
        finally:
            self._silent = False
        step.setObsolete(True)
        self._stack.undo()  # of an obsolete step this is no more than its end

    def _tell(self, error: AppError) -> None:
        ended, self._ended = self._ended, ""
        self.refused.emit(Refusal(" ".join(words for words in (error.message, ended) if words)))

    def _plan_changed(self, _plan: Plan) -> None:
        if self._setting:
            return
        dropped = self._stack.count()
        self._stack.clear()
        if self._taking_back:
            self._ended = dropped_text(dropped)  # told with the engine's own reason, which follows
        elif dropped:
            self.refused.emit(Refusal(dropped_text(dropped)))
