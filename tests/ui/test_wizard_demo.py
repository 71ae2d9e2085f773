"""The demo card: one click builds the demo, a click cancels it, and what is there is offered."""

import threading

import pytest
from PySide6.QtCore import Qt

from app.errors import AppError, ErrorCode
from app.library.demo import DemoModel, demo_model_path
from app.ui.background import Background
from app.ui.wizard import demo_card
from app.ui.wizard.demo_card import DemoCard

PATIENCE = 10000


class SlowBuild:
    """Stands where `build_demo` is: reports a half, then goes on when it is told to."""

    def __init__(self):
        self.go_on = threading.Event()
        self.asked = 0
        self.error = None

    def __call__(self, out, on_progress):
        self.asked += 1
        on_progress(0.5)
        assert self.go_on.wait(PATIENCE / 1000)
        on_progress(0.9)
        if self.error:
            raise self.error
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(b"x" * 2048)
        return DemoModel(path=out, bytes=2048, sha256="", experts=8, used=2)


@pytest.fixture
def build(monkeypatch):
    slow = SlowBuild()
    monkeypatch.setattr(demo_card, "build_demo", slow)
    return slow


@pytest.fixture
def card(theme, qtbot, build):
    background = Background()
    made = DemoCard(background, theme)
    qtbot.addWidget(made)
    made.show()
    yield made
    made.cancel()
    build.go_on.set()
    background.wait()


def begin(card, qtbot):
    qtbot.mouseClick(card.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: card.progress.value() == 500, timeout=PATIENCE)


def test_before_it_is_built_the_card_says_what_it_costs_and_what_it_is_worth(card):
    assert card.text == "One click, about 0.5 GB written, nothing downloaded."
    assert "identical experts" in card._honest.text()
    assert "not a good model" in card._honest.text()
    assert card.progress.isHidden()


def test_one_click_builds_it_with_progress_and_wants_it_used(card, build, qtbot):
    begin(card, qtbot)
    assert card.building
    assert card.text == "Building the demo model: 50 %"
    assert card.button.isHidden()
    with qtbot.waitSignal(card.wanted, timeout=PATIENCE) as wanted:
        build.go_on.set()
    assert wanted.args == [demo_model_path()]
    assert card.text == "Ready on this machine, 2.0 KiB."
    assert card.progress.isHidden()


def test_a_demo_that_is_there_is_used_without_building(card, build, qtbot):
    demo_model_path().parent.mkdir(parents=True)
    demo_model_path().write_bytes(b"x" * 1024)
    card.refresh()
    assert card.button.text() == "Use the demo model"
    with qtbot.waitSignal(card.wanted, timeout=PATIENCE):
        card.button.click()
    assert build.asked == 0


def test_cancelling_ends_the_build_without_an_error_and_it_can_be_begun_again(card, build, qtbot):
    told = []
    card.failed.connect(told.append)
    card.wanted.connect(told.append)
    begin(card, qtbot)
    card.cancel_button.click()
    assert card.text == "Cancelling…"
    assert not card.cancel_button.isEnabled()
    assert card.building
    build.go_on.set()
    qtbot.waitUntil(lambda: not card.building, timeout=PATIENCE)
    assert told == []
    assert not demo_model_path().exists()
    assert card.button.text() == "Build the demo model"
    with qtbot.waitSignal(card.wanted, timeout=PATIENCE):
        card.button.click()
    assert build.asked == 2


def test_a_build_that_fails_is_told_and_can_be_tried_again(card, build, qtbot):
    build.error = AppError(ErrorCode.DISK_FULL, "The disk is full.")
    begin(card, qtbot)
    with qtbot.waitSignal(card.failed, timeout=PATIENCE) as failed:
        build.go_on.set()
    assert failed.args[0].code is ErrorCode.DISK_FULL
    assert card.button.isVisible()
    assert not card.building
