"""Whose work is in the package, and under which licences: told by where each frozen file was found.

A part without a licence's text ends the build, and so does a file of which nobody knows whose it is.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pinned import normal

_TEXT = re.compile(r"licen[cs]e|copying|notice", re.IGNORECASE)
_QT = ("pyside6-essentials", "shiboken6")
COMMON = Path("/usr/share/common-licenses")
"""Debian's folder of licences that many packages refer to."""
DOCUMENTS = Path("/usr/share/doc")
"""Its folder of what packages tell of themselves, their licences among it."""
_HEADERS = ("libvulkan-dev", "spirv-headers")
QT_PARTS = "Qt third-party parts"
"""What the part is called that qt_documents.py tells of."""
_INTRODUCTION = """\
Expert Lanes stands on the programs below. The text of each licence lies in the folder of that name.

Qt and Qt for Python (PySide6, Shiboken) {qt} are used under the GNU Lesser General Public License, version 3. The
texts of it and of the GNU General Public License, to which it adds, are in the folders PySide6_Essentials and
shiboken6. Their files are here as their makers publish them, in the wheels PySide6-Essentials and shiboken6 of that
version, some left out and none changed.
{sources}
What Qt itself contains from others is listed at https://doc.qt.io/qt-6/licenses-used-in-qt.html; their licences are in
the folder "{qt_parts}", as Debian's packages of Qt tell them.

You may put other builds of them in place, also of source that you changed: they are libraries of their own, which the
programs load when they start, in _internal/PySide6 (Qt's are below Qt/lib and Qt/plugins, or on Windows in that folder
and below plugins) and in _internal/shiboken6. Give the new files the names of the old ones; an AppImage is unpacked
before with --appimage-extract. You may take the programs apart to find faults in such changes. Nothing in Expert Lanes
keeps you from any of that.

The source of a version below that is Debian's is in Debian's snapshot archive, under its name and that version.

The demo model is made on your machine from SmolLM2-135M-Instruct by Hugging Face, under the Apache License 2.0.
"""


@dataclass(frozen=True)
class Part:
    """Something in the package that others made.

    Attributes:
        name: What its makers call it.
        version: Empty where it is not told.
        licence: In a few words.
        texts: File names to texts of licences.
        files: Names in the frozen folder, and of modules in the programs themselves.
    """

    name: str
    version: str
    licence: str
    texts: Mapping[str, str]
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Places:
    """Where the things that get frozen come from.

    Attributes:
        packages: The folder into which pip installed.
        stdlib: Python's own library.
        ours: The checkout.
        llama_cpp: llama.cpp's source, of which the engine was built.
        common: See COMMON.
        documents: See DOCUMENTS; ICU's licence is among it.
        headers: Such folders, in one of which the packages are that hold the headers of Vulkan and SPIR-V.
    """

    packages: Path
    stdlib: Path
    ours: Path
    llama_cpp: Path
    common: Path = COMMON
    documents: Path = DOCUMENTS
    headers: tuple[Path, ...] = (DOCUMENTS,)


def parts(origins: Iterable[tuple[str, str]], places: Places) -> list[Part]:
    """Everything of others in the package, sorted by name.

    Args:
        origins: Names in the frozen folder, or of modules, each with the file that was taken.
        places: Where those files may lie.

    Raises:
        SystemExit: nobody knows whose a file is.
    """
    distributions = {
        normal(found.metadata["Name"]): found
        for found in importlib.metadata.distributions(path=[str(places.packages)])
        if found.metadata.get("Name")
    }
    owners = {
        str(Path(str(file.locate())).resolve()): name
        for name, found in distributions.items()
        for file in found.files or ()
    }
    of_distributions: dict[str, list[str]] = defaultdict(list)
    of_packages: dict[str, list[str]] = defaultdict(list)
    of_python: list[str] = []
    of_icu: list[str] = []
    for name, source in origins:
        path = Path(source)
        owner = owners.get(source)
        if owner in _QT and path.name.startswith(("libicu", "icu")):
            of_icu.append(name)
        elif owner is not None:
            of_distributions[owner].append(name)
        elif _is_python(path, places):
            of_python.append(name)
        elif path.is_relative_to(places.packages) or not path.is_relative_to(places.ours):
            package = package_of(path)
            if package is None:
                raise SystemExit(f"package: whose is {source}? No distribution and no package of the system lists it.")
            of_packages[package].append(name)
    of_distributions.setdefault("pyinstaller", [])  # the program that starts everything is in no list
    found = [_of_distribution(distributions[name], files, places) for name, files in of_distributions.items()]
    found += [of_package(name, files, places) for name, files in of_packages.items()]
    found.append(
        Part("Python", platform.python_version(), "PSF-2.0", _texts(places.stdlib / "LICENSE.txt"), tuple(of_python))
    )
    if of_icu:
        texts = [*sorted(places.documents.glob("libicu[0-9]*/copyright"))[-1:]]
        found.append(Part("ICU", "", "ICU licence, as the system's package tells it", _texts(*texts), tuple(of_icu)))
    if "llama-cpp-python" in of_distributions:
        found.append(llama_cpp(of_distributions["llama-cpp-python"], places))
        found += compiled_in(of_distributions["llama-cpp-python"], places)
    return sorted((part for part in found if normal(part.name) != "expert-lanes"), key=lambda part: part.name.lower())


def check(found: Iterable[Part]) -> None:
    """Every part must have the text of its licence.

    Raises:
        SystemExit: with the names of those that have none.
    """
    without = [part.name for part in found if not any(text.strip() for text in part.texts.values())]
    if without:
        raise SystemExit(f"package: no text of a licence for {', '.join(without)}")


def qt_sources(version: str) -> str:
    """Where the makers of Qt publish the source of the release of Qt for Python that is in the packages.

    Args:
        version: Of PySide6; it is Qt's own with perhaps a fourth number.
    """
    qt = ".".join(version.split(".")[:3])
    series = ".".join(version.split(".")[:2])
    return f"""\
The source of these very versions is published by the same makers:
    Qt: https://download.qt.io/official_releases/qt/{series}/{qt}/,
        and when newer ones have followed https://download.qt.io/archive/qt/{series}/{qt}/
    Qt for Python: https://download.qt.io/official_releases/QtForPython/pyside6/PySide6-{version}-src/"""


def lay(found: Iterable[Part], folder: Path) -> None:
    """Write the texts below `folder`, and one file that says what is under which."""
    found = sorted(found, key=lambda part: part.name.lower())
    check(found)
    qt = next((part.version for part in found if normal(part.name) in _QT), "")
    lines = [_INTRODUCTION.format(qt=qt, sources=qt_sources(qt), qt_parts=QT_PARTS)]
    for part in found:
        lines.append(f"{part.name} {part.version}".rstrip() + f": {part.licence}")
        for name, text in part.texts.items():
            target = folder / part.name / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
    (folder / "NOTICES.txt").write_text("\n".join(lines) + "\n", "utf-8")


def heading(source: Path) -> str:
    """The comment at the beginning of a source file, where some keep their licence."""
    lines = []
    for line in source.read_text("utf-8").splitlines():
        if not line.startswith(("#", "//", "/*", " *")):
            break
        lines.append(re.sub(r"^(#+|//|/\*+|\s\*/?)\s?", "", line))
    return "\n".join(lines).strip() + "\n"


def package_of(path: Path) -> str | None:
    """The installed Debian package that a file belongs to; None where there is none."""
    names = [str(path), str(path).removeprefix("/usr")]
    told = dict(os.environ, LC_ALL="C")
    done = subprocess.run(["dpkg-query", "-S", *names], capture_output=True, text=True, check=False, env=told)
    # A file that one package has put another's aside for comes with lines about that, before the owner's.
    owners = [line for line in done.stdout.splitlines() if not line.startswith("diversion by ")]
    return owners[0].partition(": ")[0].partition(",")[0].partition(":")[0] if owners else None


def _is_python(path: Path, places: Places) -> bool:
    inside = path.is_relative_to(places.stdlib) and not path.is_relative_to(places.packages)
    return inside or re.match(r"(lib)?python3", path.name) is not None


def _texts(*files: Path) -> dict[str, str]:
    return {file.name: file.read_text("utf-8", errors="replace") for file in files if file.is_file()}


def _of_distribution(found: importlib.metadata.Distribution, files: Iterable[str], places: Places) -> Part:
    told = found.metadata
    name = normal(told["Name"])
    texts = {}
    for file in found.files or ():
        if ".dist-info" in file.parts[0] and _TEXT.search(file.name):
            inner = "/".join(part for part in file.parts[1:] if part != "licenses")
            texts[inner] = Path(str(file.locate())).read_text("utf-8", errors="replace")
    licence = told.get("License-Expression") or (told.get("License") or "").partition("\n")[0]
    if name in _QT:
        licence = "LGPL-3.0-only"
        texts = _texts(places.common / "LGPL-3", places.common / "GPL-3")
    elif not texts and name == "nvidia-ml-py":
        texts = {"LICENSE": heading(places.packages / "pynvml.py")}
    if not licence:
        classifiers = [line for line in told.get_all("Classifier") or () if line.startswith("License ::")]
        licence = ", ".join(line.rpartition(":: ")[2] for line in classifiers) or "see its text"
    return Part(told["Name"], found.version, licence, texts, tuple(files))


def of_package(name: str, files: Iterable[str], places: Places) -> Part:
    """A library of this system."""
    texts = package_texts(name, places.documents, places.common)
    command = ["dpkg-query", "-W", "-f", "${Version}", name]
    version = subprocess.run(command, capture_output=True, text=True, check=False).stdout.partition("\n")[0]
    return Part(name, version, "see its copyright file", texts, tuple(files))


def package_texts(name: str, documents: Path = DOCUMENTS, common: Path = COMMON) -> dict[str, str]:
    """A Debian package's copyright file, and the licences it refers to, which another system does not have; by name.

    Args:
        name: Of the package; nothing is told of one that is not installed.
        documents: See DOCUMENTS.
        common: See COMMON.
    """
    texts = _texts(documents / name / "copyright")
    named = {found.rstrip(".") for text in texts.values() for found in re.findall(r"common-licenses/([\w.+-]+)", text)}
    return texts | _texts(*(common / licence for licence in sorted(named)))


def llama_cpp(files: Iterable[str], places: Places) -> Part:
    """The engine's own code, which the distribution around it does not speak of; `files` may hold others too."""
    texts = _texts(places.llama_cpp / "LICENSE")
    texts["tinyBLAS.txt"] = heading(places.llama_cpp / "ggml" / "src" / "ggml-cpu" / "llamafile" / "sgemm.cpp")
    inside = tuple(name for name in files if name.startswith("llama_cpp/lib/"))
    return Part("llama.cpp", "", "MIT", texts, inside)


def compiled_in(files: Iterable[str], places: Places) -> list[Part]:
    """The headers whose code is in the engine's Vulkan backend; nothing where that is not among `files`.

    Raises:
        SystemExit: their licences are not there.
    """
    if not any("ggml-vulkan" in name for name in files):
        return []
    texts = {}
    for package in _HEADERS:
        told = next(filter(None, (package_texts(package, folder, places.common) for folder in places.headers)), None)
        if told is None:
            raise SystemExit(f"package: no text of a licence for Debian's {package}")
        texts |= {f"{package}/{name}": text for name, text in told.items()}
    return [Part("Vulkan and SPIR-V headers", "", "MIT, some of them or the Apache License 2.0", texts)]
