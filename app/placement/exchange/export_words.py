"""A plan as settings to make by hand in LM Studio and in Ollama."""

from app.model.facts import ModelFacts
from app.placement.active_experts import active_words
from app.placement.exchange.formats import Exported, layers_off_gpu, leading_count, lost_experts
from app.placement.plan import CPU_LANE, Plan
from app.placement.words import named_layers

_KV_NAMES = {"f16": "F16", "q8_0": "Q8_0", "q4_0": "Q4_0"}


def lm_studio(plan: Plan, facts: ModelFacts) -> Exported:
    """`plan` in the names of LM Studio's load settings (0.3.23 and later, for the setting of experts)."""
    lost = [*lost_experts(plan, "LM Studio"), *_lost_of_llama(plan, facts, "LM Studio")]
    off_gpu = layers_off_gpu(plan, facts)
    lines = [
        f"Context Length: {plan.n_ctx}",
        f"GPU Offload: {facts.layers if plan.gpu else 0} of {facts.layers} layers",
    ]
    if plan.gpu and facts.moe_layers:
        count = leading_count(off_gpu, facts)
        if count is None:
            # As many blocks from the first on as hold so many MoE layers.
            count = facts.moe_layers[len(off_gpu) - 1] + 1
            lost.append(
                "LM Studio keeps the experts of the first layers on the CPU; the plan keeps those of "
                f"{named_layers(off_gpu)} there."
            )
        lines.append(f"Number of layers for which to force MoE weights onto CPU: {count}")
    lines += [
        *([f"Number of Experts: {plan.experts_used}"] if plan.experts_used is not None else []),
        f"CPU Thread Pool Size: {plan.threads}",
        f"Evaluation Batch Size: {plan.n_ubatch}",
        f"Offload KV Cache to GPU Memory: {'on' if plan.gpu else 'off'}",
        "Keep Model in Memory: off",
        "Try mmap(): on",
        f"Flash Attention: {'on' if plan.kv_type != 'f16' else 'on, where the model allows it'}",
        f"K Cache Quantization Type: {_KV_NAMES[plan.kv_type]}",
        f"V Cache Quantization Type: {_KV_NAMES[plan.kv_type]}",
    ]
    return Exported(text="\n".join(lines), lost=tuple(lost), notes=_card_notes(plan))


def ollama(plan: Plan, facts: ModelFacts) -> Exported:
    """`plan` as lines of a Modelfile, and variables of Ollama's server."""
    lost = [*lost_experts(plan, "Ollama"), *_lost_of_llama(plan, facts, "Ollama")]
    off_gpu = layers_off_gpu(plan, facts)
    whole = [layer for layer in range(facts.layers) if layer not in off_gpu] if plan.gpu else []
    if plan.gpu and off_gpu:
        lost.append(
            f"Ollama moves whole layers only: attention and KV cache of {named_layers(off_gpu)} go to the CPU with "
            "their experts."
        )
    gpu_layers = 0 if not plan.gpu else len(whole) if off_gpu else facts.layers + 1
    lines = [
        "Modelfile:",
        f"FROM {plan.model_files[0]}",
        f"PARAMETER num_ctx {plan.n_ctx}",
        f"PARAMETER num_gpu {gpu_layers}",
        f"PARAMETER num_thread {plan.threads}",
        f"PARAMETER num_batch {plan.n_ubatch}",
        "Variables of the server (ollama serve), for all its models:",
        f"OLLAMA_KV_CACHE_TYPE={plan.kv_type}",
    ]
    if plan.kv_type != "f16":
        lines.append("OLLAMA_FLASH_ATTENTION=1")
    lines.append(f"OLLAMA_NUM_PARALLEL={plan.n_seq_max}")
    return Exported(text="\n".join(lines), lost=tuple(lost), notes=_card_notes(plan))


def _lost_of_llama(plan: Plan, facts: ModelFacts, program: str) -> list[str]:
    """What llama.cpp's own programs can be told and this one cannot."""
    lost = []
    if len(plan.gpus) > 1:
        lost.append(
            f"{program} divides layers among GPUs itself: the plan's {', '.join(plan.gpus)} are not kept apart."
        )
    if plan.threads_batch != plan.threads:
        lost.append(f"{program} has one number of threads: {plan.threads_batch} for prompts are lost.")
    if plan.cpu_cores:
        lost.append(f"{program} chooses processors itself: the plan's {len(plan.cpu_cores)} are lost.")
    if plan.n_batch != plan.n_ubatch:
        lost.append(f"{program} has one batch size: {plan.n_batch} tokens submitted at once are lost.")
    if plan.residency == "mapped" and any(lane not in plan.gpus for lane in plan.expert_lanes.values()):
        lost.append(
            f"{program} copies experts on the CPU into the faster layout where it can; the plan leaves them mapped."
        )
    if program == "Ollama" and (active := active_words(facts, plan.experts_used)):
        lost.append(f"Ollama cannot be told how many experts compute: {active}, is lost.")
    if program == "LM Studio" and plan.n_seq_max > 1:
        lost.append(f"The plan decodes {plan.n_seq_max} conversations together; LM Studio sets that elsewhere.")
    return lost


def _card_notes(plan: Plan) -> tuple[str, ...]:
    if plan.gpu in (None, CPU_LANE):
        return ()
    return (f"The plan counts on the GPU {plan.gpu}; the other program may number GPUs in another way.",)
