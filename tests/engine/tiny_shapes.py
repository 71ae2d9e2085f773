"""Tiny models, one per shape of an expert's chain that llama.cpp builds: every function writes one file."""

from pathlib import Path

from gguf import GGMLQuantizationType as Quantization
from tiny_hybrids import delta_net, latent_attention, short_convolution, squared_relu, tanh_gate
from tiny_models import EMBED, FF, HEAD, HEADS, TinyModel


def mixtral(path: Path, *, layers: int = 3, experts: int = 8, used: int = 2) -> None:
    """`llama` with experts: softmax routing, SwiGLU of two products."""
    model = TinyModel(path, "llama", layers=layers, experts=experts, used=used)
    model.ends()
    for layer in range(layers):
        model.attention(layer)
        model.ones(f"blk.{layer}.ffn_norm.weight", EMBED)
        model.expert_ffn(layer)
    model.write()


def no_gate(path: Path) -> None:
    """`llama` whose experts of layer 1 have no gate (a plain SiLU), with one expert a token.

    With one expert llama.cpp copies the row where it would else sum rows.
    """
    model = TinyModel(path, "llama", layers=3, experts=8, used=1)
    model.ends()
    for layer in range(3):
        model.attention(layer)
        model.ones(f"blk.{layer}.ffn_norm.weight", EMBED)
        model.router(layer)
        for projection in ("up", "down") if layer == 1 else ("gate", "up", "down"):
            model.expert_tensor(layer, projection)
    model.write()


def qwen3moe(
    path: Path,
    *,
    layers: int = 3,
    experts: int = 16,
    used: int = 4,
    scales: bool = False,
    embed: int = EMBED,
    ff: int = FF,
    stored_as: tuple[dict[str, Quantization], ...] = (),
) -> None:
    """`qwen3moe`: many experts a token; `scales` gives each product a factor per expert."""
    model = TinyModel(path, "qwen3moe", layers=layers, experts=experts, used=used, embed=embed, ff=ff)
    model.ends()
    for layer in range(layers):
        model.attention(layer, head_norms=True)
        model.ones(f"blk.{layer}.ffn_norm.weight", embed)
        model.expert_ffn(layer, stored_as[layer % len(stored_as)] if stored_as else None)
        if scales:
            for projection in ("gate", "up", "down"):
                model.ones(f"blk.{layer}.ffn_{projection}_exps.scale", experts)
    model.write()


def expert_scales(path: Path) -> None:
    """A factor per expert after each of the three products."""
    qwen3moe(path, scales=True)


def quantised_mixture(path: Path) -> None:
    """Three projections of three types in each layer, two of which the CPU has a repacked layout for."""
    q4_0, q4_k, q8_0, q6_k = Quantization.Q4_0, Quantization.Q4_K, Quantization.Q8_0, Quantization.Q6_K
    qwen3moe(
        path,
        layers=4,
        experts=8,
        used=2,
        embed=256,
        ff=512,
        stored_as=(
            {"gate": q4_k, "up": q4_k, "down": q6_k},
            {"gate": q4_0, "up": q4_0, "down": q4_0},
            {"gate": q4_k, "up": q8_0, "down": q4_k},
            {"gate": q8_0, "up": q6_k, "down": q8_0},
        ),
    )


def quantised_mixtral(path: Path) -> None:
    """`llama` with experts, every projection of one layer in Q4_0 and of the other in Q4_K."""
    model = TinyModel(path, "llama", layers=2, experts=8, used=2, embed=256, ff=256)
    model.ends()
    for layer, kind in enumerate((Quantization.Q4_0, Quantization.Q4_K)):
        model.attention(layer)
        model.ones(f"blk.{layer}.ffn_norm.weight", 256)
        model.expert_ffn(layer, dict.fromkeys(("gate", "up", "down"), kind))
    model.write()


def gpt_oss(path: Path, *, layers: int = 4, experts: int = 8, used: int = 2) -> None:
    """`gpt-oss`: biases on every product (ADD_ID in the chain), its own SwiGLU, sliding windows, sinks."""
    keys = {"attention.sliding_window": 32}
    model = TinyModel(path, "gpt-oss", layers=layers, experts=experts, used=used, keys=keys)
    model.ends()
    for layer in range(layers):
        block = f"blk.{layer}"
        model.attention(layer, biases=True)
        model.bias(f"{block}.attn_output.bias", EMBED, writes=True)
        model.bias(f"{block}.attn_sinks.weight", HEADS)
        model.ones(f"{block}.post_attention_norm.weight", EMBED)
        model.expert_ffn(layer)
        model.bias(f"{block}.ffn_gate_inp.bias", experts)
        model.bias(f"{block}.ffn_gate_exps.bias", FF, experts)
        model.bias(f"{block}.ffn_up_exps.bias", FF, experts)
        model.bias(f"{block}.ffn_down_exps.bias", EMBED, experts, writes=True)
    model.write()


def shared_expert(path: Path, *, layers: int = 2, experts: int = 8, used: int = 2) -> None:
    """`qwen2moe`: a shared expert with its own gate beside the routed ones, weights that are not normalised."""
    keys = {"expert_shared_feed_forward_length": FF}
    model = TinyModel(path, "qwen2moe", layers=layers, experts=experts, used=used, keys=keys)
    model.ends()
    for layer in range(layers):
        model.attention(layer, biases=True)
        model.ones(f"blk.{layer}.ffn_norm.weight", EMBED)
        model.expert_ffn(layer)
        model.add(f"blk.{layer}.ffn_gate_inp_shexp.weight", EMBED)
        model.dense_ffn(layer, "_shexp")
    model.write()


def fused_gate_up(path: Path) -> None:
    """`gemma4`: gate and up in one product of which views are taken, GELU, a factor per expert, sliding windows."""
    layers, experts = 3, 8
    keys = {
        "attention.sliding_window": 32,
        "attention.sliding_window_pattern": [True, False, True],
        "attention.key_length_swa": HEAD,
        "attention.value_length_swa": HEAD,
        "attention.shared_kv_layers": 0,
        "embedding_length_per_layer_input": 0,
        "rope.dimension_count_swa": HEAD,
    }
    model = TinyModel(path, "gemma4", layers=layers, experts=experts, used=2, keys=keys)
    model.ends()
    model.ones("rope_freqs.weight", HEAD // 2)
    for layer in range(layers):
        block = f"blk.{layer}"
        model.attention(layer, head_norms=True)
        for norm in ("post_attention_norm", "ffn_norm", "post_ffw_norm"):
            model.ones(f"{block}.{norm}.weight", EMBED)
        for norm in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"):
            model.ones(f"{block}.{norm}.weight", EMBED)
        model.dense_ffn(layer)
        model.router(layer)
        # llama.cpp divides the router's input by √width before it multiplies with this.
        model.put(f"{block}.ffn_gate_inp.scale", 8.0 + 0 * model.random.standard_normal(EMBED))
        model.add(f"{block}.ffn_gate_up_exps.weight", EMBED, 2 * FF, experts)
        model.expert_tensor(layer, "down")
        model.ones(f"{block}.ffn_down_exps.scale", experts)
    model.write()


def weight_before(path: Path) -> None:
    """`llama4`: the routing weight multiplies the expert's input; one expert a token; every other block dense."""
    keys = {"interleave_moe_layer_step": 2}
    model = TinyModel(path, "llama4", layers=4, experts=8, used=1, keys=keys)
    model.ends()
    for layer in range(4):
        model.attention(layer)
        model.ones(f"blk.{layer}.ffn_norm.weight", EMBED)
        if layer % 2:
            model.expert_ffn(layer)
            model.dense_ffn(layer, "_shexp")
        else:
            model.dense_ffn(layer)
    model.write()


def gelu(path: Path) -> None:
    """`grok`: GELU with a gate, in layer 1 without."""
    model = TinyModel(path, "grok", layers=3, experts=8, used=2)
    model.ends()
    for layer in range(3):
        block = f"blk.{layer}"
        model.attention(layer)
        for norm in ("attn_output_norm", "ffn_norm", "layer_output_norm"):
            model.ones(f"{block}.{norm}.weight", EMBED)
        model.router(layer)
        for projection in ("up", "down") if layer == 1 else ("gate", "up", "down"):
            model.expert_tensor(layer, projection)
    model.write()


def gated_relu(path: Path) -> None:
    """`smallthinker`: ReLU with a gate, a router that reads the block's input."""
    keys = {"expert_gating_func": 2}
    model = TinyModel(path, "smallthinker", layers=3, experts=8, used=2, keys=keys)
    model.ends()
    for layer in range(3):
        model.attention(layer)
        model.ones(f"blk.{layer}.ffn_norm.weight", EMBED)
        model.expert_ffn(layer, spread=1.0)
    model.write()


def chunk_experts(path: Path) -> None:
    """`grovemoe`: a second, smaller chain per layer whose experts are shared by pairs: ids repeat in a token."""
    experts, chunk = 8, 32
    keys = {
        "experts_per_group": 2,
        "expert_group_scale": 0.5,
        "expert_chunk_feed_forward_length": chunk,
    }
    model = TinyModel(path, "grovemoe", layers=3, experts=experts, used=3, keys=keys)
    model.ends()
    for layer in range(3):
        block = f"blk.{layer}"
        model.attention(layer, head_norms=True)
        model.ones(f"{block}.ffn_norm.weight", EMBED)
        model.expert_ffn(layer)
        model.add(f"{block}.ffn_gate_chexps.weight", EMBED, chunk, experts // 2)
        model.add(f"{block}.ffn_up_chexps.weight", EMBED, chunk, experts // 2)
        model.add(f"{block}.ffn_down_chexps.weight", chunk, EMBED, experts // 2, writes=True)
    model.write()


def clamped_swiglu(path: Path) -> None:
    """`step35`: SwiGLU written out as SiLU, clamps and a product; heads with a gate; a shared expert."""
    layers = 3
    keys = {
        "attention.sliding_window": 32,
        "attention.sliding_window_pattern": [True, False, True],
        "rope.freq_base_swa": 10000.0,
        "rope.dimension_count_swa": HEAD,
        "expert_shared_feed_forward_length": FF,
        "expert_weights_norm": True,
        "swiglu_clamp_exp": [0.5, 0.75, 1.0],
    }
    model = TinyModel(path, "step35", layers=layers, experts=8, used=2, keys=keys)
    model.ends()
    for layer in range(layers):
        block = f"blk.{layer}"
        model.attention(layer, head_norms=True)
        model.add(f"{block}.attn_gate.weight", EMBED, HEADS)
        model.ones(f"{block}.ffn_norm.weight", EMBED)
        model.sigmoid_experts(layer)
        model.dense_ffn(layer, "_shexp")
    model.write()


def clamped_glu(path: Path) -> None:
    """`maple`: SwiGLU with clamps as one operation."""
    keys = {
        "attention.sliding_window": 32,
        "attention.sliding_window_pattern": [True, False, True],
        "rope.dimension_count_swa": HEAD,
        "swiglu_clamp_exp": [0.5, 0.75, 1.0],
    }
    model = TinyModel(path, "maple", layers=3, experts=8, used=2, keys=keys)
    model.ends()
    for layer in range(3):
        model.attention(layer, head_norms=True)
        model.ones(f"blk.{layer}.ffn_norm.weight", EMBED)
        model.expert_ffn(layer)
    model.write()


SHAPES = {
    "mixtral": mixtral,
    "no_gate": no_gate,
    "qwen3moe": qwen3moe,
    "expert_scales": expert_scales,
    "gpt_oss": gpt_oss,
    "shared_expert": shared_expert,
    "fused_gate_up": fused_gate_up,
    "weight_before": weight_before,
    "gelu": gelu,
    "gated_relu": gated_relu,
    "chunk_experts": chunk_experts,
    "clamped_swiglu": clamped_swiglu,
    "clamped_glu": clamped_glu,
    "latent_attention": latent_attention,
    "short_convolution": short_convolution,
    "squared_relu": squared_relu,
    "delta_net": delta_net,
    "tanh_gate": tanh_gate,
}
QUANTISED = {"quantised_mixture": quantised_mixture, "quantised_mixtral": quantised_mixtral}
