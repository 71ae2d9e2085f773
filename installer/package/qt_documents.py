"""The licences of what Qt itself contains from others, which Qt's wheels do not hold: Debian tells them of its own Qt.

It is an older Qt 6 that Debian tells of; what Qt contains hardly changes from one release to the next. The packages are
fetched, not installed, and kept in the per-user cache.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import licences
from project import ROOT

sys.path.insert(0, str(ROOT / "installer" / "checkout"))
import debian
import debian_release
import engine_wheel

PACKAGES = ("libqt6core6t64", "libqt6svg6", "libqt6waylandclient6")
"""Of debian.NEWER_RELEASE: one of each source of Qt that is frozen, whose copyright file tells of that whole source."""


def part() -> licences.Part:
    """All of these licences, as one part of the packages.

    Raises:
        SystemExit: they could not be had.
    """
    folder = engine_wheel.cache_folder() / "qt-documents" / debian.NEWER_RELEASE
    if not folder.is_dir():
        _fetch(folder)
    texts = {}
    for package in PACKAGES:
        told = licences.package_texts(package, folder)
        if not told:
            raise SystemExit(f"package: no text of a licence in Debian's {package}")
        texts |= {f"{package}/{name}": text for name, text in told.items()}
    return licences.Part(licences.QT_PARTS, "", "see the copyright files", texts)


def _fetch(folder: Path) -> None:
    """Lay what the packages tell of themselves into `folder`, whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    print(f"package: fetching the licences of what Qt contains, from Debian {debian.NEWER_RELEASE}", flush=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        unpacked = Path(scratch, "unpacked")
        unpacked.mkdir()
        try:
            debian_release.unpack(debian.NEWER_RELEASE, PACKAGES, unpacked, dependencies=False)
        except debian_release.NotAvailableError as error:
            raise SystemExit(f"package: the licences of what Qt contains are not available: {error}") from error
        shutil.rmtree(folder, ignore_errors=True)
        (unpacked / "usr" / "share" / "doc").rename(folder)
