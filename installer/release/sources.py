"""Prints where the source of Qt is, for the page of a release: `python installer/release/sources.py`.

Its licence lets others than Qt's makers pass it on if they say this beside the packages (GNU GPL 3, section 6 d). The
packages themselves say it in licenses/NOTICES.txt.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "installer" / "package"))

import licences  # noqa: E402 - found by the line above, as is the next one
import pinned  # noqa: E402


def directions() -> str:
    """The text, for the release that the packages are made of."""
    version, _ = pinned.read(pinned.PACKAGES)["pyside6-essentials"]
    return (
        f"The packages contain Qt and Qt for Python {version} under the GNU Lesser General Public License, version 3."
        f"\n{licences.qt_sources(version)}\n"
    )


if __name__ == "__main__":
    print(directions(), end="")
