"""Opens wizards over scripted engines and walks through their pages, for the wizard's tests."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import model_shapes
from gguf_files import write_model
from PySide6.QtCore import Qt
from ui_factories import make_machine

from app.chat.store import ConversationStore
from app.library.folders import models_folder
from app.model.reader import read_facts
from app.ui.controller import Controller
from app.ui.engine import Engine
from app.ui.theme import Theme
from app.ui.wizard import Wizard
from app.ui.wizard.flow import LoadState, View

SCRIPTED_ENGINE = Path(__file__).with_name("scripted_engine.py")
PATIENCE = 10000
"""Milliseconds."""


@contextlib.contextmanager
def opened_wizards(qtbot: Any, theme: Theme, store: ConversationStore) -> Iterator[Callable[..., Wizard]]:
    """Gives `make(*engine_arguments, machine=..., last_model=...) -> Wizard`, shown and with its machine.

    It reads real model files; `wizard.controller` is its controller.
    """
    wizards = []

    def make(*arguments: object, machine: object = None, last_model: object = "") -> Wizard:
        controller = Controller(
            Engine([sys.executable, str(SCRIPTED_ENGINE), *map(str, arguments)]),
            store,
            models_folder(),
            read_facts=read_facts,
            probe=lambda _folder, _gpus, _build: machine or make_machine("--no-gpu" not in arguments),
        )
        wizard = Wizard(controller, theme, last_model=str(last_model))
        wizard.controller = controller
        wizards.append(wizard)  # pytest-qt keeps no reference of its own, and could not close it
        qtbot.addWidget(wizard, before_close_func=lambda _wizard: controller.shutdown())
        wizard.resize(1200, 800)
        wizard.show()
        wizard.activateWindow()
        qtbot.waitUntil(wizard.isActiveWindow, timeout=PATIENCE)
        qtbot.waitUntil(lambda: controller.machine is not None, timeout=PATIENCE)
        qtbot.waitUntil(lambda: not controller.background.busy, timeout=PATIENCE)
        return wizard

    yield make
    for wizard in wizards:
        wizard.controller.engine.deleteLater()
        wizard.controller.deleteLater()


def write_listed_model() -> Path:
    """A model of true shapes in the models folder."""
    models_folder().mkdir(parents=True)
    return write_model(models_folder() / "gpt-oss.gguf", model_shapes.gpt_oss_20b())


def choose(qtbot: Any, wizard: Wizard, path: Path) -> None:
    """Choose a file and wait for what comes of it."""
    wizard.choose(path)
    qtbot.waitUntil(lambda: not wizard.flow.reading, timeout=PATIENCE)


def go_to(qtbot: Any, wizard: Wizard, view: View) -> None:
    """Press Enter until `view` is shown."""
    while wizard.flow.view is not view:
        before = wizard.flow.view
        qtbot.keyClick(wizard, Qt.Key.Key_Return)
        assert wizard.flow.view is not before, f"Enter does not lead on from {before}"


def load(qtbot: Any, wizard: Wizard, path: Path) -> None:
    """Choose a file, load it with the first plan, and wait for the end of the load."""
    choose(qtbot, wizard, path)
    go_to(qtbot, wizard, View.LOAD)
    wait_for_load(qtbot, wizard)


def wait_for_load(qtbot: Any, wizard: Wizard) -> None:
    """Wait until no load runs."""
    qtbot.waitUntil(lambda: wizard.flow.load is not LoadState.RUNNING, timeout=PATIENCE)
