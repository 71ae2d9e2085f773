"""A short name for what a machine is, so that what was measured on one is not taken for another's."""

import hashlib

from app.hardware.facts import Machine

_GIB = 1024**3


def fingerprint(machine: Machine) -> str:
    """Hex digest over processor, memory and GPUs: the same after a restart, another after new hardware.

    Sizes count in whole GiB, for what a system keeps for itself differs between starts.
    """
    parts = [machine.os.split()[0], machine.cpu.name, str(machine.cpu.physical_cores), str(machine.cpu.logical_cores)]
    parts.append(str(round(machine.ram.total_bytes / _GIB)))
    parts += sorted(f"{gpu.device} {gpu.name} {round(gpu.total_bytes / _GIB)}" for gpu in machine.gpus)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
