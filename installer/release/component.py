"""Packs a backend of the engine that is installed apart, such as CUDA for Windows, into a .zip for users to unpack.

    python installer/release/component.py --name cuda --library FILE --source LLAMA_CPP
        [--with DLL…] [--licence FILE…] [--terms FILE] [--out FOLDER]

The folder in it goes into `components` of the app's data folder; app/engine/components.py says what is in
`component.json`, and loads it only with the very ggml that it was made from. Nothing but Windows, the app and the
card's driver has to be there: the compiler's runtime is linked into the backend (cuda.py), and whatever else it needs
is packed beside it. With --terms the file's text stands at the end of the component's README.txt: under which terms
others let us bring their libraries along.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "installer" / "package"), str(ROOT / "installer" / "windows")]

import pe  # noqa: E402 - found by the line above, as is the next one
import project  # noqa: E402

PLATFORM = "windows-x86_64"
FORMAT = 1
# What the app brings, and what every Windows 10 and the card's driver have; whatever else is needed must be packed.
# Visual C++'s runtime (msvcp140.dll, vcruntime140.dll) is no part of Windows.
_OF_THE_APP = {"ggml-base.dll"}
_OF_WINDOWS = re.compile(r"(kernel32|advapi32|user32|nvcuda|api-ms-win-\S+|ucrtbase)\.dll")
README = """Expert Lanes: {name} for graphics cards, for version {version} of the app (ggml {ggml}).

Unpack the folder `{name}` into

    %LOCALAPPDATA%\\expert-lanes\\components

and start the app again. The app uses it with ggml {ggml} only; where it leaves it out, `expert-lanes probe` says why.
To be rid of it, delete the folder.
"""


def ggml_version(source: Path) -> str:
    """The version of the ggml in a source tree of llama.cpp.

    Raises:
        SystemExit: it is not told there.
    """
    text = (source / "ggml" / "CMakeLists.txt").read_text("utf-8")
    parts = [re.search(rf"set\(GGML_VERSION_{part}\s+(\d+)\)", text) for part in ("MAJOR", "MINOR", "PATCH")]
    if not all(parts):
        raise SystemExit(f"release: {source} does not tell its version of ggml")
    return ".".join(part[1] for part in parts if part)


def check_imports(library: Path, others: Iterable[Path]) -> None:
    """Make sure that the backend can be loaded by an engine that another compiler built.

    Raises:
        SystemExit: it asks the engine for a function of C++, whose rules compilers do not share; or it needs a library
            that is not packed.
    """
    packed = {path.name.lower() for path in others}
    for path in (library, *others):
        for needed, functions in pe.imports(path).items():
            if needed in _OF_THE_APP:
                foreign = [name for name in functions if name.startswith(("?", "_Z"))]
                if foreign:
                    raise SystemExit(f"release: {path.name} asks {needed} for {foreign[0]}, which is no function of C")
            elif needed not in packed and not _OF_WINDOWS.fullmatch(needed):
                raise SystemExit(f"release: {path.name} needs {needed}, which is not packed")


def manifest(name: str, ggml: str, library: Path, others: Iterable[Path]) -> str:
    """The text of component.json."""
    sizes = {path.name: path.stat().st_size for path in (library, *others)}
    told = {
        "format": FORMAT,
        "name": name,
        "platform": PLATFORM,
        "ggml": ggml,
        "library": library.name,
        "files": dict(sorted(sizes.items())),
    }
    return json.dumps(told, indent=1) + "\n"


def pack(
    target: Path,
    name: str,
    ggml: str,
    library: Path,
    others: Sequence[Path],
    licences: Sequence[Path],
    date: int,
    terms: str = "",
) -> None:
    """Write the .zip; the same files give the same bytes."""
    stamp = time.gmtime(max(date, 315532800))[:6]  # a .zip knows no year before 1980
    version = str(project.project()["version"])
    texts = {
        "component.json": manifest(name, ggml, library, others),
        "README.txt": README.format(name=name, version=version, ggml=ggml) + (f"\n{terms}" if terms else ""),
    }
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for file, text in texts.items():
            packed.writestr(zipfile.ZipInfo(f"{name}/{file}", stamp), text, zipfile.ZIP_DEFLATED)
        for path in (library, *others):
            _add(packed, path, f"{name}/{path.name}", stamp)
        for path in licences:
            _add(packed, path, f"{name}/licenses/{path.name}", stamp)


def _add(packed: zipfile.ZipFile, path: Path, name: str, stamp: tuple[int, ...]) -> None:
    entry = zipfile.ZipInfo(name, stamp)  # type: ignore[arg-type]
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.file_size = path.stat().st_size  # it may be over 2 GiB
    with path.open("rb") as source, packed.open(entry, "w", force_zip64=entry.file_size > 1 << 31) as file:
        while piece := source.read(1 << 20):
            file.write(piece)


def main(arguments: Sequence[str] | None = None) -> None:
    """Check and pack."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--source", type=Path, required=True, help="the llama.cpp that it was built from")
    parser.add_argument("--with", type=Path, nargs="*", default=[], dest="others", help="libraries that it needs")
    parser.add_argument("--licence", type=Path, nargs="*", default=[], help="texts for its folder `licenses`")
    parser.add_argument("--terms", type=Path, help="text for the end of its README.txt")
    parser.add_argument("--out", type=Path, default=project.DIST)
    told = parser.parse_args(arguments)
    check_imports(told.library, told.others)
    version, ggml = str(project.project()["version"]), ggml_version(told.source)
    told.out.mkdir(parents=True, exist_ok=True)
    target = told.out / f"{project.NAME}-{told.name}-{version}-{PLATFORM}.zip"
    terms = told.terms.read_text("utf-8") if told.terms else ""
    pack(target, told.name, ggml, told.library, told.others, told.licence, project.source_date(), terms)
    print(f"release: {target.stat().st_size:>13,} {target} for ggml {ggml}")


if __name__ == "__main__":
    main()
