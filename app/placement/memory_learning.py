"""What loads showed beside what was predicted, and what is learnt of it: the bytes that nobody reports.

Driver, backend and the engine's own process take memory that llama.cpp does not speak of. After a load it is
what system or driver show less what the engine reports; the next prediction takes the median of the last loads.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from app.hardware.facts import Gpu, GpuKind, Machine
from app.placement.memory import predicted_use
from app.placement.plan import CPU_LANE, Plan
from app.placement.report import BufferReport, ObservedMemory
from app.units import format_bytes

RECORD_VERSION = 1

_MIB = 1024**2
_KEPT = 9
"""Loads: an odd one among so many does not move their median."""
_MOST = 4096 * _MIB
"""More than any driver takes: what is beyond it belongs to other programs."""
_Sample = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]
# The vocabulary and the chat template of a large model, which an idle engine does not have yet.
_VOCABULARY = 60 * _MIB


class Overhead(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that were taken on one kind of device beside what the engine reported.

    Attributes:
        machine: Fingerprint of the machine.
        device: The GPU's name, or "CPU" for main memory.
        backend: The ggml backend that was used; all that the engine was built with for main memory.
        samples: Bytes at the last loads, the latest last.
    """

    machine: str
    device: str
    backend: str
    samples: Annotated[tuple[_Sample, ...], msgspec.Meta(min_length=1)]

    @property
    def bytes(self) -> int:
        """What a prediction takes: the median, the higher one of two."""
        return sorted(self.samples)[len(self.samples) // 2]


class MemoryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All that was learnt, as it is kept."""

    version: int = RECORD_VERSION
    overheads: tuple[Overhead, ...] = ()


class DeviceMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One device after a load: three totals that should agree.

    Attributes:
        device: A GPU's engine name, or "CPU" for main memory.
        predicted_bytes: Predicted by the plan, without the margin.
        reported_bytes: Reported by the engine; what is only mapped does not count.
        observed_bytes: Shown by system or driver; None where they show nothing.
        unreported_bytes: Observed on a GPU beside what is reported; in main memory what the engine's process
            has beside it. None where nothing is observed, or less than what is reported.
        source: Who showed it, in words.
    """

    device: str
    predicted_bytes: int
    reported_bytes: int
    observed_bytes: int | None = None
    unreported_bytes: int | None = None
    source: str = ""


def device_totals(
    plan: Plan, machine: Machine, buffers: Sequence[BufferReport], observed: Sequence[ObservedMemory]
) -> tuple[DeviceMemory, ...]:
    """Predicted, reported and observed bytes of every device that any of them names, GPUs first."""
    seen = {its.device: its for its in observed}
    devices = dict.fromkeys([part.device for part in plan.memory] + [buffer.device for buffer in buffers])
    unreported = _unreported(machine, buffers, observed)
    return tuple(
        DeviceMemory(
            device=device,
            predicted_bytes=predicted_use(plan, device),
            reported_bytes=_reported(buffers, device),
            observed_bytes=seen[device].bytes if device in seen else None,
            unreported_bytes=unreported.get(device),
            source=seen[device].source if device in seen else "",
        )
        for device in devices
    )


def learn(
    record: MemoryRecord | None,
    machine: Machine,
    fingerprint: str,
    buffers: Sequence[BufferReport],
    observed: Sequence[ObservedMemory],
) -> MemoryRecord:
    """`record` with what one more load showed; impossible figures are left out.

    Args:
        record: What was learnt before, None for nothing.
        machine: The machine; its devices give names and backends.
        fingerprint: The machine's.
        buffers: What the engine reported after the load.
        observed: What system and driver showed then.
    """
    overheads = {_key(its): its for its in (record.overheads if record else ())}
    for device, size in _unreported(machine, buffers, observed).items():
        if not 0 <= size <= _MOST:
            continue
        name, backend = _kind(machine, device)
        if not name:
            continue
        key = (fingerprint, name, backend)
        before = overheads[key].samples if key in overheads else ()
        overheads[key] = Overhead(machine=fingerprint, device=name, backend=backend, samples=(*before, size)[-_KEPT:])
    return MemoryRecord(overheads=tuple(overheads.values()))


def with_learnt(machine: Machine, fingerprint: str, record: MemoryRecord | None) -> Machine:
    """`machine` with what loads on it showed, in place of what would be assumed."""
    known = {_key(its): its.bytes for its in (record.overheads if record else ()) if its.samples}
    gpus = tuple(
        msgspec.structs.replace(gpu, context_bytes=known.get((fingerprint, gpu.name, gpu.backend), gpu.context_bytes))
        for gpu in machine.gpus
    )
    engine = known.get((fingerprint, *_kind(machine, CPU_LANE)), machine.engine_bytes)
    return msgspec.structs.replace(machine, gpus=gpus, engine_bytes=engine)


def learnt_words(machine: Machine) -> tuple[str, ...]:
    """What was learnt, one sentence each."""
    words = [
        f"{gpu.device}: driver and {gpu.backend} backend take {format_bytes(gpu.context_bytes)} there, as loads showed."
        for gpu in machine.gpus
        if gpu.context_bytes is not None
    ]
    if machine.engine_bytes is not None:
        words.append(f"The engine's own process takes {format_bytes(machine.engine_bytes)} of RAM, as loads showed.")
    return tuple(words)


def _unreported(
    machine: Machine, buffers: Sequence[BufferReport], observed: Sequence[ObservedMemory]
) -> Mapping[str, int]:
    """By device, what is there beside what the engine reports; devices that cannot be judged are left out."""
    gpus = {gpu.device: gpu for gpu in machine.gpus}
    found = {}
    for its in observed:
        if its.device == CPU_LANE:
            size = _engine_process(gpus, buffers, its)
        else:
            size = its.bytes - _reported(buffers, its.device)
        # Nothing of the engine's is there, or less than it allocated: no figure to learn from.
        if size is not None and size >= 0 and (its.device == CPU_LANE or _reported(buffers, its.device)):
            found[its.device] = size
    return found


def _engine_process(gpus: Mapping[str, Gpu], buffers: Sequence[BufferReport], observed: ObservedMemory) -> int | None:
    """The engine's process without model, cache and buffers.

    Buffers that were never written to are not resident, and which experts are copies and which are mapped is
    not known for all: what is left may be too little, but not less than the process had when it was idle.
    """
    if observed.own_bytes is None or observed.idle_bytes is None:
        return None
    software = [device for device, gpu in gpus.items() if gpu.kind is GpuKind.SOFTWARE]
    allocated = sum(_reported(buffers, device) for device in (CPU_LANE, *software))
    return max(observed.own_bytes - allocated, observed.idle_bytes + _VOCABULARY)


def _reported(buffers: Sequence[BufferReport], device: str) -> int:
    return sum(buffer.bytes for buffer in buffers if buffer.device == device and buffer.part != "mapped")


def _kind(machine: Machine, device: str) -> tuple[str, str]:
    """Name and backend that what is learnt of `device` is kept under; empty for a device that is not there."""
    if device == CPU_LANE:
        return CPU_LANE, machine.engine.build if machine.engine else ""
    return next(((gpu.name, gpu.backend) for gpu in machine.gpus if gpu.device == device), ("", ""))


def _key(overhead: Overhead) -> tuple[str, str, str]:
    return overhead.machine, overhead.device, overhead.backend
