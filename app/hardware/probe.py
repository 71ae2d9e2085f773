"""The probe: every source is asked at once, and what has not answered in time becomes a note."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from app.errors import AppError, ErrorCode
from app.hardware import cpu, disk, drm, graphics, matching, system
from app.hardware.facts import Disk, EngineBuild, Gpu, Machine, Ram
from app.hardware.memory import MachineMemory, kernel_memory, machine_memory, read_ram
from app.hardware.nvml import Nvml, open_nvml
from app.hardware.sources import NotSeenError, Source

_T = TypeVar("_T")

# All sources run side by side, so this is the probe's whole time when one of them hangs.
ANSWER_SECONDS = 1.5


@dataclass(frozen=True)
class Sources:
    """Where the probe looks.

    Attributes:
        root: What stands for "/" (kernel files); recorded trees in tests.
        nvml: Opens the NVIDIA driver's library.
        memory: Main memory as the operating system reports it.
        system: As in `sys.platform`.
        seconds: How long all sources together may take.
    """

    root: Path = Path("/")
    nvml: Callable[[], Nvml] = open_nvml
    memory: MachineMemory = machine_memory
    system: str = sys.platform
    seconds: float = ANSWER_SECONDS


def probe(
    models_folder: Path,
    gpus: tuple[Gpu, ...],
    build: EngineBuild | None,
    sources: Sources | None = None,
) -> Machine:
    """What this machine is, in less than two seconds, whatever its drivers and disks do.

    Args:
        models_folder: Whose disk is described; need not exist.
        gpus: Devices as the engine lists them; completed with what their drivers say.
        build: The engine's own report, passed on; None where the engine could not be asked.
        sources: Where to look; this machine by default.

    Returns:
        The machine; what could not be seen is None, or the plainest figure there is, with a note.

    Raises:
        AppError: engine_failed, not even the kernel tells how much main memory there is.
    """
    look = sources or Sources()
    root = look.root
    name_asked = _ask("The system's name", partial(system.system_name, root, look.system))
    cpu_asked = _ask("The processor", partial(cpu.read_cpu, root, look.system))
    ram_asked = _ask("Main memory", partial(read_ram, root, look.memory))
    space_asked = _ask("The models' disk", partial(disk.read_space, models_folder))
    medium_asked = _ask("The models' file system", partial(disk.read_medium, models_folder, root))
    nvidia_asked = _ask("The NVIDIA driver", partial(graphics.read_nvidia, look.nvml))
    cards_asked = _ask("The kernel's list of graphics cards", partial(drm.read_cards, root))

    end = time.monotonic() + look.seconds
    notes: list[str] = []
    name = _answer(name_asked, end, notes) or system.plain_name()
    processor, cpu_notes = _answer(cpu_asked, end, notes) or (cpu.plain_cpu(), ())
    ram, ram_notes = _answer(ram_asked, end, notes) or (_last_resort(), ())
    notes += [*cpu_notes, *ram_notes]
    space = _answer(space_asked, end, notes)
    medium = _answer(medium_asked, end, notes)
    cards = _answer(cards_asked, end, notes) or ()
    why_no_nvidia: list[str] = []
    nvidia = _answer(nvidia_asked, end, why_no_nvidia)
    # A machine without NVIDIA's cards lacks nothing when their driver is missing.
    if "NVIDIA" in {*map(matching.maker, gpus), *(card.vendor for card in cards)}:
        notes += why_no_nvidia
    completed, gpu_notes = graphics.complete(gpus, nvidia, cards)
    notes += gpu_notes
    if build is not None:
        notes += graphics.not_offered(gpus, nvidia, cards)
    return Machine(
        os=name,
        cpu=processor,
        ram=ram,
        gpus=completed,
        disk=Disk(
            path=str(space.folder if space else models_folder),
            total_bytes=space.total_bytes if space else None,
            free_bytes=space.free_bytes if space else None,
            filesystem=medium.filesystem if medium else None,
            rotational=medium.rotational if medium else None,
        ),
        engine=build,
        notes=tuple(notes),
    )


def _ask(name: str, read: Callable[[], _T]) -> Source[_T]:
    source = Source(name, read)
    source.ask()
    return source


def _answer(source: Source[_T], end: float, notes: list[str]) -> _T | None:
    """What `source` answers before `end`; one that misses it is left behind, and a note says so."""
    value, why = source.answer(max(0.0, end - time.monotonic()))
    source.close()
    if why:
        notes.append(why)
    return value


def _last_resort() -> Ram:
    try:
        return kernel_memory()
    except NotSeenError as error:
        raise AppError(ErrorCode.ENGINE_FAILED, str(error)) from error
