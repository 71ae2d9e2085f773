"""Makes the .tar.xz of the frozen app: one folder that runs wherever it is unpacked, and says what it needs."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from desktop_files import lay_shared
from project import DIST, NAME, WORK, project, run, settle


def readme(
    version: str, oldest: Mapping[str, tuple[int, ...]], libraries: Iterable[str], packages: Iterable[str]
) -> str:
    """The text that lies in the folder.

    Args:
        version: The app's.
        oldest: The oldest versions of the compiler's libraries that serve, `GLIBC` and `GLIBCXX` among them.
        libraries: Sonames that the system must have.
        packages: Names of their packages on the system where this was made.
    """
    return f"""Expert Lanes {version}

Start expert-lanes-window for the window, expert-lanes in a terminal. Nothing is installed: remove the folder to be rid
of it. Models and chats are in ~/.local/share/expert-lanes.

It needs Linux with the GNU C library {_dotted(oldest["GLIBC"])} or newer, a C++ library (libstdc++) that has
GLIBCXX_{_dotted(oldest["GLIBCXX"])}, and these libraries, which a desktop has:
{_wrapped(libraries)}
Debian and Ubuntu have them in:
{_wrapped(packages)}
For graphics cards it also needs libvulkan.so.1 and the card's Vulkan driver. `share` has a menu entry, an icon and the
type of GGUF files; whose work is in the folder, and under which licences, is in `licenses`.
"""


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _wrapped(words: Iterable[str]) -> str:
    lines = ["   "]
    for word in words:
        if len(lines[-1]) + len(word) > 110:
            lines.append("   ")
        lines[-1] += f" {word}"
    return "\n".join(lines)


def make_archive(frozen: Path, told: str, date: int) -> Path:
    """Make the archive.

    Args:
        frozen: The folder of programs.
        told: The text of its README.txt.
        date: The time of all its files, in seconds since 1970.
    """
    version = project()["version"]
    target = DIST / f"{NAME}-{version}-linux-{os.uname().machine}.tar.xz"
    with tempfile.TemporaryDirectory(dir=WORK) as scratch:
        folder = Path(scratch) / f"{NAME}-{version}"
        shutil.copytree(frozen, folder, symlinks=True, copy_function=os.link)
        lay_shared(folder, date)
        (folder / "README.txt").write_text(told, "utf-8")
        settle(folder, date)
        plain = Path(scratch) / "plain.tar"
        with tarfile.open(plain, "w", format=tarfile.GNU_FORMAT) as tar:
            for path in [folder, *sorted(folder.rglob("*"))]:
                tar.add(path, path.relative_to(scratch).as_posix(), recursive=False, filter=_anonymous)
        with target.open("wb") as packed:
            run(["xz", "-3", "-T2", "-c", str(plain)], stdout=packed)
    return target


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.mtime = int(entry.mtime)
    entry.uname = entry.gname = "root"
    return entry
