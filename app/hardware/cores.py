"""Kinds of cores in one processor, and nodes of main memory."""

from collections.abc import Collection, Mapping

from app.hardware.facts import CoreClass
from app.hardware.files import read_cpu_list, read_int
from app.hardware.sources import NotSeenError
from app.hardware.tree import KernelPath
from app.hardware.windows import Core

PERFORMANCE, EFFICIENCY, LOW_POWER = "performance", "efficiency", "low-power efficiency"
_SYSTEM = "sys/devices/system"
# Of the efficiency cores' highest clock: those on a processor's second die (Meteor Lake: 2.5 of 3.8 GHz) stay
# well below, cores of one kind within a few percent.
_LOW_POWER_SHARE = 0.85


def core_classes(
    root: KernelPath, cores: Collection[frozenset[int]], fast: frozenset[int], online: frozenset[int]
) -> tuple[CoreClass, ...]:
    """The kinds, fastest first; empty where cores are alike.

    Args:
        root: What stands for "/".
        cores: The threads of each core.
        fast: Threads of the performance cores.
        online: All threads.
    """
    slow = online - fast
    if not slow or not fast:
        return ()
    clocks = {cpu: read_int(root / f"{_SYSTEM}/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq") or 0 for cpu in online}
    line = max(clocks[cpu] for cpu in slow) * _LOW_POWER_SHARE
    low = frozenset(cpu for cpu in slow if 0 < clocks[cpu] < line)
    kinds = ((PERFORMANCE, fast), (EFFICIENCY, slow - low), (LOW_POWER, low))
    return tuple(_class(name, cpus, cores, clocks) for name, cpus in kinds if cpus)


def windows_classes(cores: tuple[Core, ...]) -> tuple[CoreClass, ...]:
    """The kinds that Windows tells apart, fastest first; empty where all are alike."""
    ranks = sorted({core.efficiency_class for core in cores}, reverse=True)
    if len(ranks) < 2:
        return ()
    names = [PERFORMANCE, EFFICIENCY, *[LOW_POWER] * (len(ranks) - 2)]
    classes = []
    for name, rank in zip(names, ranks, strict=True):
        of_rank = [core for core in cores if core.efficiency_class == rank]
        # Numbers are told for the first group of processors only.
        known = all(core.processors for core in of_rank)
        cpus = sorted(cpu for core in of_rank for cpu in core.processors) if known else []
        classes.append(CoreClass(name=name, cores=len(of_rank), cpus=tuple(cpus)))
    return tuple(classes)


def read_nodes(root: KernelPath) -> int:
    """How many nodes have memory of their own.

    Raises:
        NotSeenError: the kernel lists none.
    """
    for name in ("has_memory", "online"):
        if nodes := read_cpu_list(root / f"{_SYSTEM}/node/{name}"):
            return len(nodes)
    raise NotSeenError("The kernel does not list its memory nodes.")


def _class(name: str, cpus: frozenset[int], cores: Collection[frozenset[int]], clocks: Mapping[int, int]) -> CoreClass:
    kilohertz = max(clocks[cpu] for cpu in cpus)
    return CoreClass(
        name=name,
        cores=sum(1 for core in cores if core & cpus),
        cpus=tuple(sorted(cpus)),
        max_mhz=round(kilohertz / 1000) or None,
    )
