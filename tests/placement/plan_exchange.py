"""Random plans for what is exported and imported, and the tensors of models made of figures."""

import msgspec
from factories import GIB, deepseek_v2_lite, make_gpu, make_machine, qwen3_30b
from hypothesis import strategies as st

from app.placement.memory import predict
from app.placement.plan import CPU_LANE, DISK_LANE, KV_TYPES, PINS, POLICIES, STREAMS, CachePolicy, ExpertPin, Plan

MACHINE = make_machine(make_gpu(80 * GIB), make_gpu(80 * GIB, device="CUDA1"), ram=200 * GIB, cores=16)
MODELS = (
    qwen3_30b(files=("/models/a b/模型.gguf",)),
    # Its cache of latents divides into blocks; its first layer has no experts.
    deepseek_v2_lite(files=("/models/deepseek.gguf",)),
)
NO_EXPERT = ("attn_q.weight", "attn_k.weight", "ffn_gate_inp.weight", "ffn_norm.weight", "ffn_down_shexp.weight")
EXPERT = ("ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight")


def tensors_of(facts):
    """Names of a model's tensors, as its file would have them."""
    names = ["token_embd.weight", "output_norm.weight", "output.weight"]
    for layer in range(facts.layers):
        bases = (*NO_EXPERT, *(EXPERT if layer in facts.expert_bytes else ("ffn_up.weight",)))
        names += [f"blk.{layer}.{base}" for base in bases]
    return tuple(names)


policies = st.builds(
    CachePolicy,
    kind=st.sampled_from(POLICIES),
    insert_cap=st.integers(1, 9),
    window=st.integers(0, 100),
    decay=st.floats(0.01, 1),
    margin=st.floats(1, 9),
    threshold=st.floats(0, 1),
    stream=st.sampled_from(STREAMS),
)


@st.composite
def plans(draw):
    """A model and a plan for it that MACHINE could load, its memory predicted."""
    facts = draw(st.sampled_from(MODELS))
    gpu = draw(st.sampled_from([None, "CUDA0", "CUDA1"]))
    lanes = st.sampled_from([CPU_LANE, DISK_LANE, *(["CUDA0", "CUDA1"] if gpu else [])])
    shape = draw(st.sampled_from(["one lane", "first layers", "any"]))
    if shape == "one lane":
        expert_lanes = dict.fromkeys(facts.moe_layers, draw(lanes))
    elif shape == "first layers":
        count, first, rest = draw(st.integers(0, facts.layers)), draw(lanes), draw(lanes)
        expert_lanes = {layer: first if layer < count else rest for layer in facts.moe_layers}
    else:
        expert_lanes = {layer: draw(lanes) for layer in facts.moe_layers}
    n_ctx = 256 * draw(st.integers(1, facts.context_length // 256))
    n_batch = draw(st.integers(1, n_ctx))
    layer = st.sampled_from(facts.moe_layers)
    pins = st.builds(ExpertPin, layer=layer, expert=st.integers(0, facts.expert_count - 1), pin=st.sampled_from(PINS))
    plan = Plan(
        model_files=facts.files,
        gpu=gpu,
        expert_lanes=expert_lanes,
        n_ctx=n_ctx,
        kv_type=draw(st.sampled_from(KV_TYPES)),
        n_batch=n_batch,
        n_ubatch=draw(st.integers(1, n_batch)),
        threads=draw(st.integers(1, 64)),
        threads_batch=draw(st.integers(1, 64)),
        cpu_cores=tuple(sorted(draw(st.sets(st.integers(0, 31), max_size=8)))),
        n_seq_max=draw(st.integers(1, 8)),
        pool_bytes=draw(st.integers(0, GIB)) if gpu else 0,
        staging_bytes=draw(st.integers(0, GIB)) if gpu else 0,
        residency=draw(st.sampled_from(["repacked", "mapped"])),
        policy=draw(policies),
        pins=tuple(draw(st.lists(pins, max_size=3))),
        experts_used=draw(st.none() | st.integers(1, facts.expert_count)),
    )
    if plan.residency == "mapped":
        plan = msgspec.structs.replace(plan, resident_bytes=draw(st.none() | st.integers(0, 100 * GIB)))
    return facts, msgspec.structs.replace(plan, memory=predict(facts, MACHINE, plan))


def without_single_experts(plan, facts, program):
    """What a program of llama.cpp can be told of a plan: whole layers, with the disk's as the CPU's."""
    plan = msgspec.structs.replace(
        plan,
        expert_lanes={layer: CPU_LANE if its == DISK_LANE else its for layer, its in plan.expert_lanes.items()},
        pool_bytes=0,
        staging_bytes=0,
        policy=CachePolicy(),
        pins=(),
        resident_bytes=None,
        n_seq_max=1 if program == "llama-cli" else plan.n_seq_max,
    )
    return msgspec.structs.replace(plan, memory=predict(facts, MACHINE, plan))
