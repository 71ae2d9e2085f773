"""What to measure of a machine where nobody says otherwise: types of weights, counts of threads, devices."""

from app.hardware.facts import Cpu, GpuKind, Machine

SECONDS = 25.0
"""How long a calibration may take."""

COMMON_TYPES = ("q4_K", "q6_K", "q4_0", "q8_0", "mxfp4", "q5_K", "q3_K", "iq4_xs")
"""ggml's names of the types that experts mostly have, the most frequent first; the last ones as time allows."""


def thread_counts(cpu: Cpu) -> tuple[int, ...]:
    """One thread, half of the performance cores, and all of them, as far as this program may use them."""
    most = min(cpu.performance_cores, cpu.allowed_threads or cpu.performance_cores)
    return tuple(sorted({1, max(most // 2, 1), max(most, 1)}))


def devices(machine: Machine) -> tuple[str, ...]:
    """Every GPU but software ones, which compute on the processor."""
    return tuple(gpu.device for gpu in machine.gpus if gpu.kind is not GpuKind.SOFTWARE)
