"""The Python for Windows: CPython as python.org built it, and the packages of the app beside it.

CPython comes in source archives of others that hold python.org's files (see pins/python.txt); only those files are
taken, and nothing in the archives is run but what pip does to read an archive's name.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path

import engine_wheel
import keys
import pinned
import pins

VERSION = f"{pinned.PYTHON}.9"
LIBRARY = f"python{pinned.PYTHON.replace('.', '')}.zip"
"""Its own library, which stays packed."""
EMBEDDABLE = "python-embeddable.txt"
FULL = "python.txt"
PACKAGES = "packages.txt"
TOOLS = "tools.txt"


def folder() -> Path:
    """Where the Python that freezes the app lies; its pins are in the name."""
    lists = [pins.FOLDER / name for name in (FULL, PACKAGES, TOOLS)]
    key = keys.digest("1", files=lists)
    return engine_wheel.cache_folder() / "windows-python" / f"{VERSION}-{key}"


def site_packages(python: Path) -> Path:
    """The folder of the packages of a Python that `unpack` laid out."""
    return python / "Lib" / "site-packages"


def unpack(name: str, scratch: Path) -> Path:
    """Fetch the CPython of a list and return the folder of its python.exe, below `scratch`.

    Raises:
        SystemExit: there is none in the archive.
    """
    archive = pins.download_source(name, scratch / "source")
    with tarfile.open(archive) as tar:
        tar.extractall(scratch / "unpacked")  # its checksum was right; Debian 12's Python knows no extraction filters
    for packed in sorted((scratch / "unpacked").rglob("*.zip")):
        if packed.name == LIBRARY:
            continue
        with zipfile.ZipFile(packed) as files:
            if any(each.rpartition("/")[2] == "python.exe" for each in files.namelist()):
                files.extractall(packed.with_suffix(""))
    found = sorted((scratch / "unpacked").rglob("python.exe"), key=lambda path: len(path.parts))
    if not found:
        raise SystemExit(f"windows: no python.exe in {archive.name}")
    return found[0].parent


def lay() -> Path:
    """The folder of python.exe with everything the app stands on and what freezes it, made whole or not at all."""
    made = folder()
    if not (made / "python.exe").is_file():
        made.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=made.parent) as scratch:
            fresh = unpack(FULL, Path(scratch))
            packages = site_packages(fresh)
            shutil.rmtree(packages, ignore_errors=True)  # an installer's own copies
            for name in (PACKAGES, TOOLS):
                pins.install(name, packages)
            fresh.rename(made)
    return made
