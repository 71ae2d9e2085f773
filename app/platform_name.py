"""System and processor in one name, as releases and engine components are marked: "linux-x86_64", "windows-x86_64".

Imports nothing of ours.
"""

import platform
import sys

_PROCESSORS = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}


def platform_name(system: str, machine: str) -> str:
    """The name, from Python's own: `sys.platform` and `platform.machine()`."""
    processor = _PROCESSORS.get(machine.lower(), machine.lower())
    return f"{'windows' if system == 'win32' else system}-{processor}"


def this_platform() -> str:
    """The name of what runs here."""
    return platform_name(sys.platform, platform.machine())
