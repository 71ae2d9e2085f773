"""Live sampling: the engine's and the machine's memory, now and cheaply."""

import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path

from app.hardware import cgroups, matching, memory
from app.hardware.drm import read_cards
from app.hardware.facts import Gpu, GpuKind
from app.hardware.gpu_memory import NVML, KernelMemory, NvidiaMemory, software_sample
from app.hardware.nvml import Nvml, open_nvml
from app.hardware.process import process_reader
from app.hardware.samples import GpuSample, Sample
from app.hardware.sources import NotSeenError, Source

log = logging.getLogger(__name__)

__all__ = ["GpuSample", "Sample", "Sampler"]

# The window samples on its own thread, which may stop for 50 ms at most. A driver that takes longer
# is read by the next sample.
NVML_SECONDS = 0.03


class Sampler:
    """Samples one engine process and the devices it may use. Used by one thread.

    A sample takes well under a millisecond without NVIDIA devices, and `NVML_SECONDS` more at most
    with them, whatever their driver does.
    """

    def __init__(
        self,
        engine_pid: int,
        gpus: tuple[Gpu, ...],
        *,
        root: Path = Path("/"),
        nvml: Callable[[], Nvml] = open_nvml,
        machine_memory: memory.MachineMemory = memory.machine_memory,
        system: str = sys.platform,
    ) -> None:
        """Finds out which source serves which device.

        Args:
            engine_pid: The engine's process.
            gpus: The devices, as the probe reports them.
            root: What stands for "/" (kernel files); recorded trees in tests.
            nvml: Opens the NVIDIA driver's library; called on a thread of the sampler's own.
            machine_memory: Main memory as the operating system reports it.
            system: As in `sys.platform`.
        """
        self._root = root
        self._machine_memory = machine_memory
        self._process = process_reader(engine_pid, root, system)
        self._gpus = gpus
        nvidia = [gpu for gpu in gpus if matching.maker(gpu) == "NVIDIA"]
        self._nvidia_devices = [gpu.device for gpu in nvidia]
        reader = NvidiaMemory(nvidia, engine_pid, nvml)
        self._nvml_source = Source("The NVIDIA driver", reader.read, finish=reader.close) if nvidia else None
        others = [gpu for gpu in gpus if gpu.kind is not GpuKind.SOFTWARE and gpu not in nvidia]
        cards = read_cards(root) if others else ()
        self._kernel = {gpu.device: KernelMemory(gpu, cards) for gpu in others}

    def sample(self) -> Sample:
        """The figures now; what cannot be seen is None, with the reason in `missing`."""
        if self._nvml_source:
            self._nvml_source.ask()  # it works while the rest is read
        missing = []
        engine = None
        try:
            engine = self._process.read()
            if engine.major_faults is None:
                missing.append("This system does not count the page faults that wait for the disk.")
        except NotSeenError as error:
            missing.append(str(error))
        available_bytes = None
        try:
            available_bytes = cgroups.limited_ram(self._root, self._machine_memory()).available_bytes
        except (OSError, NotSeenError) as error:
            missing.append(f"Main memory could not be read: {error}")
        nvidia = self._nvidia_samples()
        return Sample(
            time_seconds=time.monotonic(),
            engine_rss_bytes=engine.rss_bytes if engine else None,
            engine_major_faults=engine.major_faults if engine else None,
            ram_available_bytes=available_bytes,
            gpus=tuple(nvidia.get(gpu.device) or self._other_sample(gpu) for gpu in self._gpus),
            missing=tuple(missing),
        )

    def close(self) -> None:
        """End the thread that asks the NVIDIA driver; one that hangs dies with this program."""
        if self._nvml_source and not self._nvml_source.close(NVML_SECONDS):
            log.warning("The NVIDIA driver still does not answer; its thread is left behind")

    def _nvidia_samples(self) -> dict[str, GpuSample]:
        if self._nvml_source is None:
            return {}
        samples, why = self._nvml_source.answer(NVML_SECONDS)
        if samples is None:
            return {device: GpuSample(device=device, source=NVML, missing=why) for device in self._nvidia_devices}
        return {sample.device: sample for sample in samples}

    def _other_sample(self, gpu: Gpu) -> GpuSample:
        kernel = self._kernel.get(gpu.device)
        return kernel.read() if kernel else software_sample(gpu)
