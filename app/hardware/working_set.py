"""How much of a model file is in the engine's working set, asked of Windows without touching a byte of it.

Windows has no call that tells whether a page of a file is in memory at all: `QueryWorkingSetEx` tells of one
process' pages whether that process can read them at once. The process that is asked is therefore the engine, at
the addresses where it mapped the file; a mapping of our own that nobody reads would always say "none".

Importable everywhere; `EngineMemory` works on Windows only.
"""

import ctypes
import mmap
import os
import struct
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from app.hardware.page_cache import next_phase, places
from app.hardware.sources import NotSeenError

LEAVES_OUT = (
    "At least this share: pages that the engine can read at once. What Windows keeps of the file beside them "
    "(its standby list) is not told."
)
_NOT_MAPPED = "The engine has not mapped the model file, so what of it is in memory cannot be told."
_PAIR_BYTES = 16  # PSAPI_WORKING_SET_EX_INFORMATION on 64-bit Windows: VirtualAddress, VirtualAttributes.
_VALID = 1  # the lowest bit of VirtualAttributes
# MEMORY_BASIC_INFORMATION on 64-bit Windows: BaseAddress, AllocationBase, AllocationProtect, PartitionId, RegionSize,
# State, Protect, Type.
_REGION = struct.Struct("<QQI4xQIII4x")
_MAPPED = 0x40000
_MOST_REGIONS = 200_000
_QUERY_INFORMATION, _READ_MEMORY = 0x400, 0x10
_GENERIC_READ, _SHARE_ALL, _OPEN_EXISTING = 0x80000000, 7, 3
_PAGE_READONLY, _MAP_READ = 2, 4
_OWN_PROCESS = -1
_LONGEST_NAME = 32_768
_NO_HANDLE = (None, ctypes.c_void_p(-1).value)


@dataclass(frozen=True)
class Mapping:
    """A file's bytes in a process: where they begin, and how many there are."""

    address: int
    size: int


class ProcessMemory(Protocol):
    """What is asked of one process. Every method may raise `NotSeenError`."""

    def mappings(self) -> Iterator[Mapping]:
        """Everything that is mapped into it, files and other sections."""
        ...

    def name_at(self, address: int) -> str:
        """The system's name of the file that is mapped at an address; empty for none."""
        ...

    def name_of(self, path: str) -> str:
        """The system's name of a file, as `name_at` tells it."""
        ...

    def attributes(self, addresses: Sequence[int]) -> Sequence[int]:
        """`QueryWorkingSetEx`' attributes of the pages at some addresses."""
        ...

    def close(self) -> None:
        """Give the process back."""
        ...


class WorkingSetShare:
    """The least share of some files that is in memory: their pages in the engine's working set. Used by one thread.

    Pages that were read ahead, or taken from the working set, and still are in memory are not counted.

    Attributes:
        leaves_out: What the figure does not tell, as a sentence.
    """

    leaves_out = LEAVES_OUT

    def __init__(
        self, pid: int, paths: Sequence[str], open_memory: "Callable[[int], ProcessMemory] | None" = None
    ) -> None:
        """Find out what the files are called.

        Args:
            pid: The engine's process.
            paths: The model's files.
            open_memory: Opens the process; `EngineMemory` where none is given.

        Raises:
            NotSeenError: the files or the process may not be looked at.
        """
        sizes = [_size(path) for path in paths]
        self._phase = 0.0
        self._found: dict[str, Mapping] = {}
        self._memory = (open_memory or EngineMemory)(pid)
        try:
            names = [self._memory.name_of(path) for path in paths]
        except NotSeenError:
            self._memory.close()
            raise
        self._pages = {name: -(-size // mmap.PAGESIZE) for name, size in zip(names, sizes, strict=True)}

    def share(self) -> float:
        """The share now, 0 to 1, over all files by their pages.

        Raises:
            NotSeenError: the engine has not mapped them, or Windows does not answer.
        """
        self._phase = next_phase(self._phase)
        if not self._still_there():
            self._found = self._find()
        inside = sum(min(self._inside(mapping), self._pages[name]) for name, mapping in self._found.items())
        return inside / sum(self._pages.values())

    def close(self) -> None:
        """Give the process back."""
        self._memory.close()

    def _still_there(self) -> bool:
        """Whether every mapping still is that of its file: pages of another would be counted, or none, as its own."""
        return self._found.keys() == self._pages.keys() and all(
            self._memory.name_at(mapping.address) == name for name, mapping in self._found.items()
        )

    def _find(self) -> dict[str, Mapping]:
        """The mapping of each file; of several the one with the most in the working set.

        Raises:
            NotSeenError: a file is not mapped.
        """
        found: dict[str, list[Mapping]] = {}
        for mapping in self._memory.mappings():
            name = self._memory.name_at(mapping.address)
            if name in self._pages:
                found.setdefault(name, []).append(mapping)
        if found.keys() != self._pages.keys():
            raise NotSeenError(_NOT_MAPPED)
        return {name: max(all_of_it, key=self._inside) for name, all_of_it in found.items()}

    def _inside(self, mapping: Mapping) -> float:
        """Pages of a mapping that are in the working set; of a large one estimated from some."""
        pages = -(-mapping.size // mmap.PAGESIZE)
        asked = places(pages, self._phase)
        told = self._memory.attributes([mapping.address + page * mmap.PAGESIZE for page in asked])
        return sum(attributes & _VALID for attributes in told) * pages / len(asked)


class EngineMemory:
    """A process' memory through Windows' functions."""

    def __init__(self, pid: int) -> None:
        """Open the process.

        Raises:
            NotSeenError: this is not Windows, or it may not be looked at.
        """
        self._kernel = _kernel()
        self._text = ctypes.create_unicode_buffer(_LONGEST_NAME)
        # Of this very process the handle needs no rights (and closing it does nothing).
        own = pid == os.getpid()
        self._process = _OWN_PROCESS if own else self._kernel.OpenProcess(_QUERY_INFORMATION | _READ_MEMORY, 0, pid)
        if not own and self._process in _NO_HANDLE:
            raise NotSeenError(f"Windows does not let this program look at the engine's memory{_error()}.")

    def mappings(self) -> Iterator[Mapping]:
        """As `ProcessMemory` says; the parts of a mapping that differ in protection are put together."""
        address, begin, size = 0, 0, 0
        answer = ctypes.create_string_buffer(_REGION.size)
        for _ in range(_MOST_REGIONS):
            if not self._kernel.VirtualQueryEx(self._process, address, answer, len(answer)):
                break
            base, allocation, _protect, length, _state, _now, kind = _REGION.unpack_from(answer)
            if kind == _MAPPED and allocation == begin:
                size = base + length - begin
            else:
                if size:
                    yield Mapping(begin, size)
                begin, size = (allocation, base + length - allocation) if kind == _MAPPED else (0, 0)
            address = base + length
        if size:
            yield Mapping(begin, size)

    def name_at(self, address: int) -> str:
        """As `ProcessMemory` says."""
        return self._name(self._process, address)

    def name_of(self, path: str) -> str:
        """As `ProcessMemory` says: a page of the file is mapped here, asked for its name, and given back unread."""
        kernel = self._kernel
        file = kernel.CreateFileW(path, _GENERIC_READ, _SHARE_ALL, None, _OPEN_EXISTING, 0, None)
        if file in _NO_HANDLE:
            raise NotSeenError(f"The model file {path} cannot be looked at{_error()}.")
        section = address = None
        try:
            section = kernel.CreateFileMappingW(file, None, _PAGE_READONLY, 0, 0, None)
            address = kernel.MapViewOfFile(section, _MAP_READ, 0, 0, 1) if section else None
            if not address:
                raise NotSeenError(f"The model file {path} cannot be mapped{_error()}.")
            name = self._name(_OWN_PROCESS, address)
        finally:
            if address:
                kernel.UnmapViewOfFile(address)
            if section:
                kernel.CloseHandle(section)
            kernel.CloseHandle(file)
        if not name:
            raise NotSeenError("Windows does not tell which files are mapped into memory.")
        return name

    def attributes(self, addresses: Sequence[int]) -> Sequence[int]:
        """As `ProcessMemory` says, in one call."""
        pairs = array("Q", bytes(_PAIR_BYTES * len(addresses)))
        pairs[0::2] = array("Q", addresses)
        block = (ctypes.c_char * (_PAIR_BYTES * len(addresses))).from_buffer(pairs)
        if not self._kernel.K32QueryWorkingSetEx(self._process, block, len(block)):
            raise NotSeenError(f"Windows does not tell which pages of the model file the engine has{_error()}.")
        return pairs[1::2]

    def close(self) -> None:
        """As `ProcessMemory` says."""
        if self._process:
            self._kernel.CloseHandle(self._process)
            self._process = None

    def _name(self, process: int | None, address: int) -> str:
        length = self._kernel.K32GetMappedFileNameW(process, address, self._text, len(self._text))
        return self._text.value.casefold() if length else ""


def _size(path: str) -> int:
    try:
        size = Path(path).stat().st_size
    except (OSError, ValueError) as error:
        raise NotSeenError(
            f"The model file {path} cannot be looked at: {getattr(error, 'strerror', None) or error}."
        ) from error
    if not size:
        raise NotSeenError("The model file is empty.")
    return size


def _kernel() -> Any:
    if sys.platform != "win32":
        raise NotSeenError("This is not Windows.")
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    pointer, number, size = ctypes.c_void_p, ctypes.c_ulong, ctypes.c_size_t
    for name, answer, arguments in (
        ("OpenProcess", pointer, (number, ctypes.c_int, number)),
        ("VirtualQueryEx", size, (pointer, pointer, pointer, size)),
        ("K32GetMappedFileNameW", number, (pointer, pointer, ctypes.c_wchar_p, number)),
        ("K32QueryWorkingSetEx", ctypes.c_int, (pointer, pointer, number)),
        ("CreateFileW", pointer, (ctypes.c_wchar_p, number, number, pointer, number, number, pointer)),
        ("CreateFileMappingW", pointer, (pointer, pointer, number, number, number, ctypes.c_wchar_p)),
        ("MapViewOfFile", pointer, (pointer, number, number, number, size)),
        ("UnmapViewOfFile", ctypes.c_int, (pointer,)),
        ("CloseHandle", ctypes.c_int, (pointer,)),
    ):
        function = getattr(kernel, name)
        function.restype, function.argtypes = answer, list(arguments)
    return kernel


def _error() -> str:
    if sys.platform != "win32":
        return ""
    return f" ({ctypes.WinError(ctypes.get_last_error()).strerror.rstrip('.')})"
