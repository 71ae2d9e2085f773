"""An engine that is there and answers nothing is told, and ended only by the user."""

import os
import signal
import sys

import pytest
from controller_driver import PATIENCE, answer, until
from PySide6.QtWidgets import QPushButton

from app.errors import AppError, ErrorCode
from app.ui import engine_watch
from app.ui.chat.page import ChatPage
from app.ui.controller import FAILED, READY
from app.ui.truth_line import TruthLine

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be stopped for a while there")


def hang(qtbot, controller):
    """Stop the engine until that is told; the checks are quick only meanwhile, for it may have to wait for its turn."""
    checks = controller.engine_watch._check
    with qtbot.waitSignal(controller.engine_watch.silent, timeout=PATIENCE):
        os.kill(controller.engine.pid, signal.SIGSTOP)
        checks.setInterval(20)
    checks.setInterval(engine_watch.CHECK_MILLISECONDS)


@pytest.fixture
def hanging(qtbot, loaded_controller, theme):
    """A controller whose engine hangs, with its chat and its truth line, once that is told."""
    controller = loaded_controller("--tokens", 4)
    page, line = ChatPage(controller, theme), TruthLine(controller)
    qtbot.addWidget(page)
    qtbot.addWidget(line)
    page.show()
    answer(qtbot, controller)
    hang(qtbot, controller)
    yield controller, page, line
    if controller.engine.pid:
        os.kill(controller.engine.pid, signal.SIGCONT)


def test_a_ready_engine_that_hangs_is_told_and_left_alone(hanging):
    controller, page, line = hanging
    assert controller.state == READY
    assert controller.engine.running
    assert "has answered nothing" in page.banner.text
    assert line.difference.full == "The engine does not answer"


def test_an_engine_that_answers_again_is_not_called_silent_any_more(qtbot, hanging):
    controller, page, line = hanging
    with qtbot.waitSignal(controller.engine_watch.silent, timeout=PATIENCE) as told:
        os.kill(controller.engine.pid, signal.SIGCONT)
    assert told.args == [None]
    assert not page.banner.isVisible()
    assert line.difference.full == ""
    answer(qtbot, controller)


def test_an_engine_that_answers_again_takes_no_other_failures_words_away(qtbot, hanging):
    controller, page, _line = hanging
    controller.failed.emit(AppError(ErrorCode.FOLDER_NOT_WRITABLE, "The conversations cannot be written."))
    with qtbot.waitSignal(controller.engine_watch.silent, timeout=PATIENCE):
        os.kill(controller.engine.pid, signal.SIGCONT)
    assert page.banner.isVisible()
    assert "cannot be written" in page.banner.text


def test_ending_a_silent_engine_offers_what_every_failed_engine_does(qtbot, hanging):
    controller, page, _line = hanging
    next(its for its in page.banner.findChildren(QPushButton) if its.text() == "End the engine").click()
    assert controller.state == FAILED
    assert not controller.engine.running
    again = next(its for its in page.banner.findChildren(QPushButton) if its.text() == "Load again")
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        again.click()


def test_an_engine_that_hangs_in_an_answer_is_told_too(qtbot, loaded_controller, theme):
    controller = loaded_controller("--tokens", 400, "--token-ms", 5)
    page = ChatPage(controller, theme)
    qtbot.addWidget(page)
    page.show()
    with qtbot.waitSignal(controller.token, timeout=PATIENCE):
        controller.ask("Hello?")
    hang(qtbot, controller)
    assert "has answered nothing" in page.banner.text
    controller.engine_watch.end_silent()
    until(qtbot, lambda: controller.state == FAILED)


def test_nothing_is_asked_of_an_engine_that_speaks_and_little_of_one_that_rests(qtbot, loaded_controller, tmp_path):
    record = tmp_path / "requests"
    controller = loaded_controller("--record", record)
    watch = controller.engine_watch

    def asked():
        return record.read_bytes().count(b"read_cache")

    watch.check()  # the load was heard
    assert asked() == 0
    with qtbot.waitSignal(controller.engine.event, timeout=PATIENCE):
        watch.check()
    watch.check()  # its answer was heard
    assert asked() == 1
    assert watch.silence is None


def test_only_a_loaded_model_must_answer(qtbot, make_controller, loaded_controller):
    controller = make_controller("--no-devices")
    controller.probe()
    assert not controller.engine_watch._check.isActive()
    loaded = loaded_controller()
    assert loaded.engine_watch._check.isActive()
    loaded.end_engine()
    assert not loaded.engine_watch._check.isActive()
