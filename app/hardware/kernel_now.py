"""Memory and load of the cards that the Linux kernel's files tell of, in one reading on a thread of its own.

A driver whose chip hangs may not return from reading one of its files.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from app.hardware.drm import read_cards
from app.hardware.drm_clients import DrmClients
from app.hardware.facts import Gpu
from app.hardware.gpu_load import KernelLoad
from app.hardware.gpu_memory import KernelMemory
from app.hardware.samples import GPU_LOAD, GPU_MEMORY, DevicesNow


class KernelReader:
    """Reads what is wanted of some devices.

    All calls belong to one thread, but for `wanted`, which another one sets before it asks for a reading.

    Attributes:
        wanted: GPU_MEMORY, GPU_LOAD, or both.
    """

    def __init__(self, gpus: Sequence[Gpu], pid: int, root: Path) -> None:
        """Reads nothing yet; `pid` is the engine's process, and `root` stands for "/"."""
        self._gpus = tuple(gpus)
        self._pid = pid
        self._root = root
        self._memory: tuple[KernelMemory, ...] | None = None
        self._loads: tuple[KernelLoad, ...] = ()
        self.wanted: AbstractSet[str] = frozenset()

    def read(self) -> DevicesNow:
        """The devices now."""
        wanted = self.wanted
        if self._memory is None:
            cards = read_cards(self._root)
            clients = DrmClients(self._root, self._pid)
            self._loads = tuple(KernelLoad(gpu, cards) for gpu in self._gpus)
            self._memory = tuple(KernelMemory(gpu, cards, clients) for gpu in self._gpus)
        memory = [card.read() for card in self._memory] if GPU_MEMORY in wanted else []
        loads = [card.read() for card in self._loads] if GPU_LOAD in wanted else []
        return DevicesNow({found.device: found for found in memory}, {load.device: load for load in loads})
