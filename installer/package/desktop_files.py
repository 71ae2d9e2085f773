"""The files that let a Linux desktop know the app: menu entry, icon, file type, description for software centres."""

from __future__ import annotations

import datetime
from pathlib import Path

from project import ROOT, project

RESOURCES = ROOT / "resources" / "linux"
# Where each file goes in /usr; only the description has blanks to fill.
SHARED = {
    "expert-lanes.desktop": "share/applications",
    "expert-lanes.svg": "share/icons/hicolor/scalable/apps",
    "expert-lanes.xml": "share/mime/packages",
    "org.expertlanes.ExpertLanes.metainfo.xml": "share/metainfo",
}


def lay_shared(usr: Path, date: int) -> None:
    """Lay all of them below `usr`, with the version of now and the date (seconds since 1970)."""
    blanks = {
        "@VERSION@": project()["version"],
        "@DATE@": datetime.datetime.fromtimestamp(date, datetime.UTC).date().isoformat(),
    }
    for name, folder in SHARED.items():
        text = (RESOURCES / name).read_text("utf-8")
        for blank, value in blanks.items():
            text = text.replace(blank, value)
        (usr / folder).mkdir(parents=True, exist_ok=True)
        (usr / folder / name).write_text(text, "utf-8")
