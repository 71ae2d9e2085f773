"""Keeps how fast answers were, off the UI thread: what later predictions of speed are refitted from."""

from PySide6.QtCore import QObject

from app.engine.protocol import Finished, Loaded
from app.hardware.facts import Machine
from app.library import speed_records
from app.placement.plan import Plan
from app.ui.controller import Controller


class SpeedMemory(QObject):
    """Listens to the controller's loads and answers.

    The machine is remembered as it was when the load ended: a later probe counts the loaded model's own
    memory as taken. An answer during which the pool or anything else of the plan changed is that of no plan,
    and teaches nothing.
    """

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self._controller = controller
        self._machine: Machine | None = None
        self._plan: Plan | None = None
        controller.loaded.connect(self._loaded)
        controller.answer_started.connect(self._began)
        controller.cache.changed.connect(self._look)
        controller.finished.connect(self._finished)

    def _loaded(self, report: Loaded) -> None:
        # What was loaded otherwise than planned has the speed of another plan.
        self._machine = None if report.differences else self._controller.machine

    def _began(self) -> None:
        self._plan = self._controller.loaded_plan
        self._look()

    def _look(self) -> None:
        """Forget the plan of the running answer where it holds no more."""
        controller, plan = self._controller, self._controller.loaded_plan
        same = plan is not None and self._plan is not None and plan.loads_like(self._plan)
        if not same or controller.cache.resizing:
            self._plan = None

    def _finished(self, finished: Finished) -> None:
        self._look()
        facts, plan, machine = self._controller.loaded_facts, self._plan, self._machine
        self._plan = None
        if facts is not None and plan is not None and machine is not None:
            self._controller.background.run(lambda: speed_records.remember(facts, machine, plan, finished))
