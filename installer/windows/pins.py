"""What is fetched from the package index for Windows: lists of releases, each with the SHA-256 that pip checks.

The lists lie in the folder `pins` (see package/pinned.py). Every file is fetched as that Python on Windows would do it.
"""

from __future__ import annotations

from pathlib import Path

import pinned

FOLDER = Path(__file__).resolve().parent / "pins"
FOR_WINDOWS = (
    "--platform", "win_amd64", "--python-version", pinned.PYTHON, "--implementation", "cp",
    "--abi", f"cp{pinned.PYTHON.replace('.', '')}", "--abi", "abi3", "--abi", "none", "--only-binary=:all:",
)  # fmt: skip


def read(name: str) -> dict[str, tuple[str, str]]:
    """Distributions of a list, by normalized name, each with its version and SHA-256.

    Raises:
        SystemExit: a line is no pin, or a distribution stands there twice.
    """
    return pinned.read(FOLDER / name)


def download(name: str, folder: Path) -> None:
    """Fetch the wheels of a list into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    pinned.pip(FOLDER / name, "download", "--no-deps", "--dest", str(folder), *FOR_WINDOWS)


def download_source(name: str, folder: Path) -> Path:
    """Fetch the only source archive of a list into `folder`, and return it; nothing of it is built."""
    folder.mkdir(parents=True, exist_ok=True)
    pinned.pip(FOLDER / name, "download", "--no-deps", "--no-binary=:all:", "--dest", str(folder))
    (archive,) = folder.glob("*.tar.gz")
    return archive


def install(name: str, folder: Path) -> None:
    """Lay the wheels of a list out below `folder`, as an installation for Windows."""
    pinned.pip(
        FOLDER / name, "install", "--no-deps", "--no-compile", "--upgrade", "--target", str(folder), *FOR_WINDOWS
    )
