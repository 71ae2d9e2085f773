"""Further tensor tables at their true sizes, in mixtures near Q4_K_M: with `model_shapes` the models people run."""

import model_shapes
from gguf_files import Model, Tensor
from shape_parts import attention, ends, experts, ffn, keys, named


def gpt_oss_120b() -> Model:
    """gpt-oss-120b: gpt-oss-20b with more layers and more experts."""
    return model_shapes.gpt_oss_20b(layers=36, count=128)


def olmoe_1b_7b() -> Model:
    """OLMoE-1B-7B: norms over whole queries and keys, as many heads of keys as of queries."""
    layers, embedding, vocabulary, inner = 16, 2048, 50304, 1024
    tensors = ends(embedding, vocabulary)
    for layer in range(layers):
        tensors += attention(layer, embedding, embedding, embedding, head_norm=embedding)
        tensors += experts(layer, layers, embedding, inner, 64)
    return Model(
        "olmoe",
        {
            **keys(layers, embedding, vocabulary, 16, 16),
            "feed_forward_length": inner,
            "expert_count": 64,
            "expert_used_count": 8,
        },
        tuple(tensors),
    )


def granite_3b_a800m() -> Model:
    """Granite-3.1-3B-A800M: small experts, the embeddings are the output too."""
    layers, embedding, vocabulary, inner = 32, 1536, 49155, 512
    tensors = [
        Tensor("token_embd.weight", (embedding, vocabulary), "Q6_K"),
        Tensor("output_norm.weight", (embedding,)),
    ]
    for layer in range(layers):
        tensors += attention(layer, embedding, embedding, 512)
        tensors += experts(layer, layers, embedding, inner, 40)
    return Model(
        "granitemoe",
        {
            **keys(layers, embedding, vocabulary, 24, 8),
            "rope.dimension_count": 64,
            "feed_forward_length": inner,
            "logit_scale": 6.0,
            "expert_count": 40,
            "expert_used_count": 8,
        },
        tuple(tensors),
    )


def qwen15_moe_a27b() -> Model:
    """Qwen1.5-MoE-A2.7B: biases of queries, keys and values, a shared expert four times as wide as the others."""
    layers, embedding, vocabulary, inner, shared = 24, 2048, 151936, 1408, 5632
    tensors = ends(embedding, vocabulary)
    for layer in range(layers):
        tensors += attention(layer, embedding, embedding, embedding)
        tensors += experts(layer, layers, embedding, inner, 60)
        tensors += ffn(layer, layers, embedding, shared, "_shexp")
        own = {f"attn_{part}.bias": ((embedding,), "F32") for part in "qkv"}
        tensors += named(layer, {**own, "ffn_gate_inp_shexp.weight": ((embedding,), "F32")})
    return Model(
        "qwen2moe",
        {
            **keys(layers, embedding, vocabulary, 16, 16),
            "feed_forward_length": shared,
            "expert_count": 60,
            "expert_used_count": 4,
            "expert_feed_forward_length": inner,
            "expert_shared_feed_forward_length": shared,
        },
        tuple(tensors),
    )


def qwen3_next_80b() -> Model:
    """Qwen3-Next-80B-A3B: three recurrent layers of four, ten small experts of 512 a token, a shared one."""
    layers, embedding, vocabulary, inner = 48, 2048, 151936, 512
    tensors = ends(embedding, vocabulary)
    for layer in range(layers):
        if layer % 4 == 3:
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
                    "ssm_ba.weight": ((embedding, 64), "Q4_K"),
                    "ssm_norm.weight": ((128,), "F32"),
                    "ssm_out.weight": ((4096, embedding), "Q4_K"),
                },
            )
        tensors += experts(layer, layers, embedding, inner, 512)
        tensors += ffn(layer, layers, embedding, inner, "_shexp")
        norms = ("post_attention_norm", "ffn_gate_inp_shexp")
        tensors += named(layer, {f"{norm}.weight": ((embedding,), "F32") for norm in norms})
    return Model(
        "qwen3next",
        {
            **keys(layers, embedding, vocabulary, 16, 2),
            "attention.key_length": 256,
            "attention.value_length": 256,
            "full_attention_interval": 4,
            "rope.dimension_count": 64,
            "ssm.conv_kernel": 4,
            "ssm.inner_size": 4096,
            "ssm.state_size": 128,
            "ssm.group_count": 16,
            "ssm.time_step_rank": 32,
            "expert_count": 512,
            "expert_used_count": 10,
            "expert_feed_forward_length": inner,
            "expert_shared_feed_forward_length": inner,
        },
        tuple(tensors),
    )


def glm_45_air() -> Model:
    """GLM-4.5-Air: a dense first layer, biases, a selection bias, a shared expert, a last block that only drafts."""
    layers, embedding, vocabulary, inner, dense = 46, 4096, 151552, 1408, 10944
    tensors = ends(embedding, vocabulary)
    for layer in range(layers + 1):
        tensors += attention(layer, embedding, 12288, 1024)[:-1]
        own: dict[str, tuple[tuple[int, ...], str]] = {
            "attn_q.bias": ((12288,), "F32"),
            "attn_k.bias": ((1024,), "F32"),
            "attn_v.bias": ((1024,), "F32"),
            "post_attention_norm.weight": ((embedding,), "F32"),
        }
        if layer == 0:
            tensors += ffn(layer, layers, embedding, dense)
        else:
            tensors += experts(layer, layers, embedding, inner, 128)
            tensors += ffn(layer, layers, embedding, inner, "_shexp")
            own["exp_probs_b.bias"] = ((128,), "F32")
        tensors += named(layer, own)
    tensors += named(
        layers,
        {
            "nextn.eh_proj.weight": ((2 * embedding, embedding), "Q4_K"),
            "nextn.enorm.weight": ((embedding,), "F32"),
            "nextn.hnorm.weight": ((embedding,), "F32"),
        },
    )
    return Model(
        "glm4moe",
        {
            **keys(layers + 1, embedding, vocabulary, 96, 8),
            "nextn_predict_layers": 1,
            "attention.key_length": 128,
            "attention.value_length": 128,
            "rope.dimension_count": 64,
            "leading_dense_block_count": 1,
            "feed_forward_length": dense,
            "expert_gating_func": 2,
            "expert_count": 128,
            "expert_used_count": 8,
            "expert_shared_count": 1,
            "expert_feed_forward_length": inner,
        },
        tuple(tensors),
    )


def glm_47_flash() -> Model:
    """GLM-4.7-Flash: latent attention with compressed queries, sigmoid routing, a dense first layer."""
    layers, embedding, vocabulary, inner, heads = 47, 2048, 154880, 1536, 20
    query_rank, rank, rope, plain, value = 768, 512, 64, 192, 256
    tensors = ends(embedding, vocabulary)
    for layer in range(layers):
        tensors += named(
            layer,
            {
                "attn_norm.weight": ((embedding,), "F32"),
                "attn_q_a.weight": ((embedding, query_rank), "Q4_K"),
                "attn_q_a_norm.weight": ((query_rank,), "F32"),
                "attn_q_b.weight": ((query_rank, heads * (plain + rope)), "Q4_K"),
                "attn_kv_a_mqa.weight": ((embedding, rank + rope), "Q8_0"),
                "attn_kv_a_norm.weight": ((rank,), "F32"),
                "attn_k_b.weight": ((plain, rank, heads), "Q8_0"),
                "attn_v_b.weight": ((rank, value, heads), "Q8_0"),
                "attn_output.weight": ((heads * value, embedding), "Q4_K"),
                "ffn_norm.weight": ((embedding,), "F32"),
            },
        )
        if layer == 0:
            tensors += ffn(layer, layers, embedding, 10240)
            continue
        tensors += experts(layer, layers, embedding, inner, 64)
        tensors += ffn(layer, layers, embedding, inner, "_shexp")
        tensors += named(layer, {"exp_probs_b.bias": ((64,), "F32")})
    return Model(
        "deepseek2",
        {
            **keys(layers, embedding, vocabulary, heads, 1),
            "attention.q_lora_rank": query_rank,
            "attention.kv_lora_rank": rank,
            "attention.key_length": rank + rope,
            "attention.value_length": rank,
            "attention.key_length_mla": plain + rope,
            "attention.value_length_mla": value,
            "rope.dimension_count": rope,
            "leading_dense_block_count": 1,
            "feed_forward_length": 10240,
            "expert_gating_func": 2,
            "expert_count": 64,
            "expert_used_count": 4,
            "expert_shared_count": 1,
            "expert_feed_forward_length": inner,
        },
        tuple(tensors),
    )


def deepseek_v4_flash() -> Model:
    """DeepSeek-V4-Flash: windows with compressed caches behind them, four residual streams, layers routed by hash."""
    layers, embedding, vocabulary, inner, count, used = 43, 4096, 129280, 2048, 256, 6
    heads, head, query_rank, groups, group_rank = 64, 512, 1024, 8, 1024
    index_heads, index_head, streams, hashed = 64, 128, 4, 3
    ratios = [0, 0] + [4 if layer % 2 == 0 else 128 for layer in range(2, layers)]
    wide, mixes = streams * embedding, (2 + streams) * streams
    tensors = [
        *ends(embedding, vocabulary),
        Tensor("output_hc_fn.weight", (wide, streams)),
        Tensor("output_hc_base.weight", (streams,)),
        Tensor("output_hc_scale.weight", (1,)),
    ]
    for layer, ratio in enumerate(ratios):
        own: dict[str, tuple[tuple[int, ...], str]] = {
            "attn_norm.weight": ((embedding,), "F32"),
            "attn_sinks.weight": ((heads,), "F32"),
            "attn_q_a.weight": ((embedding, query_rank), "Q8_0"),
            "attn_q_a_norm.weight": ((query_rank,), "F32"),
            "attn_q_b.weight": ((query_rank, heads * head), "Q8_0"),
            "attn_kv.weight": ((embedding, head), "Q8_0"),
            "attn_kv_a_norm.weight": ((head,), "F32"),
            "attn_output_a.weight": ((heads * head // groups, group_rank * groups), "Q8_0"),
            "attn_output_b.weight": ((groups * group_rank, embedding), "Q8_0"),
            "ffn_norm.weight": ((embedding,), "F32"),
        }
        for part in ("attn", "ffn"):
            own[f"hc_{part}_fn.weight"] = ((wide, mixes), "F32")
            own[f"hc_{part}_base.weight"] = ((mixes,), "F32")
            own[f"hc_{part}_scale.weight"] = ((3,), "F32")
        if ratio:
            width = head * (2 if ratio == 4 else 1)
            own["attn_compressor_kv.weight"] = ((embedding, width), "Q8_0")
            own["attn_compressor_gate.weight"] = ((embedding, width), "Q8_0")
            own["attn_compressor_ape.weight"] = ((width, ratio), "F32")
            own["attn_compressor_norm.weight"] = ((head,), "F32")
        if ratio == 4:
            own["indexer.proj.weight"] = ((embedding, index_heads), "Q8_0")
            own["indexer.attn_q_b.weight"] = ((query_rank, index_heads * index_head), "Q8_0")
            own["indexer_compressor_kv.weight"] = ((embedding, 2 * index_head), "Q8_0")
            own["indexer_compressor_gate.weight"] = ((embedding, 2 * index_head), "Q8_0")
            own["indexer_compressor_ape.weight"] = ((2 * index_head, ratio), "F32")
            own["indexer_compressor_norm.weight"] = ((index_head,), "F32")
        if layer < hashed:
            own["ffn_gate_tid2eid.weight"] = ((used, vocabulary), "I32")
        else:
            own["exp_probs_b.bias"] = ((count,), "F32")
        tensors += named(layer, own)
        tensors += named(layer, {"ffn_gate_inp.weight": ((embedding, count), "F32")})
        for part, shape in (("gate", (embedding, inner)), ("up", (embedding, inner)), ("down", (inner, embedding))):
            tensors += named(layer, {f"ffn_{part}_exps.weight": ((*shape, count), "MXFP4")})
            tensors += named(layer, {f"ffn_{part}_shexp.weight": (shape, "Q8_0")})
    return Model(
        "deepseek4",
        {
            **keys(layers, embedding, vocabulary, heads, 1),
            "attention.key_length": head,
            "attention.value_length": head,
            "attention.q_lora_rank": query_rank,
            "attention.sliding_window": 128,
            "attention.output_group_count": groups,
            "attention.output_lora_rank": group_rank,
            "attention.compress_rope_freq_base": 160000.0,
            "attention.compress_ratios": ratios,
            "attention.indexer.head_count": index_heads,
            "attention.indexer.key_length": index_head,
            "attention.indexer.top_k": 512,
            "hyper_connection.count": streams,
            "hyper_connection.sinkhorn_iterations": 20,
            "hyper_connection.epsilon": 1e-6,
            "hash_layer_count": hashed,
            "rope.dimension_count": 64,
            "swiglu_clamp_exp": [10.0] * layers,
            "feed_forward_length": inner,
            "expert_gating_func": 4,
            "expert_weights_scale": 1.5,
            "expert_weights_norm": True,
            "expert_count": count,
            "expert_used_count": used,
            "expert_shared_count": 1,
            "expert_feed_forward_length": inner,
        },
        tuple(tensors),
    )
