"""The pages of the Windows installer and of its uninstaller, gone through by keyboard on a screen under Wine."""

import shutil

import pytest
from hands import PROGRAM, Hands, until_or_not
from windows_setups import LIMIT_SECONDS, files_below, shortcut_leads_to, until

PROGID = r"HKCU\Software\Classes\ExpertLanes.gguf"
TRIES = 3
PATIENCE_SECONDS = 5
STILL_SECONDS = 0.2


class Pages:
    """The pages that are gone through: keys go to the window in front; pictures are kept in `folder`."""

    def __init__(self, hands, folder):
        self._hands = hands
        self._folder = folder
        self._before = b""
        self._count = 0

    def wait_for_window(self, title, count=1):
        """Wait until so many windows of a title are there, and give the one in front the keyboard."""

        def windows():
            return self._hands.do("search", "--onlyvisible", "--name", title).split()

        until(lambda: len(windows()) == count, f"{count} windows {title}")
        self._hands.do("windowfocus", "--sync", windows()[-1])

    def leave(self, title):
        """Leave the last page, and wait until no window of that title is there: only then another one may begin."""

        def gone():
            return not self._hands.do("search", "--onlyvisible", "--name", title).split()

        self.press_until(gone, f"{title} has ended", "Return")

    def press(self, *keys):
        """Press keys, one after another."""
        self._hands.press(*keys)

    def turn_to(self, name, *keys):
        """Press keys and wait for the page that they lead to. A window may miss keys while it gets the keyboard."""
        for _ in range(TRIES):
            self._hands.press(*keys)
            if until_or_not(lambda: self._hands.seen() != self._before, PATIENCE_SECONDS):
                break
        self.wait_for_page(name)

    def press_until(self, condition, what, *keys):
        """Press keys, more than once if they were missed, until `condition()` is true."""
        for _ in range(TRIES):
            self._hands.press(*keys)
            if until_or_not(condition, PATIENCE_SECONDS):
                return
        until(condition, what)

    def wait_for_page(self, name):
        """Wait for another picture than the last page's that stays as it is, and keep it."""
        stays = self._hands.stillness(other_than=self._before, still=STILL_SECONDS)
        self._before = until_or_not(stays, LIMIT_SECONDS)
        assert self._before, f"after {LIMIT_SECONDS} s still not: page {name}"
        self._count += 1
        self._hands.keep(self._folder / f"{self._count} {name}.png")


@pytest.fixture
def pages(shown, tmp_path):
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"{PROGRAM} is not installed.")
    return Pages(Hands(shown), tmp_path)


def test_the_wizard_installs_with_the_parts_that_were_ticked_and_starts_the_app(windows, setups, pages, tmp_path):
    told = tmp_path / "told.txt"
    with windows.running(setups["0.1.0"], TOLD=windows.name_of(told)):
        pages.wait_for_window("Expert Lanes Setup")
        pages.wait_for_page("parts")
        pages.turn_to("gguf chosen", "Down", "Down")
        pages.turn_to("gguf ticked", "space")
        pages.turn_to("folder", "Return")
        pages.press("Return")
        until(lambda: "Expert Lanes|DisplayVersion" in windows.registered(), "installed")
        pages.wait_for_page("finished")
        pages.press_until(told.is_file, "the app was started", "Return")
        (tmp_path / "told.txt.end").touch()
    until(lambda: told.read_text("utf-8").splitlines() == ["opened", "ended"], "the app was started and has ended")
    assert shortcut_leads_to(windows.menu / "Expert Lanes.lnk", "0.1.0", "expert-lanes-window.exe")
    assert not (windows.desktop / "Expert Lanes.lnk").exists()
    assert "command|" in windows.registered(PROGID)


def test_the_wizard_asks_before_it_has_a_running_app_close_and_updates_where_it_is(windows, setups, pages, run_app):
    assert windows.install(setups["0.1.0"]) == 0
    app = run_app(windows.installed / "0.1.0" / "expert-lanes-window.exe")
    with windows.running(setups["0.2.0"]) as setup:
        pages.wait_for_window("Expert Lanes Setup")
        pages.wait_for_page("parts")
        pages.press("Return")
        pages.wait_for_window("Expert Lanes Setup", 2)
        pages.wait_for_page("running")
        assert app.told == ["opened"]
        assert not (windows.installed / "0.2.0").exists()
        pages.press("Return")
        until(lambda: windows.registered().get("Expert Lanes|DisplayVersion") == "0.2.0", "updated")
        pages.wait_for_page("finished")
        pages.wait_for_window("Expert Lanes Setup")
        pages.turn_to("not to be started", "space")
        pages.press_until(lambda: setup.poll() is not None, "the wizard has ended", "Return")
    app.end()
    assert app.told == ["opened", "asked", "ended"]
    assert {path.name for path in windows.installed.iterdir()} == {"0.1.0", "0.2.0", "uninstall.exe"}


def uninstall_with_the_first_box_ticked(windows, pages, name):
    """Go through the uninstaller; `name` is what the first box of its page about data is for."""
    with windows.running(windows.installed / "uninstall.exe"):
        pages.wait_for_window("Expert Lanes Uninstall")
        pages.wait_for_page("confirm")
        pages.turn_to("data", "Return")
        pages.turn_to(f"{name} ticked", "space")
        pages.press("Return")
        until(lambda: not windows.installed.exists(), "uninstalled")
        pages.wait_for_page("removed")
        pages.leave("Expert Lanes Uninstall")


def test_the_uninstaller_shows_how_large_models_and_conversations_are_and_deletes_what_was_ticked(
    windows, setups, pages
):
    assert windows.install(setups["0.1.0"]) == 0
    for name, size in (("models/m.gguf", 3_500_000), ("conversations.db", 70_000), ("Logs/window.log", 10)):
        (windows.data / name).parent.mkdir(parents=True, exist_ok=True)
        (windows.data / name).write_bytes(bytes(size))
    uninstall_with_the_first_box_ticked(windows, pages, "models")
    assert files_below(windows.data) == {"conversations.db"}


def test_the_uninstaller_asks_only_about_what_there_is(windows, setups, pages):
    assert windows.install(setups["0.1.0"]) == 0
    (windows.data / "models").mkdir(parents=True)
    (windows.data / "conversations.db").write_bytes(bytes(70_000))
    uninstall_with_the_first_box_ticked(windows, pages, "conversations")  # there are no models
    assert not windows.data.exists()
    # Its window is gone a moment before it is.
    until(lambda: windows.install(setups["0.1.0"]) == 0, "installed once more")
    (windows.data / "models").mkdir(parents=True)
    with windows.running(windows.installed / "uninstall.exe"):
        pages.wait_for_window("Expert Lanes Uninstall")
        pages.wait_for_page("confirm")
        # With neither there is no page between.
        pages.press_until(lambda: not windows.installed.exists(), "uninstalled", "Return")
        pages.wait_for_page("removed")
        pages.leave("Expert Lanes Uninstall")
    assert not windows.data.exists()
