"""System packages on a Debian-like machine: what is missing, how to get it, newer Vulkan headers.

Standard library only: this runs before any virtual environment exists.
"""

from __future__ import annotations  # read by Pythons that are too old to go on, to tell so

import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import debian_release

# ggml-vulkan uses declarations that Debian 12's headers (1.3.239) do not have.
VULKAN_HEADERS_NEEDED = (1, 3, 270)
NEWER_RELEASE = "trixie"

BUILD_PACKAGES = ("g++", "cmake", "ninja-build", "git", "python3-venv")
VULKAN_PACKAGES = ("glslc", "libvulkan1")
VULKAN_HEADER_PACKAGES = ("libvulkan-dev", "spirv-headers")
# "a|b": the name in newer releases, then the older one.
QT_PACKAGES = (
    "libglib2.0-0t64|libglib2.0-0",
    "libegl1",
    "libgl1",
    "libdbus-1-3",
    "libfontconfig1",
    "libxkbcommon-x11-0",
    "libxcb-cursor0",
    "libxcb-icccm4",
    "libxcb-image0",
    "libxcb-keysyms1",
    "libxcb-randr0",
    "libxcb-render-util0",
    "libxcb-shape0",
    "libxcb-xinerama0",
    "fonts-dejavu-core",
)
# What Windows' programs are compiled with, run under, and packed by.
WINDOWS_PACKAGES = ("g++-mingw-w64-x86-64-posix", "wine64", "wine", "nsis")
# Without these, tests are skipped. In a Debian 12 that had the packages above: 215 MB were fetched, unpacked in 66 s to
# 1.2 GB on two cores (November 2026); compiler and Wine are 87 % of it.
TEST_PACKAGES = (
    "mesa-vulkan-drivers",
    "xvfb",
    "openssl",
    "patchelf",
    "dpkg-dev",
    "desktop-file-utils",
    "man-db",
    "squashfs-tools",
    "xdotool",
    "osslsigncode",
    *WINDOWS_PACKAGES,
)


def packages_for_tests(machine: str = platform.machine()) -> tuple[str, ...]:
    """TEST_PACKAGES; without Windows' programs on a machine whose processor could not run them."""
    if machine in {"x86_64", "AMD64"}:
        return TEST_PACKAGES
    return tuple(name for name in TEST_PACKAGES if name not in WINDOWS_PACKAGES)


def is_debian_like() -> bool:
    """True where dpkg and apt-get exist."""
    return shutil.which("dpkg-query") is not None and shutil.which("apt-get") is not None


def missing(packages: tuple[str, ...]) -> list[str]:
    """The entries of `packages` of which dpkg lists no alternative as installed."""
    names = [name for entry in packages for name in entry.split("|")]
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\n", *names],
        capture_output=True,
        text=True,
        check=False,
    )
    installed = {line.split()[0] for line in done.stdout.splitlines() if line.split()[1:2] == ["ii"]}
    return [entry for entry in packages if installed.isdisjoint(entry.split("|"))]


def _privilege() -> list[str] | None:
    """The command prefix that may install packages, or None where nobody may."""
    if os.geteuid() == 0:
        return []
    if (
        shutil.which("sudo")
        and subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    ):
        return ["sudo", "-n"]
    return None


def install(packages: tuple[str, ...], memory: Path) -> list[str]:
    """Install what is missing where that is permitted; returns what is still missing.

    What apt could not bring is remembered in the file `memory` and not tried again on the same day, so
    that a set-up which changes nothing costs nothing.
    """
    today = datetime.date.today().isoformat()
    try:
        tried = {str(name) for name in json.loads(memory.read_text()).get(today, [])}
    except (OSError, ValueError, AttributeError):
        tried = set()
    lacking = missing(packages)
    wanted = [name for name in lacking if name not in tried]
    if not wanted:
        return lacking
    prefix = _privilege()
    if prefix is None:
        print(f"setup: not permitted to install: {' '.join(wanted)}")
        print(f"setup: as an administrator: apt-get install {' '.join(wanted)}")
    else:
        print(f"setup: installing {' '.join(wanted)}", flush=True)
        _apt_install(prefix, wanted)
        lacking = missing(packages)
    if lacking:
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.write_text(json.dumps({today: sorted(tried | set(lacking))}))
    return lacking


def _apt_install(prefix: list[str], wanted: list[str]) -> None:
    proxies = [f"{name}={value}" for name, value in os.environ.items() if name.lower().endswith("_proxy")]
    apt = [*prefix, "env", *proxies, "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    subprocess.run([*apt, "update", "-q"], stdout=subprocess.DEVNULL, check=False)
    command = [*apt, "install", "-y", "-q", "--no-install-recommends"]
    names = [_known_name(entry) for entry in wanted]
    done = subprocess.run([*command, *names], stdout=subprocess.DEVNULL, check=False)
    if done.returncode != 0:  # one name that this release lacks must not keep back the others
        for name in names:
            subprocess.run([*command, name], stdout=subprocess.DEVNULL, check=False)


def _known_name(entry: str) -> str:
    """The first alternative that this release has, or the last one."""
    *newer, last = entry.split("|")
    for name in newer:
        done = subprocess.run(["apt-cache", "show", name], capture_output=True, check=False)
        if done.returncode == 0:
            return name
    return last


def release_has_new_vulkan_headers() -> bool:
    """True where this release's own libvulkan-dev is new enough."""
    told = dict(os.environ, LC_ALL="C")  # it speaks the user's language
    command = ["apt-cache", "policy", "libvulkan-dev"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=told)
    found = re.search(r"Candidate: (\d+)\.(\d+)\.(\d+)", done.stdout)
    return found is not None and tuple(int(part) for part in found.groups()) >= VULKAN_HEADERS_NEEDED


def vulkan_header_version(include: Path) -> tuple[int, int, int] | None:
    """The version that `include/vulkan/vulkan_core.h` declares, or None without such a file."""
    try:
        text = (include / "vulkan" / "vulkan_core.h").read_text(errors="replace")
    except OSError:
        return None
    patch = re.search(r"#define VK_HEADER_VERSION (\d+)", text)
    complete = re.search(r"VK_HEADER_VERSION_COMPLETE VK_MAKE_API_VERSION\(\d+, (\d+), (\d+)", text)
    if patch is None or complete is None:
        return None
    return int(complete[1]), int(complete[2]), int(patch[1])


def newer_vulkan_headers(folder: Path) -> Path | None:
    """Unpack a newer release's Vulkan and SPIR-V headers into `folder`; nothing is installed system-wide.

    Uses the mirror this machine's apt already uses. Returns the unpacked `usr` folder, or None
    with the reason printed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    usr = folder / "usr"
    if (vulkan_header_version(usr / "include") or (0, 0, 0)) >= VULKAN_HEADERS_NEEDED:
        return usr
    with tempfile.TemporaryDirectory(dir=folder) as name:
        unpacked = Path(name, "unpacked")
        unpacked.mkdir()
        try:
            debian_release.unpack(NEWER_RELEASE, VULKAN_HEADER_PACKAGES, unpacked, dependencies=False)
        except debian_release.NotAvailableError as error:
            print(f"setup: newer Vulkan headers not available: {error}")
            return None
        shutil.rmtree(usr, ignore_errors=True)
        (unpacked / "usr").rename(usr)
    return usr
