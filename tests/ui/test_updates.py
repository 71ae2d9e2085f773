"""Updates in the window: nothing unasked, every state in words, every button one that works."""

import importlib.metadata

import pytest
from played_releases import CONTENT, FEED_URL, OTHER_KEY, SETUP, make_file, make_release, serving
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMessageBox, QPushButton, QWidget
from updates_driver import PATIENCE, desks

from app.errors import AppError, ErrorCode
from app.ui.settings import UPDATE_CHECK
from app.ui.settings_dialog import SettingsDialog
from app.ui.updates import Step, Updates
from app.updates.installation import Installation

PACKAGE = "https://releases.test/feed/expert-lanes_0.2.0_amd64.deb"


@pytest.fixture
def desk(qtbot, settings):
    with desks(qtbot, settings) as make:
        yield make


def test_a_build_that_knows_no_releases_says_so_and_has_no_button(qtbot, settings):
    updates = Updates(settings)
    dialog = SettingsDialog(settings, updates=updates)
    qtbot.addWidget(dialog)
    assert "This build does not know where releases are published." in dialog.updates.status.text()
    assert dialog.updates.findChildren(QPushButton) == []
    assert dialog.findChild(QWidget, UPDATE_CHECK.key) is None
    updates.check()
    updates.fetch()
    updates.open_file()
    assert updates.step is Step.IDLE


def test_at_first_nothing_is_asked_and_only_the_check_is_offered(desk):
    made = desk()
    assert made.panel.status.text() == "Version 0.1.0 is installed."
    assert made.shown() == ["Check for updates"]
    assert made.transport.asked == []


def test_a_check_finds_a_newer_version_with_what_is_new_and_its_size(desk):
    made = desk()
    made.check()
    assert made.updates.step is Step.FOUND
    assert "Version 0.2.0 of" in made.panel.status.text()
    assert made.panel.notes.toPlainText() == "Faster."
    assert made.shown() == ["Download (1.0 MiB)", "Check for updates"]


def test_the_newest_version_is_told_to_be_that(desk):
    made = desk(serving(make_release("0.1.0")))
    made.check()
    assert made.panel.status.text() == "Version 0.1.0 is the newest."
    assert made.shown() == ["Check for updates"]


@pytest.mark.parametrize(
    ("installed", "words"),
    [(SETUP, "no file for this kind"), (Installation("0.1.0", "linux-x86_64", ""), "runs from its source")],
)
def test_a_release_without_a_file_for_this_installation_offers_no_download(desk, installed, words):
    made = desk(installed=installed)
    made.check()
    assert words in made.panel.status.text()
    assert made.shown() == ["Check for updates"]


def test_a_failed_check_is_told_with_what_to_do_and_can_be_repeated(desk):
    transport = serving(make_release())
    page = transport.pages[FEED_URL]
    transport.pages[FEED_URL] = AppError(ErrorCode.NO_NETWORK, "No route.")
    made = desk(transport)
    made.check()
    assert "No route." in made.panel.banner.text
    assert "Check the connection" in made.panel.banner.text
    transport.pages[FEED_URL] = page
    made.check()
    assert made.panel.banner.isHidden()
    assert made.updates.step is Step.FOUND


def test_a_feed_of_someone_else_is_told_not_to_be_trusted(desk):
    made = desk(serving(make_release(), key=OTHER_KEY))
    made.check()
    assert "not signed by the makers" in made.panel.banner.text
    assert "Do not install it." in made.panel.banner.text
    assert made.shown() == ["Check for updates"]


def test_a_download_is_proved_and_then_offered_with_the_way_back(desk):
    made = desk()
    made.check()
    made.fetch()
    assert made.updates.step is Step.READY
    assert made.updates.path.read_bytes() == CONTENT
    assert "genuine" in made.panel.status.text()
    assert "Nothing is installed yet." in made.panel.status.text()
    assert "To go back" in made.panel.way_back.text()
    assert made.shown() == ["Install…", "Show the file", "Check for updates"]
    assert made.opened == []


def test_a_file_that_is_not_the_one_of_the_feed_is_never_offered(desk):
    transport = serving(make_release())
    transport.pages[PACKAGE] = bytes(len(CONTENT))
    made = desk(transport)
    made.check()
    made.fetch()
    assert made.updates.step is Step.FOUND
    assert made.updates.path is None
    assert "Do not install it." in made.panel.banner.text


def test_a_download_is_cancelled_and_gone_on_with(desk, qtbot):
    transport = serving(make_release())
    made = desk(transport)
    made.check()
    open_page = transport.open

    def open_and_cancel(url, start=0):
        made.updates.cancel()
        return open_page(url, start)

    transport.open = open_and_cancel
    made.fetch()
    assert made.updates.step is Step.FOUND
    assert made.panel.banner.isHidden(), "what the user wanted is no problem"
    transport.open = open_page
    made.fetch()
    assert made.updates.step is Step.READY


def test_after_a_break_the_download_goes_on(desk):
    transport = serving(make_release())
    made = desk(transport)
    made.check()
    transport.fails_after = 300_000
    made.fetch()
    assert "The connection ended." in made.panel.banner.text
    transport.fails_after = None
    made.fetch()
    assert transport.asked[-1] == (PACKAGE, 300_000)
    assert made.updates.step is Step.READY


def press_in_box(monkeypatch, role):
    told = []

    def answer(box):
        told.append(box.informativeText())
        button = next(b for b in box.buttons() if box.buttonRole(b) is role)
        monkeypatch.setattr(QMessageBox, "clickedButton", lambda _box: button)
        return 0

    monkeypatch.setattr(QMessageBox, "exec", answer)
    return told


def test_it_is_opened_only_after_a_yes(desk, monkeypatch, qtbot):
    made = desk()
    made.check()
    made.fetch()
    told = press_in_box(monkeypatch, QMessageBox.ButtonRole.RejectRole)
    qtbot.mouseClick(made.panel.open_button, Qt.MouseButton.LeftButton)
    assert "To go back" in told[0]
    assert made.updates.step is Step.READY
    assert made.opened == []
    press_in_box(monkeypatch, QMessageBox.ButtonRole.AcceptRole)
    qtbot.mouseClick(made.panel.open_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: bool(made.opened), timeout=PATIENCE)
    assert made.opened == [made.updates.path.as_posix()]


def test_a_file_changed_meanwhile_is_not_opened(desk, qtbot):
    made = desk()
    made.check()
    made.fetch()
    made.updates.path.write_bytes(b"something else")
    made.updates.open_file()
    qtbot.waitUntil(lambda: not made.updates.busy, timeout=PATIENCE)
    assert made.opened == []
    assert made.updates.step is Step.FOUND
    assert "was changed after it came" in made.panel.banner.text


@pytest.mark.parametrize("kind", ["tar.xz", "appimage"])
def test_what_no_installer_takes_is_only_shown_in_its_folder(desk, qtbot, kind):
    installed = Installation("0.1.0", "linux-x86_64", kind)
    made = desk(serving(make_release(files=[make_file(kind=kind)])), installed)
    made.check()
    made.fetch()
    assert made.shown() == ["Show the file", "Check for updates"]
    assert "to go back" in made.panel.way_back.text()
    qtbot.mouseClick(made.panel.folder_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: bool(made.opened), timeout=PATIENCE)
    assert made.opened == [made.updates.path.parent.as_posix()]


def test_the_windows_setup_is_told_to_keep_the_version_before(desk):
    release = make_release(files=[make_file(platform="windows-x86_64", kind="setup", name="setup.exe")])
    made = desk(serving(release), SETUP)
    made.check()
    made.fetch()
    assert "0.1.0 stays" in made.panel.way_back.text()


def test_everything_can_be_done_with_the_keyboard(desk, qtbot):
    made = desk()
    made.panel.check_button.setFocus()
    QTest.keyClick(made.panel.check_button, Qt.Key.Key_Return)
    made.until(Step.FOUND)
    assert made.panel.fetch_button.hasFocus(), "the keyboard is on what comes next"
    QTest.keyClick(made.panel.fetch_button, Qt.Key.Key_Return)
    made.until(Step.READY)
    assert made.panel.open_button.hasFocus()
    assert made.dialog.isVisible(), "Enter closed nothing"


def test_enter_in_another_box_looks_for_nothing(desk, qtbot):
    made = desk()
    box = made.dialog.findChild(QWidget, "max_tokens")
    box.setFocus()
    QTest.keyClick(box, Qt.Key.Key_Return)
    assert made.transport.asked == []


def test_everything_has_a_name_for_a_screen_reader(desk):
    made = desk()
    made.check()
    assert made.panel.notes.accessibleName()
    assert made.panel.progress.accessibleName()
    assert all(button.text() for button in made.panel.findChildren(QPushButton))
    assert made.dialog.editor(UPDATE_CHECK).accessibleName()


def test_an_unexpected_failure_leaves_nothing_running_for_ever(desk, qtbot):
    made = desk()
    made.transport.open = lambda _url, _start=0: 1 / 0
    with qtbot.captureExceptions() as raised:
        made.updates.check()
        qtbot.waitUntil(lambda: not made.updates.busy, timeout=PATIENCE)
    assert [kind for kind, *_ in raised] == [ZeroDivisionError]
    assert made.updates.step is Step.IDLE


def test_the_installed_version_is_that_of_the_package(qtbot, settings):
    updates = Updates(settings)
    assert updates.installation().version == importlib.metadata.version("expert-lanes")


def test_the_dialog_grows_with_what_it_has_to_say_and_scrolls_where_the_screen_ends(desk, qtbot):
    made = desk()
    before = made.dialog.height()
    made.check()
    qtbot.waitUntil(lambda: made.dialog.height() > before, timeout=PATIENCE)
    notes, buttons = made.panel.notes.geometry(), made.panel.fetch_button.geometry()
    assert notes.bottom() < buttons.top(), "nothing lies over something else"
    assert made.dialog.height() <= made.dialog.screen().availableGeometry().height()
    assert made.dialog._rows.lacking() <= 0
