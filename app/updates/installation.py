"""This installation: its version, and which kind of package would replace it."""

import importlib.metadata
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from app.library.appimage import appimage_file
from app.platform_name import this_platform

_DEB_FOLDER = PurePath("/usr/lib/expert-lanes")

SETUP, DEB, APPIMAGE, ARCHIVE, NO_PACKAGE = "setup", "deb", "appimage", "tar.xz", ""


@dataclass(frozen=True)
class Installation:
    """What is installed.

    Attributes:
        version: Of the app.
        platform: System and processor, as the feed names them.
        kind: Kind of file that replaces it: "setup", "deb", "appimage", "tar.xz"; empty for a checkout.
    """

    version: str
    platform: str
    kind: str


def this_installation() -> Installation:
    """What runs now."""
    return Installation(
        version=importlib.metadata.version("expert-lanes"),
        platform=this_platform(),
        kind=package_kind(sys.platform, Path(sys.executable), os.environ, checkout=_is_checkout()),
    )


def package_kind(system: str, program: PurePath, environment: Mapping[str, str], *, checkout: bool) -> str:
    """Which kind of package the running program came in.

    Args:
        system: As in `sys.platform`.
        program: The running program.
        environment: Its environment; the runtime of an AppImage names itself in it.
        checkout: It runs from its source, and came in none.
    """
    if checkout:
        return NO_PACKAGE
    if system == "win32":
        return SETUP
    if appimage_file(program, environment):
        return APPIMAGE
    return DEB if program.is_relative_to(_DEB_FOLDER) else ARCHIVE


def _is_checkout() -> bool:
    frozen = bool(getattr(sys, "frozen", False))
    return not frozen and Path(__file__).parents[2].joinpath("pyproject.toml").is_file()
