"""A plan as an accelerate `device_map` for the unquantised checkpoint: modules of transformers' models to devices.

A map must name every module with weights, and no module inside another that it names too. Accelerate computes
what it keeps on "cpu" or "disk" on the GPU, after copying it there, as long as the map names a GPU.
"""

import json
import re
from typing import NamedTuple

from app.errors import AppError, ErrorCode
from app.model.facts import ModelFacts
from app.placement.active_experts import active_words
from app.placement.exchange.formats import Exported, lost_experts
from app.placement.plan import CPU_LANE, DISK_LANE, Plan

Device = int | str


class _Family(NamedTuple):
    """How a model's classes in transformers are built of modules.

    Attributes:
        classes: Name of the model in transformers, for the notes.
        mixers: Modules that mix tokens; a layer has one of several.
        norms: Modules of norms in a layer.
        block: Module of the MoE part in a layer. rest: modules and buffers in it beside the routed experts.
        experts: Modules in it that hold the routed experts.
        top: Modules outside the layers, without the output.
        old_block: The part's name in transformers before version 5 where that differs.
    """

    classes: str
    rest: tuple[str, ...] = ("gate",)
    experts: tuple[str, ...] = ("experts",)
    block: str = "mlp"
    old_block: str = ""
    mixers: tuple[str, ...] = ("self_attn",)
    norms: tuple[str, ...] = ("input_layernorm", "post_attention_layernorm")
    top: tuple[str, ...] = ("model.embed_tokens", "model.norm", "model.rotary_emb")


_SHARED = ("gate", "shared_expert", "shared_expert_gate")
_SHARED_MANY = ("gate", "shared_experts")
# GGUF's architecture to the model in transformers.
_FAMILIES = {
    "llama": _Family("Mixtral", old_block="block_sparse_moe"),
    "qwen2moe": _Family("Qwen2Moe", rest=_SHARED),
    "qwen3moe": _Family("Qwen3Moe"),
    "qwen3next": _Family("Qwen3Next", rest=_SHARED, mixers=("self_attn", "linear_attn")),
    "olmoe": _Family("Olmoe"),
    "deepseek2": _Family("DeepseekV2", rest=_SHARED_MANY),
    "glm4moe": _Family("Glm4Moe", rest=_SHARED_MANY),
    "dots1": _Family("Dots1", rest=_SHARED_MANY),
    "gpt-oss": _Family("GptOss", rest=("router",)),
    "granitemoe": _Family(
        "GraniteMoe", rest=("router",), experts=("input_linear", "output_linear"), block="block_sparse_moe"
    ),
    "lfm2moe": _Family(
        "Lfm2Moe",
        block="feed_forward",
        rest=("gate", "expert_bias"),
        mixers=("self_attn", "conv"),
        norms=("operator_norm", "ffn_norm"),
        top=("model.embed_tokens", "model.embedding_norm", "model.pos_emb", "model.rotary_emb"),
    ),
}


def export_device_map(plan: Plan, facts: ModelFacts) -> Exported:
    """`plan` as the JSON of a `device_map`.

    Raises:
        AppError: bad_usage, the modules of this architecture's models are not known.
    """
    family = _FAMILIES.get(facts.architecture) if facts.moe_layers else None
    if family is None:
        raise AppError(
            ErrorCode.BAD_USAGE,
            f"The modules of models of the architecture '{facts.architecture}' without GGUF are not known; known are "
            f"MoE models of: {', '.join(_FAMILIES)}.",
        )
    return Exported(
        text=json.dumps(device_map(plan, facts, family), indent=1),
        lost=tuple(_lost(plan, facts)),
        notes=tuple(_notes(plan, facts, family)),
    )


def device_map(plan: Plan, facts: ModelFacts, family: _Family) -> dict[str, Device]:
    """Every module with weights to its device: a GPU's number, "cpu" or "disk"."""
    main = _device(plan.gpu or CPU_LANE)
    places: dict[str, Device] = dict.fromkeys((*family.top, "lm_head"), main)
    for layer in range(facts.layers - len(facts.draft_layers)):
        name = f"model.layers.{layer}"
        lane = plan.expert_lanes.get(layer, plan.gpu or CPU_LANE)
        experts = _device(lane)
        if experts == main or lane in plan.gpus:
            # Another GPU's layer is there as a whole: what two devices computed could not be added up.
            places[name] = experts
            continue
        blocks = [family.block, *([family.old_block] if family.old_block else [])]
        places |= dict.fromkeys((f"{name}.{part}" for part in (*family.mixers, *family.norms)), main)
        for block in blocks:
            places |= dict.fromkeys((f"{name}.{block}.{part}" for part in family.rest), main)
            places |= dict.fromkeys((f"{name}.{block}.{part}" for part in family.experts), experts)
    return places


def _device(lane: str) -> Device:
    if lane in (CPU_LANE, DISK_LANE):
        return "cpu" if lane == CPU_LANE else "disk"
    number = re.search(r"\d+$", lane)
    return int(number[0]) if number else 0


def _lost(plan: Plan, facts: ModelFacts) -> list[str]:
    # The disk is a device of its own there.
    lost = [sentence for sentence in lost_experts(plan, "accelerate") if "on disk" not in sentence]
    if plan.gpu and any(lane not in plan.gpus for lane in plan.expert_lanes.values()):
        lost.append(
            "accelerate computes nothing on the CPU beside a GPU: experts on 'cpu' or 'disk' are copied to the GPU for "
            "every token, which is much slower than this plan."
        )
    others = [gpu for gpu in plan.gpus if gpu != plan.gpu]
    if others:
        lost.append(f"Layers with experts on {', '.join(others)} are there as a whole, attention included.")
    if active := active_words(facts, plan.experts_used):
        lost.append(f"A device_map does not say how many experts compute: {active}, is the model's configuration's.")
    lost.append(
        f"A device_map says only where weights lie: the context of {plan.n_ctx:,} tokens, the {plan.kv_type} cache, "
        "threads and batch sizes are lost."
    )
    return lost


def _notes(plan: Plan, facts: ModelFacts, family: _Family) -> list[str]:
    notes = [
        f"For a checkpoint of transformers' {family.classes}; its weights are larger than the {facts.quantization} of "
        "this file, so that the plan's memory is not this map's.",
    ]
    if facts.architecture == "llama":
        notes.append("GGUF files of Mixtral call themselves 'llama'; other MoE models of that name have other modules.")
    if family.old_block:
        notes.append(
            f"The MoE part is named twice: '{family.block}' since transformers 5, '{family.old_block}' before."
        )
    if any(not gpu.startswith("CUDA") for gpu in plan.gpus):
        notes.append("The numbers are those of this app's devices; PyTorch numbers the GPUs that it can use itself.")
    return notes
