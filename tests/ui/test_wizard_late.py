"""The wizard and what happens at the wrong moment: late results, an engine that dies, pages left behind."""

import threading

import psutil
import pytest
from controller_driver import seen
from PySide6.QtWidgets import QStackedWidget, QWidget
from scripted_engine import GIB
from ui_factories import make_facts, make_machine
from wizard_driver import PATIENCE, choose, go_to, load, opened_wizards, write_listed_model

from app.errors import AppError, ErrorCode
from app.hardware.facts import Ram
from app.library.demo import DemoModel
from app.ui import widgets
from app.ui.controller import EMPTY, READY
from app.ui.wizard import demo_card
from app.ui.wizard.flow import LoadState, View


@pytest.fixture
def make_wizard(qtbot, theme, store):
    with opened_wizards(qtbot, theme, store) as make:
        yield make


@pytest.fixture
def model(home):
    return write_listed_model()


class SlowRead:
    """Stands where the reader is: waits at its gate, then gives facts or fails."""

    def __init__(self, error=None):
        self.gate = threading.Event()
        self.error = error

    def __call__(self, path):
        assert self.gate.wait(PATIENCE / 1000)
        if self.error:
            raise self.error
        return make_facts(layers=2, name="Late")


class SlowBuild:
    """Stands where the demo is built: ends without having been asked for its progress again."""

    def __init__(self):
        self.gate = threading.Event()

    def __call__(self, out, on_progress):
        on_progress(0.5)
        assert self.gate.wait(PATIENCE / 1000)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(b"x" * 2048)
        return DemoModel(path=out, bytes=2048, sha256="", experts=8, used=2)


def leave(wizard):
    """What the window does on the way back to the chat."""
    wizard.controller.return_to_loaded()
    wizard.hide()


@pytest.mark.parametrize("error", [None, AppError(ErrorCode.NOT_GGUF, "It is a picture.")])
def test_a_read_that_ends_after_the_wizard_was_left_changes_nothing(make_wizard, model, home, qtbot, error):
    wizard = make_wizard()
    load(qtbot, wizard, model)
    loaded, reader = wizard.controller.facts, SlowRead(error)
    wizard.controller._read_facts = reader
    wizard.choose(home / "late.gguf")
    failures = seen(wizard.controller.failed)
    leave(wizard)
    assert not wizard.flow.reading
    reader.gate.set()
    qtbot.waitUntil(lambda: not wizard.controller.background.busy, timeout=PATIENCE)
    assert wizard.controller.facts is loaded
    assert wizard.controller.plan is not None
    assert failures == []
    assert "32 per layer" in wizard.model_page.card.text


@pytest.mark.parametrize("inside", [False, True])
def test_a_demo_that_is_built_after_the_wizard_was_left_is_not_chosen(
    make_wizard, model, qtbot, monkeypatch, theme, inside
):
    build = SlowBuild()
    monkeypatch.setattr(demo_card, "build_demo", build)
    wizard = make_wizard()
    load(qtbot, wizard, model)
    loaded = wizard.controller.facts
    if inside:  # as in the window, which stays when the chat comes
        window = QStackedWidget()
        qtbot.addWidget(window)
        window.addWidget(wizard)
        window.addWidget(QWidget())
        window.show()
    wizard.model_page.demo.button.click()
    wanted = seen(wizard.model_page.chosen)
    if inside:
        wizard.controller.return_to_loaded()
        window.setCurrentIndex(1)
    else:
        leave(wizard)
    build.gate.set()
    qtbot.waitUntil(lambda: not wizard.model_page.demo.building, timeout=PATIENCE)
    qtbot.waitUntil(lambda: not wizard.controller.background.busy, timeout=PATIENCE)
    assert wanted == []
    assert wizard.controller.facts is loaded
    if inside:
        wizard.setParent(None)


def test_a_demo_built_after_another_model_was_chosen_is_only_offered(make_wizard, model, qtbot, monkeypatch):
    build = SlowBuild()
    monkeypatch.setattr(demo_card, "build_demo", build)
    wizard = make_wizard()
    wizard.model_page.demo.button.click()
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.PLAN)
    build.gate.set()
    qtbot.waitUntil(lambda: not wizard.model_page.demo.building, timeout=PATIENCE)
    assert wizard.flow.view is View.PLAN
    assert wizard.flow.choices.facts.files == (str(model),)
    assert wizard.model_page.demo.button.text() == "Use the demo model"


def test_the_loaded_model_read_again_brings_its_plan_into_the_chat(make_wizard, model, qtbot):
    wizard = make_wizard()
    load(qtbot, wizard, model)
    loaded = wizard.controller.loaded_plan
    choose(qtbot, wizard, model)
    assert wizard.controller.plan is None
    go_to(qtbot, wizard, View.LOAD)
    assert wizard.flow.load is LoadState.DONE
    assert wizard.controller.plan is loaded
    assert wizard.controller.facts is wizard.controller.loaded_facts
    assert wizard.next_button.isEnabled()


@pytest.mark.parametrize("view", [View.LOAD, View.PLAN])
def test_an_engine_that_dies_behind_the_wizard_is_told_on_the_page_shown(make_wizard, model, qtbot, view):
    wizard = make_wizard()
    load(qtbot, wizard, model)
    if view is View.PLAN:
        wizard.go_back()
    with qtbot.waitSignal(wizard.controller.failed, timeout=PATIENCE):
        psutil.Process(wizard.controller.engine.pid).kill()
    assert wizard.flow.view is view
    assert wizard.flow.load is LoadState.FAILED
    assert wizard.page.banner.isVisible()
    assert "SIGKILL" in wizard.page.banner.text
    if view is View.LOAD:
        assert not wizard.next_button.isEnabled()
        assert "is ready" not in wizard.load_page.text


def test_an_engine_that_dies_while_a_file_is_read_is_not_taken_for_a_broken_file(make_wizard, model, home, qtbot):
    wizard = make_wizard()
    load(qtbot, wizard, model)
    reader = SlowRead()
    wizard.controller._read_facts = reader
    wizard.choose(home / "slow.gguf")
    with qtbot.waitSignal(wizard.controller.failed, timeout=PATIENCE):
        psutil.Process(wizard.controller.engine.pid).kill()
    assert wizard.flow.reading
    reader.gate.set()
    qtbot.waitUntil(lambda: not wizard.flow.reading, timeout=PATIENCE)
    assert wizard.flow.choices.facts.name == "Late"


def test_an_engine_that_does_not_stop_a_load_can_be_ended(make_wizard, model, qtbot, monkeypatch):
    monkeypatch.setattr(widgets, "CANCEL_MILLISECONDS", 100)
    wizard = make_wizard("--hold-load", "--deaf")
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.LOAD)
    button = wizard.load_page.cancel_button
    button.click()
    assert not button.isEnabled()
    qtbot.waitUntil(lambda: button.text() == "&End the engine", timeout=PATIENCE)
    assert "The engine has not answered yet" in wizard.load_page.text
    button.click()
    assert wizard.flow.view is View.PLAN
    assert wizard.controller.state == EMPTY
    assert button.text() == "&Cancel loading"
    qtbot.waitUntil(lambda: not wizard._probing, timeout=PATIENCE)


def test_free_memory_is_measured_again_on_entering_the_pages_that_show_it(make_wizard, model, qtbot):
    measured = []
    wizard = make_wizard()

    def probe(_folder, _gpus, _build):
        measured.append(len(measured))
        return make_machine(ram=Ram(total_bytes=16 * GIB, available_bytes=(10 - len(measured)) * GIB))

    wizard.controller._chooser._measure_machine = lambda gpus, build: probe(None, gpus, build)
    choose(qtbot, wizard, model)
    for view, free in ((View.MACHINE, "9.0 GiB"), (View.PLAN, "8.0 GiB")):
        with qtbot.waitSignal(wizard.controller.machine_changed, timeout=PATIENCE):
            go_to(qtbot, wizard, view)
        assert free in wizard.page.text
    load_page_entered = len(measured)
    go_to(qtbot, wizard, View.LOAD)
    qtbot.waitUntil(lambda: wizard.controller.state == READY, timeout=PATIENCE)
    wizard.go_back()
    qtbot.waitUntil(lambda: not wizard.controller.background.busy, timeout=PATIENCE)
    assert len(measured) == load_page_entered, "the loaded model's own memory would count as in use"


def test_the_machine_page_says_when_it_was_measured_and_with_which_model_loaded(make_wizard, model, qtbot):
    wizard = make_wizard()
    assert "memory that was free at " in wizard.machine_page.text
    assert "was loaded then" not in wizard.machine_page.text
    assert "other programs" not in wizard.machine_page.text
    load(qtbot, wizard, model)
    with qtbot.waitSignal(wizard.controller.machine_changed, timeout=PATIENCE):
        wizard.machine_page.look_again.emit()
    assert f"{wizard.controller.facts.name} was loaded then" in wizard.machine_page.text


def test_the_smaller_plan_survives_another_look_at_the_machine(make_wizard, model, qtbot):
    wizard = make_wizard("--fail-load", "out_of_memory")
    load(qtbot, wizard, model)
    wizard.load_page.smaller_wanted.emit()
    qtbot.waitUntil(lambda: wizard.flow.load is LoadState.FAILED, timeout=PATIENCE)
    with qtbot.waitSignal(wizard.controller.machine_changed, timeout=PATIENCE):
        wizard.go_back()
    assert wizard.flow.choices.reduced
    assert "This is the smaller plan from the failed load" in wizard.plan_page.text
