"""The daily look for updates: only where it was chosen, and no louder than what the user asked for."""

import pytest
from played_releases import DEB, FEED_URL, SOURCE, make_release, serving
from updates_driver import PATIENCE, desks

from app.errors import AppError, ErrorCode
from app.ui.settings import DAILY, UPDATE_CHECK
from app.ui.updates import LOOK_AFTER_MILLISECONDS, Step, Updates
from app.updates.check import seen_record


@pytest.fixture
def desk(qtbot, settings):
    with desks(qtbot, settings) as make:
        yield make


def wait_a_day(updates, qtbot):
    """Have the clock strike."""
    updates._look_if_due()
    qtbot.waitUntil(lambda: not updates.busy and not updates._background.busy, timeout=PATIENCE)


def test_unless_it_was_chosen_nothing_is_looked_for_daily(desk, qtbot):
    made = desk()
    assert made.updates._clock.interval() == LOOK_AFTER_MILLISECONDS
    wait_a_day(made.updates, qtbot)
    assert made.transport.asked == []


def test_where_it_was_chosen_a_newer_version_is_told_once_a_day(desk, qtbot, settings):
    settings.set(UPDATE_CHECK, DAILY)
    made = desk()
    with qtbot.waitSignal(made.updates.newer_found, timeout=PATIENCE) as told:
        made.updates._look_if_due()
    assert told.args == ["0.2.0"]
    asked = len(made.transport.asked)
    made.updates._step = Step.IDLE
    with qtbot.assertNotEmitted(made.updates.changed):
        wait_a_day(made.updates, qtbot)
    assert len(made.transport.asked) == asked, "not again on the same day"
    assert made.updates.step is Step.IDLE


def test_an_hour_in_which_no_check_is_due_leaves_what_was_told(desk, qtbot, settings):
    settings.set(UPDATE_CHECK, DAILY)
    transport = serving(make_release("0.1.0"))
    made = desk(transport)
    made.check()
    transport.pages[FEED_URL] = AppError(ErrorCode.NO_NETWORK, "No route.")
    made.check()
    wait_a_day(made.updates, qtbot)
    assert not made.panel.banner.isHidden()
    assert "No route." in made.panel.banner.text


def test_what_the_user_began_meanwhile_counts_for_more_than_the_daily_look(desk, qtbot, settings):
    settings.set(UPDATE_CHECK, DAILY)
    made = desk()
    made.updates._look_if_due()
    made.updates.check()
    qtbot.waitUntil(lambda: not made.updates.busy and not made.updates._background.busy, timeout=PATIENCE)
    assert len(made.transport.asked) == 2, "feed and signature, once"


def test_a_record_that_cannot_be_read_is_told_by_the_daily_look(desk, qtbot, settings):
    settings.set(UPDATE_CHECK, DAILY)
    path = seen_record().path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{")
    made = desk()
    wait_a_day(made.updates, qtbot)
    assert made.updates.error.code is ErrorCode.FILE_UNREADABLE
    assert made.transport.asked == []


def test_a_daily_check_without_a_network_is_no_news_and_other_failures_are(desk, qtbot, settings):
    settings.set(UPDATE_CHECK, DAILY)
    transport = serving(make_release())
    page = transport.pages[FEED_URL]
    transport.pages[FEED_URL] = AppError(ErrorCode.NO_NETWORK, "No route.")
    made = desk(transport)
    wait_a_day(made.updates, qtbot)
    assert made.updates.error is None
    transport.pages[FEED_URL] = page.replace(b"0.2.0", b"9.2.0")
    wait_a_day(made.updates, qtbot)
    assert made.updates.error.code is ErrorCode.UPDATE_UNTRUSTED


def test_the_window_tells_a_newer_version_and_shows_it_in_the_settings(make_controller, qtbot, theme, settings):
    from window_driver import PlainWizard

    from app.ui.main_window import MainWindow

    updates = Updates(settings, source=SOURCE, transport=lambda: serving(make_release()), installed=lambda: DEB)
    window = MainWindow(make_controller(), theme, settings, PlainWizard(), updates=updates)
    qtbot.addWidget(window)
    window.show()
    updates.newer_found.emit("0.2.0")
    assert "Version 0.2.0 is published" in window.statusBar().currentMessage()
    window.close()
    assert not updates._clock.isActive()
