"""What this machine is, as plain data. None marks a fact that no source could give."""

import enum
from collections.abc import Iterable

import msgspec


class GpuKind(enum.StrEnum):
    """How a GPU's memory and speed must be judged."""

    DISCRETE = "discrete"
    INTEGRATED = "integrated"
    SOFTWARE = "software"


class CoreClass(msgspec.Struct, frozen=True, kw_only=True):
    """Cores of one kind, where a processor has several.

    Attributes:
        name: "performance", "efficiency" or "low-power efficiency".
        cores: Physical cores.
        cpus: Numbers of their logical processors.
        max_mhz: Their highest clock; None where nothing tells.
    """

    name: str
    cores: int
    cpus: tuple[int, ...]
    max_mhz: int | None = None


class Cache(msgspec.Struct, frozen=True, kw_only=True):
    """One level of the processor's caches.

    Attributes:
        level: 1 is the nearest.
        kind: "data", "instruction" or "unified".
        size_bytes: The largest of this level and kind: cores of several kinds have several sizes.
        total_bytes: All of this level and kind together.
    """

    level: int
    kind: str
    size_bytes: int
    total_bytes: int


class Cpu(msgspec.Struct, frozen=True, kw_only=True):
    """The processor.

    Attributes:
        performance_cores: The physical cores that are not efficiency cores; all where cores are alike.
        performance_cpus: Numbers of the logical processors of the performance cores; empty where cores are alike,
            or where that is not known.
        isa: Names of the instruction sets the engine's kernels care about, weakest first ("avx2").
        allowed_threads: Threads the engine may keep busy where affinity or a CPU quota allows fewer
            than `logical_cores`; else None.
        core_classes: Fastest first; empty where cores are alike, or where that is not known.
        caches: Nearest first; empty where nothing tells.
        numa_nodes: Parts of main memory that are nearer to some cores than to others; 1 for one memory.
    """

    name: str
    physical_cores: int
    performance_cores: int
    logical_cores: int
    isa: tuple[str, ...]
    allowed_threads: int | None = None
    performance_cpus: tuple[int, ...] = ()
    core_classes: tuple[CoreClass, ...] = ()
    caches: tuple[Cache, ...] = ()
    numa_nodes: int | None = None


class RamModule(msgspec.Struct, frozen=True, kw_only=True):
    """A memory module, or memory soldered on, as the firmware's tables list it (SMBIOS type 17).

    Attributes:
        slot: The slot's name as its maker wrote it ("DIMM_A1", "Controller0-ChannelA").
        bank: Its group's name, alike ("BANK 0", "P0 CHANNEL A").
        size_bytes: 0 for an empty slot.
        type: "DDR4", "LPDDR5" and so on; None where the tables do not say.
        width_bits: Data lines, without those for error correction.
        rated_mts: Megatransfers a second that it is made for.
        speed_mts: Megatransfers a second that it is run at.
    """

    slot: str
    size_bytes: int
    bank: str = ""
    type: str | None = None
    width_bits: int | None = None
    rated_mts: int | None = None
    speed_mts: int | None = None


class Ram(msgspec.Struct, frozen=True, kw_only=True):
    """Main memory in bytes; `available` is what can be had without swapping.

    Where a limit on the engine (cgroup) is lower than the machine's memory, both speak of the limit.

    Attributes:
        modules: Every slot that the firmware's tables list, empty ones too; empty where they cannot be read.
        channels: Channels of 64 bits that hold memory; None where the tables do not tell.
        free_slots: Slots without a module; None where the tables cannot be read.
        speed_mts: Megatransfers a second that the slowest module is run at.
        swap_total_bytes: The page file, or swap; 0 where there is none, None where it cannot be read.
        swap_free_bytes: Of that, what is not in use.
        swap_kind: "disk", or "compressed memory" where pages go into main memory again (zram); None without swap.
    """

    total_bytes: int
    available_bytes: int
    modules: tuple[RamModule, ...] = ()
    channels: int | None = None
    free_slots: int | None = None
    speed_mts: int | None = None
    swap_total_bytes: int | None = None
    swap_free_bytes: int | None = None
    swap_kind: str | None = None


class Pcie(msgspec.Struct, frozen=True, kw_only=True):
    """The link of a card.

    Attributes:
        generation, lanes: Now. Idle cards lower their generation, and laptops' lanes too.
        max_generation, max_lanes: The most that card and slot can do together.
        card_generation, card_lanes: The most that the card could do in a better slot; None where nothing tells.
    """

    generation: int
    lanes: int
    max_generation: int
    max_lanes: int
    card_generation: int | None = None
    card_lanes: int | None = None

    @property
    def possible(self) -> bool:
        """Whether a link can be so: drivers have been seen to give nothing or nonsense."""
        generations, lanes = (self.generation, self.max_generation), (self.lanes, self.max_lanes)
        return all(1 <= each <= 8 for each in generations) and all(1 <= each <= 32 for each in lanes)


class GpuProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A program that holds memory of a card; `used_bytes` is None where the driver does not tell it by program."""

    name: str
    pid: int
    used_bytes: int | None = None


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One device the engine can compute on.

    Attributes:
        device: The engine's name for it ("CUDA0", "Vulkan0"): what plans and `--gpu` use.
        backend: The ggml backend that offers it ("CUDA", "Vulkan").
        free_bytes: From the engine; after the probe, the least that the engine and the driver say.
        driver: The kernel driver and its version, in words.
        pci_id: Where the card sits ("0000:01:00.0"), as the engine says; tells equal cards apart.
        context_bytes: What driver and backend take there beside what the engine reports, as loads before
            showed; None where none did.
        card: What tells cards apart: devices of several backends with the same one are one card. None where no
            driver tells which card it is.
        uuid: NVIDIA's name of the card.
        driver_version: The driver's number alone ("550.54.14"); None for drivers that come with the kernel.
        cuda: The newest CUDA that the driver runs ("12.4"); NVIDIA only.
        dedicated_bytes: Memory of the card's own; None where no driver tells.
        shared_bytes: Main memory that the card may use too; None where no driver tells.
        unified: Whether it works in main memory, so that nothing need be copied to it.
        programs: Programs that hold memory of it, largest first; empty where nothing holds any, or none can be seen
            (then `Machine.unseen` has "gpus.programs").
        power_limit_watts: What it may draw now.
        power_max_watts: The highest limit that may be set.
    """

    name: str
    backend: str
    device: str
    kind: GpuKind
    total_bytes: int
    free_bytes: int
    driver: str | None = None
    pcie: Pcie | None = None
    pci_id: str | None = None
    context_bytes: int | None = None
    card: str | None = None
    uuid: str | None = None
    driver_version: str | None = None
    cuda: str | None = None
    dedicated_bytes: int | None = None
    shared_bytes: int | None = None
    unified: bool | None = None
    programs: tuple[GpuProgram, ...] = ()
    power_limit_watts: float | None = None
    power_max_watts: float | None = None


class UnusedCard(msgspec.Struct, frozen=True, kw_only=True):
    """A graphics card in this machine that the engine offers no device for.

    Attributes:
        maker: "AMD", "Intel" or "NVIDIA".
        driver: As in `Gpu`; None where no kernel driver runs it.
    """

    name: str
    maker: str
    pci_id: str | None = None
    driver: str | None = None


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """The disk that holds the model folder.

    Attributes:
        path: The folder that was looked at: the model folder, or its nearest parent that exists.
        total_bytes: None where the disk did not answer (a network folder whose server is gone).
        free_bytes: What this user may still write; None as above.
        rotational: True for a hard disk, False for a solid-state one.
        bus: How it is connected: "NVMe", "SATA", "USB", "virtual", "network"; None where nothing tells.
        network: Whether it is another machine's; None where nothing tells.
        read_bytes_per_second: As `calibrate` measured on it; None where it did not.
    """

    path: str
    total_bytes: int | None
    free_bytes: int | None
    filesystem: str | None = None
    rotational: bool | None = None
    bus: str | None = None
    network: bool | None = None
    read_bytes_per_second: float | None = None


class Power(msgspec.Struct, frozen=True, kw_only=True):
    """Where the machine's power comes from and how it is saved; None where nothing tells.

    Attributes:
        laptop: Whether it has a battery of its own.
        on_battery: Whether it runs on that battery now.
        battery_percent: How full that is.
        saver: Whether a power saver is on: it keeps clocks low.
        profile: The system's power profile or scheme in its own words ("balanced", "low-power").
        governor: Linux' rule for clocks ("powersave", "schedutil"); several where cores differ.
        preference: What the processor is told to prefer ("balance_performance"); Linux.
    """

    laptop: bool | None = None
    on_battery: bool | None = None
    battery_percent: int | None = None
    saver: bool | None = None
    profile: str | None = None
    governor: str | None = None
    preference: str | None = None


class Unseen(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that could not be seen.

    Attributes:
        fact: Its place in `Machine` ("ram.modules", "cpu.caches", "gpus.programs").
        why: One sentence.
        device: The engine's name of the GPU concerned, else empty.
    """

    fact: str
    why: str
    device: str = ""


class EngineBuild(msgspec.Struct, frozen=True, kw_only=True):
    """Versions of the embedded engine.

    Attributes:
        build: In words, the backends that loaded ("CPU + Vulkan").
        backends: Names of the ggml backends that loaded.
        expert_device: True where the native expert device is registered.
        expert_device_reason: Why it is not, else empty.
        notes: What a backend could not see and why, one sentence each.
        cpu_variant: Which of several builds for processors was loaded ("haswell"); None where there is one only.
        cpu_features: Instruction sets that the engine's code for the processor uses, in the engine's words
            ("AVX2"); empty where it does not tell.
        control_groups: The system's list of its process's groups where those are not the app's own, else empty (Linux):
            limits of memory and processors on it are these groups'.
    """

    llama_cpp_python: str
    ggml: str
    build: str
    backends: tuple[str, ...]
    expert_device: bool
    expert_device_reason: str = ""
    notes: tuple[str, ...] = ()
    cpu_variant: str | None = None
    cpu_features: tuple[str, ...] = ()
    control_groups: str = ""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `probe` reports.

    Attributes:
        notes: What could not be seen and why, and what limits this program, one sentence each.
        engine_bytes: Main memory that the engine takes beside what it reports, as loads before showed; None
            where none did.
        product: What its maker calls the machine ("LENOVO 21CB"); None where nothing tells.
        virtual: The virtual machine it is ("KVM"), empty for a real one; None where nothing tells.
        power: None where nothing could be seen of it.
        unused_cards: Graphics cards that are there and the engine cannot use.
        unseen: Facts that could not be seen, each with the reason.
    """

    os: str
    cpu: Cpu
    ram: Ram
    gpus: tuple[Gpu, ...]
    disk: Disk
    engine: EngineBuild | None
    notes: tuple[str, ...] = ()
    engine_bytes: int | None = None
    product: str | None = None
    virtual: str | None = None
    power: Power | None = None
    unused_cards: tuple[UnusedCard, ...] = ()
    unseen: tuple[Unseen, ...] = ()


def one_row_per_card(gpus: Iterable[Gpu]) -> tuple[tuple[Gpu, ...], ...]:
    """The devices by card, in the order given: one that several backends offer is one row of several devices."""
    rows: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        rows.setdefault(gpu.card or f"device {gpu.device}", []).append(gpu)
    return tuple(tuple(row) for row in rows.values())
