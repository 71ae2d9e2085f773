"""What this machine is, as plain data. None marks a fact that no source could give."""

import enum

import msgspec


class GpuKind(enum.StrEnum):
    """How a GPU's memory and speed must be judged."""

    DISCRETE = "discrete"
    INTEGRATED = "integrated"
    SOFTWARE = "software"


class Cpu(msgspec.Struct, frozen=True, kw_only=True):
    """The processor.

    Attributes:
        performance_cores: The physical cores that are not efficiency cores; all where cores are alike.
        performance_cpus: Numbers of the logical processors of the performance cores; empty where cores are alike,
            or where that is not known.
        isa: Names of the instruction sets the engine's kernels care about, weakest first ("avx2").
        allowed_threads: Threads this program may keep busy where affinity or a CPU quota allows fewer
            than `logical_cores`; else None.
    """

    name: str
    physical_cores: int
    performance_cores: int
    logical_cores: int
    isa: tuple[str, ...]
    allowed_threads: int | None = None
    performance_cpus: tuple[int, ...] = ()


class Ram(msgspec.Struct, frozen=True, kw_only=True):
    """Main memory in bytes; `available` is what can be had without swapping.

    Where a limit on this program (cgroup) is lower than the machine's memory, both speak of the limit.
    """

    total_bytes: int
    available_bytes: int


class Pcie(msgspec.Struct, frozen=True, kw_only=True):
    """The link of a card, now and at most."""

    generation: int
    lanes: int
    max_generation: int
    max_lanes: int


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


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """The disk that holds the model folder.

    Attributes:
        path: The folder that was looked at: the model folder, or its nearest parent that exists.
        total_bytes: None where the disk did not answer (a network folder whose server is gone).
        free_bytes: What this user may still write; None as above.
        rotational: True for a hard disk, False for a solid-state one.
    """

    path: str
    total_bytes: int | None
    free_bytes: int | None
    filesystem: str | None = None
    rotational: bool | None = None


class EngineBuild(msgspec.Struct, frozen=True, kw_only=True):
    """Versions of the embedded engine.

    Attributes:
        build: In words, what it was built with ("CPU + Vulkan").
        backends: Names of the ggml backends that loaded.
        expert_device: True where the native expert device is registered.
        expert_device_reason: Why it is not, else empty.
        notes: What a backend could not see and why, one sentence each.
    """

    llama_cpp_python: str
    ggml: str
    build: str
    backends: tuple[str, ...]
    expert_device: bool
    expert_device_reason: str = ""
    notes: tuple[str, ...] = ()


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `probe` reports.

    Attributes:
        notes: What could not be seen and why, and what limits this program, one sentence each.
        engine_bytes: Main memory that the engine takes beside what it reports, as loads before showed; None
            where none did.
    """

    os: str
    cpu: Cpu
    ram: Ram
    gpus: tuple[Gpu, ...]
    disk: Disk
    engine: EngineBuild | None
    notes: tuple[str, ...] = ()
    engine_bytes: int | None = None
