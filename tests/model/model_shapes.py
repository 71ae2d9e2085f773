"""The tensor tables of models people run, at their true sizes, for the memory model and the planner.

The tables are complete: llama.cpp (as in llama-cpp-python 0.3.36) loads each file, with `no_alloc`.
"""

from gguf_files import Model, Tensor, Value
from shape_parts import attention, down_type, ends, experts, ffn, keys, named


def qwen3_30b_a3b() -> Model:
    """Qwen3-30B-A3B in Q4_K_M."""
    layers, embedding, vocabulary = 48, 2048, 151936
    tensors = ends(embedding, vocabulary)
    for layer in range(layers):
        tensors += attention(layer, embedding, 4096, 512, head_norm=128)
        tensors += experts(layer, layers, embedding, 768, 128)
    return Model(
        "qwen3moe",
        {
            **keys(layers, embedding, vocabulary, 32, 4),
            "attention.key_length": 128,
            "attention.value_length": 128,
            "expert_count": 128,
            "expert_used_count": 8,
            "expert_feed_forward_length": 768,
        },
        tuple(tensors),
        {"general.name": "Qwen3 30B A3B", "general.type": "model"},
    )


def gpt_oss_20b(*, layers: int = 24, count: int = 32) -> Model:
    """gpt-oss-20b in MXFP4: biases, attention sinks, a window in every second layer; `count` experts each."""
    embedding, vocabulary = 2880, 201088
    tensors = [
        Tensor("token_embd.weight", (embedding, vocabulary), "Q8_0"),
        Tensor("output.weight", (embedding, vocabulary), "Q8_0"),
        Tensor("output_norm.weight", (embedding,)),
    ]
    for layer in range(layers):
        parts = {
            "attn_norm.weight": ((embedding,), "F32"),
            "attn_q.weight": ((embedding, 4096), "Q8_0"),
            "attn_q.bias": ((4096,), "F32"),
            "attn_k.weight": ((embedding, 512), "Q8_0"),
            "attn_k.bias": ((512,), "F32"),
            "attn_v.weight": ((embedding, 512), "Q8_0"),
            "attn_v.bias": ((512,), "F32"),
            "attn_output.weight": ((4096, embedding), "Q8_0"),
            "attn_output.bias": ((embedding,), "F32"),
            "attn_sinks.weight": ((64,), "F32"),
            "post_attention_norm.weight": ((embedding,), "F32"),
            "ffn_gate_inp.weight": ((embedding, count), "F32"),
            "ffn_gate_inp.bias": ((count,), "F32"),
        }
        for part in ("gate", "up", "down"):
            parts[f"ffn_{part}_exps.weight"] = ((embedding, embedding, count), "MXFP4")
            parts[f"ffn_{part}_exps.bias"] = ((embedding, count), "F32")
        tensors += named(layer, parts)
    return Model(
        "gpt-oss",
        {
            **keys(layers, embedding, vocabulary, 64, 8),
            "attention.key_length": 64,
            "attention.value_length": 64,
            "attention.sliding_window": 128,
            "expert_count": count,
            "expert_used_count": 4,
            "expert_feed_forward_length": embedding,
        },
        tuple(tensors),
    )


def deepseek_v2_lite(*, legacy: bool = False) -> Model:
    """DeepSeek-V2-Lite: latent attention, two shared experts, a dense first layer.

    `legacy` gives the tables of files made before llama.cpp cached the latent.
    """
    layers, embedding, vocabulary, rank, rope, heads = 27, 2048, 102400, 512, 64, 16
    own: dict[str, Value] = {"attention.kv_lora_rank": rank, "rope.dimension_count": rope}
    if legacy:
        own |= {"attention.key_length": 192, "attention.value_length": 128}
        up = {"attn_kv_b.weight": ((rank, heads * 256), "Q4_K")}
    else:
        own |= {"attention.key_length": rank + rope, "attention.value_length": rank}
        own |= {"attention.key_length_mla": 192, "attention.value_length_mla": 128}
        up = {
            "attn_k_b.weight": ((128, rank, heads), "Q5_0"),
            "attn_v_b.weight": ((rank, 128, heads), "Q4_K"),
        }
    tensors = ends(embedding, vocabulary)
    for layer in range(layers):
        tensors += named(
            layer,
            {
                "attn_norm.weight": ((embedding,), "F32"),
                "attn_q.weight": ((embedding, heads * 192), "Q4_K"),
                "attn_kv_a_mqa.weight": ((embedding, rank + rope), "Q4_K"),
                "attn_kv_a_norm.weight": ((rank,), "F32"),
                **up,
                "attn_output.weight": ((heads * 128, embedding), "Q4_K"),
                "ffn_norm.weight": ((embedding,), "F32"),
            },
        )
        if layer == 0:
            tensors += ffn(layer, layers, embedding, 10944)
            continue
        tensors += named(
            layer,
            {
                "ffn_gate_inp.weight": ((embedding, 64), "F32"),
                "ffn_gate_exps.weight": ((embedding, 1408, 64), "Q4_K"),
                "ffn_up_exps.weight": ((embedding, 1408, 64), "Q4_K"),
                "ffn_down_exps.weight": ((1408, embedding, 64), "Q5_0"),
            },
        )
        tensors += ffn(layer, layers, embedding, 2816, "_shexp")
    return Model(
        "deepseek2",
        {
            **keys(layers, embedding, vocabulary, heads, heads if legacy else 1),
            **own,
            "leading_dense_block_count": 1,
            "feed_forward_length": 10944,
            "expert_count": 64,
            "expert_used_count": 6,
            "expert_shared_count": 2,
            "expert_feed_forward_length": 1408,
        },
        tuple(tensors),
    )


def gemma4_26b_a4b() -> Model:
    """Gemma-4-26B-A4B: fused gate and up, a dense part beside the experts, windows in five layers of six."""
    layers, embedding, vocabulary, inner = 30, 2816, 262144, 704
    full = [layer % 6 == 5 for layer in range(layers)]
    tensors = [*ends(embedding, vocabulary, tied=True), Tensor("rope_freqs.weight", (256,))]
    norms = ("post_attention_norm", "post_ffw_norm", "pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2")
    for layer in range(layers):
        head = 512 if full[layer] else 256
        tensors += attention(layer, embedding, 16 * head, head * (2 if full[layer] else 8), head_norm=head)
        tensors += ffn(layer, layers, embedding, 2112)
        tensors += named(layer, {f"{norm}.weight": ((embedding,), "F32") for norm in norms})
        tensors += named(
            layer,
            {
                "ffn_gate_inp.weight": ((embedding, 128), "F32"),
                "ffn_gate_inp.scale": ((embedding,), "F32"),
                "ffn_gate_up_exps.weight": ((embedding, 2 * inner, 128), "Q4_K"),
                "ffn_down_exps.weight": ((inner, embedding, 128), down_type(layer, layers, inner)),
                "ffn_down_exps.scale": ((128,), "F32"),
            },
        )
    return Model(
        "gemma4",
        {
            **keys(layers, embedding, vocabulary, 16, [2 if is_full else 8 for is_full in full]),
            "attention.key_length": 512,
            "attention.value_length": 512,
            "attention.key_length_swa": 256,
            "attention.value_length_swa": 256,
            "attention.sliding_window": 1024,
            "attention.sliding_window_pattern": [not is_full for is_full in full],
            "attention.shared_kv_layers": 0,
            "embedding_length_per_layer_input": 0,
            "feed_forward_length": 2112,
            "expert_count": 128,
            "expert_used_count": 8,
            "expert_feed_forward_length": inner,
        },
        tuple(tensors),
    )


def mixtral_8x7b() -> Model:
    """Mixtral-8x7B in Q4_K_M, under the architecture name of the dense model it came from."""
    layers, embedding, vocabulary = 32, 4096, 32000
    tensors = ends(embedding, vocabulary)
    for layer in range(layers):
        tensors += attention(layer, embedding, 4096, 1024)
        tensors += experts(layer, layers, embedding, 14336, 8)
    return Model(
        "llama",
        {
            **keys(layers, embedding, vocabulary, 32, 8),
            "rope.dimension_count": 128,
            "feed_forward_length": 14336,
            "expert_count": 8,
            "expert_used_count": 2,
        },
        tuple(tensors),
    )


def qwen36_35b_a3b() -> Model:
    """Qwen3.6-35B-A3B: three recurrent layers of four, a shared expert, a last block that only drafts."""
    layers, embedding, vocabulary, inner = 40, 2048, 248320, 512
    tensors = ends(embedding, vocabulary)
    for layer in range(layers + 1):
        if layer % 4 == 3 or layer == layers:
            tensors += attention(layer, embedding, 8192, 512, output=4096, head_norm=256)[:-1]
        else:
            tensors += named(
                layer,
                {
                    "attn_norm.weight": ((embedding,), "F32"),
                    "attn_qkv.weight": ((embedding, 8192), "Q4_K"),
                    "attn_gate.weight": ((embedding, 4096), "Q4_K"),
                    "ssm_conv1d.weight": ((4, 8192), "F32"),
                    "ssm_dt.bias": ((32,), "F32"),
                    "ssm_a": ((32,), "F32"),
                    "ssm_beta.weight": ((embedding, 32), "Q4_K"),
                    "ssm_alpha.weight": ((embedding, 32), "Q4_K"),
                    "ssm_norm.weight": ((128,), "F32"),
                    "ssm_out.weight": ((4096, embedding), "Q4_K"),
                },
            )
        tensors += experts(layer, layers, embedding, inner, 256)
        tensors += ffn(layer, layers, embedding, inner, "_shexp")
        norms = ("post_attention_norm", "ffn_gate_inp_shexp")
        tensors += named(layer, {f"{norm}.weight": ((embedding,), "F32") for norm in norms})
    tensors += named(
        layers,
        {
            "nextn.eh_proj.weight": ((2 * embedding, embedding), "Q4_K"),
            "nextn.enorm.weight": ((embedding,), "F32"),
            "nextn.hnorm.weight": ((embedding,), "F32"),
        },
    )
    return Model(
        "qwen35moe",
        {
            **keys(layers + 1, embedding, vocabulary, 16, 2),
            "nextn_predict_layers": 1,
            "attention.key_length": 256,
            "attention.value_length": 256,
            "full_attention_interval": 4,
            "rope.dimension_count": 64,
            "rope.dimension_sections": [11, 11, 10, 0],
            "ssm.conv_kernel": 4,
            "ssm.inner_size": 4096,
            "ssm.state_size": 128,
            "ssm.group_count": 16,
            "ssm.time_step_rank": 32,
            "expert_count": 256,
            "expert_used_count": 8,
            "expert_feed_forward_length": inner,
            "expert_shared_feed_forward_length": inner,
        },
        tuple(tensors),
    )


def lfm2_8b_a1b() -> Model:
    """LFM2-8B-A1B: short convolutions with six attention layers, two dense layers, a selection bias."""
    layers, embedding, vocabulary = 24, 2048, 65536
    with_attention = {2, 6, 10, 14, 18, 21}
    tensors = [
        Tensor("token_embd.weight", (embedding, vocabulary), "Q6_K"),
        Tensor("token_embd_norm.weight", (embedding,)),
    ]
    for layer in range(layers):
        if layer in with_attention:
            tensors += attention(layer, embedding, 2048, 512, head_norm=64)
        else:
            tensors += named(
                layer,
                {
                    "attn_norm.weight": ((embedding,), "F32"),
                    "shortconv.conv.weight": ((3, embedding), "F32"),
                    "shortconv.in_proj.weight": ((embedding, 3 * embedding), "Q4_K"),
                    "shortconv.out_proj.weight": ((embedding, embedding), "Q4_K"),
                    "ffn_norm.weight": ((embedding,), "F32"),
                },
            )
        if layer < 2:
            tensors += ffn(layer, layers, embedding, 7168)
        else:
            tensors += experts(layer, layers, embedding, 1792, 32)
            tensors += named(layer, {"exp_probs_b.bias": ((32,), "F32")})
    return Model(
        "lfm2moe",
        {
            **keys(layers, embedding, vocabulary, 32, [8 * (layer in with_attention) for layer in range(layers)]),
            "shortconv.l_cache": 3,
            "leading_dense_block_count": 2,
            "feed_forward_length": 7168,
            "expert_gating_func": 2,
            "expert_count": 32,
            "expert_used_count": 4,
            "expert_feed_forward_length": 1792,
        },
        tuple(tensors),
    )


def qwen3_0_6b() -> Model:
    """Qwen3-0.6B: a small dense model with a tied output."""
    layers, embedding, vocabulary = 28, 1024, 151936
    tensors = ends(embedding, vocabulary, tied=True)
    for layer in range(layers):
        tensors += attention(layer, embedding, 2048, 1024, head_norm=128)
        tensors += ffn(layer, layers, embedding, 3072)
    return Model(
        "qwen3",
        {
            **keys(layers, embedding, vocabulary, 16, 8),
            "attention.key_length": 128,
            "attention.value_length": 128,
            "feed_forward_length": 3072,
        },
        tuple(tensors),
    )


def tiny_moe() -> Model:
    """A model of a few kilobytes with two layers and four experts, for tests of what can go wrong."""
    layers, embedding, vocabulary = 2, 64, 32
    tensors = [
        Tensor("token_embd.weight", (embedding, vocabulary), "Q8_0"),
        Tensor("output_norm.weight", (embedding,)),
        Tensor("output.weight", (embedding, vocabulary), "Q8_0"),
    ]
    for layer in range(layers):
        tensors += named(
            layer,
            {
                "attn_norm.weight": ((embedding,), "F32"),
                "attn_q.weight": ((embedding, embedding), "Q4_0"),
                "attn_k.weight": ((embedding, 32), "Q4_0"),
                "attn_v.weight": ((embedding, 32), "Q4_0"),
                "attn_output.weight": ((embedding, embedding), "Q4_0"),
                "ffn_norm.weight": ((embedding,), "F32"),
                "ffn_gate_inp.weight": ((embedding, 4), "F32"),
                "ffn_gate_exps.weight": ((embedding, 32, 4), "Q4_0"),
                "ffn_up_exps.weight": ((embedding, 32, 4), "Q4_0"),
                "ffn_down_exps.weight": ((32, embedding, 4), "Q8_0"),
            },
        )
    return Model(
        "llama",
        {
            **keys(layers, embedding, vocabulary, 4, 2),
            "rope.dimension_count": 16,
            "feed_forward_length": 32,
            "expert_count": 4,
            "expert_used_count": 2,
        },
        tuple(tensors),
        {"general.name": "Tiny"},
    )
