"""The virtual environment that packages are frozen from: the engine for every processor, the app not editable.

It lies in build/, apart from the checkout's own, which has an engine for this machine only. Everything else in it is
pinned (pinned.py). What has not changed since the last time is not installed again.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pinned
import shaders
from project import ROOT, WORK, run

VENV = WORK / "venv"
_STAMP = VENV / "package-stamp.json"


def check_python(version: str = platform.python_version(), machine: str = platform.machine()) -> None:
    """The pinned wheels are for one Python on one kind of machine.

    Raises:
        SystemExit: this is another.
    """
    if not version.startswith(f"{pinned.PYTHON}.") or machine != "x86_64":
        raise SystemExit(
            f"package: the pinned releases are for Python {pinned.PYTHON} on x86_64,"
            f" and this is Python {version} on {machine}"
        )


def prepare(*, any_shaders: bool = False) -> Path:
    """Make or mend the environment; returns its Python.

    Args:
        any_shaders: Also with an engine whose shaders lack what makes graphics cards fast.

    Raises:
        SystemExit: this Python is not the pinned one, the engine did not build, or its shaders lack something.
    """
    sys.path.insert(0, str(ROOT / "installer" / "checkout"))
    import cpu_variants  # noqa: PLC0415 - found by the line above, as is the next one
    import engine_wheel  # noqa: PLC0415

    check_python()
    shaders.refuse(engine_wheel.engine_wheel(Path(sys.executable)).lacking, anyway=any_shaders)
    engine = cpu_variants.portable_engine(Path(sys.executable))
    python = VENV / "bin" / "python"
    lists = (pinned.PACKAGES, pinned.TOOLS)
    parts_now = json.dumps([engine.key, digest(lists, pinned.FOLDER)])
    known = _stamp()
    if known.get("parts") != parts_now:
        print("package: installing the engine for every processor, and the pinned releases", flush=True)
        # From nothing: what an earlier list brought must not be frozen.
        shutil.rmtree(VENV, ignore_errors=True)
        run([sys.executable, "-m", "venv", str(VENV)])
        for path in lists:
            pinned.install(path, python)
        run([*_pip(python), "--no-deps", str(engine.wheel)])
        known = {"parts": parts_now}
    app_now = digest(_app_files(), ROOT)
    if known.get("app") != app_now:
        print("package: installing the app", flush=True)
        settings = {
            "build-dir": str(WORK / "native"),
            "cmake.define.GGML_SOURCE_DIR": str(engine.headers),
            "cmake.define.GGML_LIBRARY_DIR": str(site_packages(python) / "llama_cpp" / "lib"),
        }
        options = [f"--config-settings={name}={value}" for name, value in settings.items()]
        run([*_pip(python), "--no-deps", "--no-build-isolation", *options, str(ROOT)])
        _STAMP.write_text(json.dumps({"parts": parts_now, "app": app_now}))
    return python


def _pip(python: Path) -> list[str]:
    return [str(python), "-m", "pip", "install", "-q"]


def site_packages(python: Path) -> Path:
    """The folder into which that Python's pip installs."""
    command = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


def digest(files: Iterable[Path], root: Path) -> str:
    """One hash of the names below `root` and the contents of all files."""
    found = hashlib.sha256()
    for path in sorted(files):
        found.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def _app_files() -> list[Path]:
    ours = (path for path in (ROOT / "app").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return [ROOT / "pyproject.toml", *ours]


def _stamp() -> dict[str, str]:
    try:
        return dict(json.loads(_STAMP.read_text()))
    except (OSError, ValueError):
        return {}


def engine_source() -> tuple[Path, tuple[Path, ...]]:
    """llama.cpp's source, of which the engine was built, and where the licences are of headers from elsewhere."""
    sys.path.insert(0, str(ROOT / "installer" / "checkout"))
    import engine_wheel  # noqa: PLC0415 - found by the line above

    cache = engine_wheel.cache_folder() / "engine"
    source = engine_wheel.unpacked_source(cache, Path(sys.executable)) / "vendor" / "llama.cpp"
    return source, engine_wheel.header_documents()
