"""What a plan asks of each device for one token: bytes to read, experts to find, layers to hand over. No times."""

import math

import msgspec

from app.hardware.facts import Machine
from app.model.facts import ModelFacts
from app.placement.active_experts import facts_with
from app.placement.cache.hit_rates import HitCurve, assumed
from app.placement.memory import (
    asks_for_experts,
    bytes_off_gpus,
    copies_weights,
    expert_bytes,
    keeps_budget,
    spare_bytes,
)
from app.placement.plan import CPU_LANE, DISK_LANE, ExpertPin, Plan
from app.placement.speed.rates import weight_bytes

LEAST_OFFLOADED_TOKENS = 32
"""llama.cpp copies CPU-lane weights to the GPU for batches from this size on."""

_CELL_BYTES = {"f16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}
_BOUNDS = ("low", "likely", "high")
# Pool and main memory hold together what one cache of (pool^n + memory^n)^(1/n) would: 1 were it both, without end the
# larger alone. Run step by step on made routing like that of Qwen3-30B (pools of 9 to 50 % of the experts, memory of 15
# to 85 %; `tests/placement/two_tiers.py`) what neither held was within 0.025 of that with 3.
_TOGETHER = {"low": math.inf, "likely": 3.0, "high": 2.0}


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """MoE layers that one device computes: bytes one token is routed to, and bytes of all their experts."""

    device: str
    layers: int
    routed_bytes: int
    all_bytes: int


class Hits(msgspec.Struct, frozen=True, kw_only=True):
    """What share of the routed expert bytes of the layers off the GPUs is in the pool, and what share on disk."""

    pool: float
    cold: float


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """One plan's work for one token.

    Attributes:
        attention: The device of attention, shared experts and output.
        layers: Transformer blocks. vocab_size: width of the output.
        dense_bytes: Weights there that every token reads; of them `output_bytes` only for tokens drawn from.
        kv_bytes: Bytes of KV cache and states that one token reads with `context_tokens` cells in use.
        score_flops: Operations of one token for one cell of context, over all layers.
        weight_bytes: Bytes one weight takes, of the commonest type.
        whole: Layers whose experts are whole on a GPU, by GPU.
        off: The other layers, which the processor and the pool share.
        warm_share: Share of the experts of `off` that main memory keeps: 1, or all of them are read through the file
            mapping, and those that were used last stay.
        asks: What is missing there is asked for by the expert device, all at once and as soon as a layer's routing is
            known; else pages are read one by one as they are touched, and the system decides what stays.
        readers_wait: Every core computes while decoding, so that what brings missing experts in takes time from that.
        prompt_readers_wait: The same while a prompt is computed.
        touched_tokens: (experts, top-k), which tells how many experts a batch touches.
        pool: The device of pool and staging area; None without.
        pool_share: Share of `off`'s experts that the pool has room for.
        stream: "off", "auto", "always", or "stock" where llama.cpp itself copies weights over.
    """

    attention: str
    layers: int
    vocab_size: int
    dense_bytes: int
    output_bytes: int
    kv_bytes: float
    context_tokens: int
    score_flops: float
    weight_bytes: float
    whole: tuple[Group, ...]
    off: Group
    warm_share: float
    asks: bool
    readers_wait: bool
    prompt_readers_wait: bool
    touched_tokens: tuple[int, int]
    pool: str | None
    pool_share: float
    stream: str

    def touched(self, tokens: int) -> float:
        """Share of a layer's experts that a batch is routed to, were routing uniform: 1 − (1 − k/E)^n."""
        experts, used = self.touched_tokens
        return 1 - (1 - min(used / experts, 1.0)) ** tokens if experts else 0.0


def demand_of(
    facts: ModelFacts, machine: Machine, plan: Plan, context_tokens: int, *, spare_ram: int | None = None
) -> Demand:
    """The work of `plan`.

    Args:
        facts: The model.
        machine: Where it runs.
        plan: The placement.
        context_tokens: Cells in use.
        spare_ram: Bytes of main memory beside everything the plan keeps there, negative where it lacks some;
            as predicted unless told.
    """
    facts = facts_with(facts, plan.experts_used)
    stock = copies_weights(machine)
    whole = tuple(
        _group(facts, gpu, [layer for layer, lane in plan.expert_lanes.items() if lane == gpu]) for gpu in plan.gpus
    )
    off = [layer for layer, lane in plan.expert_lanes.items() if lane in (CPU_LANE, DISK_LANE)]
    off_group = _group(facts, CPU_LANE, off)
    pool = None if stock or plan.pool_on == CPU_LANE else plan.pool_on
    staged = "off" if pool is None or not plan.staging_bytes else plan.policy.stream
    output = facts.bytes.output + (facts.bytes.embeddings if facts.output_tied else 0)
    return Demand(
        attention=plan.gpu or CPU_LANE,
        layers=facts.layers - len(facts.draft_layers),
        vocab_size=facts.vocab_size,
        dense_bytes=sum(facts.layer_bytes) + output,
        output_bytes=output,
        kv_bytes=_kv_read(facts, plan.kv_type, context_tokens),
        context_tokens=context_tokens,
        # Scores and their sum over values: two products of a row as wide as the embedding.
        score_flops=4.0 * facts.embedding_length * sum(layer.kind in ("full", "latent") for layer in facts.kv_layers),
        weight_bytes=weight_bytes(facts.quantization),
        whole=tuple(group for group in whole if group.layers),
        off=off_group,
        warm_share=kept_bytes(facts, machine, plan, spare_ram) / off_group.all_bytes if off_group.all_bytes else 1.0,
        asks=asks_for_experts(plan, machine),
        readers_wait=plan.threads >= machine.cpu.physical_cores,
        prompt_readers_wait=plan.threads_batch >= machine.cpu.physical_cores,
        touched_tokens=(facts.expert_count, facts.experts_used),
        pool=pool,
        pool_share=min(plan.pool_bytes / off_group.all_bytes, 1.0) if pool and off_group.all_bytes else 0.0,
        stream="stock" if stock and plan.gpu else staged,
    )


def curve_for(facts: ModelFacts, plan: Plan) -> HitCurve:
    """The assumed hit curve of the layers that share the plan's pool."""
    facts = facts_with(facts, plan.experts_used)
    return assumed(facts, [layer for layer, lane in plan.expert_lanes.items() if lane in (CPU_LANE, DISK_LANE)])


def hits_of(demand: Demand, plan: Plan, facts: ModelFacts, curve: HitCurve, measured: float | None) -> dict[str, Hits]:
    """What is hit, by bound: "low", "likely" and "high".

    Args:
        demand: The plan's work.
        plan: The plan, for the pool and its policy.
        facts: The model.
        curve: Hit rate by pool bytes, of the layers off the GPUs. Main memory follows it too: the expert device, and
            about so the system, keeps there what was used last.
        measured: The pool's hit rate where it was measured; it then is all three.
    """
    pool = _pool_hits(demand, plan, facts, curve) if measured is None else dict.fromkeys(_BOUNDS, measured)
    cold = dict.fromkeys(_BOUNDS, 0.0) if demand.warm_share >= 1 else _cold(demand, curve)
    return {
        bound: Hits(pool=min(max(pool[bound], 0.0), 1.0), cold=min(cold[bound], 1 - min(pool[bound], 1.0)))
        for bound in _BOUNDS
    }


def _cold(demand: Demand, curve: HitCurve) -> dict[str, float]:
    """Share of the routed bytes that neither pool nor main memory holds.

    What the pool computes is not used in main memory, which so keeps what the pool lacks; but it keeps what went into
    the pool of late, too, and what leaves the pool has left it before.
    """
    everything = curve.points[-1].pool_bytes
    cold = {}
    for bound, power in _TOGETHER.items():
        share = _together(demand.pool_share, demand.warm_share, power)
        cold[bound] = 1 - getattr(curve.range_at(int(share * everything)), bound)
    return cold


def _together(pool: float, memory: float, power: float) -> float:
    """The share of the experts that one cache would have to hold for both."""
    most, least = max(pool, memory), min(pool, memory)
    if not least or math.isinf(power):
        return most
    return min(most * math.pow(1 + math.pow(least / most, power), 1 / power), 1.0)


def _pool_hits(demand: Demand, plan: Plan, facts: ModelFacts, curve: HitCurve) -> dict[str, float]:
    if not demand.pool_share:
        return dict.fromkeys(_BOUNDS, 0.0)
    if plan.policy.kind == "manual":
        share = _pinned_share(facts, plan.pins, demand)
        return {"low": 0.0, "likely": share, "high": min(3 * share, 1.0)}  # who pins by hand pins what is used most
    found = curve.range_at(plan.pool_bytes)
    return {bound: getattr(found, bound) for bound in _BOUNDS}


def _pinned_share(facts: ModelFacts, pins: tuple[ExpertPin, ...], demand: Demand) -> float:
    pinned = sum(facts.expert_bytes.get(pin.layer, 0) for pin in pins if pin.pin == "gpu")
    return min(pinned / demand.off.all_bytes, demand.pool_share)


def _group(facts: ModelFacts, device: str, layers: list[int]) -> Group:
    known = [layer for layer in layers if layer in facts.expert_bytes]
    return Group(
        device=device,
        layers=len(known),
        routed_bytes=facts.experts_used * sum(facts.expert_bytes[layer] for layer in known),
        all_bytes=expert_bytes(facts, known),
    )


def kept_bytes(facts: ModelFacts, machine: Machine, plan: Plan, spare_ram: int | None = None) -> int:
    """Bytes of the experts off the GPUs that main memory holds: the plan's budget, or what there is room for.

    One layer in the disk lane, or a plan that lacks memory, leaves all of them in the file mapping. What then stays of
    it is what was used last, of whatever layer: room for some layers is room for all of them.

    Args:
        facts: The model.
        machine: Where it runs.
        plan: The plan, with its predicted memory.
        spare_ram: As for `demand_of`.
    """
    spare = spare_bytes(plan, machine, CPU_LANE) if spare_ram is None else spare_ram
    everything = bytes_off_gpus(facts, plan)
    if keeps_budget(plan):
        held = min(plan.resident_bytes or 0, everything) + min(spare, 0)
    else:
        on_cpu = (layer for layer, lane in plan.expert_lanes.items() if lane == CPU_LANE)
        held = expert_bytes(facts, (layer for layer in on_cpu if layer in facts.expert_bytes))
        if held < everything or spare < 0:
            held += spare
    return min(max(held, 0), everything)


def _kv_read(facts: ModelFacts, kv_type: str, context_tokens: int) -> float:
    """Keys and values of every cell in use, windows no further back than they reach; states are also written."""
    values = 0
    for layer in facts.kv_layers:
        cells = min(context_tokens, layer.window) if layer.kind == "window" else -(-context_tokens // layer.ratio)
        values += cells * (layer.key_width + layer.value_width)
    return values * _CELL_BYTES[kv_type] + 2 * sum(layer.state_bytes for layer in facts.kv_layers)
