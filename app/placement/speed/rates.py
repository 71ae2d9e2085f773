"""The rates a prediction of speed is made with: this machine's measured ones where there are any, else assumed."""

import itertools
import math
from collections.abc import Iterable

import msgspec

from app.hardware.facts import Gpu, Machine
from app.model.facts import ModelFacts
from app.model.tensor_types import TENSOR_TYPES
from app.placement.locking import locked_share
from app.placement.memory import asks_for_experts, copies_weights
from app.placement.plan import CPU_LANE, Plan
from app.placement.speed import assumed
from app.placement.speed.calibration import TO_DEVICE, Calibration, ComputeRate, Overlap

CALIBRATED, ASSUMED = "calibrated", "assumed"

# The largest share of the processor's best measured rate that still counts as waiting for memory: a type that
# gets through so many bytes less is held up by its arithmetic.
_MEMORY_BOUND_SHARE = 0.75
# A measured rate is another one in the next run, and in a whole model's graph: at least so far to either side.
_LEAST_DOUBT = 0.08
# A rate that was measured with another type of weights, or with the other layout.
_OTHER_TYPE_DOUBT = 0.15
# Some microseconds that differ by more between repetitions say what other programs did, not what the device does:
# with every core taken, threads that wait for each other took 69 ms instead of 9 µs.
_MOST_COST_SPREAD = 0.8
# Types of weights that are computed alike, by the beginning of their names.
_FAMILIES = ("iq", "mxfp", "nvfp", "tq", "bf", "f")
# Types that ggml has a faster layout for on some processor (ggml-cpu/repack.cpp of ggml 0.25.3); which of them it has
# on this one a calibration shows. Others are computed as they lie in the file, whatever their like do repacked.
_FASTER_LAYOUTS = frozenset({"q1_0", "q2_k", "q4_0", "q4_k", "q5_k", "q6_k", "q8_0", "iq4_nl", "mxfp4"})


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A rate (or cost in seconds) with the bounds it is expected within; `basis` is CALIBRATED or ASSUMED."""

    value: float
    low: float
    high: float
    basis: str


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the speed of one plan depends on.

    Attributes:
        values: By name: "experts CPU" and "dense CPU" and "experts CUDA0" are bytes a second of one token's
            weights, "flops CUDA0" operations a second of large batches, "copy CUDA0" bytes a second of experts that
            the expert device copies there, "pageable copy CUDA0" of those that llama.cpp copies, "disk" bytes a
            second of missing experts, "bringing" those that the processor maps and gives up meanwhile; "layer
            CUDA0", "sync CUDA0" and "token" are seconds.
        overlap: What is left of rates while the pool's device and the processor work at once; None
            without such a device.
        cpu_waits_for_memory: Whether the processor's decoding rate is main memory's, not its arithmetic's.
    """

    values: dict[str, Rate]
    overlap: Overlap | None
    cpu_waits_for_memory: bool


def weight_bytes(type_name: str) -> float:
    """Bytes one weight takes in ggml's type of that name, whatever its case; those of q4_K for an unknown one."""
    found = _TYPES.get(type_name.casefold(), _TYPES["q4_k"])
    return found.block_bytes / found.block_values


_TYPES = {found.name.casefold(): found for found in TENSOR_TYPES.values()}


def rates_for(facts: ModelFacts, machine: Machine, plan: Plan, calibration: Calibration | None) -> Rates:
    """The rates of every device that `plan` uses, for this model's type of weights."""
    rates = calibration.compute if calibration else ()
    cpu = [rate for rate in rates if rate.device == CPU_LANE]
    kind, residency = facts.quantization, _residency(plan, machine)
    disk = _disk(calibration, machine, facts)
    values = {
        "experts CPU": _cpu_bytes(cpu, kind, residency, plan.threads),
        # What is no expert is always in the processor's faster layout, where its type has one.
        "dense CPU": _cpu_bytes(cpu, kind, "repacked", plan.threads),
        "flops CPU": _cpu_flops(cpu, kind, residency, plan, machine),
        "layer CPU": _assumed(assumed.layer_seconds(None, on_cpu=True)),
        "sync CPU": _sync(calibration, CPU_LANE, None),
        "token": _assumed(assumed.token_seconds(facts.vocab_size)),
        "disk": disk if asks_for_experts(plan, machine) else _by_faults(disk),
        "bringing": _assumed(assumed.bringing_bytes()),
    }
    gpus = {gpu.device: gpu for gpu in machine.gpus}
    locked = locked_share(plan, facts, machine)
    for device in dict.fromkeys((*plan.gpus, *((plan.pool_on,) if plan.pool_on else ()))):
        if device != CPU_LANE:
            gpu = gpus.get(device)
            own = [rate for rate in rates if rate.device == device]
            values[f"experts {device}"] = values[f"dense {device}"] = _gpu_bytes(own, kind, gpu, plan)
            values[f"flops {device}"] = _gpu_flops(own, kind, gpu, plan, machine)
            values[f"layer {device}"] = _assumed(assumed.layer_seconds(gpu, on_cpu=False))
            values[f"sync {device}"] = _sync(calibration, device, gpu)
            ordinary = values[f"pageable copy {device}"] = _copy(calibration, device, gpu, pinned=False)
            values[f"copy {device}"] = ordinary
            if locked and device == plan.pool_on:
                values[f"copy {device}"] = _mixed(_copy(calibration, device, gpu, pinned=True), ordinary, locked)
    overlap = _overlap(calibration, plan.pool_on, gpus.get(plan.pool_on)) if plan.pool_on else None
    return Rates(values=values, overlap=overlap, cpu_waits_for_memory=_waits_for_memory(cpu, values["experts CPU"]))


def both_layouts_measured(calibration: Calibration | None, type_name: str) -> bool:
    """Whether decoding and prompts with weights of this type were measured both in the faster layout and without it."""
    kind = type_name.casefold()
    if calibration is None or kind not in _FASTER_LAYOUTS:
        return False
    of_type = [rate for rate in calibration.compute if rate.device == CPU_LANE and rate.type.casefold() == kind]
    found = {(rate.layout, rate.tokens > 1) for rate in of_type}
    return found >= {(layout, many) for layout in ("plain", "repacked") for many in (False, True)}


# ---- the processor -----------------------------------------------------------------------------


def _residency(plan: Plan, machine: Machine) -> str:
    """How CPU-lane experts are really kept.

    Beside a GPU llama.cpp prefers its host buffers to the processor's faster layout, and with them weights stay in
    the file mapping; the expert device lets them stand back.
    """
    return "mapped" if plan.gpus and copies_weights(machine) else plan.residency


def _layout(kind: str, residency: str) -> str:
    return "repacked" if residency == "repacked" and kind.casefold() in _FASTER_LAYOUTS else "plain"


def _cpu_bytes(rates: list[ComputeRate], kind: str, residency: str, threads: int) -> Rate:
    layout = _layout(kind, residency)
    measured = [rate for rate in rates if rate.tokens == min(rate.tokens for rate in rates)]
    chosen, doubt = _of_type(measured, kind, layout)
    if not chosen:
        return _assumed(assumed.cpu_bytes(threads, kind, mapped=layout == "plain"))
    value = _at_threads([(rate.threads, rate.bytes_per_second) for rate in chosen], threads)
    return _measured(value, _spread_near(chosen, threads), doubt)


def _cpu_flops(rates: list[ComputeRate], kind: str, residency: str, plan: Plan, machine: Machine) -> Rate:
    layout = _layout(kind, residency)
    chosen, doubt = _of_type([rate for rate in rates if rate.tokens > 1], kind, layout)
    chosen = _batches(chosen, plan.n_ubatch)  # how long a batch is measured in the time there is differs by type
    if not chosen:
        return _assumed(assumed.cpu_flops(machine.cpu, plan.threads_batch, kind, mapped=layout == "plain"))
    value = _at_threads([(rate.threads, rate.flops_per_second) for rate in chosen], plan.threads_batch)
    return _measured(value, _spread_near(chosen, plan.threads_batch), doubt)


def _spread_near(rates: list[ComputeRate], threads: int) -> float:
    """The spread at the measured thread count nearest to `threads`."""
    return min(rates, key=lambda rate: (abs(rate.threads - threads), rate.threads)).spread


def _at_threads(points: Iterable[tuple[int, float]], threads: int) -> float:
    """The rate with so many threads: on the line between measured counts, from 0 up to the first, level after."""
    known = sorted({0: 0.0, **dict(points)}.items())
    threads = max(threads, 1)
    for (left, below), (right, above) in itertools.pairwise(known):
        if threads <= right:
            return below + (above - below) * (threads - left) / (right - left)
    return known[-1][1]


def _waits_for_memory(rates: list[ComputeRate], rate: Rate) -> bool:
    """Of measured rates, the largest of any type and thread count is taken for what main memory gives."""
    if rate.basis == ASSUMED:
        return rate.value >= assumed.RAM_BYTES
    return rate.value >= _MEMORY_BOUND_SHARE * max(found.bytes_per_second for found in rates)


# ---- GPUs, copies, disk ------------------------------------------------------------------------


def _gpu_bytes(rates: list[ComputeRate], kind: str, gpu: Gpu | None, plan: Plan) -> Rate:
    chosen, doubt = _of_type([rate for rate in rates if rate.tokens == min(r.tokens for r in rates)], kind, "plain")
    if not chosen:
        return _assumed(assumed.gpu_bytes(gpu, plan.threads))
    return _measured(chosen[0].bytes_per_second, chosen[0].spread, doubt)


def _gpu_flops(rates: list[ComputeRate], kind: str, gpu: Gpu | None, plan: Plan, machine: Machine) -> Rate:
    chosen, doubt = _of_type([rate for rate in rates if rate.tokens > 1], kind, "plain")
    chosen = _batches(chosen, plan.n_ubatch)
    if not chosen:
        return _assumed(assumed.gpu_flops(gpu, machine.cpu, plan.threads_batch))
    return _measured(chosen[0].flops_per_second, chosen[0].spread, doubt)


def _sync(calibration: Calibration | None, device: str, gpu: Gpu | None) -> Rate:
    for cost in calibration.layer_costs if calibration else ():
        if cost.device == device and cost.spread <= _MOST_COST_SPREAD:
            return _measured(cost.seconds, cost.spread, _OTHER_TYPE_DOUBT)
    return _assumed(assumed.sync_seconds(gpu, on_cpu=device == CPU_LANE))


def _copy(calibration: Calibration | None, device: str, gpu: Gpu | None, *, pinned: bool) -> Rate:
    copies = calibration.copies if calibration else ()
    to_device = [copy for copy in copies if copy.device == device and copy.direction == TO_DEVICE]
    to_device.sort(key=lambda copy: copy.pinned is not pinned)
    if not to_device:
        return _assumed(assumed.copy_bytes(gpu, pinned=pinned))
    best = to_device[0]
    return _measured(best.bytes_per_second, best.spread, 0.0 if best.pinned is pinned else 2 * _OTHER_TYPE_DOUBT)


def _mixed(locked: Rate, ordinary: Rate, share: float) -> Rate:
    """The rate of bytes of which `share` are in page-locked memory."""

    def mixed(one: float, other: float) -> float:
        return 1 / (share / one + (1 - share) / other)

    return Rate(
        value=mixed(locked.value, ordinary.value),
        low=mixed(locked.low, ordinary.low),
        high=mixed(locked.high, ordinary.high),
        basis=CALIBRATED if CALIBRATED in (locked.basis, ordinary.basis) else ASSUMED,
    )


def _disk(calibration: Calibration | None, machine: Machine, facts: ModelFacts) -> Rate:
    """Reads of about a third of an expert (gate, up or down), as many at once as was fastest."""
    disk = calibration.disk if calibration else ()
    if not disk and machine.disk.read_bytes_per_second:
        return _measured(machine.disk.read_bytes_per_second, 0.0, 2 * _OTHER_TYPE_DOUBT)
    if not disk:
        return _assumed(assumed.disk_bytes(machine.disk))
    slice_bytes = max(min(facts.expert_bytes.values(), default=0) // 3, 1)
    best = min(disk, key=lambda rate: (abs(math.log(rate.slice_bytes / slice_bytes)), -rate.bytes_per_second))
    return _measured(best.bytes_per_second, best.spread, _OTHER_TYPE_DOUBT)


def _by_faults(disk: Rate) -> Rate:
    """The rate of experts that are read page by page, as they are touched."""
    least, likely, most = assumed.fault_shares()
    return Rate(value=disk.value * likely, low=disk.low * least, high=disk.high * most, basis=ASSUMED)


def _overlap(calibration: Calibration | None, device: str, gpu: Gpu | None) -> Overlap:
    typical = assumed.overlap(device, gpu)
    for found in calibration.overlaps if calibration else ():
        if found.device == device:
            return Overlap(
                device=device,
                cpu_share=_share(found.cpu_share, typical.cpu_share),
                device_share=_share(found.device_share, typical.device_share),
                copy_share=_share(found.copy_share, typical.copy_share),
            )
    return typical


def _share(measured: float | None, typical: float | None) -> float:
    share = typical if measured is None else measured
    return min(max(share or 0.0, 0.05), 1.0)


# ---- choosing among measured rates -------------------------------------------------------------


def _batches(rates: list[ComputeRate], n_ubatch: int) -> list[ComputeRate]:
    """The rates of the batch nearest to `n_ubatch` tokens; none where only single tokens were measured."""
    sizes = {rate.tokens for rate in rates if rate.tokens > 1}
    if not sizes:
        return []
    nearest = min(sizes, key=lambda tokens: (abs(math.log(tokens / max(n_ubatch, 1))), tokens))
    return [rate for rate in rates if rate.tokens == nearest]


def _of_type(rates: list[ComputeRate], kind: str, layout: str) -> tuple[list[ComputeRate], float]:
    """The rates of the measured type nearest to `kind`, and how much doubt the difference adds.

    A type computed alike comes before one of the same size; the other layout is taken where the type
    was not measured, or does not exist, in this one.
    """
    if not rates:
        return [], 0.0
    kind = kind.casefold()
    types = sorted({rate.type.casefold() for rate in rates})
    nearest = min(types, key=lambda name: (name != kind, _family(name) != _family(kind), _distance(name, kind)))
    chosen = [rate for rate in rates if rate.type.casefold() == nearest]
    fitting = [rate for rate in chosen if rate.layout == layout] or chosen
    # q4_K and its like have no faster layout on some processors: then the plain one is the real one.
    other_layout = layout == "plain" and fitting[0].layout != "plain"
    return fitting, (nearest != kind) * _OTHER_TYPE_DOUBT + other_layout * _OTHER_TYPE_DOUBT


def _family(name: str) -> str:
    if "_k" in name:
        return "k"
    return next((family for family in _FAMILIES if name.startswith(family)), "q")


def _distance(name: str, kind: str) -> float:
    return abs(math.log(weight_bytes(name) / weight_bytes(kind)))


def _assumed(value: float) -> Rate:
    return Rate(value=value, low=value * assumed.LEAST, high=value * assumed.MOST, basis=ASSUMED)


def _measured(value: float, spread: float, doubt: float) -> Rate:
    """A measured value; no rate is 0, for times are divided by them."""
    value = max(value, 1e-9)
    side = min(max(spread / 2, _LEAST_DOUBT) + doubt, 0.6)
    return Rate(value=value, low=value * (1 - side), high=value * (1 + side), basis=CALIBRATED)
