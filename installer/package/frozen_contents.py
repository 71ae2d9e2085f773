"""What the frozen app holds, and what it leaves to the system: the choices that build.spec makes. Pure but for objdump.

Names are those of the frozen folder, with slashes, such as "PySide6/Qt/plugins/platforms/libqxcb.so".
"""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ORIGINS = "origins.json"
"""File in PyInstaller's work folder: pairs of a name in the frozen folder, or of a module, and where it was found."""

LEFT_OUT_MODULES = (
    *(f"PySide6.Qt{name}" for name in ("Concurrent", "DBus", "Designer", "Help", "Network")),
    *(f"PySide6.Qt{name}" for name in ("PrintSupport", "Qml", "Quick", "QuickControls2", "QuickTest", "QuickWidgets")),
    *(f"PySide6.Qt{name}" for name in ("Sql", "SvgWidgets", "Test", "UiTools", "Xml")),
    *("pyqtgraph.examples", "pyqtgraph.opengl", "llama_cpp.server", "tkinter", "matplotlib", "scipy", "PIL"),
    *("pytest", "hypothesis", "mypy", "pip", "setuptools", "pkg_resources"),
    # GGUF files on other machines, which gguf could read; line editing, whose library is under the GPL.
    *("requests", "urllib3", "certifi", "charset_normalizer", "idna", "readline"),
)

# What the system's graphics drivers, fonts and session bus load into the same process, and so must be the system's own;
# every desktop has it.
_OF_THE_SYSTEM = re.compile(
    r"^lib(stdc\+\+|gcc_s|vulkan|X11|X11-xcb|xcb-(glx|randr|shm|sync|xfixes)|z|zstd|expat|uuid"
    r"|fontconfig|freetype|dbus-1|glib-2\.0|gthread-2\.0)\.so"
)
# Parts of every Windows 10, which PyInstaller would take along where it finds a copy that is no part of one.
_OF_WINDOWS = re.compile(r"^(ucrtbase|icuuc|api-ms-win-[\w-]+)\.dll$", re.IGNORECASE)
# Of the plug-ins what a window of widgets needs; everything else belongs to Qt's other uses.
_PLUGINS = {
    "platforms": r"q(xcb|wayland|offscreen|windows)",
    "platformthemes": r"qxdgdesktopportal",
    "platforminputcontexts": r"(compose|ibus)platforminputcontextplugin",
    "iconengines": r"qsvgicon",
    "imageformats": r"q(svg|ico)",
    "styles": r"q\w+style",
    "xcbglintegrations": r"qxcb-\w+-integration",
    "wayland-shell-integration": r"(xdg-shell|qt-shell)",
    "wayland-decoration-client": r"(adwaita|bradient)",
    "wayland-graphics-integration-client": r"qt-plugin-wayland-egl",
}
_PLUGIN = re.compile(r"^PySide6/(?:Qt/)?plugins/(?P<kind>[^/]+)/(?:lib)?(?P<name>[^/]+?)\.(?:so|dll)$")
# Of a distribution's records only what is asked at run time; their licences lie together, and not here.
_NEVER = re.compile(
    r"^PySide6/(Qt/)?(translations|qml|metatypes|libexec)/|^numpy/.*/tests/|^pyqtgraph/examples/|\.pyi$"
    r"|\.dist-info/(?!(METADATA|RECORD|entry_points\.txt)$)"
)
_LIBRARY = re.compile(r"^(?:|.*/)(lib[^/]+\.so(?:\.\d+)*|[^/]+\.dll)$")
_USED_BY_NAME = re.compile(r"^(llama_cpp|app)/|/plugins/|(^|/)(lib)?python\d")
# Each library of the engine lies there as a file under three names; these are the ones nothing asks for.
_OTHER_NAMES = re.compile(r"\.so\.\d+\.\d+|^libllama\.so\.\d+$|^libggml-base\.so$")


def is_wanted(name: str) -> bool:
    """True for a file of the app's own; False for what the system brings or nothing uses."""
    last = name.rpartition("/")[2]
    if _NEVER.search(name) or _OF_THE_SYSTEM.match(last) or _OF_WINDOWS.match(last):
        return False
    plugin = _PLUGIN.match(name)
    if plugin is None:
        return True
    pattern = _PLUGINS.get(plugin["kind"])
    return pattern is not None and re.fullmatch(pattern, plugin["name"]) is not None


def is_engine_library(file_name: str) -> bool:
    """True for the names in the engine's folder under which its libraries are looked for."""
    return _OTHER_NAMES.search(file_name) is None


def used(needs: Mapping[str, Iterable[str]]) -> set[str]:
    """Which files to keep: all but the libraries that no kept file needs.

    Args:
        needs: Names of the files to the sonames that each needs.
    """
    kept = {name for name in needs if not _LIBRARY.match(name) or _USED_BY_NAME.search(name)}
    while True:
        asked = {soname for name in kept for soname in needs[name]}
        more = {name for name in needs if name not in kept and name.rpartition("/")[2] in asked}
        if not more:
            return kept
        kept |= more


Version = tuple[int, ...]
# What the linker writes in place of a version where a file can only be loaded by a library that knows its form.
_MARKS = {"GLIBC_ABI_DT_RELR": ("GLIBC", (2, 36))}


@dataclass(frozen=True)
class Needs:
    """What a library or program needs of the system that loads it.

    Attributes:
        libraries: Sonames.
        versions: The newest version of which it uses something, of each of the compiler's libraries (`GLIBC` and the
            like, as the linker marks them).
        search: Folders in which its libraries are looked for first.
    """

    libraries: frozenset[str] = frozenset()
    versions: Mapping[str, Version] = field(default_factory=dict)
    search: tuple[str, ...] = ()


def newest(versions: Iterable[tuple[str, Version]]) -> dict[str, Version]:
    """The newest version of each name."""
    found: dict[str, Version] = {}
    for name, version in versions:
        found[name] = max(version, found.get(name, version))
    return found


def needs_told(objdump: str) -> Needs:
    """Read the output of `objdump -p`."""
    told = re.findall(r"\b(GLIBC|GLIBCXX|CXXABI|GCC)_(\d+(?:\.\d+)+)\s", objdump)
    versions = [(name, tuple(map(int, version.split(".")))) for name, version in told]
    versions += [mark for word, mark in _MARKS.items() if re.search(rf"\b{word}\s", objdump)]
    folders = re.findall(r"^\s+(?:RPATH|RUNPATH)\s+(\S+)", objdump, re.MULTILINE)
    return Needs(
        libraries=frozenset(re.findall(r"^\s+NEEDED\s+(\S+)", objdump, re.MULTILINE)),
        versions=newest(versions),
        search=tuple(folder for line in folders for folder in line.split(":")),
    )


def needs_of(path: Path) -> Needs:
    """What the ELF file at `path` needs; nothing for any other file."""
    with path.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            return Needs()
    done = subprocess.run(["objdump", "-p", str(path)], capture_output=True, text=True, check=True)
    return needs_told(done.stdout)


def own_modules(root: Path) -> list[str]:
    """Names of all modules of the package `app` below `root`; some are only imported by name."""
    names = []
    for path in sorted((root / "app").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[-1] != "__main__":
            names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


def metadata(name: str, version: str) -> str:
    """The METADATA file of a distribution, with nothing of the place where it was built."""
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"


def record(files: Mapping[str, Path]) -> str:
    """The RECORD of a distribution: each file's name, hash and size, as `doctor` compares them."""
    lines = []
    for name, path in sorted(files.items()):
        content = path.read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(content)}\n")
    return "".join(lines)
