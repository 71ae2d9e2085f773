"""Rehearses the real Setup on a desktop of Windows under Wine, clicked through as a user would.

`python installer/windows/rehearsal.py` does it with what lies in dist/; `make package-windows` does it with what it
made. It is installed into a folder with blanks and Chinese characters, the app answers with the demo model, is updated
while it runs and while it answers, and is removed. Every step is checked by files, the registry, programs and the
windows' words, and leaves a picture.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1] / part) for part in ("checkout", "package")]

import debian
import desktop
import engine_wheel
import freeze
import identity
import nsis
import project
import trial
import wine
from desktop import Desktop, Window, ended
from hands import PROGRAM as KEYS
from hands import until
from rehearsed_app import DEMO, START_SECONDS, WINDOW_PROGRAM, App
from traces import Traces

PACKAGES = ("xvfb", "xdotool", "fonts-droid-fallback", "fonts-wine")
PICTURES = freeze.WORK / "pictures" / "rehearsal"
PARENT = "Programme hier"
FOLDER = rf"C:\{PARENT}\专家 车道"
TITLE, UNINSTALL_TITLE = "Expert Lanes Setup", "Expert Lanes Uninstall"
REGISTERED = r"Software\Microsoft\Windows\CurrentVersion\Uninstall\Expert Lanes"
PROGID = "ExpertLanes.gguf"
QUESTION = "What is the capital of France? Answer in one sentence."
LONG_QUESTION = "Write a long story about a fox."
_INSTALL_SECONDS = 180
_CLOSE_SECONDS = 40


def why_not() -> str:
    """Install what is missing where that is permitted; what still is, in words, or ""."""
    if debian.is_debian_like():
        debian.install(PACKAGES, engine_wheel.package_memory())
    lacking = [program for program in ("Xvfb", KEYS, "wine", "makensis") if shutil.which(program) is None]
    return f"not installed: {', '.join(lacking)}" if lacking else ""


def higher(version: str, by: int) -> str:
    """A version that is newer by some numbers of its third part."""
    major, minor, patch, _ = identity.numbers(version)
    return f"{major}.{minor}.{patch + by}"


class Rehearsal:
    """One rehearsal on one fresh Windows.

    Args:
        shown: The desktop.
        setup: The real Setup.exe.
        version: Its version.
        frozen: The folder that it was made of.
        scratch: Folder for the Setups of later versions.
    """

    def __init__(self, shown: Desktop, setup: Path, version: str, frozen: Path, scratch: Path) -> None:
        self.desktop, self.setup, self.frozen, self._scratch = shown, setup, frozen, scratch
        self.versions = [version, higher(version, 1), higher(version, 2)]
        self.installed = shown.drive / PARENT / FOLDER.rpartition("\\")[2]
        self.menu = shown.user / "AppData/Roaming/Microsoft/Windows/Start Menu/Programs"
        self._count = 0
        self._began = time.monotonic()

    # ---- what all steps need -------------------------------------------------------------------

    def keep(self, name: str) -> None:
        """Keep a picture, and tell of it."""
        self._count += 1
        file = PICTURES / f"{self._count:02} {name}.png"
        self.desktop.hands.keep(file)
        print(f"windows: {time.monotonic() - self._began:4.0f} s, seen: {name}", flush=True)

    def page(self, title: str, saying: str, name: str, seconds: float = desktop.LOOK_SECONDS) -> Window:
        """Wait for a page, until it is drawn, and keep a picture of it."""
        found = self.desktop.window(title, saying, seconds)
        self.desktop.to_front(found)
        stays = self.desktop.hands.stillness(still=0.3, box=found.frame.box)  # the app behind it may be answering
        until(stays, f"the page '{saying}' as it stays", desktop.LOOK_SECONDS)
        self.keep(name)
        return self.desktop.window(title, saying)

    def app(self, version: str) -> App:
        """The app of a version."""
        return App(self.desktop, rf"{FOLDER}\{version}")

    def check(self, told: object, wanted: object, what: str) -> None:
        """A fact must be as it is to be.

        Raises:
            SystemExit: it is not.
        """
        if told != wanted:
            raise SystemExit(f"windows: {what}: {told!r} instead of {wanted!r}")

    def check_laid(self, version: str) -> None:
        """Every file of a version lies where it is to be, and Windows' list of programs tells of it."""
        names = set(nsis.laid_names(self.frozen))
        folder = self.installed / version
        laid = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        self.check(sorted(laid ^ names), [nsis.LIST_NAME], f"files that only one of Setup and {folder.name} has")

    def check_registered(self, version: str, previous: str) -> None:
        """Windows is told of a version, and of the one that is the way back."""
        for name, wanted in (
            ("DisplayVersion", version),
            ("InstallLocation", FOLDER),
            ("Folder", version),
            ("PreviousFolder", previous),
        ):
            self.check(self.desktop.value(REGISTERED, name), wanted, f"{name} in the registry")
        command = self.desktop.value(rf"Software\Classes\{PROGID}\shell\open\command")
        self.check(command, rf'"{FOLDER}\{version}\{WINDOW_PROGRAM}" "%1"', "what opens a .gguf file")
        for shortcut, leads_to in (("Expert Lanes", version), ("Expert Lanes (previous version)", previous)):
            file = self.menu / f"{shortcut}.lnk"
            wanted_path = rf"{FOLDER}\{leads_to}\{WINDOW_PROGRAM}" if leads_to else None
            found = self.desktop.link(file)
            self.check(found and found.casefold(), wanted_path and wanted_path.casefold(), f"where {file.name} leads")

    # ---- the steps -----------------------------------------------------------------------------

    def install(self) -> App:
        """Click through the first installation, with a folder typed and .gguf files ticked; its last page starts it."""
        shown, version = self.desktop, self.versions[0]
        setup = shown.start(self.setup)
        self.page(TITLE, "Choose Components", "setup - components")
        shown.hands.press("Down", "Down", "space")
        page = self.page(TITLE, "Choose Components", "setup - gguf ticked")
        shown.push(page, "Next")
        page = shown.window(TITLE, "Choose Install Location")
        field = page.control("", "Edit")
        if field is None:
            raise SystemExit(f"windows: there is no field for the folder:\n{page.words}")
        shown.fill(field, FOLDER)
        page = self.page(TITLE, FOLDER, "setup - folder")
        shown.push(page, "Install")
        page = self.page(TITLE, f"Version {version} is installed.", "setup - finished", _INSTALL_SECONDS)
        self.check_laid(version)
        self.check_registered(version, "")
        app = self.app(version)
        app.set_temperature(0.0)
        shown.push(page, "Finish")
        self.check(ended(setup, "the Setup", desktop.LOOK_SECONDS), 0, "the Setup's exit code")
        return app

    def first_chat(self, app: App) -> None:
        """The window that the last page started: the demo is built and loaded, and answers."""
        app.wait_for_window()
        self.keep("app - first page")
        app.build_demo()
        self.keep("app - demo built")
        app.load()
        self.keep("app - demo loaded")
        app.begin_chat()
        app.ask(QUESTION)
        self.keep("app - asked")
        answer = app.wait_for_answer()
        print(f"windows: the demo model answered: {answer}", flush=True)
        self.keep("app - answered")

    def self_tests(self, app: App) -> None:
        """The installed programs' own tests, beside the window that runs."""
        folder = self.installed / app.folder.rpartition("\\")[2]
        for program in reversed(nsis.PROGRAMS):
            trial.self_test(folder / program, self.desktop.prefix)

    def open_model(self, app: App) -> None:
        """Open a model file by what .gguf files were offered: the window that runs takes it."""
        file = self.desktop.user / "Documents" / "Mein 模型.gguf"
        os.link(app.data / "models" / DEMO, file)
        before = self.desktop.hands.seen()
        with self._known_to_wine():
            started = self.desktop.run("start", "/progIDOpen", PROGID, self.desktop.name_of(file))
        self.check(started, 0, "the exit code of what opens files")
        line = f"another start hands over {self.desktop.name_of(file)}"
        until(lambda: line in app.log, f"'{line}' in the log", START_SECONDS)
        until(self.desktop.hands.stillness(other_than=before), "the page with the file that was opened", START_SECONDS)
        self.keep("app - opened by its file")
        self.check(len(app.windows()), 1, "windows of the app")
        self.desktop.hands.press("alt+Left")
        file.unlink()

    @contextlib.contextmanager
    def _known_to_wine(self) -> Iterator[None]:
        """Before version 9, Wine looks for what opens a file only among the kinds that all users have."""
        key = rf"Software\Classes\{PROGID}\shell\open\command"
        command = self.desktop.value(key) or ""
        if self.desktop.run("reg", "add", rf"HKLM\{key}", "/ve", "/d", command, "/f") != 0:
            raise SystemExit("windows: what opens a .gguf file could not be told to Wine")
        yield
        self.desktop.run("reg", "delete", rf"HKLM\Software\Classes\{PROGID}", "/f")

    def update(self, setup: Path, to: int, app: App) -> App:
        """Click through the Setup of a later version while the app runs; its last page starts the new one."""
        shown, version, before = self.desktop, self.versions[to], self.versions[to - 1]
        running = shown.start(setup)
        shown.push(self.page(TITLE, "Choose Components", f"update {version} - components"), "Install")
        page = self.page(TITLE, "will be asked to close", f"update {version} - running")
        self.check(bool(app.windows()), True, "the app runs until the user agrees")
        shown.push(page, "OK")
        app.wait_for_end(_CLOSE_SECONDS)
        page = self.page(TITLE, f"Version {version} is installed.", f"update {version} - finished", _INSTALL_SECONDS)
        for laid in (version, before):
            self.check_laid(laid)
        self.check_registered(version, before)
        folders = sorted(path.name for path in self.installed.iterdir())
        self.check(folders, sorted([before, version, "uninstall.exe"]), "what lies in the folder")
        shown.push(page, "Finish")
        self.check(ended(running, "the Setup", desktop.LOOK_SECONDS), 0, "the Setup's exit code")
        later = self.app(version)
        later.wait_for_window()
        return later

    def uninstall(self, app: App) -> None:
        """Click through the uninstaller while the app runs, with nothing ticked."""
        shown = self.desktop
        shown.start(self.installed / "uninstall.exe")
        page = self.page(UNINSTALL_TITLE, FOLDER, "uninstaller - confirm")
        shown.push(page, "Next")
        page = self.page(UNINSTALL_TITLE, "Delete all conversations", "uninstaller - models and conversations")
        ticked = [control.text for control in page.controls if control.checked]
        self.check(ticked, [], "what is ticked without the user")
        shown.push(page, "Uninstall")
        app.wait_for_end(_CLOSE_SECONDS)
        page = self.page(UNINSTALL_TITLE, "Uninstallation Complete", "uninstaller - finished", _INSTALL_SECONDS)
        shown.push(page, "Close")
        self._wait_for_uninstaller()

    def _wait_for_uninstaller(self) -> None:
        """It runs as a copy in the folder for temporary files, and the program that was started ends before it."""

        def has_ended() -> bool:
            return not self.installed.exists() and not any("~nsu" in path for path in self.desktop.look().programs)

        until(has_ended, "the end of the uninstaller", _INSTALL_SECONDS)

    def check_left(self, app: App, before: Traces) -> None:
        """Nothing that was not there before is left but models and conversations."""
        self.desktop.restart()
        left = Traces.of(self.desktop.prefix).since(before)
        print("windows: left after the removal:\n" + "\n".join(left), flush=True)
        data = app.data.relative_to(self.desktop.drive).as_posix()
        theirs = (f"{data}/models/", f"{data}/conversations.")
        ours = [name for name in left if name != f"{data}/" and not name.startswith(theirs)]
        self.check(ours, [], "what is left beside models and conversations")
        self.check(len(app.messages), 4, "messages that are kept")

    def silently(self, before: Traces) -> None:
        """Install and remove without a question, models and conversations too: nothing at all is left."""
        shown = self.desktop
        # The folder is told last and without quotes: every word of it is an argument of its own.
        code = shown.run(self.setup, "/S", *f"/D={FOLDER}".split(" "), seconds=_INSTALL_SECONDS)
        self.check(code, 0, "the silent Setup's exit code")
        self.check_laid(self.versions[0])
        shown.run(self.installed / "uninstall.exe", "/S", "/MODELS=delete", "/CHATS=delete")
        self._wait_for_uninstaller()
        shown.restart()
        self.check(Traces.of(shown.prefix).since(before), [], "what is left after a silent removal with all data")

    def run(self) -> None:
        """All steps, on a Windows that was never used before."""
        (self.desktop.drive / PARENT).mkdir()  # the user's own; folders above its own the Setup leaves where they are
        self.desktop.restart()
        before = Traces.of(self.desktop.prefix)
        app = self.install()
        with Later(lambda: self._make_setup(1)) as second, Later(lambda: self._make_setup(2)) as third:
            self.first_chat(app)
            self.self_tests(app)
            self.open_model(app)
            app = self.update(second.result(), 1, app)
            self.check(app.messages[0].content, QUESTION, "the first question after the update")
            app.load()
            app.begin_chat()
            self.keep("app - the conversation after the update")
            setup = third.result()  # before the answer begins, which must last until the app is asked to close
            app.ask(LONG_QUESTION)
            app.wait_for_words()
            app = self.update(setup, 2, app)
            stopped = app.messages[-1]
            print(f"windows: what is kept of the answer that was stopped: {stopped}", flush=True)
            # Any other state would say that it had ended before the update.
            self.check((stopped.role, stopped.state), ("assistant", "interrupted"), "the last message")
            self.check(bool(stopped.content.strip()), True, "words of it are kept")
            self.keep("app - after the update of an answering one")
        self.uninstall(app)
        self.check_left(app, before)
        self.silently(before)

    def _make_setup(self, to: int) -> Path:
        version = self.versions[to]
        target = self._scratch / f"setup-{version}.exe"
        return nsis.make_setup(self.frozen, version, project.source_date(), target, quick=True)


class Later:
    """Something that is made in a thread of its own while the block goes on.

    Args:
        make: Makes it.
    """

    def __init__(self, make: Callable[[], Path]) -> None:
        self._make = make
        self._made: Path | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self._made = self._make()
        except BaseException as failure:  # of a thread it would be lost: whoever wants the result gets it
            self._failure = failure

    def __enter__(self) -> Later:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def result(self) -> Path:
        """What was made, when it is.

        Raises:
            SystemExit: it could not be made.
        """
        self._thread.join()
        if self._made is None:
            raise SystemExit(f"windows: the Setup of a later version could not be made: {self._failure}")
        return self._made


def rehearse(setup: Path, version: str, frozen: Path, template: Path) -> None:
    """Rehearse a Setup; skipped with its reason where that is not possible here.

    Args:
        setup: The Setup.exe.
        version: Its version.
        frozen: The folder that it was made of.
        template: A Windows with what Wine lacks; a copy of it is used.

    Raises:
        SystemExit: a step did not come to what it is to come to.
    """
    reason = why_not()
    if reason:
        print(f"windows: the Setup was not rehearsed: {reason}")
        return
    shutil.rmtree(PICTURES, ignore_errors=True)
    began = time.monotonic()
    freeze.WORK.mkdir(parents=True, exist_ok=True)
    with desktop.fresh_desktop(template, freeze.WORK) as shown:
        rehearsal = Rehearsal(shown, setup, version, frozen, shown.prefix.parent)
        try:
            rehearsal.run()
        except BaseException:
            rehearsal.keep("failed")
            raise
    print(f"windows: the Setup was rehearsed in {time.monotonic() - began:.0f} s; pictures in {PICTURES}")


def main() -> None:
    """Rehearse what lies in dist/."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    version = str(project.project()["version"])
    setup = nsis.setup_file(version)
    for needed in (setup, freeze.FROZEN, wine.default_prefix()):
        if not needed.exists():
            raise SystemExit(f"windows: {needed} is not there; make package-windows makes it")
    rehearse(setup, version, freeze.FROZEN, wine.default_prefix())


if __name__ == "__main__":
    main()
