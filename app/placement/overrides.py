"""A plan as llama.cpp's load arguments: devices, layers on the GPU, and where expert tensors go instead."""

from dataclasses import dataclass

from app.errors import AppError, ErrorCode
from app.placement.plan import CPU_LANE, DISK_LANE, Plan

ALL_LAYERS = -1
"""llama.cpp's `n_gpu_layers` for every layer and the output."""

# Weights, biases and scales of routed experts, in one tensor or fused or in chunks; not those of shared
# experts (`_shexp`).
_EXPERT_TENSORS = r"ffn_(up|down|gate|gate_up)_(ch|)exps\."


@dataclass(frozen=True)
class LoadArguments:
    """What llama.cpp is told.

    Attributes:
        devices: Engine names of the GPUs to use, the attention's first, that of the pool among them;
            empty for the CPU alone.
        n_gpu_layers: Layers on the first of them; ALL_LAYERS or 0.
        overrides: Pairs of a regular expression over tensor names and the lane whose buffers those
            tensors get: "CPU" or a GPU's engine name.
    """

    devices: tuple[str, ...]
    n_gpu_layers: int
    overrides: tuple[tuple[str, str], ...]


def load_arguments(plan: Plan) -> LoadArguments:
    """Map `plan` to llama.cpp's arguments.

    With a GPU everything goes there by default, so that an override is needed for each other lane. The
    disk lane is the CPU's: both are read through the file mapping. The CPU's lane is named even where
    nothing else is used: llama.cpp then logs for each of its tensors which kind of buffer it got.

    Raises:
        AppError: bad_usage, experts or their pool are on a GPU and attention is not.
    """
    pool_gpu = plan.pool_on if plan.pool_on != CPU_LANE else None
    devices = tuple(dict.fromkeys((*plan.gpus, *((pool_gpu,) if pool_gpu else ()))))
    if plan.gpu is None and devices:
        what = "experts" if plan.gpus else "a pool"
        raise AppError(ErrorCode.BAD_USAGE, f"The plan has {what} on {devices[0]} but its attention on the CPU.")
    layers: dict[str, list[int]] = {}
    for layer, lane in sorted(plan.expert_lanes.items()):
        if lane != plan.gpu:
            layers.setdefault(CPU_LANE if lane == DISK_LANE else lane, []).append(layer)
    return LoadArguments(
        devices=devices,
        n_gpu_layers=ALL_LAYERS if devices else 0,
        overrides=tuple((expert_pattern(its), lane) for lane, its in layers.items()),
    )


def expert_pattern(layers: list[int]) -> str:
    """A regular expression for the expert tensors of exactly these layers, in std::regex's and Python's form."""
    return rf"^blk\.({'|'.join(map(str, layers))})\.{_EXPERT_TENSORS}"
