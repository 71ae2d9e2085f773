"""Live sampling: what engine and machine use now, cheaply, and only what is wanted."""

import logging
import sys
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

import msgspec

from app.hardware import cgroups, matching, memory
from app.hardware.cpu_load import CpuLoadReader
from app.hardware.drm import read_cards
from app.hardware.drm_clients import DrmClients
from app.hardware.facts import Gpu, GpuKind
from app.hardware.gpu_load import KernelLoad, software_load, unseen_load
from app.hardware.gpu_memory import NVML, KernelMemory, software_sample
from app.hardware.nvidia_now import NvidiaNow, NvidiaReader
from app.hardware.nvml import Nvml, open_nvml
from app.hardware.page_cache import FileCache
from app.hardware.process import ProcessUse, process_reader
from app.hardware.samples import (
    CPU_LOAD,
    EVERYTHING,
    GPU_LOAD,
    GPU_MEMORY,
    MAIN_MEMORY,
    MODEL_FILE,
    PROCESS,
    GpuLoad,
    GpuSample,
    Sample,
)
from app.hardware.sources import NotSeenError, Paced, Source
from app.hardware.windows_gpu import COUNTERS, GpuCounters, WindowsMemory, open_counters
from app.hardware.windows_load import WindowsLoad, open_engine_counters

log = logging.getLogger(__name__)

__all__ = ["GpuSample", "Sample", "Sampler"]

# The window samples on its own thread, which may stop for 50 ms at most. A driver that takes longer
# is read by the next sample.
NVML_SECONDS = 0.03
SLOW_SECONDS = 1.0
"""How often at most the sources are read that cost milliseconds: the model file's pages, Windows' counters."""

_OTHERWISE_ASKED = "The NVIDIA driver's answer of this moment is about other figures."


class Sampler:
    """Samples one engine process and the devices it may use. Used by one thread.

    A sample takes well under a millisecond without NVIDIA devices, and `NVML_SECONDS` more at most
    with them, whatever their driver does; once in `SLOW_SECONDS` a few milliseconds more where the share of a
    large model file is wanted.
    """

    def __init__(
        self,
        engine_pid: int,
        gpus: tuple[Gpu, ...],
        model_files: Sequence[str] = (),
        *,
        root: Path = Path("/"),
        nvml: Callable[[], Nvml] = open_nvml,
        counters: Callable[[], GpuCounters] = open_counters,
        engine_counters: Callable[[], GpuCounters] = open_engine_counters,
        machine_memory: memory.MachineMemory = memory.machine_memory,
        system: str = sys.platform,
    ) -> None:
        """Finds out which source serves which device.

        Args:
            engine_pid: The engine's process.
            gpus: The devices, as the probe reports them.
            model_files: The loaded model's files; none while nothing is loaded.
            root: What stands for "/" (kernel files); recorded trees in tests.
            nvml: Opens the NVIDIA driver's library; called on a thread of the sampler's own.
            counters: Opens Windows' performance counters of GPUs; called on a thread of the sampler's own.
            engine_counters: Opens those of how busy they are; called on another one.
            machine_memory: Main memory as the operating system reports it.
            system: As in `sys.platform`.
        """
        self._root = root
        self._system = system
        self._machine_memory = machine_memory
        self._process = process_reader(engine_pid, root, system)
        self._model_files = tuple(model_files)
        self._file_cache: FileCache | None = None
        self._model_share = Paced(self._read_model_share, SLOW_SECONDS)
        self._gpus = gpus
        nvidia = [gpu for gpu in gpus if matching.maker(gpu) == "NVIDIA"]
        self._nvidia_devices = [gpu.device for gpu in nvidia]
        self._nvidia = reader = NvidiaReader(nvidia, engine_pid, nvml)
        self._nvml_source = Source("The NVIDIA driver", reader.read, finish=reader.close) if nvidia else None
        self._cpu = CpuLoadReader(root, system)
        hardware = [gpu for gpu in gpus if gpu.kind is not GpuKind.SOFTWARE]
        others = [gpu for gpu in hardware if gpu not in nvidia]
        self._windows_source: Source[dict[str, GpuSample]] | None = None
        self._engines_source: Source[dict[str, GpuLoad]] | None = None
        self._kernel: dict[str, KernelMemory] = {}
        self._kernel_loads: dict[str, KernelLoad] = {}
        if system == "win32":
            if hardware:
                windows = WindowsMemory(hardware, engine_pid, counters)
                paced = Paced(windows.read, SLOW_SECONDS)
                self._windows_source = Source("Windows' performance counters", paced.read, finish=windows.close)
            if others:
                engines = WindowsLoad(others, engine_counters)
                paced_load = Paced(engines.read, SLOW_SECONDS)
                self._engines_source = Source(COUNTERS, paced_load.read, finish=engines.close)
        else:
            cards = read_cards(root) if others else ()
            clients = DrmClients(root, engine_pid)
            self._kernel = {gpu.device: KernelMemory(gpu, cards, clients) for gpu in others}
            self._kernel_loads = {gpu.device: KernelLoad(gpu, cards) for gpu in others}

    def sample(self, wanted: AbstractSet[str] = EVERYTHING) -> Sample:
        """The figures now; what cannot be seen is None, with the reason in `reasons`.

        Args:
            wanted: What of `samples.EVERYTHING` is read; the rest is None without a reason.
        """
        self._ask(wanted)  # drivers work while the rest is read
        deadline = time.monotonic() + NVML_SECONDS
        reasons: dict[str, str] = {}
        engine = self._read_process(reasons) if PROCESS in wanted else None
        available_bytes = self._read_available(reasons) if MAIN_MEMORY in wanted else None
        model_share = self._read_model(reasons) if MODEL_FILE in wanted and self._model_files else None
        cpu = self._cpu.read() if CPU_LOAD in wanted else None
        nvidia, why = self._nvidia_now(deadline) if {GPU_MEMORY, GPU_LOAD} & wanted else (None, "")
        gpus = self._gpu_samples(nvidia, why, deadline) if GPU_MEMORY in wanted else ()
        gpu_loads = self._gpu_loads(nvidia, why, deadline) if GPU_LOAD in wanted else ()
        return Sample(
            time_seconds=time.monotonic(),
            engine_rss_bytes=engine.rss_bytes if engine else None,
            engine_peak_bytes=engine.peak_bytes if engine else None,
            engine_major_faults=engine.major_faults if engine else None,
            engine_read_bytes=engine.read_bytes if engine else None,
            ram_available_bytes=available_bytes,
            model_share=model_share,
            gpus=gpus,
            reasons=reasons,
            cpu=cpu,
            gpu_loads=gpu_loads,
        )

    def close(self) -> None:
        """End the threads that ask drivers; one that hangs dies with this program."""
        if self._file_cache is not None:
            self._file_cache.close()
            self._file_cache = None
        if self._nvml_source and not self._nvml_source.close(NVML_SECONDS):
            log.warning("The NVIDIA driver still does not answer; its thread is left behind")
        if self._windows_source and not self._windows_source.close(NVML_SECONDS):
            log.warning("Windows' performance counters still do not answer; their thread is left behind")
        if self._engines_source and not self._engines_source.close(NVML_SECONDS):
            log.warning("Windows' counters of busy GPUs still do not answer; their thread is left behind")

    def _ask(self, wanted: AbstractSet[str]) -> None:
        """Start the readings that take time."""
        of_gpus = wanted & {GPU_MEMORY, GPU_LOAD}
        if self._nvml_source and of_gpus:
            self._nvidia.wanted = of_gpus
            self._nvml_source.ask()
        if self._windows_source and GPU_MEMORY in wanted:
            self._windows_source.ask()
        if self._engines_source and GPU_LOAD in wanted:
            self._engines_source.ask()

    def _read_process(self, reasons: dict[str, str]) -> ProcessUse | None:
        try:
            engine = self._process.read()
        except NotSeenError as error:
            reasons["engine_rss_bytes"] = str(error)
            return None
        reasons.update({f"engine_{name}": why for name, why in engine.reasons.items()})
        return engine

    def _read_available(self, reasons: dict[str, str]) -> int | None:
        try:
            return cgroups.limited_ram(self._root, self._machine_memory()).available_bytes
        except (OSError, NotSeenError) as error:
            reasons["ram_available_bytes"] = f"Main memory could not be read: {error}"
            return None

    def _read_model(self, reasons: dict[str, str]) -> float | None:
        try:
            return self._model_share.read()
        except NotSeenError as error:
            reasons["model_share"] = str(error)
            return None

    def _read_model_share(self) -> float:
        if self._file_cache is None:
            self._file_cache = FileCache(self._model_files, system=self._system)
        return self._file_cache.share()

    def _nvidia_now(self, deadline: float) -> tuple[NvidiaNow | None, str]:
        return self._nvml_source.answer(_left(deadline)) if self._nvml_source else (None, "")

    def _gpu_samples(self, nvidia: NvidiaNow | None, why: str, deadline: float) -> tuple[GpuSample, ...]:
        windows, why_not = self._windows_source.answer(_left(deadline)) if self._windows_source else (None, "")
        return tuple(
            self._gpu_sample(gpu, self._nvidia_sample(gpu, nvidia, why), windows, why_not) for gpu in self._gpus
        )

    def _gpu_sample(
        self, gpu: Gpu, nvidia: GpuSample | None, windows: dict[str, GpuSample] | None, why: str
    ) -> GpuSample:
        if gpu.kind is GpuKind.SOFTWARE:
            return software_sample(gpu)
        counted = (windows or {}).get(gpu.device)
        if nvidia is not None:
            return _completed(nvidia, counted)
        if counted is not None:
            return counted
        kernel = self._kernel.get(gpu.device)
        return kernel.read() if kernel else GpuSample(device=gpu.device, source="Windows", missing=why)

    def _nvidia_sample(self, gpu: Gpu, now: NvidiaNow | None, why: str) -> GpuSample | None:
        if gpu.device not in self._nvidia_devices:
            return None
        sample = now.memory.get(gpu.device) if now else None
        return sample or GpuSample(device=gpu.device, source=NVML, missing=why or _OTHERWISE_ASKED)

    def _gpu_loads(self, nvidia: NvidiaNow | None, why: str, deadline: float) -> tuple[GpuLoad, ...]:
        windows, why_not = self._engines_source.answer(_left(deadline)) if self._engines_source else (None, "")
        loads = []
        for gpu in self._gpus:
            load: GpuLoad | None
            kernel = self._kernel_loads.get(gpu.device)
            if gpu.kind is GpuKind.SOFTWARE:
                load = software_load(gpu)
            elif gpu.device in self._nvidia_devices:
                load = nvidia.loads.get(gpu.device) if nvidia else None
                load = load or unseen_load(gpu.device, NVML, why or _OTHERWISE_ASKED)
            elif kernel is not None:
                load = kernel.read()
            else:
                load = (windows or {}).get(gpu.device) or unseen_load(gpu.device, COUNTERS, why_not)
            loads.append(load)
        return tuple(loads)


def _left(deadline: float) -> float:
    """Seconds that a source still has, of those that all have together."""
    return max(0.0, deadline - time.monotonic())


def _completed(nvidia: GpuSample, counted: GpuSample | None) -> GpuSample:
    """The driver's figures, with what only Windows counts by program."""
    if counted is None:
        return nvidia
    if nvidia.used_bytes is None:
        return counted if counted.used_bytes is not None else nvidia
    process_bytes = nvidia.process_bytes if nvidia.process_bytes is not None else counted.process_bytes
    return msgspec.structs.replace(
        nvidia,
        process_bytes=process_bytes,
        shared_bytes=counted.shared_bytes,
        source=f"{nvidia.source}, {counted.source}",
        missing="" if process_bytes is not None else nvidia.missing,
    )
