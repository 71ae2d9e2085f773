"""The mingw-w64 compiler, which makes Windows' libraries here: its tools, its release, and the libraries it needs."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path

FILES = Path(__file__).resolve().parent / "mingw"
TOOLCHAIN = FILES / "toolchain.cmake"
_TRIPLE = "x86_64-w64-mingw32"
RUNTIME = ("libgcc_s_seh-1.dll", "libstdc++-6.dll", "libwinpthread-1.dll")
"""Libraries of the compiler that what it makes is linked to."""
RUNTIME_PACKAGES = ("gcc-mingw-w64-x86-64-posix-runtime", "mingw-w64-x86-64-dev")
"""Debian's packages that hold them, whose notices go with them."""


def is_here() -> bool:
    """True where the compiler is installed."""
    return _find("g++") is not None


def _find(name: str) -> str | None:
    # Where there are two variants, the one named -posix has C++'s threads.
    return shutil.which(f"{_TRIPLE}-{name}-posix") or shutil.which(f"{_TRIPLE}-{name}")


def tool(name: str) -> str:
    """Path of a tool, such as "gcc" or "strip".

    Raises:
        SystemExit: it is not installed.
    """
    found = _find(name)
    if found is None:
        raise SystemExit(f"windows: {_TRIPLE}-{name} is not installed (Debian: g++-mingw-w64-x86-64-posix)")
    return found


@functools.cache
def release() -> str:
    """What compiles, assembles and links, in one line: another release of these gives other bytes."""
    told = [_output(tool("g++"), "-dumpfullversion"), _output(tool("g++"), "-dumpmachine")]
    for name in ("as", "ld"):
        told.append(_output(tool(name), "--version").splitlines()[0])
    # Which headers: the macro that they carry their release in.
    headers = subprocess.run(
        [tool("gcc"), "-E", "-P", "-"],
        input="#include <_mingw.h>\n__MINGW64_VERSION_STR\n",
        capture_output=True,
        text=True,
        check=True,
    )
    told.append(headers.stdout.strip().splitlines()[-1])
    return ", ".join(told)


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def lay_runtime(folder: Path) -> None:
    """Lay the compiler's libraries into `folder`, without the names for debuggers that make most of their size.

    Raises:
        SystemExit: the compiler does not have one of them.
    """
    for name in RUNTIME:
        path = Path(_output(tool("g++"), f"-print-file-name={name}"))
        if not path.is_file():
            raise SystemExit(f"windows: the compiler has no {name}")
        strip(path, folder / name)


def strip(source: Path, target: Path) -> None:
    """Copy a library without its names for debuggers."""
    subprocess.run([tool("strip"), "--strip-all", "-o", str(target), str(source)], check=True)


def import_library(definition: Path, target: Path) -> None:
    """Make the library that stands in for another one when something is linked to that.

    Args:
        definition: The other one's name and functions, as a .def file.
        target: What is made.
    """
    subprocess.run([tool("dlltool"), "--input-def", str(definition), "--output-lib", str(target)], check=True)
