"""Asks, chooses and waits on a controller over a scripted engine, for the controller's tests."""

from pathlib import Path
from typing import Any

from app.placement.planner import Wishes
from app.ui.controller import Controller

PATIENCE = 10000
"""Milliseconds."""


def seen(signal: Any) -> list[Any]:
    """A list that fills with what the signal carries."""
    values: list[Any] = []
    signal.connect(lambda *carried: values.append(carried[0] if carried else None))
    return values


def until(qtbot: Any, condition: Any) -> None:
    """Wait until `condition()` holds."""
    qtbot.waitUntil(condition, timeout=PATIENCE)


def choose(qtbot: Any, controller: Controller, folder: Path) -> None:
    """Probe, choose a model and set its plan."""
    with qtbot.waitSignals([controller.machine_changed, controller.model_changed], timeout=PATIENCE):
        controller.probe()
        controller.choose_model(folder / "model.gguf")
    controller.set_plan(controller.propose_plan())


def answer(qtbot: Any, controller: Controller, text: str = "Hello?") -> None:
    """Ask and wait for the whole answer."""
    with qtbot.waitSignal(controller.finished, timeout=PATIENCE):
        controller.ask(text)


def smaller_context(controller: Controller) -> Any:
    """A plan with 1024 tokens of context, set as the edited one."""
    plan = controller.propose_plan(Wishes(n_ctx=1024))
    controller.set_plan(plan)
    return plan
