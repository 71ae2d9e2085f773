"""Short sentences about the machine, shared by the window and the command line."""

from app.hardware.facts import Cpu, Disk, Gpu, GpuKind, Pcie, Ram
from app.units import format_bytes

# What a reader can use of `Cpu.isa`: the names that decide how fast the engine's kernels are.
_NOTABLE = {
    "avx2": "AVX2",
    "avx_vnni": "AVX-VNNI",
    "avx512f": "AVX-512",
    "avx512_vnni": "AVX-512 VNNI",
    "avx512_bf16": "AVX-512 BF16",
    "amx": "AMX",
    "neon": "NEON",
    "dotprod": "dot product",
    "i8mm": "int8 matrix",
    "sve": "SVE",
    "sme": "SME",
}


def describe_cpu(cpu: Cpu) -> str:
    """The processor: "Intel Core i7-12700H: 14 cores (6 fast, 8 efficient), 20 threads, AVX2"."""
    cores = _count(cpu.physical_cores, "core")
    efficient = cpu.physical_cores - cpu.performance_cores
    if efficient:
        cores += f" ({cpu.performance_cores} fast, {efficient} efficient)"
    words = [cores]
    if cpu.logical_cores != cpu.physical_cores:
        words.append(_count(cpu.logical_cores, "thread"))
    if cpu.allowed_threads is not None:
        words.append(f"{cpu.allowed_threads} allowed to this program")
    words += [name for flag, name in _NOTABLE.items() if flag in cpu.isa]
    return f"{cpu.name}: {', '.join(words)}"


def describe_ram(ram: Ram) -> str:
    """Main memory: "15.5 GiB, 12.1 GiB available"."""
    return f"{format_bytes(ram.total_bytes)}, {format_bytes(ram.available_bytes)} available"


def describe_gpu(gpu: Gpu) -> str:
    """A GPU without its engine name: "NVIDIA GeForce RTX 3060, 12.0 GiB, 11.2 GiB free, PCIe 4 x16"."""
    if gpu.kind is GpuKind.SOFTWARE:
        return f"{gpu.name}, a software device: the processor computes, in main memory"
    words = [gpu.name, format_bytes(gpu.total_bytes), f"{format_bytes(gpu.free_bytes)} free"]
    if gpu.kind is GpuKind.INTEGRATED:
        words.insert(1, "built into the processor, uses main memory")
    if gpu.pcie:
        words.append(_describe_link(gpu.pcie))
    if gpu.driver:
        words.append(f"driver {gpu.driver}")
    return ", ".join(words)


def describe_disk(disk: Disk) -> str:
    """The models' disk: "120.3 GiB free of 476.4 GiB at /home/me/models (ext4, solid-state disk)"."""
    sort = {None: None, True: "hard disk", False: "solid-state disk"}[disk.rotational]
    known = ", ".join(word for word in (disk.filesystem, sort) if word)
    place = f"at {disk.path}" + (f" ({known})" if known else "")
    if disk.total_bytes is None or disk.free_bytes is None:
        return f"size unknown {place}"
    return f"{format_bytes(disk.free_bytes)} free of {format_bytes(disk.total_bytes)} {place}"


def _describe_link(link: Pcie) -> str:
    most = f"PCIe {link.max_generation} x{link.max_lanes}"
    if (link.generation, link.lanes) == (link.max_generation, link.max_lanes):
        return most
    # Cards slow their link down when idle, so the lower figure alone would mislead.
    return f"{most} (now {link.generation} x{link.lanes})"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
