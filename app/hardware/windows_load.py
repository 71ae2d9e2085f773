"""How busy graphics cards are as Windows counts it; it tells no clocks, heat or power."""

import re
from collections.abc import Callable, Mapping, Sequence

from app.hardware.dxgi import read_adapters
from app.hardware.facts import Gpu
from app.hardware.gpu_load import checked_load, unseen_load
from app.hardware.pdh import PdhCounters
from app.hardware.samples import GpuLoad
from app.hardware.sources import NotSeenError
from app.hardware.windows_gpu import COUNTERS, CardCounters, GpuCounters, adapter_of

ENGINES = r"\GPU Engine(*)\Utilization Percentage"
# "pid_4488_luid_0x00000000_0x0000D2A1_phys_0_eng_0_engtype_3D"
_INSTANCE = re.compile(
    r"pid_\d+_luid_0x(?P<high>[0-9a-f]+)_0x(?P<low>[0-9a-f]+)_phys_(?P<part>\d+_eng_\d+)_engtype_.*", re.IGNORECASE
)
_NOTHING_ELSE = "Windows counts how busy a card is, and nothing else of it."


def open_engine_counters() -> GpuCounters:
    """The counters of this machine.

    Raises:
        NotSeenError: this is not Windows, or it has no such counters.
    """
    counters = PdhCounters((ENGINES,))
    try:
        return GpuCounters(read_adapters(), counters.read, counters.close)
    except NotSeenError:
        counters.close()
        raise


def busy_by_card(instances: Mapping[str, int]) -> dict[int, int]:
    """LUID to percent: of a card's engines (3D, compute, copy) the busiest one, over all programs, as Windows shows it.

    Programs are counted in whole percents, so that many that do little count as nothing.
    """
    engines: dict[tuple[int, str], int] = {}
    for name, value in instances.items():
        found = _INSTANCE.fullmatch(name)
        if found and value >= 0:
            luid = (int(found["high"], 16) << 32) | int(found["low"], 16)
            engines[luid, found["part"]] = engines.get((luid, found["part"]), 0) + value
    busiest: dict[int, int] = {}
    for (luid, _), value in engines.items():
        busiest[luid] = max(busiest.get(luid, 0), min(value, 100))
    return busiest


class WindowsLoad:
    """Reads every card through the counters of engines. All calls belong to one thread, which may be kept waiting."""

    def __init__(self, gpus: Sequence[Gpu], open_all: Callable[[], GpuCounters] = open_engine_counters) -> None:
        """Opens nothing yet."""
        self._gpus = tuple(gpus)
        self._source = CardCounters(open_all)

    def read(self) -> dict[str, GpuLoad]:
        """Engine name to that card's load now.

        Raises:
            NotSeenError: there are no such counters; they are not opened again.
        """
        counters = self._source.opened()
        busy = busy_by_card(counters.read().get(ENGINES, {}))
        loads = {}
        for gpu in self._gpus:
            try:
                told = busy.get(adapter_of(gpu, counters.adapters).luid)
            except NotSeenError as error:
                loads[gpu.device] = unseen_load(gpu.device, COUNTERS, str(error))
                continue
            reasons = {"busy_percent": f"Windows counts nothing that runs on {gpu.device}."}
            figures = {"busy_percent": told}
            loads[gpu.device] = checked_load(gpu.device, COUNTERS, figures, None, reasons, _NOTHING_ELSE)
        return loads

    def close(self) -> None:
        """Give the counters back."""
        self._source.close()
