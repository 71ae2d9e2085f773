"""Compares two packages or folders, file by file: `python installer/package/compare.py A B`. Status 1: they differ."""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """One file, link or folder of a package.

    Attributes:
        kind: "file", "link" or "folder".
        size: Bytes of a file; 0 for the others.
        content: A file's SHA-256, a link's target, or nothing.
        mode: Permissions; 0 for a link, which has none.
        time: Of the last change, in seconds since 1970.
    """

    kind: str
    size: int
    content: str
    mode: int
    time: int


def entries(package: Path) -> dict[str, Entry]:
    """Everything in a .deb, a .tar archive or a folder, by name."""
    if package.is_dir():
        return {path.relative_to(package).as_posix(): _of_path(path) for path in sorted(package.rglob("*"))}
    found = {}
    with _opened(package) as tar:
        for member in tar:
            if member.isfile():
                file = tar.extractfile(member)
                content = hashlib.sha256(file.read()).hexdigest() if file else ""
                found[member.name] = Entry("file", member.size, content, member.mode, int(member.mtime))
            elif member.issym():
                found[member.name] = Entry("link", 0, member.linkname, 0, int(member.mtime))
            else:
                found[member.name] = Entry("folder", 0, "", member.mode, int(member.mtime))
    return found


@contextmanager
def _opened(package: Path) -> Iterator[tarfile.TarFile]:
    if package.suffix != ".deb":
        with tarfile.open(package) as tar:
            yield tar
        return
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as unpacked,
        tarfile.open(fileobj=unpacked.stdout, mode="r|") as tar,
    ):
        yield tar
    if unpacked.returncode != 0:
        raise SystemExit(f"compare: {package} could not be read")


def _of_path(path: Path) -> Entry:
    told = path.lstat()
    if path.is_symlink():
        return Entry("link", 0, str(path.readlink()), 0, int(told.st_mtime))
    if path.is_dir():
        return Entry("folder", 0, "", told.st_mode & 0o7777, int(told.st_mtime))
    content = hashlib.sha256(path.read_bytes()).hexdigest()
    return Entry("file", told.st_size, content, told.st_mode & 0o7777, int(told.st_mtime))


def differences(first: Mapping[str, Entry], second: Mapping[str, Entry]) -> list[str]:
    """What is not the same, one line for each name."""
    lines = []
    for name in sorted({*first, *second}):
        one, other = first.get(name), second.get(name)
        if one is None or other is None:
            lines.append(f"{name}: only in the {'first' if other is None else 'second'}")
        elif one != other:
            fields = [field for field in Entry.__dataclass_fields__ if getattr(one, field) != getattr(other, field)]
            lines.append(f"{name}: another {', '.join(fields)}")
    return lines


def main() -> int:
    """Compare what the arguments name."""
    parser = argparse.ArgumentParser(description="Compare two packages or folders file by file.")
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    told = parser.parse_args()
    first, second = entries(told.first), entries(told.second)
    lines = differences(first, second)
    print("\n".join([*lines, f"{len(first)} and {len(second)} names, {len(lines)} differences"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
