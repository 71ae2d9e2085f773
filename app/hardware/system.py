"""The operating system in words."""

import platform
from pathlib import Path

from app.hardware import windows
from app.hardware.files import read_text


def system_name(root: Path, system: str) -> str:
    """Such as "Debian GNU/Linux 12 (bookworm), Linux 6.1.0, x86_64"."""
    if system == "win32":
        return f"{windows.system_name()}, {platform.machine()}"
    if not system.startswith("linux"):
        return plain_name()
    kernel = read_text(root / "proc/sys/kernel/osrelease")
    parts = [_distribution(root), f"Linux {kernel}" if kernel else "", platform.machine()]
    return ", ".join(part for part in parts if part)


def plain_name() -> str:
    """What the standard library can tell anywhere."""
    return f"{platform.system()} {platform.release()}, {platform.machine()}"


def _distribution(root: Path) -> str:
    for place in ("etc/os-release", "usr/lib/os-release"):
        for line in (read_text(root / place) or "").splitlines():
            name, _, value = line.partition("=")
            if name == "PRETTY_NAME":
                return value.strip("\"'")
    return ""
