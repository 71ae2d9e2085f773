"""What Windows tells about the machine, through its own functions; parsing is apart from calling.

Importable everywhere; the calling functions work on Windows only.
"""

import ctypes
import struct
import sys
from dataclasses import dataclass, field

from app.hardware.sources import NotSeenError

_RELATION_PROCESSOR_CORE = 0
# SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX up to its PROCESSOR_RELATIONSHIP's group masks:
# Relationship, Size, Flags, EfficiencyClass, Reserved[20], GroupCount.
_CORE_HEAD = struct.Struct("<IIBB20xH")
# GROUP_AFFINITY on 64-bit Windows: Mask, Group, Reserved[3].
_GROUP_MASK = struct.Struct("<QH6x")
_FIRST_WINDOWS_11_BUILD = 22000
# PF_* numbers of winnt.h for IsProcessorFeaturePresent, by our names, weakest first. A release of
# Windows older than a number answers "absent".
_FEATURES_X86 = {
    "sse3": 13,
    "ssse3": 36,
    "sse4_1": 37,
    "sse4_2": 38,
    "avx": 39,
    "bmi2": 60,
    "avx2": 40,
    "avx512f": 41,
}
_FEATURES_ARM = {
    "neon": 19,
    "fp16": 67,
    "dotprod": 43,
    "bf16": 68,
    "i8mm": 66,
    "sve": 46,
    "sve2": 47,
    "sme": 70,
}


@dataclass(frozen=True)
class Core:
    """A physical core: how many threads it runs, and its class (higher is faster, 0 where all are alike).

    `processors` are their numbers; empty outside the first group of processors, which a program starts in.
    """

    threads: int
    efficiency_class: int
    processors: tuple[int, ...] = field(default=(), compare=False)


def parse_cores(records: bytes) -> tuple[Core, ...]:
    """The cores in what GetLogicalProcessorInformationEx(RelationProcessorCore) wrote.

    Raises:
        NotSeenError: the records contradict their own sizes.
    """
    cores = []
    at = 0
    while at < len(records):
        try:
            relation, size, _flags, efficiency_class, groups = _CORE_HEAD.unpack_from(records, at)
            masks = [
                _GROUP_MASK.unpack_from(records, at + _CORE_HEAD.size + index * _GROUP_MASK.size)
                for index in range(groups)
            ]
        except struct.error as error:
            raise NotSeenError("Windows gave processor records that cannot be read.") from error
        if size < _CORE_HEAD.size:
            raise NotSeenError("Windows gave processor records that cannot be read.")
        if relation == _RELATION_PROCESSOR_CORE:
            first = next((mask for mask, group in masks if group == 0), 0)
            processors = tuple(number for number in range(first.bit_length()) if first >> number & 1)
            cores.append(Core(sum(mask.bit_count() for mask, _ in masks), efficiency_class, processors))
        at += size
    return tuple(cores)


def performance_cores(cores: tuple[Core, ...]) -> int:
    """How many cores are of the fastest class."""
    best = max((core.efficiency_class for core in cores), default=0)
    return sum(1 for core in cores if core.efficiency_class == best)


def performance_cpus(cores: tuple[Core, ...]) -> tuple[int, ...]:
    """Numbers of the logical processors of the fastest class; empty where all are alike or in several groups."""
    best = max((core.efficiency_class for core in cores), default=0)
    if performance_cores(cores) == len(cores) or not all(core.processors for core in cores):
        return ()
    return tuple(sorted(number for core in cores if core.efficiency_class == best for number in core.processors))


def system_name() -> str:
    """Windows in words: "Windows 11 (build 22631)"."""
    if sys.platform != "win32":
        raise NotSeenError("This is not Windows.")
    version = sys.getwindowsversion()
    # Windows 11 still calls itself 10.0; only its builds differ.
    name = "11" if version.build >= _FIRST_WINDOWS_11_BUILD else str(version.major)
    return f"Windows {name} (build {version.build})"


def processor_name() -> str:
    """The processor as its maker names it."""
    if sys.platform != "win32":
        raise NotSeenError("This is not Windows.")
    import winreg  # noqa: PLC0415 - exists on Windows only

    with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"HARDWARE\DESCRIPTION\System\CentralProcessor\0") as key:
        name, _ = winreg.QueryValueEx(key, "ProcessorNameString")
    return " ".join(str(name).replace("(R)", "").replace("(TM)", "").split())


def instruction_sets() -> tuple[str, ...]:
    """Names of the instruction sets that Windows says are there."""
    if sys.platform != "win32":
        raise NotSeenError("This is not Windows.")
    present = ctypes.WinDLL("kernel32").IsProcessorFeaturePresent
    present.argtypes, present.restype = [ctypes.c_ulong], ctypes.c_int
    # The two families' numbers do not overlap: a number of the other one is simply absent.
    features = _FEATURES_X86 | _FEATURES_ARM
    return tuple(name for name, number in features.items() if present(number))
