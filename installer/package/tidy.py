"""Takes out of the frozen folder what only the machine that made it could use: its paths, tables for debuggers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import frozen_contents

_PYTHON = re.compile(r"/lib-dynload/[^/]+\.so$|/libpython3[^/]*$")


def tidy(frozen: Path) -> None:
    """Strip Python's own libraries, which some builds leave with their tables, and forget where they were installed.

    Other makers' libraries stay as published; those of the engine and of the app are stripped, and `doctor` knows
    what they are.

    Raises:
        SystemExit: a library looks for others in a folder of this machine.
    """
    for path in sorted(frozen.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        if _PYTHON.search(path.as_posix()):
            subprocess.run(["strip", "--strip-unneeded", str(path)], check=True)
        folders = frozen_contents.needs_of(path).search
        if any(folder.startswith("/") for folder in folders):
            if not _PYTHON.search(path.as_posix()):
                raise SystemExit(f"package: {path} looks for libraries in {':'.join(folders)}")
            subprocess.run(["patchelf", "--remove-rpath", str(path)], check=True)
