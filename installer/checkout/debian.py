"""System packages on a Debian-like machine: what is missing, how to get it, newer Vulkan headers.

Standard library only: this runs before any virtual environment exists.
"""

from __future__ import annotations  # read by Pythons that are too old to go on, to tell so

import datetime
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

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
TEST_PACKAGES = ("mesa-vulkan-drivers", "xvfb")


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
    done = subprocess.run(["apt-cache", "policy", "libvulkan-dev"], capture_output=True, text=True, check=False)
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
    targets = subprocess.run(
        [
            "apt-get",
            "indextargets",
            "--format",
            "$(SITE)",
            "Created-By: Packages",
            "Component: main",
            "Origin: Debian",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    mirrors = [site for site in targets.stdout.split() if not site.endswith("-security")]
    if not mirrors:
        print("setup: no Debian mirror known to apt: Vulkan headers stay as they are")
        return None
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    with tempfile.TemporaryDirectory(dir=folder) as name:
        scratch = Path(name)
        for path in ("lists/partial", "archives/partial", "unpacked"):
            (scratch / path).mkdir(parents=True)
        sources = scratch / "sources.list"
        sources.write_text(f"deb [signed-by={keyring}] {mirrors[0]} {NEWER_RELEASE} main\n")
        apt = [
            "apt-get",
            "-q",
            f"-oDir::Etc::sourcelist={sources}",
            "-oDir::Etc::sourceparts=-",
            f"-oDir::State::lists={scratch / 'lists'}",
            f"-oDir::Cache::archives={scratch / 'archives'}",
            "-oDir::Cache::pkgcache=",
            "-oDir::Cache::srcpkgcache=",
            "-oAPT::Sandbox::User=",
        ]
        for command in (["update"], ["download", *VULKAN_HEADER_PACKAGES]):
            done = subprocess.run([*apt, *command], cwd=scratch, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                print(f"setup: newer Vulkan headers not available: {done.stderr.strip()[-400:]}")
                return None
        for package in scratch.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(package), str(scratch / "unpacked")], check=True)
        shutil.rmtree(usr, ignore_errors=True)
        (scratch / "unpacked" / "usr").rename(usr)
    return usr
