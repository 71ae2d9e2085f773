"""NVIDIA's management library (NVML) behind a small protocol, so that tests can play a driver."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.hardware.cards import CardMemory, normal_pci_id
from app.hardware.facts import Pcie
from app.hardware.gpu_programs import program_name
from app.hardware.sources import NotSeenError


@dataclass(frozen=True)
class NvmlCard:
    """A card by NVML's index; `pci_id` as in `Gpu.pci_id`."""

    index: int
    name: str
    pci_id: str | None


@dataclass(frozen=True)
class NvmlDetails:
    """What else a card's driver told; None for what it refused.

    Attributes:
        uuid: NVIDIA's name of the card.
        cuda: The newest CUDA that the driver runs ("12.4").
        power_limit_watts: What it may draw now. power_max_watts: the highest limit that may be set.
        programs: Number, name and bytes of each program on it; bytes are None where the driver does not tell.
        programs_refused: Why programs are not listed, else empty.
    """

    uuid: str | None = None
    cuda: str | None = None
    power_limit_watts: float | None = None
    power_max_watts: float | None = None
    programs: tuple[tuple[int, str, int | None], ...] = ()
    programs_refused: str = ""


@dataclass(frozen=True)
class NvmlLoad:
    """What a card does now, as NVML's numbers.

    Attributes:
        figures: By the name of the figure in `samples.GpuLoad`; what the driver refused is absent.
        events: Bits of its "clocks event reasons" (throttle reasons in older releases); None where refused.
        refusals: Name of an absent figure, "throttled" for `events`, to why.
    """

    figures: Mapping[str, float] = field(default_factory=dict)
    events: int | None = None
    refusals: Mapping[str, str] = field(default_factory=dict)


class Nvml(Protocol):
    """The part of NVML that is used. Every method may raise `NotSeenError`, and may hang."""

    def driver(self) -> str:
        """The driver's version."""
        ...

    def cards(self) -> tuple[NvmlCard, ...]:
        """Every card the driver sees."""
        ...

    def memory(self, card: NvmlCard) -> CardMemory:
        """A card's memory now."""
        ...

    def link(self, card: NvmlCard) -> Pcie:
        """A card's PCIe link."""
        ...

    def details(self, card: NvmlCard) -> NvmlDetails:
        """What else is told of a card."""
        ...

    def process_bytes(self, card: NvmlCard, pid: int) -> int:
        """Memory that one process holds on a card."""
        ...

    def load(self, card: NvmlCard) -> NvmlLoad:
        """What a card does now."""
        ...

    def close(self) -> None:
        """Give the library back."""
        ...


def open_nvml() -> Nvml:
    """The installed driver's NVML.

    Raises:
        NotSeenError: there is no NVIDIA driver, or it refuses.
    """
    return _DriverNvml()


class _DriverNvml:
    """NVML through `pynvml`; its errors become `NotSeenError`."""

    def __init__(self) -> None:
        # Imported late: it is large, and a command that asks no driver need not pay for it.
        import pynvml  # noqa: PLC0415

        self._pynvml = pynvml
        self._call("nvmlInit")
        self._handles: dict[int, Any] = {}
        self._highest: dict[tuple[int, str], float] = {}

    def driver(self) -> str:
        return _text(self._call("nvmlSystemGetDriverVersion"))

    def cards(self) -> tuple[NvmlCard, ...]:
        found = []
        for index in range(self._call("nvmlDeviceGetCount")):
            handle = self._handles[index] = self._call("nvmlDeviceGetHandleByIndex", index)
            found.append(
                NvmlCard(
                    index=index,
                    name=_text(self._call("nvmlDeviceGetName", handle)),
                    pci_id=normal_pci_id(_text(self._call("nvmlDeviceGetPciInfo", handle).busId)),
                )
            )
        return tuple(found)

    def memory(self, card: NvmlCard) -> CardMemory:
        memory = self._call("nvmlDeviceGetMemoryInfo", self._handles[card.index])
        return CardMemory(used_bytes=memory.used, total_bytes=memory.total)

    def link(self, card: NvmlCard) -> Pcie:
        handle = self._handles[card.index]
        return Pcie(
            generation=self._call("nvmlDeviceGetCurrPcieLinkGeneration", handle),
            lanes=self._call("nvmlDeviceGetCurrPcieLinkWidth", handle),
            max_generation=self._call("nvmlDeviceGetMaxPcieLinkGeneration", handle),
            max_lanes=self._call("nvmlDeviceGetMaxPcieLinkWidth", handle),
        )

    def details(self, card: NvmlCard) -> NvmlDetails:
        handle = self._handles[card.index]
        uuid = self._maybe("nvmlDeviceGetUUID", handle)
        cuda = self._maybe("nvmlSystemGetCudaDriverVersion_v2")
        limit = self._maybe("nvmlDeviceGetEnforcedPowerLimit", handle)
        bounds = self._maybe("nvmlDeviceGetPowerManagementLimitConstraints", handle)
        programs: dict[int, int | None] = {}
        refused = ""
        try:
            for pid, size in self._programs(handle):
                programs[pid] = max(programs.get(pid) or 0, size or 0) or None
        except NotSeenError as error:
            refused = str(error)
        return NvmlDetails(
            uuid=_text(uuid) if uuid else None,
            cuda=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
            power_limit_watts=limit / 1000 if limit else None,
            power_max_watts=bounds[1] / 1000 if bounds else None,
            programs=tuple((pid, program_name(pid), size) for pid, size in programs.items()),
            programs_refused=refused,
        )

    def process_bytes(self, card: NvmlCard, pid: int) -> int:
        listed = [size for its_pid, size in self._programs(self._handles[card.index]) if its_pid == pid]
        if not listed:
            raise NotSeenError("The NVIDIA driver lists no memory of the engine on this card.")
        known = [size for size in listed if size is not None]
        if not known:
            raise NotSeenError("The NVIDIA driver does not tell memory by program on this system.")
        return int(max(known))

    def load(self, card: NvmlCard) -> NvmlLoad:
        handle = self._handles[card.index]
        core, memory = self._pynvml.NVML_CLOCK_GRAPHICS, self._pynvml.NVML_CLOCK_MEM
        sensor = self._pynvml.NVML_TEMPERATURE_GPU
        figures: dict[str, float] = {}
        refusals: dict[str, str] = {}
        asked: tuple[tuple[str, str, tuple[int, ...]], ...] = (
            ("busy_percent", "nvmlDeviceGetUtilizationRates", ()),
            ("core_mhz", "nvmlDeviceGetClockInfo", (core,)),
            ("core_max_mhz", "nvmlDeviceGetMaxClockInfo", (core,)),
            ("memory_mhz", "nvmlDeviceGetClockInfo", (memory,)),
            ("memory_max_mhz", "nvmlDeviceGetMaxClockInfo", (memory,)),
            ("celsius", "nvmlDeviceGetTemperature", (sensor,)),
            ("watts", "nvmlDeviceGetPowerUsage", ()),
        )
        for name, function, arguments in asked:
            key = card.index, name
            if key in self._highest:
                figures[name] = self._highest[key]
                continue
            try:
                told = self._call(function, handle, *arguments)
            except NotSeenError as error:
                refusals[name] = str(error)
                continue
            if name == "busy_percent":
                told = told.gpu
            figures[name] = told / 1000 if name == "watts" else float(told)
            if name.endswith("max_mhz"):
                self._highest[key] = figures[name]  # it stays as it is
        events = None
        try:
            events = self._events(handle)
        except NotSeenError as error:
            refusals["throttled"] = str(error)
        return NvmlLoad(figures, events, refusals)

    def _events(self, handle: Any) -> int:
        """The bits under the function's new name, or under the one that drivers before the 535 series have."""
        try:
            return int(self._call("nvmlDeviceGetCurrentClocksEventReasons", handle))
        except NotSeenError:
            return int(self._call("nvmlDeviceGetCurrentClocksThrottleReasons", handle))

    def _programs(self, handle: Any) -> list[tuple[int, int | None]]:
        """Process number and bytes; a program that computes and draws is listed twice, each time with all it holds."""
        listed, refusals = [], []
        for kind in ("Compute", "Graphics"):
            try:
                processes = self._call(f"nvmlDeviceGet{kind}RunningProcesses", handle)
            except NotSeenError as error:
                refusals.append(error)  # cards without graphics refuse one of the two
                continue
            listed += [(int(process.pid), process.usedGpuMemory) for process in processes]
        if len(refusals) == 2:
            raise refusals[0]
        return listed

    def _maybe(self, function: str, *arguments: Any) -> Any:
        """What a function gives that not every card or driver has; None where it refuses."""
        try:
            return self._call(function, *arguments)
        except NotSeenError:
            return None

    def close(self) -> None:
        self._call("nvmlShutdown")

    def _call(self, function: str, *arguments: Any) -> Any:
        try:
            return getattr(self._pynvml, function)(*arguments)
        except self._pynvml.NVMLError_LibraryNotFound as error:
            raise NotSeenError("The NVIDIA driver's library (NVML) is not installed.") from error
        except self._pynvml.NVMLError as error:
            raise NotSeenError(f"The NVIDIA driver refused ({function}): {error}.") from error


def _text(value: str | bytes) -> str:
    """Older releases of the binding give bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
