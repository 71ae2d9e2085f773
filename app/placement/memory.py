"""The memory model: what a plan is predicted to take on each device, part by part, and whether that fits."""

from collections.abc import Iterable, Sequence

import msgspec

from app.hardware.facts import Gpu, GpuKind, Machine
from app.model.facts import ModelFacts
from app.placement.active_experts import facts_with
from app.placement.compute import compute_bytes
from app.placement.kv_cache import kv_bytes
from app.placement.plan import CPU_LANE, DISK_LANE, MemoryPart, Plan
from app.placement.report import BufferReport
from app.units import format_bytes

_MIB = 1024**2

# What driver and backend take on a GPU before anything is loaded. CUDA: users report 300 to 500 MB.
# Vulkan: an assumption; no kernels and no BLAS workspace are kept there, the backend's staging and
# conversion buffers are. Backends not named are taken to need what CUDA does.
_DRIVER_CONTEXT = {"CUDA": 400 * _MIB, "Vulkan": 256 * _MIB}
_OTHER_DRIVER_CONTEXT = 400 * _MIB

# Without a model the engine's process has 100 MiB of its own (measured on Linux: unique set size after
# listing the devices); the rest is for vocabulary and chat template.
_ENGINE_PROCESS = 160 * _MIB

# What is left free, as a share of all memory between two bounds: other programs and the desktop take
# memory while a model is loaded, and these predictions err. Users of 8 to 24 GB cards leave 0.5 to 1.2 GB.
_GPU_MARGIN = (0.06, 256 * _MIB, 1024 * _MIB)
_RAM_MARGIN = (0.05, 256 * _MIB, 2048 * _MIB)


# What bounds the expert device's working memory: `pool.h` and `pool.cpp` of `app/engine/native`.
_MOST_PAIRS, _LEAST_PAIRS, _MOST_WORKING = 1024, 64, 64 * _MIB
_VALUE_BYTES = 4

_BASES = {
    "weights": "tables",
    "experts": "tables",
    "kv": "tables",
    "compute": "estimated",
    "pool": "set",
    "staging": "set",
    "context": "estimated",
    "margin": "set",
}
"""What a part's size comes from where nothing better is known."""


class Shortfall(msgspec.Struct, frozen=True, kw_only=True):
    """A device on which a plan is predicted not to fit.

    Attributes:
        device: A GPU's engine name, or "CPU" for main memory.
        needed_bytes: Predicted bytes, margin included.
        free_bytes: What is free there; 0 for a GPU that this machine does not have.
    """

    device: str
    needed_bytes: int
    free_bytes: int

    @property
    def lacking_bytes(self) -> int:
        """How much too little is free."""
        return self.needed_bytes - self.free_bytes

    @property
    def sentence(self) -> str:
        """The shortfall with its figures."""
        needed, free = format_bytes(self.needed_bytes), format_bytes(self.free_bytes)
        if self.device == CPU_LANE:
            return f"Main memory would need {needed} (predicted); {free} is available."
        return f"{self.device} would need {needed} (predicted); {free} is free."


def predict(
    facts: ModelFacts, machine: Machine, plan: Plan, dry_run: Sequence[BufferReport] = ()
) -> tuple[MemoryPart, ...]:
    """The memory `plan` is predicted to take, GPUs first; parts of no bytes are left out.

    Weights, experts and KV cache follow from the model's tables; compute buffers are estimates unless there
    is a dry run, driver context and engine process unless loads before have shown them. Layers in the disk
    lane take no memory: the system keeps what happens to fit. With a budget of mapped experts (`keeps_budget`)
    those off the GPUs take that.

    Args:
        facts: The model.
        machine: Where it is to be loaded.
        plan: The plan.
        dry_run: What llama.cpp said that it would allocate for this very plan; empty where it was not asked.
    """
    facts = facts_with(facts, plan.experts_used)
    gpus = {gpu.device: gpu for gpu in machine.gpus}
    compute = compute_bytes(facts, plan, copies_weights=copies_weights(machine))
    parts: list[MemoryPart] = []
    for device in _devices(plan):
        on_cpu = device == CPU_LANE
        attends = device == (plan.gpu or CPU_LANE)
        sizes = {
            "weights": _weight_bytes(facts, plan, device),
            "experts": _held_experts(facts, plan, device),
            "kv": kv_bytes(facts, plan.n_ctx, plan.n_ubatch, plan.kv_type, plan.n_seq_max) if attends else 0,
            "compute": compute.get(device, 0),  # none on a GPU that only holds the pool
            "pool": plan.pool_bytes if device == plan.pool_on else 0,
            "staging": plan.staging_bytes + working_bytes(facts) if device == plan.pool_on else 0,
            "context": _engine_process(machine) if on_cpu else _driver_context(gpus.get(device)),
            "margin": _share(machine.ram.total_bytes, *_RAM_MARGIN) if on_cpu else _gpu_margin(gpus.get(device)),
        }
        laid_out = _laid_out(dry_run, device)
        bases = _BASES | dict.fromkeys(laid_out, "dry run")
        if on_cpu and keeps_budget(plan):
            bases["experts"] = "set"
        if (machine.engine_bytes if on_cpu else _seen_context(gpus.get(device))) is not None:
            bases["context"] = "learnt"
        parts += [
            MemoryPart(device=device, part=part, bytes=size, basis=bases[part])
            for part, size in (sizes | laid_out).items()
            if size
        ]
    return tuple(parts)


def _laid_out(dry_run: Sequence[BufferReport], device: str) -> dict[str, int]:
    """What a dry run knows better: all that is llama.cpp's own but the experts, whose lanes are the plan's."""
    if not dry_run:
        return {}
    sizes = dict.fromkeys(("weights", "kv", "compute"), 0)
    for buffer in dry_run:
        part = "compute" if buffer.part == "output" else buffer.part  # the logits handed out
        if buffer.device == device and part in sizes:
            sizes[part] += buffer.bytes
    return sizes


def expert_bytes(facts: ModelFacts, layers: Iterable[int]) -> int:
    """Bytes of all experts of `layers`."""
    return sum(facts.expert_bytes[layer] for layer in layers) * facts.expert_count


def keeps_budget(plan: Plan) -> bool:
    """Whether the plan itself says how much of the mapped experts main memory keeps."""
    return plan.residency == "mapped" and bool(plan.resident_bytes)


def asks_for_experts(plan: Plan, machine: Machine) -> bool:
    """Whether the expert device, not the system, keeps the mapped experts in main memory and reads missing ones."""
    return plan.residency == "mapped" and plan.resident_bytes != 0 and not copies_weights(machine)


def bytes_off_gpus(facts: ModelFacts, plan: Plan) -> int:
    """Bytes of the experts of all layers that are not whole on a GPU."""
    off = (layer for layer, lane in plan.expert_lanes.items() if lane in (CPU_LANE, DISK_LANE))
    return expert_bytes(facts, (layer for layer in off if layer in facts.expert_bytes))


def _held_experts(facts: ModelFacts, plan: Plan, device: str) -> int:
    """Bytes of experts that `device` holds whole layers of, main memory up to the plan's budget."""
    if device == CPU_LANE and keeps_budget(plan):
        return min(plan.resident_bytes or 0, bytes_off_gpus(facts, plan))
    return expert_bytes(facts, (layer for layer, lane in plan.expert_lanes.items() if lane == device))


def working_bytes(facts: ModelFacts) -> int:
    """Bytes that the expert device computes experts of a pool or staging area in, beside what llama.cpp has for that.

    They hold the largest part of a batch that it sends at once: of one layer, `_MOST_PAIRS` (token, expert) pairs or
    fewer. Its chain is laid out by ggml's allocator, which puts a result into the first gap that is large enough: once
    with an input row for each pair, once with one for each token.
    """
    row, inner = (_VALUE_BYTES * width for width in (facts.embedding_length, facts.expert_feed_forward_length))
    of_a_pair = 3 * inner + 3 * row + _VALUE_BYTES  # up, gate, their product; input, down, weighted; the weight
    pairs = min(max(_MOST_WORKING // of_a_pair, _LEAST_PAIRS), _MOST_PAIRS)

    def most_at_once(given: int) -> int:
        if given >= inner:  # their product takes the input's place
            return given + max(2 * inner, row)
        return given + 3 * inner + (row if row > given + 2 * inner else 0)

    return pairs * (max(most_at_once(row), most_at_once(row // max(facts.experts_used, 1))) + 2 * _VALUE_BYTES)


def predicted_use(plan: Plan, device: str) -> int:
    """Predicted bytes on `device` without the margin, which is left free: comparable with a measurement."""
    return sum(part.bytes for part in plan.memory if part.device == device and part.part != "margin")


def fits(plan: Plan, machine: Machine) -> tuple[Shortfall, ...]:
    """Where `plan.memory` exceeds what `machine` has free, GPUs first; empty when all fits."""
    free = {gpu.device: gpu.free_bytes for gpu in machine.gpus} | {CPU_LANE: machine.ram.available_bytes}
    shortfalls = (
        Shortfall(device=device, needed_bytes=needed_bytes(plan, machine, device), free_bytes=free.get(device, 0))
        for device in _devices(plan)
    )
    return tuple(shortfall for shortfall in shortfalls if shortfall.lacking_bytes > 0)


def spare_bytes(plan: Plan, machine: Machine, device: str) -> int:
    """What `plan.memory` leaves free of `device`; negative where it does not fit.

    For a GPU whose memory is main memory it is the lesser of what its driver and main memory leave.
    """
    if device == CPU_LANE:
        return machine.ram.available_bytes - needed_bytes(plan, machine, CPU_LANE)
    gpu = next((gpu for gpu in machine.gpus if gpu.device == device), None)
    spare = (gpu.free_bytes if gpu else 0) - needed_bytes(plan, machine, device)
    return min(spare, spare_bytes(plan, machine, CPU_LANE)) if gpu and uses_main_memory(gpu) else spare


def needed_bytes(plan: Plan, machine: Machine, device: str) -> int:
    """Predicted bytes that must be free on `device`, margin included.

    Main memory must also hold what lies on GPUs that have no memory of their own.
    """
    needed = plan.bytes_on(device)
    if device == CPU_LANE:
        used = _devices(plan)
        needed += sum(
            predicted_use(plan, gpu.device) for gpu in machine.gpus if gpu.device in used and uses_main_memory(gpu)
        )
    return needed


def uses_main_memory(gpu: Gpu) -> bool:
    """Whether what the GPU calls its memory is main memory."""
    return gpu.kind in (GpuKind.INTEGRATED, GpuKind.SOFTWARE)


def _devices(plan: Plan) -> tuple[str, ...]:
    """Every device whose memory the plan takes: its GPUs, that of the pool, main memory last."""
    pool = (plan.pool_on,) if plan.pool_on not in (None, CPU_LANE, *plan.gpus) else ()
    return (*plan.gpus, *pool, CPU_LANE)


def _weight_bytes(facts: ModelFacts, plan: Plan, device: str) -> int:
    """Bytes of what is not a routed expert.

    llama.cpp leaves the token embeddings on the CPU whatever is offloaded. Where they are the output
    matrix too, the GPU gets a copy; of embeddings per layer, which the facts do not tell apart, too much
    is counted then.
    """
    sizes = facts.bytes
    layers = sum(facts.layer_bytes)
    # Tensors outside the layers that are neither embeddings nor output, as far as they can be told
    # from draft layers, which are not loaded.
    outside = 0 if facts.draft_layers else sizes.total - sizes.experts - layers - sizes.embeddings - sizes.output
    computed = layers + sizes.output + max(outside, 0)
    if device == CPU_LANE:
        return sizes.embeddings + (0 if plan.gpu else computed)
    if device == plan.gpu:
        return computed + (sizes.embeddings if facts.output_tied else 0)
    return 0


def copies_weights(machine: Machine) -> bool:
    """Whether llama.cpp itself copies CPU-lane experts to the GPU for large batches: without the expert device."""
    return machine.engine is None or not machine.engine.expert_device


def _engine_process(machine: Machine) -> int:
    return _ENGINE_PROCESS if machine.engine_bytes is None else machine.engine_bytes


def _seen_context(gpu: Gpu | None) -> int | None:
    return gpu.context_bytes if gpu is not None else None


def _driver_context(gpu: Gpu | None) -> int:
    if gpu is None:
        return _OTHER_DRIVER_CONTEXT
    if gpu.context_bytes is not None:
        return gpu.context_bytes
    # A software driver's context is memory of the engine's process.
    return 0 if gpu.kind is GpuKind.SOFTWARE else _DRIVER_CONTEXT.get(gpu.backend, _OTHER_DRIVER_CONTEXT)


def _gpu_margin(gpu: Gpu | None) -> int:
    if gpu is not None and gpu.kind is GpuKind.SOFTWARE:
        return 0  # main memory has a margin already
    return _share(gpu.total_bytes if gpu else 0, *_GPU_MARGIN)


def _share(total: int, share: float, least: int, most: int) -> int:
    return min(max(round(total * share), least), most)
