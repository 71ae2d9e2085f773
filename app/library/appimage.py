"""The AppImage that this program runs from, if any."""

import os
from collections.abc import Mapping
from pathlib import PurePath


def appimage_file(program: PurePath, environment: Mapping[str, str]) -> str:
    """The AppImage whose runtime started `program`; empty where none did.

    The runtime names its file and the folder where it shows what is inside, and whatever is started from that program
    inherits both names: they concern `program` only where it lies in that folder.

    Args:
        program: The running program.
        environment: Its environment.
    """
    file, shown = environment.get("APPIMAGE", ""), environment.get("APPDIR", "")
    inside = bool(shown) and PurePath(os.path.realpath(program)).is_relative_to(os.path.realpath(shown))
    return file if inside else ""
