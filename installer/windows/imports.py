"""Checks, without running anything, that every library the frozen app is linked to is in it or in every Windows.

Wine has libraries that a fresh Windows lacks, above all Microsoft's C++ runtime: what is missing shows there only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pe

# Windows 10, 64-bit, as it is installed. Each pattern with why it may be outside.
OF_THE_SYSTEM = {
    r"api-ms-win-(core|crt|shcore)-[\w-]+": "names of parts of Windows 10 itself, among them its C library",
    r"(kernel32|kernelbase|ntdll|advapi32|secur32|bcrypt|ncrypt|crypt32|wintrust|authz|userenv|psapi|powrprof|pdh)": (
        "processes, memory, rights and their figures"
    ),
    r"(user32|gdi32|shell32|shlwapi|ole32|oleaut32|comdlg32|comctl32|uxtheme|dwmapi|imm32|shcore|winmm|setupapi)": (
        "windows, dialogs and the shell"
    ),
    r"(d2d1|d3d9|d3d11|d3d12|dxgi|dcomp|dwrite|windowscodecs|opengl32|wtsapi32|uiautomationcore|uiautomationclient)": (
        "drawing, sessions and screen readers"
    ),
    r"(ws2_32|mswsock|iphlpapi|dnsapi|netapi32|winhttp|mpr|rpcrt4|version|propsys|cabinet|msi|rstrtmgr)": (
        "networks, files and installed programs"
    ),
    r"winspool\.drv": "drivers of printers",
    r"(msvcrt|ucrtbase)": "C libraries of Windows 10 itself",
    r"icuuc": "Windows' own Unicode library, since Windows 10 1703",
    r"vulkan-1": "comes with the graphics driver; where it lacks, ggml leaves its Vulkan backend out",
}
# Folders that the app has Windows look into, beside that of the program and the one of the library that asks.
SEARCHED = {
    "_internal": "the start program names it to Windows",
    "_internal/PySide6": "its package names it to Windows",
    "_internal/shiboken6": "its package names it to Windows",
    "_internal/numpy.libs": "numpy names it to Windows",
    "_internal/llama_cpp/lib": "llama-cpp-python names it to Windows",
}
_OUTSIDE = re.compile("|".join(OF_THE_SYSTEM))


@dataclass(frozen=True)
class Imports:
    """What a frozen tree asks of its libraries.

    Attributes:
        files: How many programs and libraries there are.
        system: Libraries of Windows that are asked for, each with one file that does.
        missing: Libraries that nobody has, each with all files that ask.
    """

    files: int
    system: dict[str, str]
    missing: dict[str, tuple[str, ...]]


def of_the_system(library: str) -> bool:
    """True for a library, by its name in lower case, that every Windows 10 or the graphics driver has."""
    return _OUTSIDE.fullmatch(library.removesuffix(".dll")) is not None


def compare(needs: Mapping[str, Iterable[str]]) -> Imports:
    """Look for every library where Windows would.

    Args:
        needs: Programs and libraries, by their names in the frozen folder with slashes, each with the libraries that
            it is linked to, in lower case.
    """
    there = {name.lower() for name in needs}
    system: dict[str, str] = {}
    missing: dict[str, list[str]] = {}
    for name, libraries in sorted(needs.items()):
        folders = ("", name.rpartition("/")[0], *SEARCHED)
        for library in libraries:
            places = {f"{folder}/{library}".lstrip("/").lower() for folder in folders}
            if places & there:
                continue
            if of_the_system(library):
                system.setdefault(library, name)
            else:
                missing.setdefault(library, []).append(name)
    return Imports(len(needs), system, {library: tuple(names) for library, names in missing.items()})


def read(frozen: Path) -> dict[str, tuple[str, ...]]:
    """All programs and libraries below `frozen`, each with the libraries that it is linked to.

    Raises:
        pe.NotPeError: one of them cannot be read.
    """
    files = (path for path in frozen.rglob("*") if path.suffix.lower() in pe.SUFFIXES)
    return {path.relative_to(frozen).as_posix(): tuple(pe.imports(path)) for path in sorted(files)}


def check(frozen: Path) -> Imports:
    """Fail where the app would not start on a Windows as it is installed.

    Raises:
        SystemExit: with every library that lacks, and who asks for it.
    """
    found = compare(read(frozen))
    if found.missing:
        lines = [f"{library}, which {', '.join(names)} needs" for library, names in sorted(found.missing.items())]
        raise SystemExit("windows: neither in the app nor in Windows: " + "; ".join(lines))
    return found
