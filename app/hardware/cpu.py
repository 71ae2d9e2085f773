"""The processor on Linux, from /proc and /sys; other systems through `windows` and psutil."""

import os
import platform
import sys
from collections.abc import Iterable

import psutil

from app.hardware import caches, cgroups, cores, windows, windows_calls
from app.hardware.answers import LIVE, Answers
from app.hardware.facts import Cache, CoreClass, Cpu
from app.hardware.files import parse_cpu_list, read_cpu_list, read_int, read_text
from app.hardware.sources import NotSeenError
from app.hardware.tree import KernelPath

# The kernel's names (x86 "flags", ARM "Features") to ours, weakest first. These are what ggml's CPU
# backend variants are built for; everything else a processor can do makes no difference to it.
_ISA = {
    "pni": "sse3",
    "ssse3": "ssse3",
    "sse4_1": "sse4_1",
    "sse4_2": "sse4_2",
    "avx": "avx",
    "f16c": "f16c",
    "fma": "fma",
    "bmi2": "bmi2",
    "avx2": "avx2",
    "avx_vnni": "avx_vnni",
    "avx512f": "avx512f",
    "avx512cd": "avx512cd",
    "avx512vl": "avx512vl",
    "avx512dq": "avx512dq",
    "avx512bw": "avx512bw",
    "avx512vbmi": "avx512_vbmi",
    "avx512_vnni": "avx512_vnni",
    "avx512_bf16": "avx512_bf16",
    "avx512_fp16": "avx512_fp16",
    "amx_tile": "amx",
    "amx_int8": "amx_int8",
    "amx_bf16": "amx_bf16",
    "neon": "neon",
    "asimd": "neon",
    "asimdhp": "fp16",
    "asimddp": "dotprod",
    "bf16": "bf16",
    "i8mm": "i8mm",
    "sve": "sve",
    "sve2": "sve2",
    "sme": "sme",
}
# A choice, not a measurement: cores of one kind differ by a few percent (favoured ones clock higher)
# and must stay together; efficiency cores reach about half of the largest core, seldom two thirds.
_PERFORMANCE_SHARE = 0.7
_GROUP = 64  # processors that Windows has in one group at most


def read_cpu(
    root: KernelPath, system: str = sys.platform, answers: Answers = LIVE, groups: str = ""
) -> tuple[Cpu, tuple[str, ...]]:
    """The processor, and a sentence for each fact that had to be guessed or could not be seen.

    Args:
        root: What stands for "/".
        system: As in `sys.platform`.
        answers: Makes the calls of the system.
        groups: The engine's control groups, as `cgroups.groups_of` gives them; this program's where that is empty.
    """
    if system == "win32":
        return _from_windows(answers)
    if system.startswith("linux"):
        return _from_linux(root, answers, groups or cgroups.groups_of(root))
    return plain_cpu(answers), (f"Only the number of cores is read on {system}.",)


def read_caches(root: KernelPath, system: str, answers: Answers) -> tuple[Cache, ...]:
    """The processor's caches.

    Raises:
        NotSeenError: this system does not tell them.
    """
    if system == "win32":
        return caches.parse_caches(windows_calls.cache_records(answers))
    if system.startswith("linux"):
        return caches.read_caches(root)
    raise NotSeenError(f"Caches are not read on {system}.")


def read_nodes(root: KernelPath, system: str, answers: Answers) -> int:
    """How many memory nodes there are.

    Raises:
        NotSeenError: this system does not tell them.
    """
    if system == "win32":
        return windows_calls.numa_nodes(answers)
    if system.startswith("linux"):
        return cores.read_nodes(root)
    raise NotSeenError(f"Memory nodes are not read on {system}.")


def read_core_classes(root: KernelPath, system: str, answers: Answers = LIVE) -> tuple[CoreClass, ...]:
    """The kinds of cores without how many each has, which `read_cpu` tells at greater cost; empty where all are alike.

    Raises:
        NotSeenError: this system does not tell them.
    """
    if system == "win32":
        return cores.windows_classes(windows.parse_cores(windows_calls.core_records(answers)))
    if not system.startswith("linux"):
        raise NotSeenError(f"Kinds of cores are not read on {system}.")
    online = read_cpu_list(root / "sys/devices/system/cpu/online")
    if online is None:
        raise NotSeenError("The kernel does not list its processors.")
    return cores.core_classes(root, frozenset(), _performance_cpus(root, online), online)


def plain_cpu(answers: Answers = LIVE) -> Cpu:
    """What the standard library can tell anywhere."""
    return answers.ask("processor", _plain_cpu, Cpu)


def _plain_cpu() -> Cpu:
    logical = os.cpu_count() or 1
    physical = psutil.cpu_count(logical=False) or logical
    return Cpu(
        name=platform.machine() or "processor",
        physical_cores=physical,
        performance_cores=physical,
        logical_cores=logical,
        isa=(),
    )


def _from_linux(root: KernelPath, answers: Answers, groups: str) -> tuple[Cpu, tuple[str, ...]]:
    notes = []
    blocks = _cpuinfo(root)
    cpus = root / "sys/devices/system/cpu"
    online = read_cpu_list(cpus / "online") or frozenset(range(len(blocks)))
    if not online:
        return plain_cpu(answers), ("The processor could not be read from /proc and /sys.",)
    siblings = _cores(cpus, online)
    if siblings is None:
        siblings = frozenset(frozenset([cpu]) for cpu in online)
        notes.append("Which threads share a core could not be read; each is counted as a core.")
    fast = _performance_cpus(root, online)
    isa = _isa(blocks)
    if not isa:
        notes.append("The processor's instruction sets could not be read from /proc/cpuinfo.")
    allowed, why = _allowed(root, online, groups)
    notes += why
    return (
        Cpu(
            name=_name(root, blocks, answers),
            physical_cores=len(siblings),
            performance_cores=sum(1 for core in siblings if core & fast),
            logical_cores=len(online),
            isa=isa,
            allowed_threads=allowed,
            performance_cpus=tuple(sorted(fast)) if fast < online else (),
            core_classes=cores.core_classes(root, siblings, fast, online),
        ),
        tuple(notes),
    )


def _cpuinfo(root: KernelPath) -> list[dict[str, str]]:
    blocks = []
    for text in (read_text(root / "proc/cpuinfo") or "").split("\n\n"):
        pairs = (line.partition(":") for line in text.splitlines())
        block = {name.strip(): value.strip() for name, _, value in pairs}
        if "processor" in block:
            blocks.append(block)
    return blocks


def _name(root: KernelPath, blocks: list[dict[str, str]], answers: Answers) -> str:
    for block in blocks:
        if name := block.get("model name"):
            return " ".join(name.replace("(R)", "").replace("(TM)", "").split())
    # ARM kernels give the board's name rather than the processor's.
    board = (read_text(root / "proc/device-tree/model") or "").strip("\0 ")
    machine = answers.ask("architecture", platform.machine, str)
    return f"{machine} ({board})" if board else machine


def _cores(cpus: KernelPath, online: Iterable[int]) -> frozenset[frozenset[int]] | None:
    """Sets of threads that share a physical core; None where any of them cannot be read."""
    found = set()
    for cpu in online:
        topology = cpus / f"cpu{cpu}/topology"
        # The second name is the older kernels' for the same list.
        threads = read_cpu_list(topology / "core_cpus_list") or read_cpu_list(topology / "thread_siblings_list")
        if threads is None:
            return None
        found.add(threads)
    return frozenset(found)


def _performance_cpus(root: KernelPath, online: frozenset[int]) -> frozenset[int]:
    """Threads of the performance cores: all, where nothing tells cores apart."""
    intel = read_cpu_list(root / "sys/devices/cpu_core/cpus")
    if intel and intel & online:
        return intel & online
    cpus = root / "sys/devices/system/cpu"
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        sizes = {cpu: read_int(cpus / f"cpu{cpu}/{name}") for cpu in online}
        known = {cpu: size for cpu, size in sizes.items() if size}
        if len(known) == len(online):
            line = max(known.values()) * _PERFORMANCE_SHARE
            return frozenset(cpu for cpu, size in known.items() if size >= line)
    return online


def _isa(blocks: list[dict[str, str]]) -> tuple[str, ...]:
    """What every core can do: a program may be moved to any of them."""
    per_core = [set((block.get("flags") or block.get("Features") or "").split()) for block in blocks]
    common = set.intersection(*per_core) if per_core else set()
    return tuple(dict.fromkeys(name for flag, name in _ISA.items() if flag in common))


def _allowed(root: KernelPath, online: frozenset[int], groups: str) -> tuple[int | None, list[str]]:
    status = read_text(root / "proc/self/status") or ""
    lines = [line.partition(":")[2] for line in status.splitlines() if line.startswith("Cpus_allowed_list:")]
    affinity = parse_cpu_list(lines[0]) if lines else None
    usable = len(affinity & online) if affinity and affinity & online else len(online)
    quota = cgroups.allowed_cpus(root, groups)
    allowed = min(usable, quota) if quota is not None else usable
    if allowed >= len(online):
        return None, []
    return allowed, [
        _words_of_allowed(allowed, len(online), "its CPU quota" if allowed < usable else "its CPU affinity")
    ]


def _allowed_by_windows(answers: Answers, logical: int) -> int | None:
    """Threads that this program may keep busy where it was started for some processors only; else None."""
    if logical > _GROUP:  # the affinity then is of one group of processors, and says nothing of the others
        return None
    try:
        allowed = answers.ask("windows.GetProcessAffinityMask", lambda: len(psutil.Process().cpu_affinity() or ()), int)
    except (NotSeenError, psutil.Error, OSError):
        return None
    return allowed if 0 < allowed < logical else None


def _words_of_allowed(allowed: int, logical: int, why: str) -> str:
    return f"This program may keep only {allowed} of the processor's {logical} threads busy ({why})."


def _from_windows(answers: Answers) -> tuple[Cpu, tuple[str, ...]]:
    found = windows.parse_cores(windows_calls.core_records(answers))
    isa = answers.ask("windows.IsProcessorFeaturePresent", windows.instruction_sets, tuple[str, ...])
    notes: tuple[str, ...] = ()
    if "neon" not in isa:
        notes = ("Windows does not tell programs about FMA, F16C, VNNI or AMX; the engine finds out itself.",)
    logical = sum(core.threads for core in found)
    allowed = _allowed_by_windows(answers, logical)
    if allowed is not None:
        notes += (_words_of_allowed(allowed, logical, "its CPU affinity"),)
    return (
        Cpu(
            name=answers.ask("windows.registry.processor", windows.processor_name, str),
            physical_cores=len(found),
            performance_cores=windows.performance_cores(found),
            logical_cores=logical,
            isa=isa,
            allowed_threads=allowed,
            performance_cpus=windows.performance_cpus(found),
            core_classes=cores.windows_classes(found),
        ),
        notes,
    )
