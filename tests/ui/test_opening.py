"""Model files handed over by the system: at the start, from later starts, and while the engine is busy."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QUrl, Signal
from PySide6.QtWidgets import QWidget
from window_driver import ask

from app.__main__ import names_a_file
from app.library.handover import Handover, handover_folder
from app.ui import application
from app.ui.application import model_path
from app.ui.controller import READY
from app.ui.main_window import MainWindow
from app.ui.opening import Opening

ROOT = Path(__file__).resolve().parents[2]


class RecordingWizard(QWidget):
    """Stands where the wizard would, and keeps what it is to choose."""

    finished = Signal()

    def __init__(self):
        super().__init__()
        self.chosen = []

    def choose(self, path):
        self.chosen.append(path)


@pytest.fixture
def handover():
    made = Handover(handover_folder())
    assert made.hold()
    yield made
    made.close()


@pytest.fixture
def open_window(qtbot, theme, settings, handover):
    def make(controller):
        window = MainWindow(controller, theme, settings, RecordingWizard())
        qtbot.addWidget(window)
        window.show()
        qtbot.waitExposed(window)
        return window, Opening(window, controller, handover)

    return make


@pytest.mark.parametrize(
    ("arguments", "opens"),
    [
        (["model.gguf"], True),
        (["MODEL.GGUF"], True),
        (["/somewhere/model"], True),
        (["file:///somewhere/model.gguf"], True),
        (["probe"], False),
        (["--version"], False),
        (["-x.gguf"], False),
        (["inspect", "model.gguf"], False),
        ([], False),
    ],
)
def test_one_argument_that_is_a_model_file_opens_the_window(arguments, opens):
    assert names_a_file(arguments) is opens


def test_a_file_is_meant_by_path_or_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "模型 one.gguf"
    assert model_path(path.name) == path
    assert model_path(str(path)) == path
    assert model_path(QUrl.fromLocalFile(str(path)).toString(QUrl.ComponentFormattingOption.FullyEncoded)) == path
    assert model_path("~nobody-of-that-name.gguf") == tmp_path / "~nobody-of-that-name.gguf"


def test_a_file_handed_over_leads_from_the_chat_to_the_wizard(loaded_controller, open_window):
    controller = loaded_controller()
    window, opening = open_window(controller)
    window.show_chat()
    opening.open(Path("/models/other.gguf"))
    assert window.page is window.wizard
    assert window.wizard.chosen == [Path("/models/other.gguf")]
    assert controller.state == READY, "what is loaded stays loaded"


def test_a_later_start_is_seen_and_opened(loaded_controller, open_window, qtbot):
    window, _ = open_window(loaded_controller())
    window.show_chat()
    window.showMinimized()
    asking = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from pathlib import Path\nfrom app.library.handover import *\n"
            "print(Handover(handover_folder()).ask(start_request(Path('/models/模型.gguf')), 30))",
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    qtbot.waitUntil(lambda: window.wizard.chosen == [Path("/models/模型.gguf")], timeout=20000)
    assert asking.communicate()[0] == "True\n"
    assert not window.isMinimized()


def test_a_request_from_before_the_window_was_ready_is_not_lost(loaded_controller, open_window):
    hand_over_before = Handover(handover_folder())
    request = hand_over_before.folder / "early.request"
    request.write_bytes(b'{"path": "L21vZGVscy9lYXJseS5nZ3Vm"}')
    window, _ = open_window(loaded_controller())
    assert window.wizard.chosen == [Path("/models/early.gguf")]
    assert not request.exists()


def test_while_an_answer_comes_a_file_waits_and_the_last_one_counts(loaded_controller, open_window, qtbot):
    controller = loaded_controller("--tokens", 30, "--token-ms", 50)
    window, opening = open_window(controller)
    window.show_chat()
    with qtbot.waitSignal(controller.token, timeout=10000):
        window.chat.ask("Hello?")
    opening.open(Path("/models/first.gguf"))
    opening.open(Path("/models/second.gguf"))
    assert window.page is window.chat
    assert "second.gguf is opened when the engine is free" in window.statusBar().currentMessage()
    qtbot.waitUntil(lambda: window.wizard.chosen == [Path("/models/second.gguf")], timeout=10000)
    assert controller.conversation.messages()[-1].state == "complete", "the answer was not cut"


def test_while_a_model_loads_a_file_waits(loaded_controller, open_window, qtbot):
    controller = loaded_controller()
    window, opening = open_window(controller)
    controller.load_again()
    opening.open(Path("/models/later.gguf"))
    assert window.wizard.chosen == []
    qtbot.waitUntil(lambda: window.wizard.chosen == [Path("/models/later.gguf")], timeout=10000)


def test_after_it_was_opened_nothing_waits_any_more(loaded_controller, open_window, qtbot):
    controller = loaded_controller()
    window, opening = open_window(controller)
    opening.open(Path("/models/other.gguf"))
    window.show_chat()
    ask(qtbot, window, controller)
    assert window.wizard.chosen == [Path("/models/other.gguf")]


def test_a_closing_window_leaves_later_starts_to_the_next_one(loaded_controller, open_window, handover):
    controller = loaded_controller()
    window, opening = open_window(controller)
    later = Handover(handover_folder())
    assert not later.hold()
    end_engine, held = controller.shutdown, []

    def hold_and_end():
        held.append(later.hold())
        end_engine()

    controller.shutdown = hold_and_end
    window.close()
    controller.shutdown = end_engine
    assert held == [True], "before the engine had ended"
    request = handover.folder / "late.request"
    request.write_bytes(b'{"path": "L21vZGVscy9sYXRlLmdndWY="}')
    opening._watcher.directoryChanged.emit(str(handover.folder))
    assert request.exists()
    assert window.wizard.chosen == []
    later.close()


def test_a_window_whose_folder_cannot_be_watched_leaves_later_starts_to_others(
    loaded_controller, open_window, handover, monkeypatch
):
    monkeypatch.setattr("app.ui.opening.QFileSystemWatcher.directories", lambda _watcher: [])
    open_window(loaded_controller())
    later = Handover(handover_folder())
    assert later.hold()
    later.close()


def test_a_window_opened_after_one_that_did_not_hear_is_the_one_that_later_starts_find(monkeypatch, handover):
    def deaf(_handover, _path):
        handover.close()  # it ended without taking anything
        return False

    found = []
    monkeypatch.setattr(application, "_handed_over", deaf)
    monkeypatch.setattr(application, "_run", lambda *_: found.append(Handover(handover_folder()).hold()) or 0)
    assert application.run(["expert-lanes"]) == 0
    assert found == [False]


START = """
import sys
from PySide6.QtCore import QTimer
from app.ui import application
application.QMessageBox.exec = lambda box: print(box.text())
build = application.build_window
def build_and_tell(*arguments):
    window = build(*arguments)
    page = window.wizard.model_page
    def look():
        if page.banner.isHidden():
            return
        print(window.page.__class__.__name__, page.banner.text.replace(chr(10), " "), flush=True)
        window.close()
    timer = QTimer(window)
    timer.timeout.connect(look)
    timer.start(20)
    return window
application.build_window = build_and_tell
sys.argv = ["expert-lanes", MODEL]
from app.__main__ import main
sys.exit(main())
"""


def start(home, model):
    environment = {"EXPERT_LANES_HOME": str(home), "QT_QPA_PLATFORM": "offscreen", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", START.replace("MODEL", repr(str(model)))],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        timeout=240,
        cwd=home,
    )


@pytest.mark.parametrize("content", [None, b"no model"])
def test_a_file_that_is_no_model_opens_the_window_with_the_reason(home, content):
    path = home / "模型 with blanks.gguf"
    if content is not None:
        path.write_bytes(content)
    done = start(home, path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Wizard ")
    assert path.name in done.stdout


def test_a_second_start_ends_when_the_first_has_taken_its_file(home, handover):
    environment = {"EXPERT_LANES_HOME": str(home), "PYTHONPATH": str(ROOT), "QT_QPA_PLATFORM": "offscreen"}
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        if name in os.environ:
            environment[name] = os.environ[name]
    second = subprocess.Popen(
        [sys.executable, "-m", "app", "model.gguf"], stdout=subprocess.PIPE, text=True, env=environment, cwd=home
    )
    taken = ()
    while not taken:
        assert second.poll() is None
        taken = handover.take()
    assert second.wait(30) == 0
    second.stdout.close()
    assert os.fsdecode(taken[0].path) == str(home / "model.gguf"), "relative to where it was started"
    assert not (home / "data").exists(), "the second start wrote nothing of its own"
