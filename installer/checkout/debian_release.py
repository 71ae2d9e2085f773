"""Packages of another Debian release, unpacked into a folder: nothing is installed, and no administrator is needed.

They come from the mirror that this machine's apt uses, and apt compares them with lists that Debian signed. Standard
library only.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class NotAvailableError(Exception):
    """The packages could not be had; the text says why."""


def unpack(release: str, packages: Sequence[str], folder: Path, *, dependencies: bool) -> list[str]:
    """Unpack packages and return their file names, which hold their versions.

    Args:
        release: Code name of the release, such as "trixie".
        packages: Names.
        folder: What is unpacked lies in it as below "/" afterwards; must exist.
        dependencies: Also everything that they depend on, down to the C library, whatever this system has.

    Raises:
        NotAvailableError: apt knows no mirror of Debian's, or could not get the packages.
    """
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        scratch = Path(name)
        apt = _private_apt(release, scratch)
        get = ["install", "-y", "--download-only", "--no-install-recommends"] if dependencies else ["download"]
        archives = scratch / "archives"
        for command in (["update"], [*get, *packages]):
            done = subprocess.run([*apt, *command], cwd=archives, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise NotAvailableError(f"apt-get {command[0]}: {done.stderr.strip()[-400:]}")
        found = sorted(archives.glob("*.deb"))
        for package in found:
            done = subprocess.run(
                ["dpkg-deb", "-x", str(package), str(folder)], capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                raise NotAvailableError(f"dpkg-deb: {done.stderr.strip()[-400:]}")
        return [package.stem for package in found]


def _private_apt(release: str, scratch: Path) -> list[str]:
    """The beginning of an apt-get command that knows only `release`, and takes nothing for installed."""
    for path in ("lists/partial", "archives/partial", "preferences.d"):
        (scratch / path).mkdir(parents=True)
    sources, status = scratch / "sources.list", scratch / "status"
    sources.write_text(f"deb [signed-by={_KEYRING}] {_mirror()} {release} main\n")
    status.touch()
    settings = {
        "Dir::Etc::sourcelist": str(sources),
        "Dir::Etc::sourceparts": "-",
        "Dir::Etc::preferences": str(scratch / "preferences"),
        "Dir::Etc::preferencesparts": str(scratch / "preferences.d"),
        "Dir::State": str(scratch),
        "Dir::State::lists": str(scratch / "lists"),
        "Dir::State::status": str(status),
        "Dir::Cache": str(scratch),
        "Dir::Cache::archives": str(scratch / "archives"),
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "APT::Sandbox::User": "",
        # Without it a mirror that does not answer is only a warning.
        "APT::Update::Error-Mode": "any",
        # dpkg's lock is for those who install, and not everybody's.
        "Debug::NoLocking": "1",
    }
    return ["apt-get", "-q", *(f"-o{name}={value}" for name, value in settings.items())]


def _mirror() -> str:
    lines = ("$(SITE)", "Created-By: Packages", "Component: main", "Origin: Debian")
    try:
        told = subprocess.run(
            ["apt-get", "indextargets", "--format", *lines], capture_output=True, text=True, check=False
        ).stdout
    except FileNotFoundError as error:
        raise NotAvailableError("there is no apt-get") from error
    mirrors = [site for site in told.split() if not site.endswith("-security")]
    if not mirrors:
        raise NotAvailableError("apt knows no mirror of Debian's")
    return mirrors[0]
