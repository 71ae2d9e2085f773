"""The window as a process: it starts, keeps logs, tells what nobody expected, and ends cleanly."""

import json
import logging
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from PySide6.QtWidgets import QMessageBox

from app.chat.store import ConversationStore
from app.ui.crash_reports import UnexpectedErrors, set_up_logging

ROOT = Path(__file__).resolve().parents[2]
RUN = """
import sys
BEFORE
from PySide6.QtCore import QTimer
from app.ui import application
# A dialog would wait for a user: say what it says instead.
application.QMessageBox.exec = lambda box: print(box.text(), box.informativeText(), box.detailedText())
build = application.build_window
def build_and_close(*arguments):
    window = build(*arguments)
    QTimer.singleShot(0, lambda: (print(window.page.__class__.__name__), window.close()))
    return window
application.build_window = build_and_close
sys.exit(application.run(["expert-lanes"]))
"""


def run_window(home, before=""):
    environment = {"EXPERT_LANES_HOME": str(home), "QT_QPA_PLATFORM": "offscreen", "PATH": "", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN.replace("BEFORE", before)],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        cwd=ROOT,
    )


def test_the_window_starts_and_ends_with_files_where_they_belong(home):
    done = run_window(home)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["Wizard"]
    assert (home / "data" / "conversations.db").is_file()
    assert "window_geometry" in json.loads((home / "data" / "settings.json").read_text("utf-8"))
    assert "window closed" in (home / "logs" / "window.log").read_text("utf-8")


def test_a_home_that_cannot_be_written_is_told_in_words(home):
    (home / "data").write_text("a file where the folder should be", "utf-8")
    done = run_window(home)
    assert done.returncode != 0
    assert "Choose a folder that your user may write to." in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere there is always a screen")
def test_without_a_screen_the_window_says_so_and_leaves_nothing_behind(home):
    done = subprocess.run(
        [sys.executable, "-m", "app"],
        check=False,
        capture_output=True,
        text=True,
        env={"EXPERT_LANES_HOME": str(home / "unused"), "PYTHONPATH": str(ROOT)},
        timeout=60,
        cwd=ROOT,
    )
    assert done.returncode == 2
    assert "There is no screen" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (home / "unused").exists()


@pytest.mark.parametrize("name", ["window.log", "window-crash.log"])
def test_a_log_that_cannot_be_written_is_told_in_words(home, name):
    (home / "logs" / name).mkdir(parents=True)
    done = run_window(home)
    assert done.returncode == 2
    assert f"{name} could not be written." in done.stdout
    assert "Traceback" not in done.stderr


def test_damaged_conversations_are_told_with_what_the_app_goes_on_with(home):
    (home / "data").mkdir()
    (home / "data" / "conversations.db").write_bytes(b"this is no database\n" * 500)
    done = run_window(home)
    assert done.returncode == 0, done.stderr
    assert "were damaged; the file is kept as" in done.stdout
    assert "goes on with an empty list" in done.stdout
    assert "was left as it is" not in done.stdout


def test_a_home_of_a_user_who_does_not_exist_is_told_in_words():
    done = run_window("~no-such-user/lanes")
    assert done.returncode == 2
    assert "there is no such user" in done.stdout
    assert "Traceback" not in done.stderr


def test_conversations_that_cannot_be_read_at_the_start_are_told_in_words(home):
    broken = """
from app.chat.store import ConversationStore
from app.errors import AppError, ErrorCode
def unreadable(_store):
    raise AppError(ErrorCode.STORE_UNREADABLE, "The list is broken.")
ConversationStore.last_conversation = unreadable
"""
    done = run_window(home, broken)
    assert done.returncode == 2
    assert "The list is broken." in done.stdout
    assert "Traceback" not in done.stderr


def test_damaged_settings_are_told_and_logged(home):
    (home / "data").mkdir()
    (home / "data" / "settings.json").write_text("{half", "utf-8")
    done = run_window(home)
    assert done.returncode == 0, done.stderr
    assert "those of a first start are used" in done.stdout
    assert "settings.unreadable.json" in done.stdout
    assert "settings unreadable" in (home / "logs" / "window.log").read_text("utf-8")


def test_the_process_ends_although_work_of_it_hangs(home):
    hanging = """
import threading
from app.ui import application, background
background.WAIT_MILLISECONDS = 100
background.Background.wait.__defaults__ = (100,)
application.warm_up = threading.Event().wait
"""
    done = run_window(home, hanging)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["Wizard"], "what was printed is not lost with the process"
    log = (home / "logs" / "window.log").read_text("utf-8")
    assert "window closed" in log
    assert "the process ends although work of it still runs" in log
    assert not (home / "data" / "conversations.db-wal").exists(), "the store was closed"


NOT_NEEDED_FOR_THE_FIRST_WINDOW = {"numpy", "gguf", "pyqtgraph", "markdown_it", "psutil"}


def test_the_first_window_needs_no_heavy_module(home):
    program = """
import sys
from PySide6.QtWidgets import QApplication
from app.ui import application
app = QApplication([])
path = application.data_folder() / "settings.json"
settings, theme = application.Settings(path), application.Theme()
store = application.ConversationStore(path.with_name("c.db"))
controller = application.Controller(application.Engine(), store, path.parent)
window = application.build_window(controller, theme, settings)
window.show()
print(" ".join(sys.modules))
controller.shutdown()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "QT_QPA_PLATFORM": "offscreen", "EXPERT_LANES_HOME": str(home)},
        timeout=60,
    )
    loaded = set(done.stdout.split())
    assert "app.ui.wizard.wizard" in loaded
    assert loaded & NOT_NEEDED_FOR_THE_FIRST_WINDOW == set()
    assert loaded & {"app.ui.chat.page", "app.ui.settings_dialog", "app.chat.export", "fractions"} == set()
    docks = {name for name in loaded if name.startswith(("app.ui.lanes.", "app.ui.tuning.", "app.ui.graphs."))}
    assert docks & {"app.ui.lanes.panel", "app.ui.tuning.panel", "app.ui.graphs.panel"} == set()
    assert {name for name in docks if "tuning" in name} == {"app.ui.tuning.dock"}
    assert loaded & {"app.placement.explain", "app.placement.tuner.search"} == set()


def test_what_the_docks_need_is_imported_beside_the_window_and_makes_no_widget(home):
    program = """
import sys, threading
from PySide6.QtWidgets import QApplication
from app.ui import application
app = QApplication([])
beside = threading.Thread(target=application.warm_up)
beside.start()
beside.join()
print(len(app.allWidgets()), " ".join(sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "QT_QPA_PLATFORM": "offscreen", "EXPERT_LANES_HOME": str(home)},
        timeout=60,
    )
    widgets, *loaded = done.stdout.split()
    assert widgets == "0"
    assert {"app.ui.lanes.panel", "app.ui.tuning.curve_page", "app.ui.graphs.panel", "pyqtgraph"} <= set(loaded)


ANSWER_AND_DIE = """
import os, signal, sys
from pathlib import Path
from PySide6.QtWidgets import QApplication
from app.chat.store import ConversationStore
from app.ui.chat.page import ChatPage
from app.ui.controller import Controller
from app.ui.engine import Engine
from app.ui.theme import Theme
from ui_factories import make_facts, make_machine
application = QApplication([])
home = Path(sys.argv[1])
engine = Engine([sys.executable, sys.argv[2], "--tokens", "5000", "--token-ms", "2"])
controller = Controller(
    engine, ConversationStore(home / "c.db"), home,
    read_facts=lambda path: make_facts(), probe=lambda *arguments: make_machine(),
)
page = ChatPage(controller, Theme())
page.show()
def load(*_):
    if controller.machine and controller.facts and controller.plan is None:
        controller.set_plan(controller.propose_plan())
        controller.load()
controller.machine_changed.connect(load)
controller.model_changed.connect(load)
controller.loaded.connect(lambda _report: page.ask("Hello?"))
def shown(_text):
    text = page.transcript.messages[-1].text
    print(text, flush=True)
    if len(text) > 200:
        os.kill(os.getpid(), signal.SIGKILL)
controller.token.connect(shown)
controller.probe()
controller.choose_model(home)
application.exec()
"""


def test_a_window_killed_while_an_answer_streams_loses_nothing_it_had_shown(home):
    tests = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", ANSWER_AND_DIE, str(home), str(tests / "scripted_engine.py")],
        check=False,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{ROOT}:{tests}", "QT_QPA_PLATFORM": "offscreen", "EXPERT_LANES_HOME": str(home)},
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    shown = done.stdout.splitlines()[-1]
    with ConversationStore(home / "c.db") as store:
        question, answer = store.active_path(store.last_conversation())
    assert question.content == "Hello?"
    assert answer.content == shown
    assert answer.state == "interrupted"


@pytest.fixture
def errors(qapp, monkeypatch):
    monkeypatch.setattr(QMessageBox, "exec", lambda box: told.append(box.detailedText()))
    told = []
    made = UnexpectedErrors()
    made.told = told
    yield made
    made.uninstall()


def _fail():
    raise RuntimeError("nobody expected this")


def test_an_unexpected_error_is_logged_and_told_on_any_thread(errors, qtbot, caplog):
    sys.excepthook(*_caught())
    qtbot.waitUntil(lambda: len(errors.told) == 1)
    thread = threading.Thread(target=_fail)
    thread.start()
    thread.join()
    qtbot.waitUntil(lambda: len(errors.told) == 2)
    assert all("nobody expected this" in text for text in errors.told)
    assert sum(record.levelno == logging.CRITICAL for record in caplog.records) == 2


def _caught():
    try:
        _fail()
    except RuntimeError:
        return sys.exc_info()
    raise AssertionError("unreachable")


def test_the_hooks_are_given_back(qapp):
    before = sys.excepthook, threading.excepthook
    made = UnexpectedErrors()
    assert sys.excepthook is not before[0]
    made.uninstall()
    assert (sys.excepthook, threading.excepthook) == before


def test_a_crash_of_the_interpreter_leaves_its_stack_in_the_logs(tmp_path):
    program = """
import sys
from pathlib import Path
from app.chat.store import ConversationStore
from app.ui.crash_reports import set_up_logging
import ctypes
kept = set_up_logging(Path(sys.argv[1]))
ctypes.string_at(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        check=False,
        capture_output=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode != 0
    assert "Segmentation fault" in (tmp_path / "window-crash.log").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "logged"),
    [("模型", "模型"), ("caf\udce9", "caf\\udce9")],
    ids=["a name outside ASCII", "a name that is no Unicode"],
)
def test_the_log_is_written_in_utf_8_whatever_files_are_called(tmp_path, name, logged):
    root = logging.getLogger()
    before = list(root.handlers), root.level
    import faulthandler

    was_enabled = faulthandler.is_enabled()
    try:
        with set_up_logging(tmp_path):
            logging.getLogger("app.test").info("%s loaded", name)
    finally:
        for handler in root.handlers:
            if handler not in before[0]:
                handler.close()
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        faulthandler.disable()
        if was_enabled:
            faulthandler.enable(sys.__stderr__)
    assert f"INFO app.test: {logged} loaded" in (tmp_path / "window.log").read_text("utf-8")
