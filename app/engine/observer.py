"""What system and driver show of this process: its main memory, and what it holds on each GPU."""

import os
import sys
import time

import psutil

from app.hardware.facts import Gpu
from app.hardware.samples import GPU_MEMORY, PROCESS, Sample
from app.hardware.sampling import Sampler
from app.placement.plan import CPU_LANE
from app.placement.report import ObservedMemory

# A driver may take a moment to open, while nobody waits for more than the load.
_DRIVER_SECONDS = 2.0
_RETRY_SECONDS = 0.05
_MEMORY = frozenset((PROCESS, GPU_MEMORY))


class Observer:
    """Looks at this process now and after loads; make it before anything is loaded.

    Args:
        gpus: The devices the engine may use.
    """

    def __init__(self, gpus: tuple[Gpu, ...]) -> None:
        self._sampler = Sampler(os.getpid(), gpus)
        self._idle_bytes = own_bytes()
        self._used_before = {gpu.device: gpu.used_bytes for gpu in self._sample().gpus}

    def observe(self) -> tuple[ObservedMemory, ...]:
        """Every device that something can be seen of, main memory first.

        A card whose driver does not tell memory by program gives what all programs took more of it since
        this was made.
        """
        sample = self._sample()
        found = []
        if sample.engine_rss_bytes is not None:
            found.append(
                ObservedMemory(
                    device=CPU_LANE,
                    bytes=sample.engine_rss_bytes,
                    own_bytes=own_bytes(),
                    idle_bytes=self._idle_bytes,
                    source="operating system: the engine's resident memory",
                )
            )
        for gpu in sample.gpus:
            before = self._used_before.get(gpu.device)
            if gpu.process_bytes is not None:
                source = f"{gpu.source}: the engine's own"
                found.append(ObservedMemory(device=gpu.device, bytes=gpu.process_bytes, source=source))
            elif gpu.used_bytes is not None and before is not None and gpu.used_bytes > before:
                source = f"{gpu.source}: what all programs took more since the engine started"
                found.append(ObservedMemory(device=gpu.device, bytes=gpu.used_bytes - before, source=source))
        return tuple(found)

    def _sample(self) -> Sample:
        end = time.monotonic() + _DRIVER_SECONDS
        while True:
            sample = self._sampler.sample(_MEMORY)
            late = any(gpu.used_bytes is None and "in time" in gpu.missing for gpu in sample.gpus)
            if not late or time.monotonic() > end:
                return sample
            time.sleep(_RETRY_SECONDS)


def own_bytes() -> int | None:
    """Main memory of this process that is no part of a file: what it has allocated and touched; None: not told."""
    process = psutil.Process()
    if sys.platform.startswith("linux"):
        memory = process.memory_info()
        return int(memory.rss - memory.shared)
    try:
        return int(process.memory_full_info().uss)
    except (OSError, psutil.Error):  # not every Windows lists the pages of a process
        return None
