"""Makes the AppImage of the frozen app: a runtime that needs no FUSE 2, and a file system with the app behind it.

    python installer/release/appimage.py --runtime FILE --runtime-source FILE [--frozen FOLDER] [--untried]

The runtime is the static one of the type-2 AppImage project, built by the release workflow from its source, whose
runtime.c begins with its licence; those of what is linked into it are told by Debian's packages of the same programs
(RUNTIME_PARTS), which have to be installed. `make package` freezes the app before; `mksquashfs` (package
squashfs-tools) packs it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "installer" / "package"))

import desktop_files  # noqa: E402 - found by the line above, as are the next ones
import licences  # noqa: E402
import project  # noqa: E402
import self_test  # noqa: E402

_BLOCK = "1M"
_LEVEL = "19"
RUNTIME_COMMIT = "0da87be97b49543ec9008681424955c9e0b331b2"
"""Of https://github.com/AppImage/type2-runtime: what the release workflow builds."""
_RUNTIME_NOTICE = """\
What an AppImage begins with is the runtime of the AppImage project; its licence stands below. Linked into it are
{parts}.
The licences of each are in the folder of its name, as Debian's package of the same program tells them.
libfuse is under the GNU Lesser General Public License, version 2.1. Its source, with the change that the runtime makes
to it, the runtime's own source and the scripts that build both are in {source},
which is published beside the AppImage. The runtime's source is also at
https://github.com/AppImage/type2-runtime/tree/{commit}
Another runtime, with another libfuse, may take its place: --appimage-extract unpacks the app, and `mksquashfs` packs it
for any runtime.

"""
RUNTIME_SOURCE = "appimage-runtime-source.tar.xz"
"""What the release workflow publishes beside the AppImage, as libfuse's licence asks of who links it statically."""
RUNTIME_PARTS = {
    "libfuse": "libfuse3-3",
    "mimalloc": "libmimalloc2.0",
    "musl": "musl",
    "squashfuse": "libsquashfuse0",
    "zlib": "zlib1g",
    "zstd": "libzstd1",
}
"""What is linked into the runtime, each with the package of Debian 12 that tells of its licences."""
_MAGIC, _MAGIC_PLACE = b"AI\x02", 8


def lay_folder(frozen: Path, folder: Path, date: int) -> None:
    """Lay out what the AppImage holds: the app, and what desktops and AppImage tools look for."""
    library = folder / "usr" / "lib" / project.NAME
    library.parent.mkdir(parents=True)
    shutil.copytree(frozen, library, symlinks=True, copy_function=os.link)
    desktop_files.lay_shared(folder / "usr", date)
    program = f"{project.NAME}-window"
    (folder / "AppRun").symlink_to(f"usr/lib/{project.NAME}/{program}")
    programs = folder / "usr" / "bin"
    programs.mkdir()
    for name in project.PROGRAMS:
        (programs / name).symlink_to(f"../lib/{project.NAME}/{name}")
    shared = folder / "usr" / "share"
    shutil.copyfile(shared / "applications" / f"{project.NAME}.desktop", folder / f"{project.NAME}.desktop")
    icon = shared / "icons" / "hicolor" / "scalable" / "apps" / f"{project.NAME}.svg"
    shutil.copyfile(icon, folder / f"{project.NAME}.svg")
    (folder / ".DirIcon").symlink_to(f"{project.NAME}.svg")
    project.settle(folder, date)


def tell_of_runtime(
    folder: Path,
    runtime_source: Path,
    date: int,
    documents: Path = licences.DOCUMENTS,
    common: Path = licences.COMMON,
) -> None:
    """Add the licences of the runtime, and of what is linked into it, to what the AppImage holds.

    Args:
        folder: What `lay_folder` laid out.
        runtime_source: The runtime's main source file.
        date: The time of all files, in seconds since 1970.
        documents: See licences.DOCUMENTS.
        common: See licences.COMMON.

    Raises:
        SystemExit: the source does not begin with a licence, or nothing tells that of a part of the runtime.
    """
    heading = runtime_source.read_text("utf-8").partition("*/")[0]
    lines = [re.sub(r"^[/\s*]+", "", line) for line in heading.splitlines()]
    if "Permission is hereby granted" not in heading:
        raise SystemExit(f"release: {runtime_source} does not begin with the licence that is known")
    place = folder / "usr" / "lib" / project.NAME / "licenses" / "AppImage runtime"
    place.mkdir(parents=True)
    notice = _RUNTIME_NOTICE.format(parts=", ".join(RUNTIME_PARTS), source=RUNTIME_SOURCE, commit=RUNTIME_COMMIT)
    (place / "NOTICE.txt").write_text(notice + "\n".join(lines).strip() + "\n", "utf-8")
    for part, package in RUNTIME_PARTS.items():
        texts = licences.package_texts(package, documents, common)
        if not any(text.strip() for text in texts.values()):
            raise SystemExit(f"release: no text of a licence for {part}; Debian's package {package} has it")
        (place / part).mkdir()
        for name, text in texts.items():
            (place / part / name).write_text(text, "utf-8")
    project.settle(folder, date)


def make(runtime: Path, folder: Path, target: Path, date: int) -> None:
    """Write the AppImage of `folder`.

    Raises:
        SystemExit: `runtime` is none.
    """
    start = runtime.read_bytes()
    if start[:4] != b"\x7fELF" or start[_MAGIC_PLACE : _MAGIC_PLACE + 3] != _MAGIC:
        raise SystemExit(f"release: {runtime} is no runtime of a type-2 AppImage")
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        packed = Path(scratch) / "app.squashfs"
        times = ["-mkfs-time", str(date), "-all-time", str(date)]
        options = [
            "-root-owned",
            "-noappend",
            "-no-xattrs",
            "-no-progress",
            "-comp",
            "zstd",
            "-Xcompression-level",
            _LEVEL,
        ]
        # SOURCE_DATE_EPOCH and these times exclude each other.
        environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
        command = ["mksquashfs", str(folder), str(packed), "-b", _BLOCK, *options, *times]
        project.run(command, env=environment, stdout=subprocess.DEVNULL)
        with target.open("wb") as file, packed.open("rb") as source:
            file.write(start)
            shutil.copyfileobj(source, file, 1 << 20)
    target.chmod(0o755)


def try_it(image: Path) -> None:
    """Run its self-test as a system without FUSE does: unpacked by the runtime.

    Raises:
        SystemExit: it failed.
    """
    self_test.self_test(image, image.name, APPIMAGE_EXTRACT_AND_RUN="1")


def main(arguments: Sequence[str] | None = None) -> None:
    """Make and try it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", type=Path, required=True)
    parser.add_argument("--runtime-source", type=Path, required=True, help="the runtime.c that it was built from")
    parser.add_argument("--frozen", type=Path, default=project.DIST / project.NAME)
    parser.add_argument("--untried", action="store_true", help="leave the self-test out")
    told = parser.parse_args(arguments)
    version, date = str(project.project()["version"]), project.source_date()
    target = project.DIST / f"{project.NAME}-{version}-linux-{os.uname().machine}.AppImage"
    project.WORK.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=project.WORK) as scratch:
        folder = Path(scratch) / "AppDir"
        lay_folder(told.frozen, folder, date)
        tell_of_runtime(folder, told.runtime_source, date)
        make(told.runtime, folder, target, date)
    if not told.untried:
        try_it(target)
    print(f"release: {target.stat().st_size:>13,} {target}")


if __name__ == "__main__":
    main()
