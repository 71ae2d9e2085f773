"""Which lanes a machine has and what each is, in words."""

from dataclasses import dataclass

from app.hardware.facts import Gpu, GpuKind, Machine
from app.placement.cards import one_device_a_card, other_offers
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.ui.lanes.words import translate
from app.ui.machine_words import why_no_gpu
from app.ui.words import in_bytes

GPU, CPU, DISK = "gpu", "cpu", "disk"
ABSENT = ""
"""The key of the GPU lane of a machine without a GPU: no plan names it."""


@dataclass(frozen=True)
class LaneInfo:
    """One lane of the dock.

    Attributes:
        key: What a plan calls the lane; ABSENT for the GPU lane of a machine without one.
        kind: GPU, CPU or DISK; chooses the colour.
        title: The header's first line.
        words: What the lane is; empty where the note says it.
        free_bytes: Memory that was free there when the machine was probed; None where memory is
            not what limits the lane, or nobody knows.
        note: Why nothing can be placed here, else empty.
    """

    key: str
    kind: str
    title: str
    words: str
    free_bytes: int | None = None
    note: str = ""


def lanes_of(machine: Machine | None, plan: Plan | None, pool_device: str | None = None) -> tuple[LaneInfo, ...]:
    """The lanes from left to right: every card that a GPU is on, the CPU, the disk.

    A card that several backends offer has one lane: that of the device which the plan or the pool is on, else that of
    the one that plans choose. A GPU that they are on and that the machine no longer has keeps its lane, so that its
    experts are seen and can be moved away.
    """
    found = machine.gpus if machine else ()
    named = dict.fromkeys((*(plan.gpus if plan else ()), *([pool_device] if pool_device else ())))
    gpus = [_gpu_lane(gpu, other_offers(gpu, found)) for gpu in one_device_a_card(found, named)]
    known = {lane.key for lane in gpus}
    gpus += [_missing_gpu_lane(device) for device in named if device not in known]
    return (*(gpus or [_absent_gpu_lane(machine)]), _cpu_lane(machine), _disk_lane(machine))


def _gpu_lane(gpu: Gpu, others: tuple[Gpu, ...]) -> LaneInfo:
    return LaneInfo(
        key=gpu.device,
        kind=GPU,
        title=translate("Lanes", "GPU · {device}").format(device=gpu.device),
        words=" · ".join(filter(None, (gpu.name, _kind_words(gpu), _others_words(others)))),
        free_bytes=gpu.free_bytes,
    )


def _kind_words(gpu: Gpu) -> str:
    size = in_bytes(gpu.total_bytes)
    if gpu.kind is GpuKind.DISCRETE:
        return translate("Lanes", "graphics card with {size} of its own").format(size=size)
    if gpu.kind is GpuKind.INTEGRATED:
        return translate("Lanes", "built into the processor, shares {size} of main memory").format(size=size)
    return translate("Lanes", "software driver: the processor plays the GPU, slowly")


def _others_words(others: tuple[Gpu, ...]) -> str:
    """By which names other backends offer the same card; empty where none does."""
    if not others:
        return ""
    names = translate("Lanes", " or ").join(gpu.device for gpu in others)
    return translate("Lanes", "also offered as {devices}").format(devices=names)


def _missing_gpu_lane(device: str) -> LaneInfo:
    return LaneInfo(
        key=device,
        kind=GPU,
        title=translate("Lanes", "GPU · {device}").format(device=device),
        words=translate("Lanes", "not on this machine"),
        note=translate("Lanes", "The plan names {device}, which the last probe did not find.").format(device=device),
    )


def _absent_gpu_lane(machine: Machine | None) -> LaneInfo:
    return LaneInfo(
        key=ABSENT,
        kind=GPU,
        title=translate("Lanes", "GPU"),
        words="",
        note=why_no_gpu(machine),
    )


def _cpu_lane(machine: Machine | None) -> LaneInfo:
    if machine is None:
        return LaneInfo(key=CPU_LANE, kind=CPU, title=translate("Lanes", "CPU"), words="")
    return LaneInfo(
        key=CPU_LANE,
        kind=CPU,
        title=translate("Lanes", "CPU"),
        words=translate("Lanes", "{name} · {size} of main memory").format(
            name=machine.cpu.name, size=in_bytes(machine.ram.total_bytes)
        ),
        free_bytes=machine.ram.available_bytes,
    )


def _disk_lane(machine: Machine | None) -> LaneInfo:
    words = translate("Lanes", "read from the model file when needed")
    if machine is not None and machine.disk.rotational is not None:
        sort = translate("Lanes", "hard disk") if machine.disk.rotational else translate("Lanes", "solid-state disk")
        words = f"{sort} · {words}"
    return LaneInfo(key=DISK_LANE, kind=DISK, title=translate("Lanes", "Disk"), words=words)
