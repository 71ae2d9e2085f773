"""Prints where sources of others' work are, for the page of a release: `python installer/release/sources.py`.

Qt's licence lets others than its makers pass it on if they say this beside the packages (GNU GPL 3, section 6 d);
libfuse's asks for the source itself to be there (GNU LGPL 2.1, section 6 d). The packages say it too, in their folder
`licenses`.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "installer" / part) for part in ("package", "release")]

import appimage  # noqa: E402 - found by the line above, as are the next ones
import licences  # noqa: E402
import pinned  # noqa: E402


def directions() -> str:
    """The text, for the release that the packages are made of."""
    version, _ = pinned.read(pinned.PACKAGES)["pyside6-essentials"]
    return (
        f"The packages contain Qt and Qt for Python {version} under the GNU Lesser General Public License, version 3."
        f"\n{licences.qt_sources(version)}\n"
        f"\nThe AppImage begins with the AppImage project's runtime, into which libfuse is linked under the GNU Lesser "
        f"General Public License, version 2.1: the source of both is in {appimage.RUNTIME_SOURCE}.\n"
    )


if __name__ == "__main__":
    print(directions(), end="")
