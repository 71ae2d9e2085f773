"""Short names for what a machine and its engine are, so that what was measured is not taken for another's."""

import hashlib

from app.hardware.facts import EngineBuild, Machine

_GIB = 1024**3


def fingerprint(machine: Machine) -> str:
    """Hex digest over processor, memory and GPUs: the same after a restart, another after new hardware.

    Sizes count in whole GiB, for what a system keeps for itself differs between starts.
    """
    parts = [machine.os.split()[0], machine.cpu.name, str(machine.cpu.physical_cores), str(machine.cpu.logical_cores)]
    parts.append(str(round(machine.ram.total_bytes / _GIB)))
    parts += sorted(f"{gpu.device} {gpu.name} {round(gpu.total_bytes / _GIB)}" for gpu in machine.gpus)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def engine_name(build: EngineBuild) -> str:
    """Versions and backends of the engine: measurements with another one do not tell how fast this one is."""
    return f"llama-cpp-python {build.llama_cpp_python}, ggml {build.ggml}, {build.build}"
