"""The status bar's permanent line: what is loaded, where, and predictions beside what was reported and measured."""

import msgspec
from PySide6.QtWidgets import QWidget

from app.engine.protocol import Loaded
from app.ui.controller import FAILED, LENT, LOADING, Controller
from app.ui.fact_row import Fact, FactRow
from app.ui.live_memory import buffers_now
from app.ui.loaded_speed import LoadedSpeed
from app.ui.theme import set_role
from app.ui.truth_words import (
    devices_in_words,
    expert_device_in_words,
    expert_memory_detail,
    expert_memory_in_short,
    expert_memory_in_words,
    lanes_in_words,
    memory_in_detail,
    memory_in_short,
    memory_in_words,
    planned_memory_in_words,
    planned_pool_in_words,
    pool_detail,
    pool_in_short,
    pool_in_words,
    speed_in_detail,
    speed_in_short,
    speed_in_words,
    totals_in_detail,
)
from app.ui.words import number


class TruthLine(FactRow):
    """Model, devices, differences, memory, speed, and the pool; the whole of each in its tooltip.

    What is requested, allocated and used, and what was predicted and came of it, stay in sight; where the model is
    gives way to them in a narrow window.
    """

    def __init__(self, controller: Controller, parent: QWidget | None = None) -> None:
        self.model = Fact()
        self.devices = Fact()
        self.memory = Fact(keeps=True)
        self.speed = Fact(keeps=True)
        self.difference = Fact(keeps=True)
        self.expert_device = Fact(keeps=True)
        self.expert_memory = Fact(keeps=True)
        super().__init__(
            (
                self.model,
                self.devices,
                self.difference,
                self.memory,
                self.speed,
                self.expert_device,
                self.expert_memory,
            ),
            (
                self.devices,
                self.model,
                self.memory,
                self.expert_memory,
                self.expert_device,
                self.speed,
                self.difference,
            ),
            parent,
        )
        self._controller = controller
        set_role(self.difference, "warning")
        for fact, name in (
            (self.model, self.tr("Model")),
            (self.devices, self.tr("Devices")),
            (self.memory, self.tr("Memory")),
            (self.speed, self.tr("Speed")),
            (self.difference, self.tr("Differences from the plan")),
            (self.expert_device, self.tr("Expert device")),
            (self.expert_memory, self.tr("Main memory for experts")),
        ):
            fact.set_name(name)
        self._predicted = LoadedSpeed(controller, self)
        controller.state_changed.connect(self._update)
        controller.loaded.connect(self._update)
        controller.plan_changed.connect(self._update)
        controller.finished.connect(self._update)
        controller.engine_watch.silent.connect(self._update)
        controller.cache.changed.connect(self._update)
        self._predicted.changed.connect(self._update)
        # It is always seen: so the pool's own facts are, not only what the plan asked for.
        controller.cache.watch(self, experts=False)
        self._update()

    def _update(self, *_: object) -> None:
        controller = self._controller
        if controller.loaded_facts is None or controller.loaded_plan is None or controller.loaded_report is None:
            self._show_nothing_loaded()
        else:
            self._show_loaded()
        self.fit()

    def _show_loaded(self) -> None:
        controller = self._controller
        facts, plan, report = controller.loaded_facts, controller.loaded_plan, controller.loaded_report
        cache, machine = controller.cache, controller.machine
        self.model.show_fact(f"{facts.name} ({facts.quantization})", detail="\n".join(facts.files))
        self.devices.show_fact(devices_in_words(plan, report), detail=lanes_in_words(report))
        # A pool that was resized since is in the plan by now: so it must be in what it is held against.
        # What was measured at the load is then of another state.
        buffers = buffers_now(report, cache.facts.pool if cache.facts else None)
        at_load = controller.plan_at_load
        same_pool = at_load is not None and at_load.pool_bytes == plan.pool_bytes
        report = msgspec.structs.replace(report, buffers=buffers, observed=report.observed if same_pool else ())
        detail = [memory_in_detail(plan, report)]
        detail += [totals_in_detail(plan, machine, report)] if machine is not None else []
        self.memory.show_fact(memory_in_words(plan, report), memory_in_short(plan, report), "\n".join(detail))
        speed, finished = self._predicted.speed, cache.last_finished
        after = finished is not None and finished is self._predicted.after
        self.speed.show_fact(
            speed_in_words(speed, finished, loaded=True, after=after),
            speed_in_short(speed, finished),
            speed_in_detail(speed, finished, after=after),
        )
        self._show_pool()
        memory = cache.facts.memory if cache.facts else None
        self.expert_memory.show_fact(
            expert_memory_in_words(plan, memory), expert_memory_in_short(memory), expert_memory_detail(memory)
        )
        self._show_difference(report)

    def _show_difference(self, report: Loaded) -> None:
        """What is not as it should be: an engine that does not answer, else how the load differs from the plan."""
        silence = self._controller.engine_watch.silence
        if silence is not None:
            self.difference.show_fact(self.tr("The engine does not answer"))
            self.difference.setToolTip(f"{silence.message} {silence.detail}")
            return
        count = len(report.differences)
        one = self.tr("1 difference from the plan")
        many = self.tr("{count} differences from the plan").format(count=number(count))
        self.difference.show_fact(("" if not count else one) if count < 2 else many)
        self.difference.setToolTip("\n".join(report.differences))

    def _show_pool(self) -> None:
        """The pool; where none is asked for, whether routings are counted at all."""
        controller = self._controller
        facts, plan, report, cache = (
            controller.loaded_facts,
            controller.loaded_plan,
            controller.loaded_report,
            controller.cache,
        )
        words, reason = pool_in_words(cache)
        if words:
            detail = "\n".join(its for its in (reason, pool_detail(cache)) if its)
            self.expert_device.show_fact(words, pool_in_short(cache), detail)
        elif plan.pool_bytes and report.expert_device:
            self.expert_device.show_fact(planned_pool_in_words(plan, loaded=True))
        else:
            said = expert_device_in_words(report, moe=bool(facts.moe_layers))
            self.expert_device.show_fact(said, detail=report.reason)

    def _show_nothing_loaded(self) -> None:
        controller = self._controller
        facts, plan = controller.facts, controller.plan
        words = {
            LOADING: self.tr("Loading the model…"),
            FAILED: self.tr("No model is loaded: the last load or the engine failed"),
            LENT: self.tr("No model is loaded: auto-tune is measuring plans"),
        }
        self.model.show_fact(words.get(controller.state, self.tr("No model is loaded")))
        self.devices.show_fact("")
        self.difference.show_fact("")
        self.expert_memory.show_fact("")
        if plan is None or facts is None or controller.state == LENT:
            for fact in (self.memory, self.speed, self.expert_device):
                fact.show_fact("")
            return
        self.memory.show_fact(planned_memory_in_words(plan))
        self.speed.show_fact(speed_in_words(plan.speed, None, loaded=False), speed_in_short(plan.speed, None))
        self.expert_device.show_fact(planned_pool_in_words(plan, loaded=False) if facts.moe_layers else "")
