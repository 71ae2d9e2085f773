"""Keeps how fast answers were, off the UI thread: what later predictions of speed are refitted from."""

from PySide6.QtCore import QObject

from app.engine.protocol import Loaded
from app.hardware.facts import Machine
from app.library import speed_records
from app.ui.controller import Controller
from app.ui.measured_answers import Answered


class SpeedMemory(QObject):
    """Listens to the controller's loads and answers.

    The machine is remembered as it was when the load ended: a later probe counts the loaded model's own
    memory as taken. What an answer tells of no one plan is not kept.
    """

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self._controller = controller
        self._machine: Machine | None = None
        controller.loaded.connect(self._loaded)
        controller.answers.answered.connect(self._answered)

    def _loaded(self, report: Loaded) -> None:
        # What was loaded otherwise than planned has the speed of another plan.
        self._machine = None if report.differences else self._controller.machine

    def _answered(self, told: Answered) -> None:
        facts, plan, machine = self._controller.loaded_facts, told.plan, self._machine
        if facts is not None and plan is not None and machine is not None:
            finished = told.finished
            self._controller.background.run(lambda: speed_records.remember(facts, machine, plan, finished))
