"""Measuring the machine from its page: progress, result in words, kept; cancel, failures, a loaded model."""

import pytest
from PySide6.QtCore import Qt
from wizard_driver import PATIENCE, choose, go_to, load, opened_wizards, write_listed_model

from app.library.folders import data_folder
from app.ui.wizard.flow import View


@pytest.fixture
def make_wizard(qtbot, theme, store):
    with opened_wizards(qtbot, theme, store) as make:
        yield make


@pytest.fixture
def model(home):
    return write_listed_model()


def machine_page(qtbot, wizard, model):
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.MACHINE)
    qtbot.waitUntil(wizard.machine_page.again_button.isEnabled, timeout=PATIENCE)
    return wizard.machine_page.measure


def press(qtbot, button):
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def ended(qtbot, wizard, card):
    qtbot.waitUntil(lambda: not card.measuring, timeout=PATIENCE)
    qtbot.waitUntil(lambda: not wizard.controller.background.busy, timeout=PATIENCE)


def test_a_machine_that_was_not_measured_says_so_and_offers_it(make_wizard, model, qtbot):
    card = machine_page(qtbot, make_wizard(), model)
    assert "Not measured yet" in card.text
    assert card.button.isVisible()
    assert card.button.text() == "&Measure this machine (≈ 25 s)"
    assert not card.cancel_button.isVisible()


def test_measuring_says_the_result_in_words_and_keeps_it(make_wizard, model, qtbot):
    wizard = make_wizard()
    card = machine_page(qtbot, wizard, model)
    press(qtbot, card.button)
    ended(qtbot, wizard, card)
    assert "RAM 21.0 GB/s on 2 threads for Q4_K." in card.text
    assert "The script measures nothing else." in card.text
    assert card.button.isVisible()
    kept = list(data_folder().rglob("calibration-*.json"))
    assert len(kept) == 1


def test_what_was_measured_before_is_shown_with_its_age(make_wizard, model, qtbot):
    wizard = make_wizard()
    card = machine_page(qtbot, wizard, model)
    press(qtbot, card.button)
    ended(qtbot, wizard, card)
    card.show_machine(wizard.controller.machine)
    qtbot.waitUntil(lambda: "This machine was measured today." in card.text, timeout=PATIENCE)
    assert "RAM 21.0 GB/s" in card.text


def test_progress_is_shown_and_cancel_ends_it(make_wizard, model, qtbot):
    wizard = make_wizard("--hold-calibration")
    card = machine_page(qtbot, wizard, model)
    press(qtbot, card.button)
    qtbot.waitUntil(lambda: card.progress.value() == 500, timeout=PATIENCE)
    assert "Measuring the processor: q4_K weights" in card.text
    assert card.progress.isVisible()
    assert (
        abs(card.progress.geometry().center().y() - card.cancel_button.geometry().center().y()) < card.button.height()
    )
    assert card.cancel_button.hasFocus()
    press(qtbot, card.cancel_button)
    ended(qtbot, wizard, card)
    assert "The measurement was cancelled." in card.text
    assert card.button.isVisible()
    assert not wizard.machine_page.banner.isVisible()


def test_leaving_the_page_cancels_it(make_wizard, model, qtbot):
    wizard = make_wizard("--hold-calibration")
    card = machine_page(qtbot, wizard, model)
    press(qtbot, card.button)
    qtbot.waitUntil(lambda: card.progress.value() == 500, timeout=PATIENCE)
    wizard.go_on()
    assert wizard.flow.view is View.PLAN
    ended(qtbot, wizard, card)


def test_a_failure_is_told_on_the_page(make_wizard, model, qtbot):
    wizard = make_wizard("--fail-calibration", "engine_failed")
    card = machine_page(qtbot, wizard, model)
    press(qtbot, card.button)
    ended(qtbot, wizard, card)
    assert "The script fails every calibration." in wizard.machine_page.banner.text
    assert card.button.isEnabled()


def test_an_engine_that_dies_meanwhile_is_told_and_it_can_be_measured_again(make_wizard, model, qtbot):
    wizard = make_wizard("--crash-on-calibration")
    card = machine_page(qtbot, wizard, model)
    press(qtbot, card.button)
    ended(qtbot, wizard, card)
    assert "The engine was killed" in card.text
    assert card.button.isEnabled()


def test_a_loaded_model_is_not_taken_away_by_measuring(make_wizard, model, qtbot):
    wizard = make_wizard()
    load(qtbot, wizard, model)
    wizard.flow.restart()
    wizard.go_on()
    card = wizard.machine_page.measure
    qtbot.waitUntil(card.isVisible, timeout=PATIENCE)
    assert not card.button.isEnabled()
    assert "A model is loaded" in card.button.toolTip()
