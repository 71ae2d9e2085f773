"""Live memory of GPUs: one reader per kind of driver, all giving `GpuSample`s."""

from collections.abc import Callable, Sequence

from app.hardware import matching
from app.hardware.cards import CardMemory
from app.hardware.drm import DrmCard
from app.hardware.drm_clients import DrmClients
from app.hardware.facts import Gpu, GpuKind
from app.hardware.nvml import Nvml, NvmlCard
from app.hardware.samples import GpuSample
from app.hardware.sources import NotSeenError

SOFTWARE = "software device: uses main memory"
NVML = "NVIDIA driver (NVML)"
KERNEL = "operating system"


class NvidiaMemory:
    """Reads every NVIDIA device through NVML. Slow or hanging drivers are the caller's concern.

    All calls, the first one's opening of the library included, belong to one thread.
    """

    def __init__(self, gpus: Sequence[Gpu], pid: int, open_nvml: Callable[[], Nvml]) -> None:
        """Opens nothing yet.

        Args:
            gpus: The NVIDIA devices.
            pid: The engine's process.
            open_nvml: Opens the driver's library.
        """
        self._gpus = tuple(gpus)
        self._pid = pid
        self._open = open_nvml
        self._nvml: Nvml | None = None
        self._cards: tuple[NvmlCard, ...] = ()
        self._refusal = ""

    def read(self) -> tuple[GpuSample, ...]:
        """The devices now, in the order given.

        Raises:
            NotSeenError: NVML could not be opened; it is not tried again.
        """
        nvml, _ = self.opened()
        return tuple(self._sample(nvml, gpu) for gpu in self._gpus)

    def opened(self) -> tuple[Nvml, tuple[NvmlCard, ...]]:
        """The driver's library, opened by the first call, and its cards.

        Raises:
            NotSeenError: NVML could not be opened; it is not tried again.
        """
        if self._refusal:
            raise NotSeenError(self._refusal)
        if self._nvml is None:
            try:
                self._nvml = self._open()
                self._cards = self._nvml.cards()
            except NotSeenError as error:
                self._refusal = str(error)
                raise
        return self._nvml, self._cards

    def close(self) -> None:
        """Give NVML back."""
        if self._nvml:
            self._nvml.close()

    def _sample(self, nvml: Nvml, gpu: Gpu) -> GpuSample:
        try:
            card = matching.nvml_card(gpu, self._cards)
            memory = nvml.memory(card)
        except NotSeenError as error:
            return GpuSample(device=gpu.device, source=NVML, missing=str(error))
        process_bytes, missing = None, ""
        try:
            process_bytes = nvml.process_bytes(card, self._pid)
        except NotSeenError as error:
            missing = str(error)
        return _sample(gpu, NVML, memory, process_bytes, missing)


class KernelMemory:
    """Reads one card through the Linux kernel's files."""

    def __init__(self, gpu: Gpu, cards: Sequence[DrmCard], clients: DrmClients) -> None:
        """Finds the card among those the kernel shows; `clients` are the engine's open cards."""
        self._gpu = gpu
        self._clients = clients
        self._card: DrmCard | None = None
        self._refusal = ""
        try:
            self._card = matching.drm_card(gpu, cards)
        except NotSeenError as error:
            self._refusal = str(error)

    def read(self) -> GpuSample:
        """The device now."""
        if self._card is None:
            return GpuSample(device=self._gpu.device, source=KERNEL, missing=self._refusal)
        try:
            memory = self._card.memory(shared=self._gpu.kind is GpuKind.INTEGRATED)
        except NotSeenError as error:
            return GpuSample(device=self._gpu.device, source=KERNEL, missing=str(error))
        process_bytes, missing = None, ""
        try:
            process_bytes = self._read_process()
        except NotSeenError as error:
            missing = str(error)
        return _sample(self._gpu, KERNEL, memory, process_bytes, missing)

    def _read_process(self) -> int:
        # ROCm's own driver (KFD) allocates beside these files: what they tell would be too little.
        if self._card is None or self._gpu.backend == "ROCm":
            raise NotSeenError("The kernel does not tell this card's memory by program.")
        heaps = ("vram", "gtt") if self._gpu.kind is GpuKind.INTEGRATED else ("vram",)
        return self._clients.bytes_on(self._card.pci_id, heaps)


def software_sample(gpu: Gpu) -> GpuSample:
    """A device that the processor plays: its memory is the engine's main memory."""
    return GpuSample(device=gpu.device, source=SOFTWARE, missing="Its memory is counted in the engine's main memory.")


def _sample(gpu: Gpu, source: str, memory: CardMemory, process_bytes: int | None, missing: str) -> GpuSample:
    if memory.doubt:
        return GpuSample(device=gpu.device, source=source, missing=f"{gpu.device}: {memory.doubt}.")
    if process_bytes is not None and not 0 <= process_bytes <= memory.total_bytes:
        missing = f"{gpu.device}: its driver reports more memory for the engine than there is."
        process_bytes = None
    return GpuSample(
        device=gpu.device,
        used_bytes=memory.used_bytes,
        total_bytes=memory.total_bytes,
        process_bytes=process_bytes,
        source=source,
        missing=missing,
    )
