"""What Debian's and the desktop's own checkers say of the packages: nothing, or the build ends."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from project import NAME, ROOT

sys.path.insert(0, str(ROOT / "installer" / "checkout"))
import debian
import engine_wheel

_TOOLS = ("lintian", "desktop-file-utils", "appstream", "man-db")
# What the packages are made with; dpkg-shlibdeps, of dpkg-dev, looks for the libraries on this machine.
_NEEDED = ("libwayland-client0", "libwayland-cursor0", "libwayland-egl1", "binutils", "dpkg-dev", "patchelf")


def needed(prefix: str = sys.base_prefix, version: str = platform.python_version()) -> tuple[str, ...]:
    """The packages without which the Linux packages cannot be made.

    Debian's Python runs without the library of itself that PyInstaller freezes, which is a package of its own.

    Args:
        prefix: Where Python is installed.
        version: Python's.
    """
    series = version.rpartition(".")[0]
    return (*_NEEDED, f"libpython{series}") if prefix == "/usr" else _NEEDED


def install_tools() -> None:
    """Install the checkers where that is permitted, and what the packages cannot be made without.

    Raises:
        SystemExit: there is no apt, or one of the latter is missing.
    """
    if not debian.is_debian_like():
        raise SystemExit("package: the packages are made on Debian and its relatives only")
    lacking = debian.install((*needed(), *_TOOLS), engine_wheel.package_memory())
    if not set(lacking).isdisjoint(needed()):
        raise SystemExit(f"package: cannot do without {' '.join(lacking)}")


def check_package(deb: Path) -> None:
    """Have lintian look at the .deb; what it finds is printed and ends the build."""
    _check(["lintian", "--allow-root", "--tag-display-limit", "0", "--fail-on", "error,warning", str(deb)])


def check_desktop_files(usr: Path) -> None:
    """Have menu entry and description looked at where they lie below `usr`, and the manual page formatted."""
    _check(["desktop-file-validate", str(usr / "share" / "applications" / f"{NAME}.desktop")])
    described = sorted((usr / "share" / "metainfo").glob("*.metainfo.xml"))
    _check(["appstreamcli", "validate", "--no-net", *map(str, described)])
    for page in sorted((usr / "share" / "man" / "man1").glob("*.gz")):
        _check(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", str(page)], quiet=True)


def _check(command: Sequence[str], *, quiet: bool = False) -> None:
    """Run a checker; skipped with its reason where it is missing.

    Args:
        command: The checker and what it looks at.
        quiet: What it prints on standard output is no finding.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        print(f"package: not checked, for {command[0]} is missing")
        return
    told = (done.stderr if quiet else done.stdout + done.stderr).strip()
    if told:
        print(told)
    if done.returncode != 0 or (quiet and told):
        raise SystemExit(f"package: {command[0]} ended with {done.returncode}")
    if not told:
        print(f"package: {command[0]} has nothing to say against {Path(command[-1]).name}")
