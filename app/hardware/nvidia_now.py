"""Memory and load of NVIDIA devices in one reading, so that a sample has one thread and one library for both."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

from app.hardware.facts import Gpu
from app.hardware.gpu_load import nvidia_load
from app.hardware.gpu_memory import NvidiaMemory
from app.hardware.nvml import Nvml
from app.hardware.samples import GPU_LOAD, GPU_MEMORY, DevicesNow


class NvidiaReader:
    """Reads what is wanted of every NVIDIA device.

    All calls belong to one thread, but for `wanted`, which another one sets before it asks for a reading.

    Attributes:
        wanted: GPU_MEMORY, GPU_LOAD, or both.
    """

    def __init__(self, gpus: Sequence[Gpu], pid: int, open_nvml: Callable[[], Nvml]) -> None:
        """As of `NvidiaMemory`."""
        self._gpus = tuple(gpus)
        self._memory = NvidiaMemory(gpus, pid, open_nvml)
        self.wanted: AbstractSet[str] = frozenset()

    def read(self) -> DevicesNow:
        """The devices now.

        Raises:
            NotSeenError: NVML could not be opened; it is not tried again.
        """
        wanted = self.wanted
        nvml, cards = self._memory.opened()
        memory = self._memory.read() if GPU_MEMORY in wanted else ()
        loads = [nvidia_load(gpu, nvml, cards) for gpu in self._gpus] if GPU_LOAD in wanted else []
        return DevicesNow({found.device: found for found in memory}, {load.device: load for load in loads})

    def close(self) -> None:
        """Give NVML back."""
        self._memory.close()
