"""Renews all lists of pinned releases: the newest that pyproject.toml permits, the same versions on every system.

    .venv/bin/python installer/package/renew_pins.py

on Linux on x86-64, with the Python that the packages are made with. `make test`, `make package` and
`make package-windows` say whether the packages can be made of them. What is not Python's is renewed by hand: CPython
for Windows (windows/pins/python*.txt), what Wine lacks (windows/pins/shims.txt), the engine (checkout/engine_wheel.py),
what the release's component brings of CUDA (release/cuda-pins.txt).
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), *(str(ROOT / "installer" / part) for part in ("package", "windows"))]

import environment  # noqa: E402 - found by the line above, as are the next ones
import pinned  # noqa: E402
import pins as windows_pins  # noqa: E402
import project  # noqa: E402

from app.library.demo_source import SOURCE_DISTRIBUTION  # noqa: E402

Pins = dict[str, tuple[str, str]]
# Of what gguf depends on: it could read files of other machines with them, and the app does not (frozen_contents.py).
_NOT_FROZEN = {"requests", "urllib3", "certifi", "charset-normalizer", "idna"}
# pip asks this system, not Windows, which parts of a requirement apply; so what only Windows needs is told here.
_WINDOWS_TOOLS = ("pefile", "pywin32-ctypes")
_RELEASE = ROOT / "installer" / "release" / "pins.txt"
_CUDA_TOOLS = ROOT / "installer" / "release" / "cuda-tools.txt"
_HARDWARE_TESTS = windows_pins.FOLDER / "hardware-tests.txt"


def app_requirements() -> list[str]:
    """What the app and the engine's binding ask for, but the binding itself, which is compiled here."""
    own = [line for line in project.project()["dependencies"] if project.requirement_name(line) != "llama-cpp-python"]
    of_binding = importlib.metadata.requires("llama-cpp-python") or ()
    return [*own, *(line for line in of_binding if "extra ==" not in line)]


def build_requirements() -> list[str]:
    """What pyproject.toml asks for to build the app."""
    return list(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"])


def fetched(requirements: Iterable[str], *arguments: str) -> Pins:
    """The wheels that pip takes for `requirements`: versions and SHA-256, by normalized name.

    Raises:
        SystemExit: pip found no such wheels.
    """
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:", "-d", scratch]
        if subprocess.run([*command, *arguments, *requirements], check=False).returncode != 0:
            raise SystemExit("package: pip could not fetch what is to be pinned")
        return of_wheels(sorted(Path(scratch).glob("*.whl")))


def of_wheels(files: Sequence[Path]) -> Pins:
    """Versions and SHA-256 of wheels, by normalized name."""
    found = {}
    for file in files:
        name, version = file.name.split("-")[:2]
        found[pinned.normal(name)] = (version, hashlib.sha256(file.read_bytes()).hexdigest())
    return found


def without(pins: Pins, names: Iterable[str]) -> Pins:
    """The pins but those of `names`."""
    left_out = set(names)
    return {name: pin for name, pin in pins.items() if name not in left_out}


def for_windows(pins: Pins, more: Iterable[str] = ()) -> Pins:
    """The same releases as Windows gets them, and the newest of `more`."""
    exact = [f"{name}=={version}" for name, (version, _) in pins.items()]
    return fetched([*exact, *more], "--no-deps", *windows_pins.FOR_WINDOWS)


def main() -> None:
    """Write all lists anew."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    environment.check_python()
    demo = fetched([SOURCE_DISTRIBUTION], "--no-deps")
    packages = {**without(fetched(app_requirements()), _NOT_FROZEN), **demo}
    freezing = without(fetched([*project.project()["optional-dependencies"]["package"], "setuptools"]), packages)
    building = without(fetched(build_requirements()), packages)
    on_windows = for_windows(packages)
    lists = {
        pinned.PACKAGES: packages,
        pinned.TOOLS: {**building, **freezing},
        windows_pins.FOLDER / "packages.txt": on_windows,
        windows_pins.FOLDER / "tools.txt": for_windows(freezing, _WINDOWS_TOOLS),
        _RELEASE: {name: packages[name] for name in pinned.read(_RELEASE)},
        _CUDA_TOOLS: for_windows({name: building[name] for name in pinned.read(_CUDA_TOOLS)}),
        _HARDWARE_TESTS: {name: on_windows[name] for name in pinned.read(_HARDWARE_TESTS)},
    }
    for path, pins in lists.items():
        before = pinned.read(path)
        pinned.write(path, pins)
        for name in sorted({*before, *pins}):
            old, new = before.get(name, ("none", ""))[0], pins.get(name, ("none", ""))[0]
            if before.get(name) != pins.get(name):
                print(f"package: {path.relative_to(ROOT)}: {name} {old} -> {new}")


if __name__ == "__main__":
    main()
