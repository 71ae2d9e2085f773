"""What a GPU's memory is divided into: the engine's buffers as it reports them, and what is measured beside them.

No Qt and nothing drawn: figures in, figures out.
"""

from collections.abc import Mapping

from app.engine.protocol import Loaded
from app.hardware.samples import GpuSample
from app.model.facts import ModelFacts
from app.placement.cache.facts import PoolFacts
from app.placement.memory import predicted_use
from app.placement.plan import Plan

GIB = 1024**3
PARTS = ("weights", "experts", "kv", "compute", "pool", "staging")
"""What the engine reports, from the bottom of a graph to its top."""
DRIVER, OTHERS, REST, SPILL, BUDGET = "driver", "others", "rest", "spill", "budget"
BANDS = (*PARTS, DRIVER, OTHERS, REST, SPILL)
_NAMES = {"output": "compute"}
_NO_MEMORY = ("mapped", "repacked")


def figure_key(device: str, part: str) -> str:
    """The name of a figure of a GPU in the history."""
    return f"gpu.{device}.{part}"


def reported_parts(
    device: str, loaded: Loaded | None, model: ModelFacts | None, pool: PoolFacts | None
) -> dict[str, int]:
    """Bytes of each part that the engine allocated on `device`; parts it has none of are absent.

    llama.cpp reports a GPU's experts with its other weights: how much of that is experts is counted from the model's
    own tables. The pool's sizes are those of now, not those of the load.
    """
    found: dict[str, int] = {}
    for buffer in loaded.buffers if loaded else ():
        if buffer.device == device and buffer.part not in _NO_MEMORY:
            part = _NAMES.get(buffer.part, buffer.part)
            found[part] = found.get(part, 0) + buffer.bytes
    if loaded and model and "experts" not in found:
        layers = [layer for layer, lane in loaded.expert_layers.items() if lane == device]
        experts = sum(model.expert_bytes.get(layer, 0) for layer in layers) * model.expert_count
        experts = min(experts, found.get("weights", 0))
        if experts:
            found["experts"] = experts
            found["weights"] -= experts
    if pool is not None and pool.device == device:
        found["pool"], found["staging"] = pool.allocated_bytes, pool.staging_bytes + pool.working_bytes
    return {part: size for part, size in found.items() if size}


def gpu_figures(
    device: str, parts: Mapping[str, int], sample: GpuSample | None, plan: Plan | None
) -> dict[str, float | None]:
    """One row of a GPU's figures, in GiB, for the bands of its graph.

    Args:
        device: The engine's name for it.
        parts: From `reported_parts`.
        sample: What is measured of it now; None where nothing is.
        plan: The loaded plan, whose prediction is the budget.
    """
    reported = sum(parts.values())
    measured: dict[str, int | None] = {}
    if sample is not None and sample.used_bytes is not None:
        if sample.process_bytes is not None:
            measured[DRIVER] = max(0, sample.process_bytes - reported)
            measured[OTHERS] = max(0, sample.used_bytes - max(sample.process_bytes, reported))
        else:
            measured[REST] = max(0, sample.used_bytes - reported)
    if sample is not None:
        measured[SPILL] = sample.shared_bytes
    if plan is not None and device in (*plan.gpus, plan.pool_on):
        measured[BUDGET] = predicted_use(plan, device)
    return {
        figure_key(device, part): None if size is None else size / GIB for part, size in {**parts, **measured}.items()
    }
