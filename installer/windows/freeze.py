"""Freezes the app for Windows: PyInstaller, run by the Windows Python under Wine with the checkout's build.spec.

What is frozen lies in a folder of its own below build/: the app with its native libraries and llama-cpp-python with the
engine's, as an installation would hold them.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import engine_wheel
import frozen_contents
import identity
import wine
from engine import NATIVE_LIBRARIES, Engine
from project import NAME, ROOT

WORK = ROOT / "build" / "windows"
STAGE = WORK / "stage"
IDENTITY = WORK / "identity"
"""Where build.spec looks for the programs' icon and version."""
FROZEN = ROOT / "dist" / "windows" / NAME
_DRAWING = ROOT / "resources" / "linux" / "expert-lanes.svg"
_SECONDS = 1500
_NOT_OURS = shutil.ignore_patterns("__pycache__", "native", "*.so", "*.dll")
_NOT_OF_THE_BINDING = shutil.ignore_patterns("__pycache__", "lib", "server")


def lay_stage(engine: Engine, version: str) -> Path:
    """Lay out what is to be frozen, anew."""
    shutil.rmtree(STAGE, ignore_errors=True)
    STAGE.mkdir(parents=True)
    shutil.copytree(ROOT / "app", STAGE / "app", ignore=_NOT_OURS)
    for library, package in NATIVE_LIBRARIES.items():
        shutil.copyfile(engine.native / f"{library}.dll", STAGE / "app" / package / f"{library}.dll")
    shutil.copytree(engine.source / "llama_cpp", STAGE / "llama_cpp", ignore=_NOT_OF_THE_BINDING)
    shutil.copytree(engine.libraries, STAGE / "llama_cpp" / "lib")
    for distribution, release in ((NAME, version), ("llama-cpp-python", engine_wheel.LLAMA_CPP_PYTHON)):
        info = STAGE / f"{distribution.replace('-', '_')}-{release}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(frozen_contents.metadata(distribution, release), "utf-8")
    return STAGE


def freeze(python: Path, engine: Engine, prefix: Path, version: str, date: int) -> Path:
    """Run PyInstaller; returns the folder with the programs.

    Args:
        python: Folder of the Windows python.exe, with PyInstaller and all packages.
        engine: What is frozen in.
        prefix: The Windows to run in.
        version: The app's.
        date: The time that the programs get, in seconds since 1970.

    Raises:
        SystemExit: PyInstaller failed.
        subprocess.TimeoutExpired: it took longer than 25 minutes.
    """
    stage = lay_stage(engine, version)
    identity.lay(IDENTITY, _DRAWING, version)
    shutil.rmtree(FROZEN, ignore_errors=True)
    paths = {"--distpath": FROZEN.parent, "--workpath": WORK / "pyinstaller"}
    arguments = [part for option, path in paths.items() for part in (option, wine.windows_path(path))]
    command = [str(python / "python.exe"), "-X", "utf8", "-m", "PyInstaller", "-y", "--log-level", "WARN", *arguments]
    done = wine.run(
        [*command, wine.windows_path(ROOT / "build.spec")],
        prefix,
        seconds=_SECONDS,
        # The first place where Python looks for modules: not the checkout, which has no Windows libraries.
        cwd=stage,
        more={
            "PYTHONPATH": wine.windows_path(stage),
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "SOURCE_DATE_EPOCH": str(date),
        },
    )
    log = WORK / "pyinstaller.log"
    log.write_bytes(done.stdout + done.stderr)
    if done.returncode != 0 or not (FROZEN / f"{NAME}.exe").is_file():
        tail = "\n".join(log.read_text("utf-8", errors="replace").splitlines()[-30:])
        raise SystemExit(f"{tail}\nwindows: PyInstaller ended with {done.returncode}; the whole log is {log}")
    for path in FROZEN.rglob("*"):
        if path.is_file():
            os.chmod(path, 0o644)  # noqa: PTH101 - Windows knows no permission to run
    return FROZEN
