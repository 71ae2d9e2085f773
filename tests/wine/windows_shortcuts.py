"""Shortcuts of a Windows under Wine, made and read by Windows' own interface (shortcuts.c)."""

import contextlib
import subprocess
from pathlib import Path
from typing import NamedTuple

from windows_setups import COMPILER, until


def make_program(folder):
    """Compile the program that makes and reads them."""
    program = folder / "shortcuts.exe"
    source = Path(__file__).parent / "shortcuts.c"
    command = [COMPILER, "-Wall", "-Werror", "-municode", "-O1", "-o", program, source, "-lole32", "-luuid"]
    subprocess.run(command, check=True)
    return program


class Shortcut(NamedTuple):
    """What a shortcut's file says."""

    target: str
    arguments: str = ""
    folder: str = ""
    icon: str = ",0"
    hotkey: int = 0


class Shortcuts:
    """The shortcuts of a Windows' user.

    Attributes:
        taskbar: Where Windows lays what is pinned to the taskbar.
    """

    def __init__(self, windows, program):
        self._windows, self._program = windows, program
        self._roaming = windows.local.parent / "Roaming"
        self.taskbar = self._roaming / "Microsoft/Internet Explorer/Quick Launch/User Pinned/TaskBar"
        self.send_to = self._roaming / "Microsoft/Windows/SendTo"
        self._out = windows.drive / "shortcuts.txt"
        self._written = []

    def write(self, file, target, arguments="", folder="", icon="", hotkey=0):
        file.parent.mkdir(parents=True, exist_ok=True)
        self._written.append(file)
        name = self._windows.name_of(file)
        command = ("write", name, target, arguments, folder, icon, str(hotkey) if hotkey else "")
        assert self._windows.run(self._program, *command) == 0
        return file

    def read(self, *files):
        names = [self._windows.name_of(file) for file in files]
        assert self._windows.run(self._program, "read", self._windows.name_of(self._out), *names) == 0
        lines = [line.split("\t") for line in self._out.read_text("utf-8-sig").splitlines()]
        return {file: Shortcut(*line[1:5], int(line[5])) for file, line in zip(files, lines, strict=True)}

    def target(self, file):
        return self.read(file)[file].target

    @contextlib.contextmanager
    def holding(self, file, scratch):
        """Nobody else can write the file inside the block."""
        ready, end = scratch / "ready", scratch / "end"
        names = [self._windows.name_of(each) for each in (file, ready, end)]
        with self._windows.running(self._program, "hold", *names):
            until(ready.is_file, "the file is held")
            yield
            end.touch()

    def clear(self):
        for file in self._written:
            file.unlink(missing_ok=True)
