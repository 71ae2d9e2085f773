"""The processor's caches."""

import struct

from app.hardware.facts import Cache
from app.hardware.files import read_cpu_list, read_int, read_text
from app.hardware.sources import NotSeenError
from app.hardware.tree import KernelPath, children

_CPUS = "sys/devices/system/cpu"
_KINDS = {"Data": "data", "Instruction": "instruction", "Unified": "unified"}
# SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX up to its CACHE_RELATIONSHIP's type: Relationship, Size, Level,
# Associativity, LineSize, CacheSize, Type.
_RECORD = struct.Struct("<IIBBHII")
_RELATION_CACHE = 2
_WINDOWS_KINDS = {0: "unified", 1: "instruction", 2: "data"}

_Instance = tuple[int, str, int]
"""Level, kind and bytes of one cache."""


def last_level_cache_bytes(root: KernelPath) -> int | None:
    """The largest cache that one core reads through; None where the system does not tell (only Linux does)."""
    folder = root / f"{_CPUS}/cpu0/cache"
    sizes = [_size(index) for index in children(folder) if index.name.startswith("index")]
    return max((size for size in sizes if size is not None), default=None)


def read_caches(root: KernelPath) -> tuple[Cache, ...]:
    """Every level and kind, as the kernel lists them, nearest first.

    Raises:
        NotSeenError: the kernel lists none.
    """
    found: dict[tuple[int, str, frozenset[int]], _Instance] = {}
    for cpu in sorted(read_cpu_list(root / f"{_CPUS}/online") or ()):
        for index in children(root / f"{_CPUS}/cpu{cpu}/cache"):
            size, level = _size(index), read_int(index / "level")
            kind = _KINDS.get(read_text(index / "type") or "")
            if size and level and kind:
                shared = read_cpu_list(index / "shared_cpu_list") or frozenset([cpu])
                found[level, kind, shared] = (level, kind, size)
    if not found:
        raise NotSeenError("The kernel does not list the processor's caches.")
    return _summed(list(found.values()))


def parse_caches(records: bytes) -> tuple[Cache, ...]:
    """The caches in what Windows' GetLogicalProcessorInformationEx(RelationCache) wrote.

    Raises:
        NotSeenError: the records contradict their own sizes, or hold no cache.
    """
    found: list[_Instance] = []
    at = 0
    while at < len(records):
        try:
            relation, size, level, _ways, _line, cache_bytes, kind = _RECORD.unpack_from(records, at)
        except struct.error as error:
            raise NotSeenError("Windows gave cache records that cannot be read.") from error
        if size < _RECORD.size or at + size > len(records):
            raise NotSeenError("Windows gave cache records that cannot be read.")
        if relation == _RELATION_CACHE and level and cache_bytes and kind in _WINDOWS_KINDS:
            found.append((level, _WINDOWS_KINDS[kind], cache_bytes))
        at += size
    if not found:
        raise NotSeenError("Windows does not list the processor's caches.")
    return _summed(found)


def _summed(instances: list[_Instance]) -> tuple[Cache, ...]:
    sizes: dict[tuple[int, str], list[int]] = {}
    for level, kind, size in instances:
        sizes.setdefault((level, kind), []).append(size)
    return tuple(
        Cache(level=level, kind=kind, size_bytes=max(of), total_bytes=sum(of))
        for (level, kind), of in sorted(sizes.items())
    )


def _size(index: KernelPath) -> int | None:
    words = read_text(index / "size") or ""
    return int(words[:-1]) * 1024 if words.endswith("K") and words[:-1].isdecimal() else None
