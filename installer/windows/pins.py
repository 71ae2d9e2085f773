"""What is fetched from the package index for Windows: lists of releases, each with the SHA-256 that pip checks.

The lists lie in the folder `pins`, in pip's own format. Every file is fetched as Windows' Python 3.11 would do it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "pins"
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+) --hash=sha256:(?P<digest>[0-9a-f]{64})$")
FOR_WINDOWS = (
    "--platform", "win_amd64", "--python-version", "3.11", "--implementation", "cp",
    "--abi", "cp311", "--abi", "abi3", "--abi", "none", "--only-binary=:all:",
)  # fmt: skip


def read(name: str) -> dict[str, tuple[str, str]]:
    """Distributions of a list, by normalized name, each with its version and SHA-256.

    Raises:
        SystemExit: a line is no pin, or a distribution stands there twice.
    """
    found: dict[str, tuple[str, str]] = {}
    for line in (FOLDER / name).read_text("ascii").splitlines():
        if not line or line.startswith("#"):
            continue
        pin = _PIN.match(line)
        if pin is None:
            raise SystemExit(f"windows: {name}: not a release with its SHA-256: {line}")
        distribution = re.sub(r"[-_.]+", "-", pin["name"]).lower()
        if distribution in found:
            raise SystemExit(f"windows: {name}: {distribution} stands there twice")
        found[distribution] = (pin["version"], pin["digest"])
    return found


def download(name: str, folder: Path) -> None:
    """Fetch the wheels of a list into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    _pip("download", name, "--no-deps", "--dest", str(folder), *FOR_WINDOWS)


def download_source(name: str, folder: Path) -> Path:
    """Fetch the only source archive of a list into `folder`, and return it; nothing of it is built."""
    folder.mkdir(parents=True, exist_ok=True)
    _pip("download", name, "--no-deps", "--no-binary=:all:", "--dest", str(folder))
    (archive,) = folder.glob("*.tar.gz")
    return archive


def install(name: str, folder: Path) -> None:
    """Lay the wheels of a list out below `folder`, as an installation for Windows."""
    _pip("install", name, "--no-deps", "--no-compile", "--upgrade", "--target", str(folder), *FOR_WINDOWS)


def _pip(verb: str, name: str, *arguments: str) -> None:
    read(name)  # whatever is in it must be pinned
    command = [sys.executable, "-m", "pip", verb, "-q", "--disable-pip-version-check", "--require-hashes"]
    done = subprocess.run(
        [*command, "-r", str(FOLDER / name), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"windows: pip could not fetch everything in {FOLDER / name}")
