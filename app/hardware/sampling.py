"""Live sampling: what engine and machine use now, cheaply, and only what is wanted."""

import logging
import sys
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

import msgspec

from app.hardware import cgroups, matching, memory
from app.hardware.cpu_load import CpuLoadReader
from app.hardware.facts import Gpu, GpuKind
from app.hardware.gpu_load import software_load, unseen_load
from app.hardware.gpu_memory import KERNEL, NVML, software_sample
from app.hardware.kernel_now import KernelReader
from app.hardware.nvidia_now import NvidiaReader
from app.hardware.nvml import Nvml, open_nvml
from app.hardware.page_cache import FileCache, FileShare
from app.hardware.process import ProcessUse, process_reader
from app.hardware.samples import (
    CPU_LOAD,
    EVERYTHING,
    GPU_LOAD,
    GPU_MEMORY,
    MAIN_MEMORY,
    MODEL_FILE,
    PROCESS,
    DevicesNow,
    GpuLoad,
    GpuSample,
    Sample,
)
from app.hardware.sources import NotSeenError, Paced, Source
from app.hardware.windows_gpu import COUNTERS, GpuCounters, WindowsMemory, open_counters
from app.hardware.windows_load import WindowsLoad, open_engine_counters
from app.hardware.working_set import WorkingSetShare

log = logging.getLogger(__name__)

__all__ = ["GpuSample", "Sample", "Sampler"]

# The window samples five times a second, on a thread of a pool. A driver that takes longer is read by the next sample.
NVML_SECONDS = 0.03
KERNEL_SECONDS = 0.25
"""How long a graphics card's files of the kernel are waited for, which answer within a millisecond, and as long those
of the model, whose pages are counted; each once only where it hangs."""
LIMITS_SECONDS = 5.0
"""How often at most it is looked which limits of memory there are; what is held under them is read each time."""
SLOW_SECONDS = 1.0
"""How often at most the sources are read that cost milliseconds: the model file's pages, Windows' counters."""

_OTHERWISE_ASKED = "The driver's answer of this moment is about other figures."


class Sampler:
    """Samples one engine process and the devices it may use. Used by one thread at a time.

    A sample takes well under a millisecond without NVIDIA devices, and `NVML_SECONDS` more at most
    with them, whatever their driver does; once in `SLOW_SECONDS` a few milliseconds more where the share of a
    large model file is wanted. A card whose files of the kernel hang delays one sample by `KERNEL_SECONDS`, and so does
    a disk with the model that hangs: both in one sample by twice that.
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
        self._linux = system.startswith("linux")
        self._machine_memory = machine_memory
        self._total_bytes = 0
        self._memory_limits = Paced(self._read_limits, LIMITS_SECONDS)
        self._engine_pid = engine_pid
        self._process = process_reader(engine_pid, root, system)
        self._model_files = tuple(model_files)
        self._file_share: FileShare | None = None
        self._model_share = Paced(self._ask_model_share, SLOW_SECONDS)
        self._file_source: Source[float] | None = None
        if self._model_files:
            self._file_source = Source(
                "The share of the model file in memory",
                self._read_model_share,
                finish=self._close_share,
                fresh_seconds=2 * SLOW_SECONDS,
            )
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
        self._kernel: KernelReader | None = None
        self._kernel_source: Source[DevicesNow] | None = None
        self._kernel_devices: frozenset[str] = frozenset()
        if system == "win32":
            if hardware:
                windows = WindowsMemory(hardware, engine_pid, counters)
                paced = Paced(windows.read, SLOW_SECONDS)
                self._windows_source = Source("Windows' performance counters", paced.read, finish=windows.close)
            if others:
                engines = WindowsLoad(others, engine_counters)
                paced_load = Paced(engines.read, SLOW_SECONDS)
                self._engines_source = Source(COUNTERS, paced_load.read, finish=engines.close)
        elif others:
            self._kernel = KernelReader(others, engine_pid, root)
            self._kernel_source = Source("The kernel's driver", self._kernel.read)
            self._kernel_devices = frozenset(gpu.device for gpu in others)

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
        now = self._drivers_now(deadline) if {GPU_MEMORY, GPU_LOAD} & wanted else _Told()
        gpus = self._gpu_samples(now, deadline) if GPU_MEMORY in wanted else ()
        gpu_loads = self._gpu_loads(now, deadline) if GPU_LOAD in wanted else ()
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
        for source, name in (
            (self._file_source, "The model file"),
            (self._nvml_source, "The NVIDIA driver"),
            (self._kernel_source, "The kernel's driver"),
            (self._windows_source, COUNTERS),
            (self._engines_source, "Windows' counters of busy GPUs"),
        ):
            if source and not source.close(NVML_SECONDS):
                log.warning("%s: still no answer; its thread is left behind", name)

    def _ask(self, wanted: AbstractSet[str]) -> None:
        """Start the readings that take time."""
        of_gpus = wanted & {GPU_MEMORY, GPU_LOAD}
        if self._nvml_source and of_gpus:
            self._nvidia.wanted = of_gpus
            self._nvml_source.ask()
        if self._kernel and self._kernel_source and of_gpus:
            self._kernel.wanted = of_gpus
            self._kernel_source.ask()
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
            ram = self._machine_memory()
            if not self._linux:
                return ram.available_bytes
            self._total_bytes = ram.total_bytes
            return cgroups.ram_under(self._memory_limits.read(), ram).available_bytes
        except (OSError, NotSeenError) as error:
            reasons["ram_available_bytes"] = f"Main memory could not be read: {error}"
            return None

    def _read_limits(self) -> tuple[cgroups.MemoryLimit, ...]:
        """Limits on the engine, whose group may not be this program's; on this program where that is not told."""
        groups = cgroups.groups_of(self._root, str(self._engine_pid)) or cgroups.groups_of(self._root)
        return cgroups.memory_limits(self._root, self._total_bytes, groups)

    def _read_model(self, reasons: dict[str, str]) -> float | None:
        try:
            share = self._model_share.read()
        except NotSeenError as error:
            reasons["model_share"] = str(error)
            return None
        if self._file_share is not None and self._file_share.leaves_out:
            reasons["model_share"] = self._file_share.leaves_out
        return share

    def _ask_model_share(self) -> float:
        if self._file_source is None:
            raise NotSeenError("No model is loaded.")
        share, why = self._file_source.answer(KERNEL_SECONDS, once=True)
        if share is None:
            raise NotSeenError(why)
        return share

    def _read_model_share(self) -> float:
        if self._file_share is None:
            self._file_share = self._open_share()
        return self._file_share.share()

    def _close_share(self) -> None:
        if self._file_share is not None:
            self._file_share.close()

    def _open_share(self) -> FileShare:
        if self._system == "win32":
            return WorkingSetShare(self._engine_pid, self._model_files)
        return FileCache(self._model_files, system=self._system)

    def _drivers_now(self, deadline: float) -> "_Told":
        nvidia, why_not = self._nvml_source.answer(_left(deadline)) if self._nvml_source else (None, "")
        kernel, why = self._kernel_source.answer(KERNEL_SECONDS, once=True) if self._kernel_source else (None, "")
        return _Told(nvidia, why_not or _OTHERWISE_ASKED, kernel, why or _OTHERWISE_ASKED)

    def _gpu_samples(self, now: "_Told", deadline: float) -> tuple[GpuSample, ...]:
        windows, why_not = self._windows_source.answer(_left(deadline)) if self._windows_source else (None, "")
        return tuple(self._gpu_sample(gpu, now, windows, why_not) for gpu in self._gpus)

    def _gpu_sample(self, gpu: Gpu, now: "_Told", windows: dict[str, GpuSample] | None, why: str) -> GpuSample:
        device = gpu.device
        if gpu.kind is GpuKind.SOFTWARE:
            return software_sample(gpu)
        if device in self._kernel_devices:
            sample = now.kernel.memory.get(device) if now.kernel else None
            return sample or GpuSample(device=device, source=KERNEL, missing=now.no_kernel)
        counted = (windows or {}).get(device)
        if device in self._nvidia_devices:
            sample = now.nvidia.memory.get(device) if now.nvidia else None
            return _completed(sample or GpuSample(device=device, source=NVML, missing=now.no_nvidia), counted)
        return counted or GpuSample(device=device, source="Windows", missing=why)

    def _gpu_loads(self, now: "_Told", deadline: float) -> tuple[GpuLoad, ...]:
        windows, why = self._engines_source.answer(_left(deadline)) if self._engines_source else (None, "")
        return tuple(self._gpu_load(gpu, now, windows, why) for gpu in self._gpus)

    def _gpu_load(self, gpu: Gpu, now: "_Told", windows: dict[str, GpuLoad] | None, why: str) -> GpuLoad:
        device = gpu.device
        if gpu.kind is GpuKind.SOFTWARE:
            return software_load(gpu)
        if device in self._kernel_devices:
            load = now.kernel.loads.get(device) if now.kernel else None
            return load or unseen_load(device, KERNEL, now.no_kernel)
        if device in self._nvidia_devices:
            load = now.nvidia.loads.get(device) if now.nvidia else None
            return load or unseen_load(device, NVML, now.no_nvidia)
        return (windows or {}).get(device) or unseen_load(device, COUNTERS, why)


@dataclass(frozen=True)
class _Told:
    """What drivers answered at one moment; None with the reason where they did not."""

    nvidia: DevicesNow | None = None
    no_nvidia: str = _OTHERWISE_ASKED
    kernel: DevicesNow | None = None
    no_kernel: str = _OTHERWISE_ASKED


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
