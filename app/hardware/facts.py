"""What this machine is, as plain data. None marks a fact that no source could give."""

import enum

import msgspec


class GpuKind(enum.StrEnum):
    """How a GPU's memory and speed must be judged."""

    DISCRETE = "discrete"
    INTEGRATED = "integrated"
    SOFTWARE = "software"


class Cpu(msgspec.Struct, frozen=True, kw_only=True):
    """The processor; `isa` holds instruction-set names the engine's kernels care about."""

    name: str
    physical_cores: int
    performance_cores: int
    logical_cores: int
    isa: tuple[str, ...]


class Ram(msgspec.Struct, frozen=True, kw_only=True):
    """Main memory in bytes; `available` is what can be had without swapping."""

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
    """

    name: str
    backend: str
    device: str
    kind: GpuKind
    total_bytes: int
    free_bytes: int
    driver: str | None = None
    pcie: Pcie | None = None


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """The disk that holds the model folder."""

    path: str
    total_bytes: int
    free_bytes: int
    filesystem: str | None = None
    rotational: bool | None = None


class EngineBuild(msgspec.Struct, frozen=True, kw_only=True):
    """Versions of the embedded engine.

    Attributes:
        build: In words, what it was built with ("CPU + Vulkan").
        backends: Names of the ggml backends that loaded.
        notes: What a backend could not see and why, one sentence each.
    """

    llama_cpp_python: str
    ggml: str
    build: str
    backends: tuple[str, ...]
    expert_device: str
    notes: tuple[str, ...] = ()


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `probe` reports."""

    os: str
    cpu: Cpu
    ram: Ram
    gpus: tuple[Gpu, ...]
    disk: Disk
    engine: EngineBuild | None
