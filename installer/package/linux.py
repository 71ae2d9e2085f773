"""Makes the Linux packages in dist/: the frozen app as .tar.xz and .deb, checked, and tried in minimal roots.

Run by `make package` with the checkout's own Python. The same checkout gives the same files: times, owners, modes and
order are set; `--twice` makes everything a second time and compares. The list of files is kept beside the packages.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import archive
import checks
import compare
import debian_package
import environment
import frozen_contents
import licences
import qt_documents
import self_test
import shaders
import tidy
import try_packages
from project import DIST, NAME, ROOT, WORK, file_list, project, run, settle, source_date

OLDEST: dict[str, frozen_contents.Version] = {
    "GLIBC": (2, 35),
    "GLIBCXX": (3, 4, 30),
    "CXXABI": (1, 3, 13),
    "GCC": (12, 0, 0),
}
"""The oldest libraries on which the packages run, as the README says: GNU's C library, and GCC 12's for C++, which is
the system's own (frozen_contents.py says why)."""
LARGEST_BYTES = 250_000_000
"""A package with the demo model's source must not be larger."""
_SHOWN = 15
_VULKAN = Path("_internal", "llama_cpp", "lib", "libggml-vulkan.so")


@dataclass(frozen=True)
class Packages:
    """What one run makes.

    Attributes:
        archive: The .tar.xz.
        deb: The .deb.
        needed: Names of this system's packages that the app depends on.
    """

    archive: Path
    deb: Path
    needed: list[str]


def freeze(python: Path, date: int) -> Path:
    """Run PyInstaller; returns the folder with the programs."""
    told = dict(os.environ, SOURCE_DATE_EPOCH=str(date), PYTHONHASHSEED="0")
    folders = ["--distpath", str(DIST), "--workpath", str(WORK)]
    # -P: the app is the installed one, with its native libraries, not the source in the current folder.
    command = [str(python), "-P", "-m", "PyInstaller", "-y", "--log-level", "WARN", *folders, "build.spec"]
    run(command, env=told)
    return DIST / NAME


def gather_licences(python: Path) -> list[licences.Part]:
    """What of others was frozen last."""
    origins = json.loads((WORK / "build" / frozen_contents.ORIGINS).read_text("utf-8"))
    llama_cpp, headers = environment.engine_source()
    places = licences.Places(
        packages=environment.site_packages(python).resolve(),
        stdlib=Path(sysconfig.get_path("stdlib")).resolve(),
        ours=ROOT,
        llama_cpp=llama_cpp,
        headers=headers,
    )
    return [*licences.parts([(name, source) for name, source in origins], places), qt_documents.part()]


def asked_of_the_system(
    needs: Mapping[str, frozen_contents.Needs],
) -> tuple[dict[str, str], dict[str, frozen_contents.Version]]:
    """What the files named need that is not among them.

    Returns:
        Sonames, each with one file that needs it, and the oldest versions of the compiler's libraries that serve.
    """
    there = {name.rpartition("/")[2] for name in needs}
    outside: dict[str, str] = {}
    for name, need in sorted(needs.items()):
        for soname in need.libraries - there:
            outside.setdefault(soname, name)
    return outside, frozen_contents.newest(each for need in needs.values() for each in need.versions.items())


def check_versions(needs: Mapping[str, frozen_contents.Needs]) -> None:
    """Nothing may need newer libraries of the compiler than the README says, not even what is optional.

    Raises:
        SystemExit: something does.
    """
    newer = [
        f"{name} needs {_dotted(library, version)}"
        for name, need in needs.items()
        for library, version in need.versions.items()
        if version > OLDEST[library]
    ]
    if newer:
        raise SystemExit("\n".join([*newer, f"package: newer libraries are needed than {_told(OLDEST)}"]))


def _dotted(library: str, version: frozen_contents.Version) -> str:
    return f"{library}_{'.'.join(map(str, version))}"


def _told(versions: Mapping[str, frozen_contents.Version]) -> str:
    return ", ".join(_dotted(*each) for each in sorted(versions.items()))


def list_files(frozen: Path) -> list[str]:
    """Keep the list of the frozen files beside the packages and print the largest; returns their names."""
    files = file_list(frozen)
    listed = DIST / f"{NAME}-{project()['version']}-linux-{os.uname().machine}.files.txt"
    listed.write_text("".join(f"{size:>12,} {name}\n" for name, size in files), "utf-8")
    for name, size in sorted(files, key=lambda file: -file[1])[:_SHOWN]:
        print(f"package: {size:>12,} {name}")
    total = sum(size for _, size in files)
    print(f"package: {total:,} bytes in {len(files)} files, listed in {listed.relative_to(ROOT)}")
    return [name for name, _ in files]


def make(python: Path, date: int) -> Packages:
    """Freeze the app and make both packages of it."""
    frozen = freeze(python, date)
    tidy.tidy(frozen)
    parts = gather_licences(python)
    licences.lay(parts, frozen / "licenses")
    settle(frozen, date)
    names = list_files(frozen)
    needs = {name: frozen_contents.needs_of(frozen / name) for name in names}
    programs = [name for name, need in needs.items() if need.libraries and not (frozen / name).is_symlink()]
    check_versions(needs)
    outside, versions = asked_of_the_system(
        {name: need for name, need in needs.items() if not debian_package.OPTIONAL.search(name)}
    )
    needed = debian_package.dependencies(frozen, programs, {part.name for part in parts})
    print(f"package: needs {_told(versions)} and {', '.join(sorted(outside))}")
    names_of_packages = [debian_package.plain(entry) for entry in needed[0]]
    told = archive.readme(str(project()["version"]), versions, sorted(outside), names_of_packages)
    self_test.self_test(frozen / NAME, f"{NAME}/{NAME}")
    return Packages(
        archive=archive.make_archive(frozen, told, date),
        deb=debian_package.make_deb(frozen, parts, needed, date),
        needed=names_of_packages,
    )


def check(made: Packages, *, any_shaders: bool) -> None:
    """Have the packages checked by the tools for that, by their size, and by the shaders in them."""
    with tempfile.TemporaryDirectory(dir=WORK) as scratch:
        run(["dpkg-deb", "-x", str(made.deb), scratch])
        usr = Path(scratch) / "usr"
        checks.check_desktop_files(usr)
        shaders.check(usr / "lib" / NAME / _VULKAN, anyway=any_shaders)
    checks.check_package(made.deb)
    for path in (made.archive, made.deb):
        size = path.stat().st_size
        print(f"package: {size:>12,} {path.relative_to(ROOT)} sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}")
        if size > LARGEST_BYTES:
            raise SystemExit(f"package: {path.name} is larger than {LARGEST_BYTES:,} bytes")


def compare_runs(first: Iterable[Path], folder: Path) -> None:
    """Compare packages with those of the run before, which lie in `folder`.

    Raises:
        SystemExit: they differ.
    """
    differ = []
    for path in first:
        lines = compare.differences(compare.entries(folder / path.name), compare.entries(path))
        whole = path.read_bytes() == (folder / path.name).read_bytes()
        print(f"package: {path.name} made twice: {len(lines)} files differ, {'the same' if whole else 'other'} bytes")
        differ += lines
    if differ:
        raise SystemExit("\n".join([*differ, "package: the same input gave other files"]))


def main() -> None:
    """Make, check and try everything."""
    parser = argparse.ArgumentParser(description="Make the Linux packages in dist/.")
    parser.add_argument("--twice", action="store_true", help="make them twice and compare")
    parser.add_argument("--not-tried", action="store_true", help="do not try them in minimal roots")
    shaders.add_option(parser)
    asked = parser.parse_args()
    environment.check_python()  # before anything is installed for a package that cannot be made
    checks.install_tools()
    WORK.mkdir(parents=True, exist_ok=True)
    python, date = environment.prepare(any_shaders=asked.any_shaders), source_date()
    made = make(python, date)
    if asked.twice:
        with tempfile.TemporaryDirectory(dir=WORK) as scratch:
            for path in (made.archive, made.deb):
                shutil.move(path, Path(scratch) / path.name)
            shutil.rmtree(WORK / "build")
            made = make(python, date)
            compare_runs((made.archive, made.deb), Path(scratch))
    check(made, any_shaders=asked.any_shaders)
    if not asked.not_tried:
        try_packages.try_in_roots(made.archive, made.deb, made.needed)


if __name__ == "__main__":
    main()
