"""Lays the licences of everything in the Windows package, by where each frozen file was found (package/licences.py)."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import frozen_contents
import licences
import mingw
import python
import qt_documents
from engine import Engine
from engine_wheel import LLAMA_CPP_PYTHON, header_documents
from freeze import STAGE, WORK
from project import ROOT

_BINDING = "llama_cpp"


def here(path: str) -> str:
    """The name on this system of a file that a program under Wine names."""
    return path[2:].replace("\\", "/") if path.startswith(("Z:", "z:")) else path


def origins(told: str) -> list[tuple[str, str]]:
    """What build.spec wrote: names in the frozen folder, or of modules, each with its file on this system."""
    return [(str(name), here(str(source))) for name, source in json.loads(told)]


def _of_windows(part: licences.Part) -> licences.Part:
    """Python is not the one that makes the package."""
    return dataclasses.replace(part, version=python.VERSION) if part.name == "Python" else part


def lay(frozen: Path, home: Path, engine: Engine) -> None:
    """Write the folder `licenses` of the frozen app.

    Args:
        frozen: The folder with the programs.
        home: Folder of the Windows Python.
        engine: The engine that is in it.

    Raises:
        SystemExit: it is not known whose a file is, or a licence's text is missing.
    """
    told = (WORK / "pyinstaller" / "build" / frozen_contents.ORIGINS).read_text("utf-8")
    found = origins(told)
    binding = [(name, source) for name, source in found if Path(source).is_relative_to(STAGE / _BINDING)]
    places = licences.Places(
        packages=home / "Lib" / "site-packages",
        stdlib=home,
        ours=ROOT,
        llama_cpp=engine.source / "vendor" / "llama.cpp",
        headers=header_documents(),
    )
    parts = [_of_windows(part) for part in licences.parts([entry for entry in found if entry not in binding], places)]
    parts.append(licences.llama_cpp((name for name, _ in binding), places))
    parts += licences.compiled_in((name for name, _ in binding), places)
    texts = {"LICENSE.md": (engine.source / "LICENSE.md").read_text("utf-8")}
    files = tuple(name for name, _ in binding)
    parts.append(licences.Part("llama-cpp-python", LLAMA_CPP_PYTHON, "MIT", texts, files))
    parts += [licences.of_package(name, mingw.RUNTIME, places) for name in mingw.RUNTIME_PACKAGES]
    c_library = {"LICENSE.txt": (home / "LICENSE.txt").read_text("utf-8")}
    words = "Microsoft's terms for distributable code, as Python's licence tells them"
    parts.append(licences.Part("Microsoft Visual C++ runtime", "", words, c_library))
    parts.append(qt_documents.part())
    licences.lay(parts, frozen / "licenses")
