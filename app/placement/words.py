"""A plan in words."""

from collections.abc import Iterable

from app.model.facts import ModelFacts
from app.placement.memory import expert_bytes, predicted_use
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.units import format_bytes


def describe_plan(plan: Plan, facts: ModelFacts) -> str:
    """The plan in one line, its figures without the margins that are left free.

    Example: "Experts of 18 of 48 layers on the GPU, 30 on the CPU, a pool of 2.0 GiB for single experts on
    the GPU; context 8,192 tokens; predicted 6.2 GiB on CUDA0, 11.4 GiB of RAM".
    """
    context = f"context {plan.n_ctx:,} tokens"
    if plan.kv_type != "f16":
        context += f", {plan.kv_type} KV cache"
    return f"{_placement(plan, facts)}; {context}; predicted {_memory(plan)}"


def describe_lanes(plan: Plan, facts: ModelFacts) -> tuple[str, ...]:
    """One line for each lane that holds experts, GPUs first, and one for the pool.

    Example: "CUDA0: experts of 18 layers (0–17), 6.4 GiB", "CUDA0: pool for single experts, 2.0 GiB".
    """
    lines = []
    for lane in (*plan.gpus, CPU_LANE, DISK_LANE):
        layers = _layers_in(plan, lane)
        if layers:
            size = format_bytes(expert_bytes(facts, layers))
            lines.append(f"{lane}: experts of {_count(len(layers))} ({layer_runs(layers)}), {size}")
    if plan.pool_on and plan.pool_bytes:
        lines.append(f"{plan.pool_on}: pool for single experts, {format_bytes(plan.pool_bytes)}")
    return tuple(lines)


def layer_runs(layers: Iterable[int]) -> str:
    """Layer numbers with neighbours joined: "0–17, 20"."""
    runs: list[list[int]] = []
    for layer in sorted(layers):
        if runs and layer == runs[-1][1] + 1:
            runs[-1][1] = layer
        else:
            runs.append([layer, layer])
    return ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in runs)


def named_layers(layers: Iterable[int]) -> str:
    """Layers inside a sentence: "layer 6", "layers 0–17, 20"."""
    runs = layer_runs(layers)
    return f"layer {runs}" if runs.isdigit() else f"layers {runs}"


def _placement(plan: Plan, facts: ModelFacts) -> str:
    if not facts.moe_layers:
        return f"No experts to place: the whole model on {_place(plan, plan.gpu or CPU_LANE)}"
    counts = {lane: len(_layers_in(plan, lane)) for lane in (*plan.gpus, CPU_LANE, DISK_LANE)}
    held = [lane for lane, count in counts.items() if count]
    total = len(facts.moe_layers)
    first = held[0]
    if counts[first] == total:
        text = f"Experts of {'all ' if total > 1 else ''}{_count(total)} {_on(plan, first)}"
    else:
        text = f"Experts of {counts[first]} of {_count(total)} {_on(plan, first)}"
    text += "".join(f", {counts[lane]} {_on(plan, lane)}" for lane in held[1:])
    if plan.gpu and not counts[plan.gpu]:
        text += f", attention on {_place(plan, plan.gpu)}"
    if plan.pool_on and plan.pool_bytes:
        text += f", a pool of {format_bytes(plan.pool_bytes)} for single experts on {_place(plan, plan.pool_on)}"
    return text


def _on(plan: Plan, lane: str) -> str:
    return "read from disk" if lane == DISK_LANE else f"on {_place(plan, lane)}"


def _place(plan: Plan, lane: str) -> str:
    if lane == CPU_LANE:
        return "the CPU"
    return "the GPU" if len(plan.gpus) == 1 else lane


def _count(layers: int) -> str:
    return "1 layer" if layers == 1 else f"{layers} layers"


def _memory(plan: Plan) -> str:
    ram = f"{format_bytes(predicted_use(plan, CPU_LANE))} of RAM"
    return ", ".join([*(f"{format_bytes(predicted_use(plan, gpu))} on {gpu}" for gpu in plan.gpus), ram])


def _layers_in(plan: Plan, lane: str) -> list[int]:
    return [layer for layer, its in plan.expert_lanes.items() if its == lane]
