"""The probe: every source is asked at once, and what has not answered in time becomes a note."""

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from app.errors import AppError, ErrorCode
from app.hardware import cpu, disk, drm, gpu_details, gpu_programs, graphics, identity, matching, memory_modules, system
from app.hardware import power as power_sources
from app.hardware.answers import HANGS, LIVE, Answers
from app.hardware.facts import Cpu, Disk, EngineBuild, Gpu, GpuKind, Machine, Ram, Unseen
from app.hardware.memory import MachineMemory, kernel_memory, machine_memory, read_ram
from app.hardware.nvml import Nvml, open_nvml
from app.hardware.sources import NotSeenError, Source
from app.hardware.tree import KernelPath
from app.hardware.windows_calls import display_drivers
from app.hardware.windows_gpu import GpuCounters, open_counters

_T = TypeVar("_T")

# All sources run side by side, so this is the probe's whole time when one of them hangs.
ANSWER_SECONDS = 1.5
COMPLETE_SECONDS = 0.3
"""How long the cards' own files may take after that; they take a millisecond where their driver is well."""


@dataclass(frozen=True)
class Sources:
    """Where the probe looks.

    Attributes:
        root: What stands for "/" (kernel files); a record of a tree, or a tree that is written down.
        answers: Makes the calls of drivers and system, writes down what they gave, or plays it back.
        nvml: Opens the NVIDIA driver's library.
        counters: Opens Windows' performance counters of GPUs.
        memory: Main memory as the operating system reports it.
        system: As in `sys.platform`.
        seconds: How long all sources together may take.
    """

    root: KernelPath = Path("/")
    answers: Answers = LIVE
    nvml: Callable[[], Nvml] = open_nvml
    counters: Callable[[], GpuCounters] = open_counters
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
        The machine; what could not be seen is None, or the plainest figure there is, with a note or in `unseen`.

    Raises:
        AppError: engine_failed, not even the kernel tells how much main memory there is.
    """
    look = sources or Sources()
    root, answers, kind = look.root, look.answers, look.system
    asked = _Asked(look.seconds)
    told = (root, kind, answers)
    groups = build.control_groups if build is not None else ""
    asked.ask("os", "The system's name", partial(system.system_name, *told))
    asked.ask("cpu", "The processor", partial(cpu.read_cpu, *told, groups))
    asked.ask("caches", "The processor's caches", partial(cpu.read_caches, *told))
    asked.ask("nodes", "The list of memory nodes", partial(cpu.read_nodes, *told))
    memory = partial(answers.ask, "memory", look.memory, Ram)
    asked.ask("ram", "Main memory", partial(read_ram, root, memory, kind, groups))
    asked.ask("modules", "The firmware's list of memory modules", partial(memory_modules.read_modules, *told))
    asked.ask("swap", "The page file", partial(memory_modules.read_swap, *told))
    asked.ask("space", "The models' disk", partial(disk.read_space, models_folder, answers))
    asked.ask("medium", "The models' file system", partial(disk.read_medium, models_folder, root, answers, kind))
    asked.ask("power", "The power supply", partial(power_sources.read_power, *told))
    asked.ask("product", "The machine's name", partial(identity.read_product, *told))
    asked.ask("virtual", "The machine's kind", partial(identity.read_virtual, *told))
    _ask_of_cards(asked, look, gpus)

    notes: list[str] = []
    unseen: list[Unseen] = []
    name = asked.answer("os", notes) or _least_name(answers)
    processor, cpu_notes = asked.answer("cpu", notes) or _least_cpu(answers)
    ram, ram_notes = asked.answer("ram", notes) or (_last_resort(answers), ())
    notes += [*cpu_notes, *ram_notes]
    completed, gpu_facts = _gpus(asked, gpus, build, notes)
    unseen += gpu_facts.pop("unseen")
    return Machine(
        os=name,
        cpu=_with_caches(processor, asked, unseen),
        ram=memory_modules.with_modules(
            ram, asked.fact("modules", "ram.modules", unseen), asked.fact("swap", "ram.swap_total_bytes", unseen)
        ),
        gpus=completed,
        disk=_disk(asked, models_folder, notes, unseen),
        engine=build,
        product=asked.fact("product", "product", unseen),
        virtual=asked.fact("virtual", "virtual", unseen),
        power=asked.fact("power", "power", unseen),
        notes=tuple(notes),
        unseen=tuple(unseen),
        **gpu_facts,
    )


class _Asked:
    """Questions under way, by name; all end at the same time."""

    def __init__(self, seconds: float) -> None:
        self._sources: dict[str, Source[Any]] = {}
        self._names: dict[str, str] = {}
        self._seconds = seconds
        self._end: float | None = None

    def ask(self, key: str, name: str, read: Callable[[], Any]) -> None:
        """Start one; `name` is the source's in sentences."""
        self._names[key] = name
        # Each is asked once: what waited while another one hung is as true as it was.
        source = self._sources[key] = Source(name, read, fresh_seconds=math.inf)
        source.ask()

    def answer(self, key: str, notes: list[str], least_seconds: float = 0.0) -> Any:
        """What a source answers in time; one that misses it is left behind, and a note says so. None if not asked.

        Args:
            key: The question.
            notes: Where the note goes.
            least_seconds: For a question that was asked after the others' answers.
        """
        source = self._sources.pop(key, None)
        if source is None:
            return None
        if self._end is None:
            self._end = time.monotonic() + self._seconds
        value, why = source.answer(max(0.0, self._end - time.monotonic(), least_seconds))
        source.close()
        if why:
            notes.append(f"{self._names[key]} did not answer in time." if why == HANGS else why)
        return value

    def fact(self, key: str, fact: str, unseen: list[Unseen]) -> Any:
        """As `answer`, where nothing depends on it: a reason becomes an `Unseen`."""
        why: list[str] = []
        value = self.answer(key, why)
        unseen += [Unseen(fact=fact, why=reason) for reason in why]
        return value


def _ask_of_cards(asked: _Asked, look: Sources, gpus: tuple[Gpu, ...]) -> None:
    answers = look.answers
    nvidia = tuple[graphics.NvidiaCard, ...]
    asked.ask(
        "nvidia",
        "The NVIDIA driver",
        lambda: answers.ask("nvml", lambda: graphics.read_nvidia(look.nvml), nvidia),
    )
    if look.system.startswith("linux"):
        asked.ask("cards", "The kernel's list of graphics cards", partial(_read_cards, look.root))
    if all(gpu.kind is GpuKind.SOFTWARE for gpu in gpus):
        return
    if look.system == "win32":
        asked.ask(
            "counted",
            "Windows' list of graphics cards",
            lambda: answers.ask(
                "windows.gpu", lambda: gpu_programs.read_counted(look.counters), gpu_programs.CountedCards
            ),
        )
        asked.ask("drivers", "The registry's list of graphics drivers", lambda: display_drivers(answers))
    elif look.system.startswith("linux"):
        asked.ask("programs", "The list of programs on graphics cards", partial(_read_programs, look))


def _read_cards(root: KernelPath) -> tuple[drm.DrmCard, ...]:
    cards = drm.read_cards(root)
    return (*cards, *drm.read_displays(root, cards))


def _read_programs(look: Sources) -> tuple[gpu_programs.CardUse, ...]:
    places = [card.pci_id for card in drm.read_cards(look.root) if card.pci_id]

    def live() -> tuple[gpu_programs.CardUse, ...]:
        return gpu_programs.read_kernel_programs(Path("/proc"), places)

    return look.answers.ask("programs on cards", live, tuple[gpu_programs.CardUse, ...])


def _gpus(
    asked: _Asked, gpus: tuple[Gpu, ...], build: EngineBuild | None, notes: list[str]
) -> tuple[tuple[Gpu, ...], dict[str, Any]]:
    """The devices with all that was told of them, and what else `Machine` says of cards."""
    cards = asked.answer("cards", notes) or ()
    refusals: dict[str, list[str]] = {name: [] for name in ("nvidia", "programs", "counted", "drivers")}
    told = {name: asked.answer(name, why) for name, why in refusals.items()}
    nvidia = told["nvidia"]
    # A machine without NVIDIA's cards lacks nothing when their driver is missing.
    if "NVIDIA" in {*map(matching.maker, gpus), *(card.vendor for card in cards)}:
        notes += refusals["nvidia"]
    seen = gpu_details.Seen(
        nvidia=nvidia,
        cards=cards,
        programs=told["programs"],
        counted=told["counted"],
        drivers=told["drivers"] or (),
        refusals={name: why[0] for name, why in refusals.items() if why},
    )
    # A card's own files are read here: where its chip hangs, its driver may not return from that either.
    asked.ask("completed", "The kernel's driver of a graphics card", partial(_completed, gpus, seen))
    found = asked.answer("completed", notes, COMPLETE_SECONDS)
    detailed, unseen, gpu_notes = found or _completed(gpus, replace(seen, cards=()))
    notes += gpu_notes
    facts: dict[str, Any] = {"unseen": unseen}
    if build is not None:
        facts["unused_cards"] = graphics.unused_cards(gpus, nvidia, cards)
        notes += graphics.not_offered(gpus, nvidia, cards)
    else:
        notes += graphics.not_asked_for(nvidia, cards)
    return detailed, facts


def _completed(
    gpus: tuple[Gpu, ...], seen: gpu_details.Seen
) -> tuple[tuple[Gpu, ...], tuple[Unseen, ...], tuple[str, ...]]:
    """The devices with what the sources told; what of it is not seen; notes."""
    completed, notes = graphics.complete(gpus, seen.nvidia, seen.cards)
    return *gpu_details.with_details(completed, seen), notes


def _with_caches(processor: Cpu, asked: _Asked, unseen: list[Unseen]) -> Cpu:
    caches = asked.fact("caches", "cpu.caches", unseen) or ()
    return msgspec.structs.replace(processor, caches=caches, numa_nodes=asked.fact("nodes", "cpu.numa_nodes", unseen))


def _disk(asked: _Asked, models_folder: Path, notes: list[str], unseen: list[Unseen]) -> Disk:
    space = asked.answer("space", notes)
    medium = asked.answer("medium", notes) or disk.Medium(None, None)
    if medium.bus is None:
        unseen.append(Unseen(fact="disk.bus", why="The system does not tell how the models' disk is connected."))
    return Disk(
        path=str(space.folder if space else models_folder),
        total_bytes=space.total_bytes if space else None,
        free_bytes=space.free_bytes if space else None,
        filesystem=medium.filesystem,
        rotational=medium.rotational,
        bus=medium.bus,
        network=medium.network,
    )


def _least_name(answers: Answers) -> str:
    try:
        return system.plain_name(answers)
    except NotSeenError:
        return "an unknown system"


def _least_cpu(answers: Answers) -> tuple[Cpu, tuple[str, ...]]:
    try:
        return cpu.plain_cpu(answers), ()
    except NotSeenError:
        least = Cpu(name="a processor", physical_cores=1, performance_cores=1, logical_cores=1, isa=())
        return least, ("The number of the processor's cores is not known; one is counted.",)


def _last_resort(answers: Answers) -> Ram:
    try:
        return answers.ask("memory pages", kernel_memory, Ram)
    except NotSeenError as error:
        raise AppError(ErrorCode.ENGINE_FAILED, str(error)) from error
