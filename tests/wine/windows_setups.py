"""Small installers for the tests of the Windows installer, and the Windows under Wine in which they run."""

import contextlib
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

import nsis
import wine

HERE = Path(__file__).parent
COMPILER = "x86_64-w64-mingw32-gcc"
TOOLS = {"makensis": "NSIS", "wine": "Wine", COMPILER: "MinGW", "Xvfb": "Xvfb"}
DATE = 1_767_225_600
REGISTERED = r"HKCU\Software\Microsoft\Windows\CurrentVersion\Uninstall\Expert Lanes"
LIMIT_SECONDS = 60
_TEXT = r'"((?:[^"\\]|\\.)*)"'
_VALUE = re.compile(rf"(?:{_TEXT}|@)=(?:{_TEXT}|dword:([0-9a-f]{{8}}))")
OTHER_FILES = {
    "_internal/app/text.txt": "a text",
    "_internal/deep/er/$HOME 日本.dat": "a name with blanks, a dollar and characters of another script",
    "licenses/NOTICES.txt": "notices",
}


def lacking():
    """The programs that the tests need and that are not here, in words."""
    return ", ".join(name for program, name in TOOLS.items() if shutil.which(program) is None)


def make_programs(folder):
    """Compile the two stand-ins for the app's programs."""
    for name, options in (("expert-lanes-window.exe", ["-DWINDOW", "-mwindows"]), ("expert-lanes.exe", [])):
        command = [COMPILER, "-municode", "-O1", "-s", *options, "-o", str(folder / name), HERE / "closing_program.c"]
        subprocess.run(command, check=True)


def make_tree(folder, programs, version, more=()):
    """A small folder as the frozen app's: the programs, and files of which one belongs to this version alone."""
    folder.mkdir()
    for name in nsis.PROGRAMS:
        shutil.copy(programs / name, folder / name)
    for name, text in {**OTHER_FILES, f"_internal/only in {version}.txt": version, **dict(more)}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder


def until(condition, what, seconds=LIMIT_SECONDS):
    """Wait until `condition()` is true."""
    end = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < end, f"after {seconds} s still not: {what}"
        pause.wait(0.05)


class Windows:
    """A Windows under Wine, with a screen.

    Attributes:
        drive: Its drive C.
        local: The user's folder for programs' own files.
    """

    def __init__(self, prefix, home, display):
        wine.make_windows(prefix)
        self._prefix = prefix
        self._settings = wine.environment(prefix, home) | {"DISPLAY": display}
        # Without the part of Wine that puts shortcuts onto this system's own desktop too.
        self._settings["WINEDLLOVERRIDES"] += ";winemenubuilder.exe="
        self.drive = prefix / "drive_c"
        (self._user,) = [user for user in (self.drive / "users").iterdir() if user.name != "Public"]
        self.local = self._user / "AppData" / "Local"
        self.installed = self.local / "Programs" / "Expert Lanes"
        self.data = self.local / "expert-lanes"
        self.menu = self._user / "AppData/Roaming/Microsoft/Windows/Start Menu/Programs"
        self.desktop = self._user / "Desktop"

    def name_of(self, path):
        """A path as programs there see it; the bare name of a program of Windows' own stays."""
        if isinstance(path, str):
            return path
        if path.is_relative_to(self.drive):
            return "C:\\" + str(path.relative_to(self.drive)).replace("/", "\\")
        return wine.windows_path(path)

    def start(self, program, *arguments, **more):
        """Start a program."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        command = ["wine", self.name_of(program), *arguments]
        return subprocess.Popen(command, env=self._settings | more, cwd=self._prefix, **pipes)

    @contextlib.contextmanager
    def running(self, program, *arguments, **more):
        """Start a program that is to end by itself inside the block; what has not is ended then."""
        process = self.start(program, *arguments, **more)
        try:
            yield process
            process.wait(LIMIT_SECONDS)
        finally:
            process.kill()
            process.communicate()

    def run(self, program, *arguments, **more):
        """Run a program to its end; its exit code."""
        with self.running(program, *arguments, **more) as process:
            process.wait(LIMIT_SECONDS)
        return process.returncode

    def install(self, setup, *options, folder=None):
        """Install without a question; the exit code."""
        # The folder is named last and without quotes: every word of it is an argument of its own.
        into = f"/D={folder}".split(" ") if folder else []
        return self.run(setup, "/S", *options, *into)

    def uninstall(self, folder=None, *options):
        """Uninstall without a question, in the uninstaller's own place; the exit code.

        There it cannot delete itself, so that is done here.
        """
        folder = folder or self.installed
        program = folder / "uninstall.exe"
        code = self.run(program, "/S", *options, *f"_?={self.name_of(folder)}".split(" "))
        if code == 0 and program.is_file() and not list(folder.rglob(nsis.LIST_NAME)):
            program.unlink()
            if not any(folder.iterdir()):
                folder.rmdir()
        return code

    def registered(self, key=REGISTERED):
        """The values below a key of the registry: each key's own name, a bar and the value's name, with the data."""
        exported = self.drive / "exported.reg"
        exported.unlink(missing_ok=True)
        self.run("reg", "export", key, self.name_of(exported), "/y")
        if not exported.is_file():
            return {}
        found, below = {}, ""
        for line in exported.read_text("utf-16").splitlines():
            value = _VALUE.fullmatch(line)
            if value:
                name, text, number = value.groups()
                found[f"{below}|{_plain(name or '')}"] = int(number, 16) if number else _plain(text)
            elif line.startswith("["):
                below = line.strip("[]").rpartition("\\")[2]
        return found

    def set_value(self, key, name, value):
        """Write a text into the registry."""
        assert self.run("reg", "add", key, "/v" if name else "/ve", *([name] if name else []), "/d", value, "/f") == 0

    def end(self):
        """End all that still runs there."""
        subprocess.run(["wineserver", "--kill"], env=self._settings, check=False, timeout=LIMIT_SECONDS)

    def clear(self):
        """Forget every installation and all data: what is not on the disk counts as not installed."""
        for folder in (self.local / "Programs", self.data, self.drive / "Programme hier"):
            shutil.rmtree(folder, ignore_errors=True)
        for folder in (self.menu, self.desktop):
            for shortcut in folder.glob("Expert Lanes*.lnk"):
                shortcut.unlink()


def _plain(text):
    return re.sub(r"\\(.)", r"\1", text)


class RunningApp:
    """A stand-in program that was started, and what it told."""

    def __init__(self, windows, program, told, *arguments, **more):
        self._told = told
        self._end = Path(f"{told}.end")
        self._process = windows.start(program, *arguments, TOLD=windows.name_of(told), **more)
        try:
            until(lambda: self.told[:1], "the program has started")
        except BaseException:
            self._process.kill()
            self._process.communicate()
            raise

    @property
    def told(self):
        """Its lines so far."""
        return self._told.read_text("utf-8").splitlines() if self._told.is_file() else []

    def end(self):
        """Let it end by itself."""
        self._end.touch()
        self._process.stdin.close()
        self._process.wait(LIMIT_SECONDS)


def files_below(folder):
    """Names of all files below a folder, with slashes."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def shortcut_leads_to(shortcut, *parts):
    """True where the shortcut's file holds this path's end, in one of the two forms that it may have there."""
    path, content = "\\".join(parts), shortcut.read_bytes()
    return path.encode("utf-16-le") in content or path.encode() in content
