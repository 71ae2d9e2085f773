"""What is installed, and where releases are published: from what the system says, without a system."""

import sys
from pathlib import PurePosixPath, PureWindowsPath
from types import ModuleType

import pytest

from app.updates.installation import package_kind, this_installation
from app.updates.source import Source, known_source, unknown_source

IN_USR = PurePosixPath("/usr/lib/expert-lanes/expert-lanes-window")
IN_MOUNT = PurePosixPath("/tmp/.mount_x/usr/lib/expert-lanes/expert-lanes-window")
UNPACKED = PurePosixPath("/home/user/expert-lanes-0.1.0/expert-lanes-window")


@pytest.mark.parametrize(
    ("system", "program", "environment", "checkout", "kind"),
    [
        ("linux", IN_USR, {}, False, "deb"),
        ("linux", UNPACKED, {}, False, "tar.xz"),
        ("linux", IN_MOUNT, {"APPIMAGE": "/a", "APPDIR": "/tmp/.mount_x"}, False, "appimage"),
        ("linux", IN_USR, {"APPIMAGE": "/a", "APPDIR": "/tmp/.mount_x"}, False, "deb"),
        ("linux", UNPACKED, {"APPIMAGE": "/a", "APPDIR": "/tmp/.mount_x"}, False, "tar.xz"),
        ("linux", PurePosixPath("/usr/bin/python3"), {}, True, ""),
        ("win32", PureWindowsPath(r"C:\Users\u\expert-lanes-window.exe"), {}, False, "setup"),
    ],
)
def test_the_kind_of_package_follows_from_where_the_program_lies(system, program, environment, checkout, kind):
    assert package_kind(system, program, environment, checkout=checkout) == kind


def test_this_is_a_checkout_which_no_package_replaces():
    assert this_installation().kind == ""


def test_this_source_knows_no_releases():
    assert known_source() is None
    assert unknown_source().message == "This build does not know where releases are published."


def test_a_release_build_knows_what_was_baked_in(monkeypatch):
    baked = ModuleType("app.updates.baked")
    baked.FEED_URL, baked.KEYS = "https://releases.test/releases.json", ("one", "two")
    monkeypatch.setitem(sys.modules, "app.updates.baked", baked)
    assert known_source() == Source(feed_url="https://releases.test/releases.json", keys=("one", "two"))
