"""A plan in words."""

from collections.abc import Iterable

from app.model.facts import ModelFacts
from app.placement.active_experts import active_words
from app.placement.memory import expert_bytes, predicted_use
from app.placement.memory_share import ENGINE, MemoryShare, memory_share
from app.placement.placing import STEP_DOES_NOT_FIT
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.units import format_bytes

_FEW = 0.1
"""Experts a token: of fewer than one in ten tokens no number is told."""

_BASIS = {
    "measured": "predicted from this model's measured answers",
    "calibrated": "predicted from this machine's measured rates",
    "assumed": "predicted from typical rates of such hardware",
}


BASIS_WORDS = {
    "estimated": "estimated",
    "tables": "from the model's tables",
    "set": "chosen",
    "dry run": "from llama.cpp's dry run",
    "learnt": "as loads before showed",
}
"""What a predicted size comes from."""


def describe_plan(plan: Plan, facts: ModelFacts) -> str:
    """The plan in one line, its figures without the margins that are left free.

    Example: "4 of 10 experts are on the GPU; expect 18–22 tokens/s (predicted from this machine's measured
    rates). Experts of 18 of 48 layers on the GPU, 30 on the CPU; context 8,192 tokens; predicted 6.2 GiB on
    CUDA0, 11.4 GiB of RAM". One that uses another number of experts says that it
    changes answers. A plan that tuning kept ends with what it gained.
    """
    context = f"context {plan.n_ctx:,} tokens"
    if plan.kv_type != "f16":
        context += f", {plan.kv_type} KV cache"
    if active := active_words(facts, plan.experts_used):
        context += f"; {active}"
    headline = describe_gain(plan, facts)
    tuned = f"; {plan.tuned}" if plan.tuned else ""
    return f"{headline}{' ' if headline else ''}{_placement(plan, facts)}; {context}; predicted {_memory(plan)}{tuned}"


def describe_gain(plan: Plan, facts: ModelFacts) -> str:
    """What share of the experts is on GPUs and stays in main memory, and the speed to expect; empty for none of them.

    Example: "3 of 10 experts are on the GPU; 18.0 of 24.0 GiB of experts stay in memory, and about 1.2 others a token
    are read from the disk (predicted); expect 18–22 tokens/s (predicted from typical rates of such hardware)."
    """
    told = (_share_on_gpus(plan, facts), memory_words(plan, facts), _expected_speed(plan))
    said = [words for words in told if words]
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def memory_words(plan: Plan, facts: ModelFacts) -> str:
    """How much of the experts off the GPUs stays in main memory, and who chooses; empty where that is all of them.

    Examples: "18.0 of 24.0 GiB of experts stay in memory, and about 1.2 others a token are read from the disk
    (predicted)"; "the system decides which experts stay in memory, which has room for about 18.0 of 24.0 GiB, and ...".
    """
    share = memory_share(plan, facts)
    if share is None:
        return ""
    which = " off the GPUs" if any(lane not in (CPU_LANE, DISK_LANE) for lane in plan.expert_lanes.values()) else ""
    part = _part_of(share.kept_bytes, share.total_bytes)
    if share.decides == ENGINE:
        text = f"{part} of experts{which} stay in memory"
    elif share.kept_bytes:
        text = f"the system decides which experts{which} stay in memory, which has room for about {part}"
    else:
        size = format_bytes(share.total_bytes)
        text = f"the system decides which experts{which} stay in memory, which has no room for a layer of their {size}"
    if plan.speed is None:
        predicted = "" if share.decides == ENGINE else " (predicted)"
        return f"{text}{predicted}, and the others are read from the disk"
    if plan.speed.cold_experts < _FEW:
        return f"{text}, and hardly any others are read from the disk (predicted)"
    return f"{text}, and about {_rate(plan.speed.cold_experts)} others a token are read from the disk (predicted)"


def _part_of(part: int, whole: int) -> str:
    """Two sizes, the unit once where it is the same: "18.0 of 24.0 GiB"."""
    less, unit = format_bytes(part).split()
    more = format_bytes(whole)
    return f"{less} of {more}" if more.endswith(f" {unit}") else f"{less} {unit} of {more}"


def experts_on_gpus(plan: Plan, facts: ModelFacts) -> float:
    """Share of all expert bytes, from 0 to 1, that whole layers and the pool hold on GPUs."""
    everything = expert_bytes(facts, facts.moe_layers)
    if not everything:
        return 0.0
    layers = [layer for layer, lane in plan.expert_lanes.items() if lane not in (CPU_LANE, DISK_LANE)]
    pool = 0 if plan.pool_on == CPU_LANE else plan.pool_bytes
    return min((expert_bytes(facts, layers) + pool) / everything, 1.0)


def describe_lanes(plan: Plan, facts: ModelFacts) -> tuple[str, ...]:
    """One line for each lane that holds experts, GPUs first, one for the pool, one for page-locked memory.

    Example: "CUDA0: experts of 18 layers (0–17), 6.4 GiB", "CUDA0: pool for single experts, 2.0 GiB". Main memory and
    disk share a line where main memory has no room for all of theirs: which experts are where follows from use.
    """
    lines = []
    share = memory_share(plan, facts)
    for lane in (*plan.gpus, CPU_LANE):
        layers = _layers_in(plan, lane)
        if layers:
            size = format_bytes(expert_bytes(facts, layers))
            if lane == CPU_LANE and share is not None:
                size += _shared_words(share)
            lines.append(f"{lane}: experts of {_count(len(layers))} ({layer_runs(layers)}), {size}")
    if plan.pool_on and plan.pool_bytes:
        lines.append(f"{plan.pool_on}: pool for single experts, {format_bytes(plan.pool_bytes)}")
    if plan.policy.lock_bytes and plan.pool_on not in (None, CPU_LANE):
        lines.append(f"{CPU_LANE}: {format_bytes(plan.policy.lock_bytes)} page-locked for copies to {plan.pool_on}")
    return tuple(lines)


def _shared_words(share: MemoryShare) -> str:
    if share.decides == ENGINE:
        return f", of which {format_bytes(share.kept_bytes)} stay in memory"
    return "; the system decides which of them stay in memory"


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


def _share_on_gpus(plan: Plan, facts: ModelFacts) -> str:
    """The share in tenths: "3 of 10 experts are on the GPU"; empty where it is none or all of them."""
    share = experts_on_gpus(plan, facts)
    if share in (0.0, 1.0):
        return ""
    where = "on the GPU" if len(plan.gpus) == 1 else "on GPUs"
    tenths = round(share * 10)
    if tenths == 0:
        return f"fewer than 1 of 10 experts are {where}"
    if tenths == 10:
        return f"more than 9 of 10 experts are {where}"
    return f"{tenths} of 10 experts {'is' if tenths == 1 else 'are'} {where}"


def _expected_speed(plan: Plan) -> str:
    if any(step.name == STEP_DOES_NOT_FIT for step in plan.steps):
        return "it is not expected to load"
    if plan.speed is None:
        return ""
    decode = plan.speed.decode
    low, high = _rate(decode.low), _rate(decode.high)
    rates = low if low == high else f"{low}–{high}"
    return f"expect {rates} tokens/s ({_BASIS.get(plan.speed.basis, 'predicted')})"


def _rate(tokens_per_second: float) -> str:
    """Two figures where one would be coarse: "0.8", "4.6", "18"."""
    return f"{tokens_per_second:.1f}" if tokens_per_second < 10 else f"{tokens_per_second:,.0f}"


def _placement(plan: Plan, facts: ModelFacts) -> str:
    if not facts.moe_layers:
        return f"No experts to place: the whole model on {_place(plan, plan.gpu or CPU_LANE)}"
    counts = {lane: len(_layers_in(plan, lane)) for lane in (*plan.gpus, CPU_LANE)}
    held = [lane for lane, count in counts.items() if count]
    total = len(facts.moe_layers)
    first = held[0]
    if counts[first] == total:
        text = f"Experts of {'all ' if total > 1 else ''}{_count(total)} on {_place(plan, first)}"
    else:
        text = f"Experts of {counts[first]} of {_count(total)} on {_place(plan, first)}"
    text += "".join(f", {counts[lane]} on {_place(plan, lane)}" for lane in held[1:])
    if plan.gpu and not counts[plan.gpu]:
        text += f", attention on {_place(plan, plan.gpu)}"
    if plan.pool_on and plan.pool_bytes:
        text += f", a pool of {format_bytes(plan.pool_bytes)} for single experts on {_place(plan, plan.pool_on)}"
    return text


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
    """The layers of a lane; all off the GPUs are the CPU's: the disk has none of its own, only experts of theirs."""
    here = (CPU_LANE, DISK_LANE) if lane == CPU_LANE else (lane,)
    return [layer for layer, its in plan.expert_lanes.items() if its in here]
