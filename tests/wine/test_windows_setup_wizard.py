"""The pages of the Windows installer and of its uninstaller, gone through by keyboard on a screen under Wine."""

import shutil
import subprocess
import threading
import time

import pytest
from windows_setups import files_below, shortcut_leads_to, until

PROGID = r"HKCU\Software\Classes\ExpertLanes.gguf"
TRIES = 3
PATIENCE_SECONDS = 5


def _comes_true(condition):
    """True as soon as it does, within some seconds."""
    end, pause = time.monotonic() + PATIENCE_SECONDS, threading.Event()
    while not condition():
        if time.monotonic() > end:
            return False
        pause.wait(0.05)
    return True


class Screen:
    """The whole screen: keys are sent to the window in front; pictures are kept in `folder`."""

    def __init__(self, display, folder):
        self._settings = {"DISPLAY": display, "PATH": "/usr/local/bin:/usr/bin:/bin"}
        self._folder = folder
        self._before = b""
        self._count = 0

    def _do(self, *command):
        return subprocess.run(command, env=self._settings, capture_output=True, timeout=20, check=False).stdout

    def wait_for_window(self, title, count=1):
        """Wait until so many windows of a title are there, and give the one in front the keyboard."""

        def windows():
            return self._do("xdotool", "search", "--onlyvisible", "--name", title).split()

        until(lambda: len(windows()) == count, f"{count} windows {title}")
        self._do("xdotool", "windowfocus", "--sync", windows()[-1].decode())

    def press(self, *keys):
        """Press keys, one after another."""
        for key in keys:
            self._do("xdotool", "key", key)

    def turn_to(self, name, *keys):
        """Press keys and wait for the page that they lead to. A window may miss keys while it gets the keyboard."""
        for _ in range(TRIES):
            self.press(*keys)
            if _comes_true(lambda: self._picture() != self._before):
                break
        self.wait_for_page(name)

    def press_until(self, condition, what, *keys):
        """Press keys, more than once if they were missed, until `condition()` is true."""
        for _ in range(TRIES):
            self.press(*keys)
            if _comes_true(condition):
                return
        until(condition, what)

    def wait_for_page(self, name):
        """Wait for another picture than the last page's that stays as it is, and keep it."""
        seen = [self._picture()]

        def still():
            seen.append(self._picture())
            return seen[-1] == seen[-2] and seen[-1] != self._before

        until(still, f"page {name}")
        self._before = seen[-1]
        self._count += 1
        (self._folder / f"{self._count} {name}.png").write_bytes(self._before)

    def _picture(self):
        # Without the time, which the file would tell besides.
        return self._do("import", "-window", "root", "-depth", "8", "-define", "png:exclude-chunks=date,tIME", "png:-")


@pytest.fixture
def screen(windows, display, tmp_path):
    for program in ("xdotool", "import"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed.")
    return Screen(display, tmp_path)


def test_the_wizard_installs_with_the_parts_that_were_ticked_and_starts_the_app(windows, setups, screen, tmp_path):
    told = tmp_path / "told.txt"
    with windows.running(setups["0.1.0"], TOLD=windows.name_of(told)):
        screen.wait_for_window("Expert Lanes Setup")
        screen.wait_for_page("parts")
        screen.turn_to("gguf chosen", "Down", "Down")
        screen.turn_to("gguf ticked", "space")
        screen.turn_to("folder", "Return")
        screen.press("Return")
        until(lambda: "Expert Lanes|DisplayVersion" in windows.registered(), "installed")
        screen.wait_for_page("finished")
        screen.press_until(told.is_file, "the app was started", "Return")
        (tmp_path / "told.txt.end").touch()
    until(lambda: told.read_text("utf-8").splitlines() == ["opened", "ended"], "the app was started and has ended")
    assert shortcut_leads_to(windows.menu / "Expert Lanes.lnk", "0.1.0", "expert-lanes-window.exe")
    assert not (windows.desktop / "Expert Lanes.lnk").exists()
    assert "command|" in windows.registered(PROGID)


def test_the_wizard_asks_before_it_has_a_running_app_close_and_updates_where_it_is(windows, setups, screen, run_app):
    assert windows.install(setups["0.1.0"]) == 0
    app = run_app(windows.installed / "0.1.0" / "expert-lanes-window.exe")
    with windows.running(setups["0.2.0"]) as setup:
        screen.wait_for_window("Expert Lanes Setup")
        screen.wait_for_page("parts")
        screen.press("Return")
        screen.wait_for_window("Expert Lanes Setup", 2)
        screen.wait_for_page("running")
        assert app.told == ["opened"]
        assert not (windows.installed / "0.2.0").exists()
        screen.press("Return")
        until(lambda: windows.registered().get("Expert Lanes|DisplayVersion") == "0.2.0", "updated")
        screen.wait_for_page("finished")
        screen.wait_for_window("Expert Lanes Setup")
        screen.turn_to("not to be started", "space")
        screen.press_until(lambda: setup.poll() is not None, "the wizard has ended", "Return")
    app.end()
    assert app.told == ["opened", "asked", "ended"]
    assert {path.name for path in windows.installed.iterdir()} == {"0.1.0", "0.2.0", "uninstall.exe"}


def test_the_uninstaller_shows_how_large_models_and_conversations_are_and_deletes_what_was_ticked(
    windows, setups, screen
):
    assert windows.install(setups["0.1.0"]) == 0
    for name, size in (("models/m.gguf", 3_500_000), ("conversations.db", 70_000), ("Logs/window.log", 10)):
        (windows.data / name).parent.mkdir(parents=True, exist_ok=True)
        (windows.data / name).write_bytes(bytes(size))
    with windows.running(windows.installed / "uninstall.exe"):
        screen.wait_for_window("Expert Lanes Uninstall")
        screen.wait_for_page("confirm")
        screen.turn_to("data", "Return")
        screen.turn_to("models ticked", "space")
        screen.press("Return")
        until(lambda: not windows.installed.exists(), "uninstalled")
        screen.wait_for_page("removed")
        screen.press("Return")
    assert files_below(windows.data) == {"conversations.db"}
