"""Tiny MoE models whose blocks hold more than plain attention: latent attention, convolutions, recurrent state."""

from pathlib import Path

from tiny_models import EMBED, FF, HEAD, HEADS, KV_HEADS, TinyModel


def latent_attention(path: Path) -> None:
    """`deepseek2`: MLA, a dense first block, sigmoid routing with a selection bias, a shared expert."""
    layers, rope, nope, value, rank = 3, 8, 16, 16, 32
    keys = {
        "attention.head_count_kv": 1,
        "attention.key_length": rank + rope,
        "attention.value_length": rank,
        "attention.key_length_mla": nope + rope,
        "attention.value_length_mla": value,
        "attention.q_lora_rank": 32,
        "attention.kv_lora_rank": rank,
        "rope.dimension_count": rope,
        "leading_dense_block_count": 1,
        "expert_shared_count": 1,
        "expert_gating_func": 2,
        "expert_weights_norm": True,
        "expert_weights_scale": 1.5,
    }
    model = TinyModel(path, "deepseek2", layers=layers, experts=8, used=2, keys=keys)
    model.ends()
    for layer in range(layers):
        block = f"blk.{layer}"
        model.ones(f"{block}.attn_norm.weight", EMBED)
        model.ones(f"{block}.attn_q_a_norm.weight", 32)
        model.ones(f"{block}.attn_kv_a_norm.weight", rank)
        model.add(f"{block}.attn_q_a.weight", EMBED, 32)
        model.add(f"{block}.attn_q_b.weight", 32, HEADS * (nope + rope))
        model.add(f"{block}.attn_kv_a_mqa.weight", EMBED, rank + rope)
        model.add(f"{block}.attn_k_b.weight", nope, rank, HEADS)
        model.add(f"{block}.attn_v_b.weight", rank, value, HEADS)
        model.add(f"{block}.attn_output.weight", HEADS * value, EMBED, writes=True)
        model.ones(f"{block}.ffn_norm.weight", EMBED)
        if layer == 0:
            model.dense_ffn(layer)
            continue
        model.sigmoid_experts(layer)
        model.dense_ffn(layer, "_shexp")
    model.write()


def short_convolution(path: Path) -> None:
    """`lfm2moe`: blocks of short convolutions (recurrent state) and of attention, sigmoid and bias."""
    layers, kernel = 4, 3
    keys = {
        "attention.head_count_kv": [0, KV_HEADS, 0, KV_HEADS],
        "shortconv.l_cache": kernel,
        "leading_dense_block_count": 1,
        "expert_gating_func": 2,
    }
    model = TinyModel(path, "lfm2moe", layers=layers, experts=8, used=2, keys=keys)
    model.ends("token_embd_norm")
    for layer in range(layers):
        block = f"blk.{layer}"
        if layer % 2:
            model.attention(layer, head_norms=True)
        else:
            model.ones(f"{block}.attn_norm.weight", EMBED)
            model.add(f"{block}.shortconv.conv.weight", kernel, EMBED)
            model.add(f"{block}.shortconv.in_proj.weight", EMBED, 3 * EMBED)
            model.add(f"{block}.shortconv.out_proj.weight", EMBED, EMBED, writes=True)
        model.ones(f"{block}.ffn_norm.weight", EMBED)
        if layer == 0:
            model.dense_ffn(layer)
        else:
            model.sigmoid_experts(layer)
    model.write()


def squared_relu(path: Path) -> None:
    """`nemotron_h_moe`: no gate, ReLU squared, experts in a narrower latent space, blocks of Mamba 2."""
    layers, latent, heads, state, inner = 4, 32, 4, 16, 64
    convolved = inner + 2 * state
    keys = {
        "attention.head_count_kv": [0, 0, KV_HEADS, 0],
        "feed_forward_length": [0, FF, 0, FF],
        "attention.layer_norm_epsilon": 1e-5,
        "ssm.conv_kernel": 4,
        "ssm.inner_size": inner,
        "ssm.state_size": state,
        "ssm.time_step_rank": heads,
        "ssm.group_count": 1,
        "moe_latent_size": latent,
        "expert_shared_feed_forward_length": FF,
        "expert_shared_count": 1,
        "expert_weights_norm": True,
        "expert_weights_scale": 2.0,
    }
    model = TinyModel(path, "nemotron_h_moe", layers=layers, experts=8, used=2, keys=keys)
    model.ends()
    for layer in range(layers):
        block = f"blk.{layer}"
        if layer == 2:
            model.attention(layer)
            continue
        model.ones(f"{block}.attn_norm.weight", EMBED)
        if layer == 0:
            model.add(f"{block}.ssm_in.weight", EMBED, 2 * inner + 2 * state + heads)
            model.add(f"{block}.ssm_conv1d.weight", 4, convolved)
            model.bias(f"{block}.ssm_conv1d.bias", convolved)
            model.bias(f"{block}.ssm_dt.bias", heads)
            model.put(f"{block}.ssm_a", -model.random.uniform(0.5, 2.0, (heads, 1)))
            model.put(f"{block}.ssm_d", model.random.uniform(0.5, 2.0, (heads, 1)))
            model.ones(f"{block}.ssm_norm.weight", inner, 1)
            model.add(f"{block}.ssm_out.weight", inner, EMBED, writes=True)
            continue
        model.router(layer, spread=1.0)
        model.put(f"{block}.exp_probs_b.bias", model.random.uniform(-0.01, 0.01, 8))
        model.add(f"{block}.ffn_latent_down.weight", EMBED, latent)
        model.add(f"{block}.ffn_latent_up.weight", latent, EMBED, writes=True)
        model.expert_tensor(layer, "up", latent)
        model.expert_tensor(layer, "down", latent)
        model.dense_ffn(layer, "_shexp", gate=False)
    model.write()


def delta_net(path: Path) -> None:
    """`qwen35moe`: gated delta nets and gated attention, fused gate and up with SwiGLU, a gated shared expert."""
    key_heads, value_heads, kernel = 2, 4, 4
    keys, values = key_heads * HEAD, value_heads * HEAD
    model = TinyModel(
        path,
        "qwen35moe",
        layers=4,
        experts=16,
        used=4,
        keys={
            "expert_shared_feed_forward_length": FF,
            "rope.dimension_sections": [2, 2, 2, 0],
            "ssm.conv_kernel": kernel,
            "ssm.inner_size": values,
            "ssm.state_size": HEAD,
            "ssm.time_step_rank": value_heads,
            "ssm.group_count": key_heads,
            "full_attention_interval": 2,
        },
    )
    model.ends()
    for layer in range(4):
        block = f"blk.{layer}"
        if layer % 2:
            model.attention(layer, head_norms=True, query_width=2)
        else:
            model.ones(f"{block}.attn_norm.weight", EMBED)
            model.add(f"{block}.attn_qkv.weight", EMBED, 2 * keys + values)
            model.add(f"{block}.attn_gate.weight", EMBED, values)
            model.add(f"{block}.ssm_conv1d.weight", kernel, 2 * keys + values)
            model.bias(f"{block}.ssm_dt.bias", value_heads)
            model.put(f"{block}.ssm_a", -model.random.uniform(0.5, 2.0, value_heads))
            model.add(f"{block}.ssm_beta.weight", EMBED, value_heads)
            model.add(f"{block}.ssm_alpha.weight", EMBED, value_heads)
            model.ones(f"{block}.ssm_norm.weight", HEAD)
            model.add(f"{block}.ssm_out.weight", values, EMBED, writes=True)
        model.ones(f"{block}.post_attention_norm.weight", EMBED)
        model.router(layer)
        model.add(f"{block}.ffn_gate_up_exps.weight", EMBED, 2 * FF, model.experts)
        model.expert_tensor(layer, "down")
        model.add(f"{block}.ffn_gate_inp_shexp.weight", EMBED)
        model.dense_ffn(layer, "_shexp")
    model.write()


def tanh_gate(path: Path) -> None:
    """`kimi-k3`: an activation of tanh, sigmoid, factors and products; latent experts; linear attention and MLA."""
    rank, nope, rope, kernel, latent = 32, 16, 8, 4, 32
    inner = HEADS * HEAD
    keys = {
        "attention.head_count_kv": [0, 1, 0],
        "attention.key_length": rank + rope,
        "attention.value_length": rank,
        "attention.key_length_mla": nope + rope,
        "attention.value_length_mla": HEAD,
        "attention.kv_lora_rank": rank,
        "rope.dimension_count": rope,
        "ssm.conv_kernel": kernel,
        "kda.head_dim": HEAD,
        "kda.gate_lower_bound": -5.0,
        "expert_shared_count": 1,
        "expert_latent_length": latent,
        "expert_gating_func": 2,
        "expert_weights_norm": True,
        "attn_res.block_size": 0,
        "activation.situ_beta": 2.0,
        "activation.situ_linear_beta": 3.0,
    }
    model = TinyModel(path, "kimi-k3", layers=3, experts=8, used=2, keys=keys)
    model.ends()
    for layer in range(3):
        block = f"blk.{layer}"
        model.ones(f"{block}.attn_norm.weight", EMBED)
        model.ones(f"{block}.ffn_norm.weight", EMBED)
        if layer == 1:
            model.ones(f"{block}.attn_kv_a_norm.weight", rank)
            model.add(f"{block}.attn_q.weight", EMBED, HEADS * (nope + rope))
            model.add(f"{block}.attn_kv_a_mqa.weight", EMBED, rank + rope)
            model.add(f"{block}.attn_k_b.weight", nope, rank, HEADS)
            model.add(f"{block}.attn_v_b.weight", rank, HEAD, HEADS)
            model.add(f"{block}.attn_gate.weight", EMBED, inner)
        else:
            for part in "qkv":
                model.add(f"{block}.attn_{part}.weight", EMBED, inner)
                model.add(f"{block}.ssm_conv1d_{part}.weight", kernel, 1, inner)
            model.add(f"{block}.ssm_f_a.weight", EMBED, HEAD)
            model.add(f"{block}.ssm_f_b.weight", HEAD, inner)
            model.add(f"{block}.ssm_beta.weight", EMBED, HEADS)
            model.put(f"{block}.ssm_a", -model.random.uniform(0.5, 2.0, HEADS))
            model.bias(f"{block}.ssm_dt.bias", inner)
            model.add(f"{block}.ssm_g.weight", EMBED, inner)
            model.ones(f"{block}.ssm_norm.weight", HEAD)
        model.add(f"{block}.attn_output.weight", inner, EMBED, writes=True)
        model.router(layer, spread=1.0)
        model.put(f"{block}.exp_probs_b.bias", model.random.uniform(-0.01, 0.01, 8))
        model.add(f"{block}.ffn_routed_down.weight", EMBED, latent)
        model.add(f"{block}.ffn_routed_up.weight", latent, EMBED, writes=True)
        for projection in ("gate", "up", "down"):
            model.expert_tensor(layer, projection, latent)
        model.dense_ffn(layer, "_shexp")
    model.write()
