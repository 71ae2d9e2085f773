"""How busy the processor's kinds of cores are, from the system's counters of time, and their clock."""

import ctypes
import struct
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from app.hardware.cpu import read_core_classes
from app.hardware.facts import CoreClass
from app.hardware.files import read_int, read_text
from app.hardware.samples import CoreLoad, CpuLoad
from app.hardware.sources import NotSeenError

BUSY, CLOCK = "busy_percent", "clock_mhz"
OLDEST_SECONDS = 2.0
"""A reading further back than this is no "before": what lies between was not watched."""
CLOCK_SECONDS = 1.0
"""How often at most clocks are read: kernels of 2017 to 2022 may wait 10 ms for each."""
FIRST = "Load is counted between two samples; there was none before."
"""The reason that is gone with the next sample."""
# user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in the first two already.
_STAT_FIELDS, _IDLE, _WAITING = 8, 3, 4
# SYSTEM_PROCESSOR_PERFORMANCE_INFORMATION: IdleTime, KernelTime (idle included), UserTime; the rest is not needed.
_PROCESSOR = struct.Struct("<3q24x")
_PROCESSOR_TIMES = 8
_GROUP_SIZE = 64

Times = Mapping[int, tuple[int, int]]
"""Number of a thread to its busy time and all its time since the start, in whatever unit."""


class CpuLoadReader:
    """Compares each reading with the one before. Used by one thread."""

    def __init__(
        self,
        root: Path,
        system: str,
        *,
        windows: Callable[[], bytes] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Reads nothing yet.

        Args:
            root: What stands for "/".
            system: As in `sys.platform`.
            windows: Gives Windows' counters; `processor_times` where none is given.
            clock: Gives seconds.
        """
        self._root = root
        self._stat = root / "proc/stat"
        self._system = system
        self._windows = windows or processor_times
        self._clock = clock
        self._classes: tuple[CoreClass, ...] | None = None
        self._before: tuple[float, Times] | None = None
        self._mhz: dict[str, float] = {}
        self._clocks_due = clock()

    def read(self) -> CpuLoad:
        """The load since the reading before; None with the reason for the first, and for what nobody counts."""
        now = self._clock()
        try:
            times = self._times()
        except NotSeenError as error:
            self._before = None
            return CpuLoad(kinds=(CoreLoad(name=""),), reasons={BUSY: str(error), CLOCK: str(error)})
        before, self._before = self._before, (now, times)
        kinds = self._kinds(times)
        if before is None or now - before[0] > OLDEST_SECONDS:
            names = tuple(CoreLoad(name=name) for name in kinds)
            return CpuLoad(kinds=names, reasons={BUSY: FIRST, CLOCK: FIRST})
        spent = {cpu: found for cpu in times if (found := _spent(before[1].get(cpu), times[cpu]))}
        # No tick between two samples: the next one has it.
        reasons = {} if spent else {BUSY: "The system's counters of time stand still."}
        reasons |= self._read_clocks(now, kinds, spent)
        loads = [
            CoreLoad(name=name, busy_percent=_share(spent, cpus), clock_mhz=self._mhz.get(name))
            for name, cpus in kinds.items()
        ]
        return CpuLoad(kinds=tuple(loads), reasons=reasons)

    def _times(self) -> Times:
        if self._system == "win32":
            return parse_processor_times(self._windows())
        if self._system.startswith("linux"):
            return parse_stat(read_text(self._stat) or "")
        raise NotSeenError(f"The processor's load is not read on {self._system}.")

    def _kinds(self, times: Times) -> dict[str, tuple[int, ...]]:
        if self._classes is None:
            try:
                self._classes = read_core_classes(self._root, self._system)
            except NotSeenError:
                self._classes = ()  # one line for all threads is true all the same
        # Windows tells no numbers of threads beyond the first 64.
        known = {kind.name: kind.cpus for kind in self._classes if kind.cpus}
        return {"": tuple(times)} | (known if len(known) == len(self._classes) else {})

    def _read_clocks(
        self, now: float, kinds: Mapping[str, tuple[int, ...]], spent: Mapping[int, tuple[int, int]]
    ) -> dict[str, str]:
        if self._system == "win32":
            return {CLOCK: "Windows tells the processor's nominal clock only."}
        if now >= self._clocks_due and spent:
            self._clocks_due = now + CLOCK_SECONDS
            self._mhz = {}
            told: dict[int, int | None] = {}
            for name, cpus in kinds.items():
                known = [cpu for cpu in cpus if cpu in spent]
                if not known:
                    continue
                busiest = max(known, key=lambda cpu: spent[cpu][0] / spent[cpu][1])
                if busiest not in told:
                    folder = self._root / f"sys/devices/system/cpu/cpu{busiest}/cpufreq"
                    told[busiest] = read_int(folder / "scaling_cur_freq")
                if (kilohertz := told[busiest]) is not None and 0 < kilohertz < 20_000_000:
                    self._mhz[name] = kilohertz / 1000
        return {} if self._mhz else {CLOCK: "The kernel does not tell the processor's clock here."}


def parse_stat(text: str) -> Times:
    """The threads' times in /proc/stat, in clock ticks.

    Raises:
        NotSeenError: there are none in it.
    """
    found = {}
    for line in text.partition("\nintr ")[0].splitlines():  # what follows is long, and not of processors
        name, *numbers = line.split(None, _STAT_FIELDS + 1)[: _STAT_FIELDS + 1] or ("",)
        if not name.startswith("cpu"):
            break
        number = name[3:]
        if not number.isdecimal() or len(numbers) <= _WAITING or "-" in line:
            continue
        try:
            fields = [int(count) for count in numbers]
        except ValueError:
            continue
        total = sum(fields)
        found[int(number)] = total - fields[_IDLE] - fields[_WAITING], total
    if not found:
        raise NotSeenError("The kernel does not tell how busy the processor is.")
    return found


def parse_processor_times(answer: bytes) -> Times:
    """The threads' times in what NtQuerySystemInformation wrote, in units of 100 ns.

    Raises:
        NotSeenError: there are none in it, or it is cut.
    """
    if not answer or len(answer) % _PROCESSOR.size:
        raise NotSeenError("Windows gave processor times that cannot be read.")
    times = {}
    for number, (idle, kernel, user) in enumerate(_PROCESSOR.iter_unpack(answer)):
        times[number] = kernel + user - idle, kernel + user
    return times


def processor_times() -> bytes:
    """NtQuerySystemInformation(SystemProcessorPerformanceInformation) of this program's group of processors.

    Raises:
        NotSeenError: this is not Windows, or it refuses.
    """
    if sys.platform != "win32":
        raise NotSeenError("This is not Windows.")
    ask = ctypes.WinDLL("ntdll").NtQuerySystemInformation
    ask.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.POINTER(ctypes.c_ulong)]
    ask.restype = ctypes.c_long
    buffer = ctypes.create_string_buffer(_PROCESSOR.size * _GROUP_SIZE)
    written = ctypes.c_ulong(0)
    if ask(_PROCESSOR_TIMES, buffer, len(buffer), ctypes.byref(written)) < 0:
        raise NotSeenError("Windows does not tell how busy the processor is.")
    return buffer.raw[: written.value]


def _spent(before: tuple[int, int] | None, now: tuple[int, int]) -> tuple[int, int] | None:
    """Busy and all time between two readings; None for a thread that came, or whose counters went back."""
    if before is None or now[1] <= before[1]:
        return None
    total = now[1] - before[1]
    # The kernel's figure of waiting for disks may go back a little.
    return min(max(0, now[0] - before[0]), total), total


def _share(spent: Mapping[int, tuple[int, int]], cpus: Iterable[int]) -> float | None:
    found = [spent[cpu] for cpu in cpus if cpu in spent]
    total = sum(all_time for _, all_time in found)
    return 100 * sum(busy for busy, _ in found) / total if total else None
