"""What the page of knobs refuses: why, with which offer, and which knobs cannot be turned at all."""

import threading

import msgspec
import pytest
from controller_driver import until
from knobs_driver import POOL, box_of, choose, load, page_over, press, settled, typed, value
from ui_factories import GIB, make_facts, make_machine

from app.errors import AppError, ErrorCode
from app.hardware.facts import Ram
from app.ui.tuning import forecast
from app.ui.tuning.knob_values import LIVE


@pytest.fixture
def make_page(theme, qtbot):
    return lambda controller, **size: page_over(controller, theme, qtbot, **size)


@pytest.fixture
def loaded(make_controller, qtbot):
    """A controller whose model is loaded with its experts on the CPU and a pool."""
    return lambda *arguments, facts=None, **wishes: load(make_controller(*arguments, facts=facts), qtbot, **wishes)


@pytest.fixture
def chosen(make_controller, qtbot):
    """A controller whose model is chosen and planned, not loaded."""
    return lambda *arguments, facts=None, machine=None, **wishes: choose(
        make_controller(*arguments, facts=facts, machine=machine), qtbot, **wishes
    )


def test_a_context_that_does_not_fit_is_refused_and_the_longest_that_does_is_one_press_away(chosen, make_page, qtbot):
    machine = make_machine(False, ram=Ram(total_bytes=16 * GIB, available_bytes=3 * GIB))
    facts = make_facts(layers=8, experts=16, context_length=1048576)
    page = make_page(chosen("--no-gpu", facts=facts, machine=machine, pool_bytes=0))
    row = page.rows["n_ctx"]
    typed(page, "n_ctx", "1048576", qtbot)
    assert value(page, "n_ctx") == 8192
    assert "Not 1,048,576: Main memory would need" in row.text
    assert row.editor.value == 8192
    assert row.offer_button.isVisibleTo(page)
    assert "Main memory" in row.editor.widget.accessibleDescription()
    press(page, row.offer_button, qtbot)
    assert value(page, "n_ctx") > 8192
    assert "Not 1,048,576" not in row.text
    assert not row.offer_button.isVisibleTo(page)


def test_a_pool_without_room_is_refused_with_the_largest_there_is(loaded, make_page, qtbot):
    page = make_page(loaded(facts=make_facts(layers=8, experts=512, expert_mib=4)))
    row = page.rows["pool_bytes"]
    typed(page, "pool_bytes", "16000", qtbot)
    assert value(page, "pool_bytes") == POOL
    assert "Not 15.6 GiB: The pool can have" in row.text
    press(page, row.offer_button, qtbot)
    assert value(page, "pool_bytes") > 4 * GIB


def test_knobs_that_cannot_be_turned_say_why(chosen, make_page, qtbot):
    page = make_page(chosen("--no-gpu", pool_bytes=0))
    for key in LIVE:
        assert not box_of(page, key).isEnabled(), key
    assert "Without a GPU there is no pool." in page.rows["kind"].text
    assert "needs a GPU" in page.rows["pool_bytes"].text


def test_what_cannot_be_predicted_says_why_and_does_not_keep_the_next_plan_waiting(
    chosen, make_page, qtbot, monkeypatch
):
    page = make_page(chosen())
    controller, real = page._controller, forecast.consequences
    begun, go_on = threading.Event(), threading.Event()

    def impossible(_situation, _before):
        begun.set()
        assert go_on.wait(10)
        raise AppError(ErrorCode.BAD_USAGE, "No law of speed knows this.")

    monkeypatch.setattr(forecast, "consequences", impossible)
    go_on.set()
    controller.set_plan(msgspec.structs.replace(controller.plan, threads=1))
    until(qtbot, lambda: page._outlook.text() == "Nothing can be predicted: No law of speed knows this.")
    begun.clear()
    go_on.clear()
    controller.set_plan(msgspec.structs.replace(controller.plan, threads=2))
    until(qtbot, begun.is_set)
    monkeypatch.setattr(forecast, "consequences", real)
    controller.set_plan(msgspec.structs.replace(controller.plan, threads=3))
    until(qtbot, lambda: not page.forecast._still.isActive())  # it was asked while the last one was computed
    go_on.set()
    settled(page, qtbot)
    assert "tokens/s" in page._outlook.text()


def test_an_error_that_nobody_expected_is_told_and_the_next_plan_is_predicted(chosen, make_page, qtbot, monkeypatch):
    page = make_page(chosen())
    controller, real = page._controller, forecast.consequences

    def fails(_situation, _before):
        raise ZeroDivisionError("no such share")

    monkeypatch.setattr(forecast, "consequences", fails)
    with qtbot.captureExceptions() as caught:
        controller.set_plan(msgspec.structs.replace(controller.plan, threads=1))
        until(qtbot, lambda: bool(caught))
    assert "no such share" in page._outlook.text()
    monkeypatch.setattr(forecast, "consequences", real)
    controller.set_plan(msgspec.structs.replace(controller.plan, threads=2))
    settled(page, qtbot)
    assert "tokens/s" in page._outlook.text()
