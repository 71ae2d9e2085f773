"""A desktop of Windows under Wine on a screen of memory, for the rehearsal: what is on it, and hands for it.

Wine draws a desktop of its own there, with frames around windows; one program in it, desktop_reader.c, tells what
stands in the windows, so that every step is checked by what a user would read.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mingw
import screen
import wine
from hands import Hands, until
from project import NAME

HERE = Path(__file__).resolve().parent
LOOK_SECONDS = 60
"""How long a window that is to come may take."""
_FONTS = (
    "/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf",
    *(f"/usr/share/wine/fonts/{name}.ttf" for name in ("tahoma", "tahomabd", "marlett")),
)
"""Letters of other scripts, those of windows, and the signs on their buttons: else pictures show squares."""


@dataclass(frozen=True)
class Control:
    """A part of a window, or the window itself.

    Attributes:
        handle: Windows' number of it.
        kind: Its class, such as "Button".
        text: What stands in it, without the marks of shortcuts.
        box: Left, upper, right and lower edge in pixels of the screen.
        enabled: False for what is grey.
        checked: True for a box with a tick.
    """

    handle: int
    kind: str
    text: str
    box: tuple[int, int, int, int]
    enabled: bool
    checked: bool


@dataclass(frozen=True)
class Window:
    """A visible window.

    Attributes:
        frame: The window itself; its text is its title.
        program: Path of its program, as Windows writes it.
        controls: What is visible in it.
    """

    frame: Control
    program: str
    controls: tuple[Control, ...]

    @property
    def words(self) -> str:
        """Everything that can be read in it, a line for each part."""
        return "\n".join(control.text for control in (self.frame, *self.controls) if control.text)

    def control(self, text: str, kind: str = "Button") -> Control | None:
        """The part of a kind whose text begins so, if there is one that can be used."""
        for control in self.controls:
            if control.kind == kind and control.enabled and control.text.startswith(text):
                return control
        return None


@dataclass(frozen=True)
class Look:
    """What was on the desktop at one moment.

    Attributes:
        windows: The visible ones, from the front to the back.
        programs: Paths of all programs that ran, as Windows writes them.
    """

    windows: tuple[Window, ...]
    programs: tuple[str, ...]


def read_look(lines: list[str]) -> Look:
    """What the reader told in lines of JSON."""
    windows: dict[int, tuple[Control, str, list[Control]]] = {}
    programs = []
    for told in map(json.loads, lines):
        if told["kind"] == "program":
            programs.append(str(told["program"]))
        elif told["kind"] == "window":
            windows[told["handle"]] = (_control(told), str(told["program"]), [])
        elif told["top"] in windows:
            windows[told["top"]][2].append(_control(told))
    found = tuple(Window(frame, program, tuple(controls)) for frame, program, controls in windows.values())
    return Look(found, tuple(programs))


def _control(told: dict[str, Any]) -> Control:
    left, upper, right, lower = told["box"]
    text = str(told["text"]).replace("&&", "\0").replace("&", "").replace("\0", "&")
    return Control(told["handle"], told["class"], text, (left, upper, right, lower), told["enabled"], told["checked"])


class Desktop:
    """A Windows with a desktop.

    Attributes:
        prefix: Folder of that Windows.
        drive: Its drive C.
        user: The user's own folder.
        hands: Keyboard, mouse and pictures.

    Args:
        prefix: Folder of that Windows.
        home: Folder that takes the place of this user's own.
        hands: Those of the screen that it is shown on.
    """

    def __init__(self, prefix: Path, home: Path, hands: Hands) -> None:
        self.prefix, self.hands = prefix, hands
        self.drive = prefix / "drive_c"
        (self.user,) = (user for user in (self.drive / "users").iterdir() if user.name != "Public")
        self._settings = wine.environment(prefix, home) | {"DISPLAY": hands.screen.display}
        # Without the part of Wine that puts shortcuts onto this system's own desktop too.
        self._settings["WINEDLLOVERRIDES"] += ";winemenubuilder.exe="
        self._reader: subprocess.Popen[bytes] | None = None

    # ---- programs ------------------------------------------------------------------------------

    def name_of(self, path: Path) -> str:
        """A path as programs there see it."""
        if path.is_relative_to(self.drive):
            return "C:\\" + str(path.relative_to(self.drive)).replace("/", "\\")
        return wine.windows_path(path)

    def start(self, program: Path | str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a program; the name of one of Windows' own is found by Wine.

        It has one processor: later Setups are made meanwhile, and the app has to answer beside that.
        """
        name = self.name_of(program) if isinstance(program, Path) else program
        return subprocess.Popen(
            wine.on_one_processor(["wine", name, *arguments]),
            env=self._settings,
            cwd=self.prefix,
            stdin=subprocess.PIPE,  # without pipes programs end at once under some releases of Wine
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def run(self, program: Path | str, *arguments: str, seconds: float = LOOK_SECONDS) -> int:
        """Run a program to its end; its exit code."""
        return ended(self.start(program, *arguments), str(program), seconds)

    def flush(self) -> None:
        """End this Windows, so that its registry is written to its files; it starts anew with the next program."""
        if self._reader is not None:
            self._reader.communicate()
            self._reader = None
        for how in ("--kill", "--wait"):
            subprocess.run(["wineserver", how], env=self._settings, check=False, timeout=LOOK_SECONDS)

    def restart(self) -> None:
        """Start this Windows once more and end it: what waits for the next start to be deleted is."""
        self.flush()
        self.look()
        self.flush()

    # ---- looking -------------------------------------------------------------------------------

    def look(self) -> Look:
        """What is on the desktop now.

        Raises:
            SystemExit: the reader has ended.
        """
        return read_look(self._tell("look"))

    def _tell(self, command: str) -> list[str]:
        reader = self._reader or self._start_reader()
        assert reader.stdin is not None, "it is a pipe"
        assert reader.stdout is not None, "it is a pipe"
        reader.stdin.write(f"{command}\n".encode())
        reader.stdin.flush()
        lines = []
        for line in reader.stdout:
            text = line.decode().rstrip("\r\n")
            if text == ".":
                return lines
            lines.append(text)
        raise SystemExit("windows: what reads the desktop has ended")

    def _start_reader(self) -> subprocess.Popen[bytes]:
        program = self.prefix / "desktop_reader.exe"
        if not program.is_file():
            make_reader(program)
        self._reader = subprocess.Popen(
            ["wine", self.name_of(program)],
            env=self._settings,
            cwd=self.prefix,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return self._reader

    def running(self, folder: str) -> list[str]:
        """Programs that run from below a folder, as Windows writes both."""
        below = f"{folder}\\".casefold()
        return [program for program in self.look().programs if program.casefold().startswith(below)]

    def window(self, title: str, saying: str = "", seconds: float = LOOK_SECONDS) -> Window:
        """Wait for the window that has `title` in its title and says `saying` somewhere.

        Raises:
            SystemExit: it did not come; what is there instead is told.
        """
        seen: tuple[Window, ...] = ()

        def look() -> Window | None:
            nonlocal seen
            seen = self.look().windows
            return next((each for each in seen if title in each.frame.text and saying in each.words), None)

        try:
            return until(look, f"a window '{title}' that says '{saying}'", seconds)
        except SystemExit as failure:
            raise SystemExit(f"{failure}\nInstead there is:\n{_all_words(seen)}") from failure

    def value(self, key: str, name: str = "") -> str | None:
        """A text of the registry below HKEY_CURRENT_USER; None where there is none."""
        return self._answer(f"value {key}|{name}")

    def link(self, shortcut: Path) -> str | None:
        """The path that a shortcut leads to, as Windows writes it; None where there is none."""
        return self._answer(f"link {self.name_of(shortcut)}")

    def _answer(self, command: str) -> str | None:
        told = self._tell(command)
        return str(json.loads(told[0])["text"]) if told else None

    # ---- doing ---------------------------------------------------------------------------------

    def to_front(self, window: Window) -> None:
        """Put a window in front of all others: one that was slow to start may have come up behind the app's."""
        self._tell(f"front {window.frame.handle}")

    def push(self, window: Window, text: str, kind: str = "Button") -> None:
        """Click on the part of a window whose text begins so.

        Raises:
            SystemExit: there is none that can be used.
        """
        control = window.control(text, kind)
        if control is None:
            raise SystemExit(f"windows: in the window there is no '{text}' to click on:\n{window.words}")
        left, upper, right, lower = control.box
        # Not in the middle: a tick's words end long before it.
        self.hands.click(left + min(12, (right - left) // 2), (upper + lower) // 2)

    def fill(self, field: Control, text: str) -> None:
        """Write a text with any character into a field, as if pasted."""
        self._tell(f"text {field.handle} {text}")


def _all_words(windows: tuple[Window, ...]) -> str:
    return "\n".join(f"[{each.frame.text}] {each.words}" for each in windows)


def ended(process: subprocess.Popen[bytes], what: str, seconds: float) -> int:
    """Wait for the end of a program; its exit code.

    Raises:
        SystemExit: it has not ended in time.
    """
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired as late:
        process.kill()
        raise SystemExit(f"windows: {what} has not ended after {seconds:.0f} s") from late
    finally:
        if process.stdin is not None:
            process.stdin.close()
    return process.returncode


def make_reader(program: Path, *options: str) -> None:
    """Compile the program that tells what is on the desktop."""
    source, libraries = HERE / "desktop_reader.c", ("-lpsapi", "-ladvapi32", "-lole32", "-luuid")
    subprocess.run([mingw.tool("gcc"), "-O1", "-s", *options, "-o", str(program), str(source), *libraries], check=True)


def lay_fonts(prefix: Path) -> None:
    """Copy what is here of the fonts that a Windows has and this one lacks."""
    for font in map(Path, _FONTS):
        if font.is_file():
            shutil.copyfile(font, prefix / "drive_c" / "windows" / "Fonts" / font.name)


def _settings_of_desktop() -> str:
    """For the registry: that Wine draws a desktop, and what stands for a font that only Windows has."""
    return "\n".join(
        [
            "Windows Registry Editor Version 5.00",
            r"[HKEY_CURRENT_USER\Software\Wine\Explorer]",
            '"Desktop"="Default"',
            r"[HKEY_CURRENT_USER\Software\Wine\Explorer\Desktops]",
            '"Default"="{}x{}"'.format(*screen.SIZE),
            r"[HKEY_CURRENT_USER\Software\Wine\Fonts\Replacements]",
            *(f'"{name}"="Droid Sans Fallback"' for name in ("Microsoft YaHei", "SimSun")),
            "",
        ]
    )


def copy_windows(template: Path, prefix: Path) -> None:
    """Copy a Windows, but nothing that the app has kept in it when it was tried there."""
    shutil.copytree(template, prefix, symlinks=True, ignore=shutil.ignore_patterns(NAME))


@contextlib.contextmanager
def fresh_desktop(template: Path, scratch: Path) -> Iterator[Desktop]:
    """A copy of a Windows, with a screen, for as long as the block runs.

    Args:
        template: Folder of the Windows that is copied.
        scratch: Folder below which the copy lies.
    """
    with tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as name, screen.screen() as shown:
        prefix, home = Path(name) / "windows", Path(name) / "home"
        home.mkdir()
        copy_windows(template, prefix)
        lay_fonts(prefix)
        desktop = Desktop(prefix, home, Hands(shown))
        # Wine made them as links into the home that this user had then, which is gone.
        for folder in [path for path in desktop.user.iterdir() if path.is_symlink()]:
            folder.unlink()
            folder.mkdir()
        settings = Path(name) / "desktop.reg"
        settings.write_text(_settings_of_desktop(), "utf-16")
        try:
            if desktop.run("regedit", "/S", desktop.name_of(settings)) != 0:
                raise SystemExit("windows: the desktop's settings could not be written into the registry")
            yield desktop
        finally:
            desktop.flush()
