"""What an installation leaves behind: every file and every value of the registry of a Windows under Wine, compared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_HIVES = ("user.reg", "system.reg")
_ESCAPED = re.compile(r"\\x([0-9a-f]{1,4})")
_OF_WINE = (
    # What Wine writes of itself and of its desktop, its consoles and its graphics card, whatever runs in it.
    r"hkcu\\software\\wine(\\|\|)",
    r"hkcu\\control panel(\\|\|)",
    r"hkcu\\volatile environment(\\|\|)",
    r"hkcu\\console(\\|\|)",
    r"hklm\\system\\currentcontrolset\\control\\class\\",
    # Keys that every Windows has and a new one of Wine's has not: what is below them is looked at.
    r"hkcu\\software\\classes\|$",
    r"hkcu\\software\\microsoft\\windows\\currentversion\\uninstall\|$",
)
# The folder, empty by then, from which every uninstaller of NSIS runs. It asks Windows to delete file and folder at its
# next start; Wine does so with files only.
_OF_NSIS = r"users/[^/]+/(AppData/Local/)?Temp/~nsu[^/]*/$"


def files(prefix: Path) -> set[str]:
    """Paths of everything on drive C, with slashes; folders end with one."""
    drive = prefix / "drive_c"
    found = set()
    for path in drive.rglob("*"):
        name = path.relative_to(drive).as_posix()
        found.add(f"{name}/" if path.is_dir() and not path.is_symlink() else name)
    return found


def registry(prefix: Path) -> dict[str, str]:
    """Every key and value that Wine has written: the key's path, a bar and the value's name, with its data.

    A key itself is there with an empty name. Wine writes these files when the last program has ended.
    """
    found: dict[str, str] = {}
    for hive in _HIVES:
        root = "HKCU" if hive == "user.reg" else "HKLM"
        found |= dict(_entries((prefix / hive).read_text("utf-8", errors="replace"), root))
    return found


def _entries(text: str, root: str) -> Iterator[tuple[str, str]]:
    key = ""
    # A value of many bytes goes on in the next lines.
    for line in text.replace("\\\n", "").splitlines():
        if line.startswith("["):
            key = root + "\\" + _plain(line[1 : line.rindex("]")])
            yield f"{key}|", ""
        elif key and line[:1] in ('"', "@"):
            name, _, data = line.partition("=") if line[0] == "@" else _named(line)
            yield f"{key}|{name}", data


def _named(line: str) -> tuple[str, str, str]:
    found = re.match(r'"((?:[^"\\]|\\.)*)"(=)(.*)', line)
    return (_plain(found[1]), found[2], found[3]) if found else (line, "", "")


def _plain(text: str) -> str:
    unescaped = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
    return re.sub(r"\\(.)", r"\1", unescaped)


def added(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What the registry has more, or has with other data, apart from what Wine writes of itself."""
    changed = {name for name, data in after.items() if before.get(name) != data}
    return sorted(name for name in changed if not any(re.match(of_wine, name.lower()) for of_wine in _OF_WINE))


@dataclass(frozen=True)
class Traces:
    """What there was in a Windows at one moment.

    Attributes:
        files: As `files` tells them.
        registry: As `registry` tells it.
    """

    files: frozenset[str]
    registry: Mapping[str, str]

    @classmethod
    def of(cls, prefix: Path) -> Traces:
        """Those of a Windows that has ended."""
        return cls(frozenset(files(prefix)), registry(prefix))

    def since(self, before: Traces) -> list[str]:
        """What is there that was not before: paths, and lines of the registry."""
        came = (name for name in self.files - before.files if not re.match(_OF_NSIS, name))
        return [*sorted(came), *added(before.registry, self.registry)]
