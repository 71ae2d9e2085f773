"""Lists of releases in pip's own format, each with the SHA-256 that pip checks: read, fetched, installed.

What the packages are made from stands in such lists: for Linux in `pins` beside this file, for Windows in
installer/windows/pins. `python installer/package/renew_pins.py` writes them anew.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "pins"
PACKAGES = FOLDER / "packages.txt"
TOOLS = FOLDER / "tools.txt"
PYTHON = "3.11"
"""The wheels in all lists are those for this Python: Debian 12's, and the one in the Windows package."""
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+) --hash=sha256:(?P<digest>[0-9a-f]{64})$")


def normal(name: str) -> str:
    """A distribution's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read(path: Path) -> dict[str, tuple[str, str]]:
    """Distributions of a list, by normalized name, each with its version and SHA-256.

    Raises:
        SystemExit: a line is no pin, or a distribution stands there twice.
    """
    found: dict[str, tuple[str, str]] = {}
    for line in path.read_text("ascii").splitlines():
        if not line or line.startswith("#"):
            continue
        pin = _PIN.match(line)
        if pin is None:
            raise SystemExit(f"package: {path.name}: not a release with its SHA-256: {line}")
        distribution = normal(pin["name"])
        if distribution in found:
            raise SystemExit(f"package: {path.name}: {distribution} stands there twice")
        found[distribution] = (pin["version"], pin["digest"])
    return found


def write(path: Path, pins: Mapping[str, tuple[str, str]]) -> None:
    """Write a list anew; the comment at its beginning stays."""
    lines = path.read_text("ascii").splitlines() if path.is_file() else []
    comment = [line for line in lines if line.startswith("#")]
    pinned = [f"{name}=={version} --hash=sha256:{digest}" for name, (version, digest) in sorted(pins.items())]
    path.write_text("\n".join([*comment, *pinned]) + "\n", "ascii")


def install(path: Path, python: Path) -> None:
    """Install the wheels of a list with the pip of the Python given, which must be of the version they are for."""
    pip(path, "install", "--no-deps", "--only-binary=:all:", python=python)


def pip(path: Path, verb: str, *arguments: str, python: Path | None = None) -> None:
    """Have pip do something with a list, of which it checks every SHA-256.

    Raises:
        SystemExit: the list is none, or pip could not fetch everything in it.
    """
    read(path)  # whatever is in it must be pinned
    command = [str(python or sys.executable), "-m", "pip", verb, "-q", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, "--require-hashes", "-r", str(path), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"package: pip could not fetch everything in {path}")
