"""Makes the .deb of the frozen app, with the dependencies that dpkg's own tool finds in its programs and libraries."""

from __future__ import annotations

import argparse
import datetime
import gzip
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Container, Sequence
from pathlib import Path

import debian_documents as documents
from desktop_files import lay_shared
from licences import Part
from project import DIST, NAME, PROGRAMS, WORK, file_list, project, run, settle

from app import cli

_REVISION = "1"
# What the app does without where the system lacks it.
OPTIONAL = re.compile(r"(^|/)libggml-vulkan\.so$")
# For these dpkg knows only the version in this Debian release, not since when what the app calls is there. The app ran
# with the ones here, Debian 11's (November 2026); Ubuntu 22.04 has newer ones, and older than Debian 12's.
_OLDER_SERVE = {"libx11-xcb1": "2:1.7.2", "libzstd1": "1.4.8"}


def architecture() -> str:
    """This machine's, as dpkg calls it."""
    told = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True)
    return told.stdout.strip()


def dependencies(frozen: Path, programs: Sequence[str], inside: Container[str]) -> tuple[list[str], list[str]]:
    """What the programs and libraries need of this system's packages, each with the oldest version that serves.

    Args:
        frozen: The folder they are in.
        programs: Their names in it.
        inside: Packages whose libraries are in the folder too; dpkg's tool names them all the same.

    Returns:
        Packages that are needed, and those that only the optional ones need.

    Raises:
        SystemExit: a library is neither in the folder nor on this machine.
    """
    optional = [name for name in programs if OPTIONAL.search(name)]
    private = sorted({str((frozen / name).parent) for name in programs})
    with tempfile.TemporaryDirectory(dir=WORK) as scratch:
        described = Path(scratch) / "debian" / "control"
        described.parent.mkdir()
        described.write_text(f"Source: {NAME}\n\nPackage: {NAME}\nArchitecture: any\n")
        command = ["dpkg-shlibdeps", "-O", "--ignore-missing-info", "--warnings=0", *(f"-l{path}" for path in private)]
        command += ["-dDepends", *(f"-e{frozen / name}" for name in programs if name not in optional)]
        command += ["-dRecommends", *(f"-e{frozen / name}" for name in optional)]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"package: dpkg-shlibdeps ended with {done.returncode}\n{done.stderr.strip()}")
    depends, recommends = (
        [as_old_as_serves(entry) for entry in listed(done.stdout, field) if plain(entry) not in inside]
        for field in ("Depends", "Recommends")
    )
    return depends, recommends


def listed(told: str, field: str) -> list[str]:
    """The packages of a field in the output of dpkg-shlibdeps."""
    found = re.search(rf"^shlibs:{field}=(.*)$", told, re.MULTILINE)
    return [entry.strip() for entry in found[1].split(",") if entry.strip()] if found else []


def as_old_as_serves(entry: str) -> str:
    """An entry of such a field, with the version that is known to serve in place of a newer one."""
    version = _OLDER_SERVE.get(plain(entry))
    return re.sub(r"\(>= [^)]+\)", f"(>= {version})", entry) if version else entry


def plain(entry: str) -> str:
    """The name of the package in one entry of such a field, the first of several that would do."""
    return re.split(r"[ (|]", entry.strip(), maxsplit=1)[0]


def commands() -> list[tuple[str, str]]:
    """The program's commands, each with one line about it."""
    found: list[tuple[str, str]] = []

    def add(name: str, _command: object, words: str) -> argparse.ArgumentParser:
        found.append((name, words))
        return argparse.ArgumentParser()

    for module in cli._COMMANDS:
        module.add(add)
    return found


def make_deb(frozen: Path, parts: Sequence[Part], needed: tuple[list[str], list[str]], date: int) -> Path:
    """Make the package.

    Args:
        frozen: The folder of programs.
        parts: What of others is in it.
        needed: Packages that it depends on and that it recommends.
        date: The time of all its files, in seconds since 1970.
    """
    version = f"{project()['version']}-{_REVISION}"
    target = DIST / f"{NAME}_{project()['version']}_{architecture()}.deb"
    with tempfile.TemporaryDirectory(dir=WORK) as scratch:
        root = Path(scratch) / "root"
        library = root / "usr" / "lib" / NAME
        shutil.copytree(frozen, library, symlinks=True, copy_function=os.link)
        programs = root / "usr" / "bin"
        programs.mkdir()
        for name in PROGRAMS:
            (programs / name).symlink_to(f"../lib/{NAME}/{name}")
        lay_shared(root / "usr", date)
        _lay_documents(root, parts, version, date)
        # Where Debian looks for licences; the app's own folder has a link to it.
        (library / "licenses").rename(root / documents.LICENCES)
        (library / "licenses").symlink_to(f"../../share/doc/{NAME}/licenses")
        kibibytes = sum(size for _, size in file_list(root)) // 1024
        (root / "DEBIAN").mkdir()
        told = documents.control(version, architecture(), kibibytes, *needed)
        (root / "DEBIAN" / "control").write_text(told, "utf-8")
        (root / "DEBIAN" / "md5sums").write_text(_md5sums(root), "utf-8")
        settle(root, date)
        environment = dict(os.environ, SOURCE_DATE_EPOCH=str(date))
        run(["dpkg-deb", "-Zxz", "-z3", "--root-owner-group", "--build", str(root), str(target)], env=environment)
    return target


def _lay_documents(root: Path, parts: Sequence[Part], version: str, date: int) -> None:
    folder = root / "usr" / "share" / "doc" / NAME
    folder.mkdir(parents=True)
    year = datetime.datetime.fromtimestamp(date, datetime.UTC).year
    (folder / "copyright").write_text(documents.copyright_file(parts, year), "utf-8")
    _compressed(folder / "changelog.Debian.gz", documents.changelog(version, date))
    pages = root / "usr" / "share" / "man" / "man1"
    pages.mkdir(parents=True)
    _compressed(pages / f"{NAME}.1.gz", documents.manual_page(str(project()["version"]), date, commands()))
    (pages / f"{NAME}-window.1.gz").symlink_to(f"{NAME}.1.gz")
    told = root / "usr" / "share" / "lintian" / "overrides" / NAME
    told.parent.mkdir(parents=True)
    told.write_text(documents.overrides(), "utf-8")


def _compressed(target: Path, text: str) -> None:
    target.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def _md5sums(root: Path) -> str:
    """The list by which `dpkg --verify` sees what was changed after the installation."""
    names = [path.relative_to(root).as_posix() for path in sorted((root / "usr").rglob("*")) if _is_plain(path)]
    told = subprocess.run(["md5sum", "--", *names], cwd=root, capture_output=True, text=True, check=True)
    return told.stdout


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
