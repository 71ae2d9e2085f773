"""The operating system in words."""

import platform

from app.hardware import windows
from app.hardware.answers import LIVE, Answers
from app.hardware.files import read_text
from app.hardware.tree import KernelPath


def system_name(root: KernelPath, system: str, answers: Answers = LIVE) -> str:
    """Such as "Debian GNU/Linux 12 (bookworm), Linux 6.1.0, x86_64"."""
    machine = answers.ask("architecture", platform.machine, str)
    if system == "win32":
        return f"{answers.ask('windows.GetVersion', windows.system_name, str)}, {machine}"
    if not system.startswith("linux"):
        return plain_name(answers)
    kernel = read_text(root / "proc/sys/kernel/osrelease")
    parts = [_distribution(root), f"Linux {kernel}" if kernel else "", machine]
    return ", ".join(part for part in parts if part)


def plain_name(answers: Answers = LIVE) -> str:
    """What the standard library can tell anywhere."""
    return answers.ask("system", _plain_name, str)


def _plain_name() -> str:
    return f"{platform.system()} {platform.release()}, {platform.machine()}"


def _distribution(root: KernelPath) -> str:
    for place in ("etc/os-release", "usr/lib/os-release"):
        for line in (read_text(root / place) or "").splitlines():
            name, _, value = line.partition("=")
            if name == "PRETTY_NAME":
                return value.strip("\"'")
    return ""
