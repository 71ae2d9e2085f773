"""Typical speeds of hardware that was not measured: what a prediction rests on before a calibration.

Each figure stands for a whole kind of hardware, so it is used with wide bounds (`LEAST`, `MOST`), and whoever
shows it says "assumed".
"""

from app.hardware.facts import Cpu, Disk, Gpu, GpuKind
from app.placement.speed.calibration import Overlap

LEAST, MOST = 0.5, 1.6
"""Bounds of an assumed rate, as factors."""

_GIB = 1024**3

# Expert weights that a processor gets through in decoding. Published answers of a 35B model imply 20 GB/s on a
# desktop of 2019 (8.25e8 bytes a token, 41 ms a token between no hits and all) and at most 26 GB/s on a later one.
# One thread is held up by arithmetic before memory is: 7 to 12 GB/s with the types of 4 to 8 bits (the latter on a
# server's core, by the expert cache's benchmark).
_CPU_BYTES_A_THREAD = 9e9
RAM_BYTES = 28e9
# Arithmetic of one thread on many rows at once, by the widest instructions; quantised weights, general knowledge.
# AMX is not among them: llama.cpp multiplies dense matrices with it, not those of experts (MUL_MAT_ID).
_CPU_FLOPS = {"avx512_vnni": 80e9, "avx512f": 60e9, "avx2": 40e9, "i8mm": 60e9, "neon": 25e9}
_OTHER_CPU_FLOPS = 12e9

# What products of experts as they lie in the file reach of those in the processor's faster layout, one token at a
# time and many; by the expert cache's benchmark on two cores of a server (the prompts of q4_K: its batches are
# computed in tiles, which the faster layout has none of). The last three are of one thread alone with weights of the
# calibration, in time of the processor, on that machine while it was busy; q4_0 and q4_k measured so are 0.57 and 0.76
# of decoding, 0.63 and 1.45 of prompts, so they are good to a fifth. Other types have no faster layout on processors of
# this kind, in the engine's version of llama.cpp.
_MAPPED_DECODE = {"q4_0": 0.72, "q4_k": 0.77, "mxfp4": 0.7, "iq4_nl": 0.5, "q2_k": 0.87}
_MAPPED_PROMPT = {"q4_0": 0.73, "q4_k": 1.43, "mxfp4": 0.67, "iq4_nl": 0.55, "q2_k": 0.8}

# A card's bandwidth grows with its memory: 8 GiB at 250–450 GB/s, 24 at 950, 80 at 2,000 and 141 at 4,800 by their
# makers' figures. Products of one row reach about half of that.
_GPU_BYTES_A_GIB = 20e9
_GPU_BYTES_BOUNDS = (80e9, 2.5e12)
_GPU_FLOPS_A_GIB = 1.5e12
_GPU_FLOPS_BOUNDS = (3e12, 150e12)
_INTEGRATED_FLOPS = 1e12
# A software driver computes on the processor, without its faster instructions.
_SOFTWARE_SHARE = 0.1

# One lane of PCIe in each generation, and the share of it that copies from page-locked memory reach; from other
# memory it is 6 to 7 GB/s at most (published for PCIe 4 and 5 cards).
_LANE_BYTES = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.97e9, 5: 3.94e9, 6: 7.56e9}
_PCIE_SHARE = 0.7
_PAGEABLE_BYTES = 6.5e9
_UNKNOWN_LINK_BYTES = 11e9
_MAIN_MEMORY_COPY_BYTES = 8e9

# Slices of some MiB, several reads in flight.
_SOLID_STATE_BYTES = 1.5e9
_HARD_DISK_BYTES = 80e6

# What page faults, one after the other, reach of a disk that is asked for whole slices at once, by the bytes that were
# needed. Measured with a file that main memory held 40, 60 and 80 % of (tests/bench/RESULTS.md): 0.40 to 0.45 with the
# usual read-ahead of 128 KB; with 8 MB of it, where each fault drags in what nobody needs, 0.006 to 0.026.
_FAULTS = (0.006, 0.43, 0.6)
# Pages that one core brings into memory, maps and gives up again: what decoding took there beyond reading and
# computing, of a processor all of whose cores compute.
_BRINGING_BYTES = 2e9

# Seconds a layer takes beside reading weights: some thirty small operations, each of which ends with a wait. The
# demo model's 30 layers take 3.1 ms a token beside reading, with one thread of a server's core; GPUs: general
# knowledge of what launches take.
_LAYER_SECONDS = {None: 60e-6, GpuKind.DISCRETE: 50e-6, GpuKind.INTEGRATED: 90e-6, GpuKind.SOFTWARE: 1e-3}
# Seconds that handing a layer's experts to another device and waiting for its end takes.
_SYNC_SECONDS = {None: 5e-6, GpuKind.DISCRETE: 50e-6, GpuKind.INTEGRATED: 80e-6, GpuKind.SOFTWARE: 500e-6}
# Seconds a token takes outside the layers: start of the graph, sampling, text; and what sampling adds for each
# entry of the vocabulary.
_TOKEN_SECONDS = 300e-6
_VOCABULARY_SECONDS = 5e-9


def cpu_bytes(threads: int, type_name: str = "", *, mapped: bool = False) -> float:
    """Bytes of expert weights a second that `threads` threads get through in decoding.

    Args:
        threads: How many.
        type_name: ggml's name of the weights' type, whatever its case.
        mapped: The weights are as in the file, not in the faster layout: arithmetic takes longer, main memory not.
    """
    factor = _MAPPED_DECODE.get(type_name.casefold(), 1.0) if mapped else 1.0
    return min(_CPU_BYTES_A_THREAD * factor * max(threads, 1), RAM_BYTES)


def cpu_flops(cpu: Cpu, threads: int, type_name: str = "", *, mapped: bool = False) -> float:
    """Operations a second of `threads` threads on large batches; arguments as for `cpu_bytes`."""
    best = max((_CPU_FLOPS[name] for name in cpu.isa if name in _CPU_FLOPS), default=_OTHER_CPU_FLOPS)
    factor = _MAPPED_PROMPT.get(type_name.casefold(), 1.0) if mapped else 1.0
    return best * factor * max(threads, 1)


def gpu_bytes(gpu: Gpu | None, threads: int) -> float:
    """Bytes of weights a second that a GPU gets through in decoding; None for a card nothing is known of."""
    if gpu is None:
        return _GPU_BYTES_BOUNDS[0]
    if gpu.kind is GpuKind.SOFTWARE:
        return cpu_bytes(threads) * _SOFTWARE_SHARE
    if gpu.kind is GpuKind.INTEGRATED:
        return RAM_BYTES  # the processor's memory, and alone with it
    return _by_memory(gpu, _GPU_BYTES_A_GIB, _GPU_BYTES_BOUNDS)


def gpu_flops(gpu: Gpu | None, cpu: Cpu, threads: int) -> float:
    """Operations a second of a GPU on large batches of experts."""
    if gpu is None:
        return _GPU_FLOPS_BOUNDS[0]
    if gpu.kind is GpuKind.SOFTWARE:
        return cpu_flops(cpu, threads) * _SOFTWARE_SHARE
    if gpu.kind is GpuKind.INTEGRATED:
        return _INTEGRATED_FLOPS
    return _by_memory(gpu, _GPU_FLOPS_A_GIB, _GPU_FLOPS_BOUNDS)


def copy_bytes(gpu: Gpu | None, *, pinned: bool) -> float:
    """Bytes a second from main memory to a GPU."""
    if gpu is not None and gpu.kind is not GpuKind.DISCRETE:
        return _MAIN_MEMORY_COPY_BYTES
    link = gpu.pcie if gpu is not None else None
    lane = _LANE_BYTES.get(link.max_generation) if link else None
    # An idle card lowers its generation, not its lanes: a card in a slot of four lanes stays there.
    most = lane * link.lanes * _PCIE_SHARE if link and lane and link.lanes else _UNKNOWN_LINK_BYTES
    return most if pinned else min(most, _PAGEABLE_BYTES)


def disk_bytes(disk: Disk) -> float:
    """Bytes a second of random reads of whole slices."""
    return _HARD_DISK_BYTES if disk.rotational else _SOLID_STATE_BYTES


def fault_shares() -> tuple[float, float, float]:
    """Least, likely and most of a disk's rate that reading page by page reaches."""
    return _FAULTS


def bringing_bytes() -> float:
    """Bytes a second that the processor brings into memory and gives up again, reading apart."""
    return _BRINGING_BYTES


def layer_seconds(gpu: Gpu | None, *, on_cpu: bool) -> float:
    """What a layer's attention and norms take on a device beside reading weights."""
    return _LAYER_SECONDS[None if on_cpu else gpu.kind if gpu else GpuKind.DISCRETE]


def sync_seconds(gpu: Gpu | None, *, on_cpu: bool) -> float:
    """What handing over a layer's experts and waiting for them takes."""
    return _SYNC_SECONDS[None if on_cpu else gpu.kind if gpu else GpuKind.DISCRETE]


def token_seconds(vocab_size: int) -> float:
    """What a token takes outside the layers."""
    return _TOKEN_SECONDS + _VOCABULARY_SECONDS * vocab_size


def overlap(device: str, gpu: Gpu | None) -> Overlap:
    """What is left of each rate while processor, GPU and a copy work at once."""
    if gpu is not None and gpu.kind is not GpuKind.DISCRETE:  # one memory, or one processor, for both
        return Overlap(device=device, cpu_share=0.5, device_share=0.5, copy_share=0.5)
    return Overlap(device=device, cpu_share=0.95, device_share=1.0, copy_share=0.85)


def _by_memory(gpu: Gpu, a_gib: float, bounds: tuple[float, float]) -> float:
    return min(max(gpu.total_bytes / _GIB * a_gib, bounds[0]), bounds[1])
