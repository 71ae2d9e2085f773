"""What the window's tests share: a private home, the themes, facts, and controllers over scripted engines.

Factories are plain functions in `ui_factories`; here they become fixtures. Every test is failed that
leaves a child process, a busy thread pool or a running thread behind.
"""

import contextlib
import gc
import os
import sys
import threading
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import psutil
import pytest
import shiboken6
from PySide6.QtCore import QThreadPool
from pytestqt.qtbot import QtBot
from ui_factories import make_facts as _make_facts
from ui_factories import make_machine as _make_machine

GARBAGE_BETWEEN_TESTS = 50_000
PATIENCE_MILLISECONDS = 60_000
LEAVING_MILLISECONDS = 5_000
SCRIPTED_ENGINE = Path(__file__).with_name("scripted_engine.py")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A private EXPERT_LANES_HOME: no test reads or writes the user's own data."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("EXPERT_LANES_HOME", str(folder))
    return folder


class PatientBot(QtBot):
    """Waits for what a test names, for a minute at least.

    A wait ends with what it waits for, or the test has failed: on a busy machine a shorter limit would only let it fail
    by chance. What must be quick is measured where it is tested.
    """

    def waitSignal(self, signal, *, timeout=0, raising=None, **options):  # noqa: N802 - pytest-qt's names
        if raising is not False:  # else nothing is what is waited for
            timeout = max(timeout, PATIENCE_MILLISECONDS)
        return super().waitSignal(signal, timeout=timeout, raising=raising, **options)

    def waitSignals(self, signals, *, timeout=0, **options):  # noqa: N802
        return super().waitSignals(signals, timeout=max(timeout, PATIENCE_MILLISECONDS), **options)

    def waitUntil(self, callback, *, timeout=0):  # noqa: N802
        return super().waitUntil(callback, timeout=max(timeout, PATIENCE_MILLISECONDS))

    def waitExposed(self, widget, *, timeout=0):  # noqa: N802
        return super().waitExposed(widget, timeout=max(timeout, PATIENCE_MILLISECONDS))


@pytest.fixture
def qtbot(qapp, request):
    """pytest-qt's, with patience."""
    return PatientBot(request)


@pytest.fixture(autouse=True)
def collected_on_this_thread():
    """No automatic collection: on a pool's thread it would destroy Qt objects, as in the app it may not."""
    gc.disable()
    yield
    if gc.get_count()[0] > GARBAGE_BETWEEN_TESTS:
        gc.collect()


@pytest.fixture(autouse=True)
def nothing_left_running():
    """Fail the test that leaves a child process, a busy thread pool or a running thread."""
    before = set(threading.enumerate())
    yield
    children = [child for child in psutil.Process().children() if alive(child)]
    busy = [
        pool
        for pool in gc.get_objects()
        if isinstance(pool, QThreadPool) and shiboken6.isValid(pool) and pool.activeThreadCount()
    ]
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    # A function that has told its result may not have left its thread yet.
    held = [pool for pool in busy if not pool.waitForDone(LEAVING_MILLISECONDS)]
    for pool in held:
        pool.waitForDone()
    # Python does not see a pool's threads end, and keeps a dummy of each that it met.
    started = [
        thread for thread in set(threading.enumerate()) - before if not isinstance(thread, threading._DummyThread)
    ]
    for thread in started:
        thread.join(LEAVING_MILLISECONDS / 1000)
    running = [thread for thread in started if thread.is_alive()]
    assert not children, f"child processes left running: {children}"
    assert not held, f"{len(held)} thread pools left busy"
    assert not running, f"threads left running: {running}"


def alive(child):
    """Whether it has not ended, nor was ended meanwhile."""
    try:
        return child.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def theme(qapp):
    """The light look, whatever the system says."""
    from app.ui.theme import Theme

    return Theme(forced="light")


@pytest.fixture
def dark_theme(qapp):
    """The dark look."""
    from app.ui.theme import Theme

    return Theme(forced="dark")


@pytest.fixture
def make_facts():
    """`make_facts(layers=4, experts=8, used=2, **overrides) -> ModelFacts`."""
    return _make_facts


@pytest.fixture
def make_machine():
    """`make_machine(gpu=True, **overrides) -> Machine`."""
    return _make_machine


@pytest.fixture
def store(home):
    """A conversation store in the private home."""
    from app.chat.store import ConversationStore

    made = ConversationStore(home / "conversations.db")
    yield made
    made.close()


@pytest.fixture
def other_window(store, home):
    """The same store, as another process has it."""
    from app.chat.store import ConversationStore

    with ConversationStore(home / "conversations.db") as other:
        yield other


@pytest.fixture
def three_stored(store):
    """Ids of three conversations with a question and an answer each, as the list has them: the newest first."""
    from conversation_list_driver import fill

    return fill(store)


@pytest.fixture
def make_list_page(qtbot, theme):
    """`make_list_page(controller) -> ChatPage`, shown, with the keyboard in its list."""
    from conversation_list_driver import show_page

    return lambda controller: show_page(qtbot, theme, controller)


@pytest.fixture
def make_controller(qapp, store, home):
    """`make_controller(*engine_arguments, facts=..., machine=...) -> Controller` over a scripted engine.

    The arguments are those of scripted_engine.py. Its `read_facts` and `probe` give the factories'
    facts and machine; pass `facts=` and `machine=` for others, or an AppError to have them raised.
    """
    from app.ui.controller import Controller
    from app.ui.engine import Engine

    made = []

    def make(*arguments, facts=None, machine=None):
        def give(value):
            if isinstance(value, Exception):
                raise value
            return value

        the_facts = facts or _make_facts()
        the_machine = machine or _make_machine("--no-gpu" not in arguments)
        controller = Controller(
            Engine([sys.executable, str(SCRIPTED_ENGINE), *map(str, arguments)]),
            store,
            home,
            read_facts=lambda path: give(the_facts),
            probe=lambda folder, gpus, build: give(the_machine),
        )
        made.append(controller)
        return controller

    yield make
    for controller in made:
        controller.shutdown()
        controller.engine.deleteLater()
        controller.deleteLater()


@pytest.fixture
def loaded_controller(make_controller, qtbot):
    """`loaded_controller(*engine_arguments, facts=..., machine=...)`: the same, with the model loaded."""

    def make(*arguments, **keywords):
        controller = make_controller(*arguments, **keywords)
        with qtbot.waitSignals([controller.machine_changed, controller.model_changed], timeout=10000):
            controller.probe()
            controller.choose_model(Path("model.gguf"))
        controller.set_plan(controller.propose_plan())
        with qtbot.waitSignal(controller.loaded, timeout=10000):
            controller.load()
        return controller

    return make


@pytest.fixture
def settings(qapp, home):
    """Settings in the private home."""
    from app.ui.settings import Settings

    return Settings(home / "settings.json")


@pytest.fixture
def make_window(qtbot, theme, settings):
    """`make_window(controller, docks=0) -> MainWindow` with a wizard that is only a signal."""
    from PySide6.QtWidgets import QDockWidget, QLabel
    from window_driver import PlainWizard

    from app.ui.main_window import MainWindow

    def make(controller, docks=0):
        made_docks = []
        for number in range(docks):
            dock = QDockWidget(f"Dock {number}")
            dock.setObjectName(f"dock{number}")
            dock.setWidget(QLabel("contents"))
            made_docks.append(dock)
        window = MainWindow(controller, theme, settings, PlainWizard(), made_docks)
        qtbot.addWidget(window)
        window.show()
        qtbot.waitExposed(window)
        return window

    return make


@pytest.fixture
def hour(theme, qtbot, home):
    """A panel in sight over a made-up hour; nothing is sampled. Its recorder ticks by hand."""
    from graphs_hour import filled_panel  # most tests need no graphs

    panel, recorder, end = filled_panel(theme, home)
    qtbot.addWidget(panel)
    panel.resize(1300, 900)
    panel.show()
    panel.redraw(everything=True)
    yield panel
    end()
    assert recorder._sampler is None
