"""Reads from Windows' programs and libraries (PE files) which functions of which libraries they ask for.

Standard library only. The layout is that of Microsoft's published "PE Format"; only 64-bit files are read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

_PE32_PLUS = 0x20B
_IMPORTS, _DELAYED = 1, 13  # places in the table of data directories
_BY_NUMBER = 1 << 63
_RVA_BASED = 1  # how every linker of this century writes the delayed imports
SUFFIXES = (".dll", ".exe", ".pyd")


class NotPeError(ValueError):
    """The file is no 64-bit program or library of Windows, or is cut off."""


class _Image:
    """A file's bytes, addressed as they lie in memory when it is loaded."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        if content[:2] != b"MZ":
            raise NotPeError("no MZ header")
        (header,) = self._at("<I", 0x3C)
        if content[header : header + 4] != b"PE\0\0":
            raise NotPeError("no PE header")
        sections, optional_size = self._at("<2xH12xH", header + 4)
        optional = header + 24
        if self._at("<H", optional) != (_PE32_PLUS,):
            raise NotPeError("not a 64-bit file")
        (count,) = self._at("<I", optional + 108)
        self._directories = [self._at("<II", optional + 112 + 8 * place) for place in range(min(count, 16))]
        table = optional + optional_size
        self._sections = [self._at("<8xIIII", table + 40 * place)[:4] for place in range(sections)]

    def _at(self, layout: str, offset: int) -> tuple[int, ...]:
        try:
            return struct.unpack_from(layout, self._content, offset)
        except struct.error as error:
            raise NotPeError(f"cut off: {error}") from error

    def _offset(self, address: int) -> int:
        for _, start, size, raw in self._sections:
            if start <= address < start + size:
                return address - start + raw
        raise NotPeError(f"nothing lies at address {address:#x}")

    def read(self, layout: str, address: int) -> tuple[int, ...]:
        return self._at(layout, self._offset(address))

    def text(self, address: int) -> str:
        start = self._offset(address)
        end = self._content.find(b"\0", start)
        if end < 0:
            raise NotPeError("a name without an end")
        return self._content[start:end].decode("ascii", "backslashreplace")

    def directory(self, place: int) -> int:
        """Address of a data directory; 0 where the file has none."""
        return self._directories[place][0] if place < len(self._directories) else 0

    def functions(self, address: int) -> list[str]:
        """Names in the list at `address`; "#7" for what is asked for by its number."""
        names = []
        while (entry := self.read("<Q", address)[0]) != 0:
            names.append(f"#{entry & 0xFFFF}" if entry & _BY_NUMBER else self.text(entry + 2))
            address += 8
        return names


def parse_imports(content: bytes) -> dict[str, tuple[str, ...]]:
    """Libraries, in lower case, that a file is linked to, each with the functions it asks them for.

    Those that are loaded on first use only count too.

    Raises:
        NotPeError: it is no such file.
    """
    image = _Image(content)
    found: dict[str, list[str]] = {}
    address = image.directory(_IMPORTS)
    while address:
        names, _, _, library, bound = image.read("<IIIII", address)
        if library == 0:
            break
        found.setdefault(image.text(library).lower(), []).extend(image.functions(names or bound))
        address += 20
    address = image.directory(_DELAYED)
    while address:
        kind, library, _, _, names = image.read("<IIIII", address)
        if library == 0:
            break
        if not kind & _RVA_BASED:
            raise NotPeError("delayed imports of an outdated form")
        found.setdefault(image.text(library).lower(), []).extend(image.functions(names))
        address += 32
    return {library: tuple(functions) for library, functions in found.items()}


def imports(path: Path) -> dict[str, tuple[str, ...]]:
    """As `parse_imports`, of the file at `path`.

    Raises:
        NotPeError: it is no such file; told with its name.
    """
    try:
        return parse_imports(path.read_bytes())
    except NotPeError as error:
        raise NotPeError(f"{path}: {error}") from error


def needs_among(files: Mapping[str, Path]) -> dict[str, set[str]]:
    """For each file which of the others it is linked to, by the names that these have; Windows ignores case.

    Args:
        files: Names with slashes, and where each lies. What is no program or library needs nothing.

    Raises:
        NotPeError: one of the programs or libraries cannot be read.
    """
    spelled = _spellings(files)
    needs: dict[str, set[str]] = {}
    for name, path in files.items():
        asked = imports(path) if name.lower().endswith(SUFFIXES) else {}
        needs[name] = {each for library in asked for each in spelled.get(library, ())}
    return needs


def _spellings(names: Iterable[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name in names:
        last = name.rpartition("/")[2]
        found.setdefault(last.lower(), set()).add(last)
    return found
