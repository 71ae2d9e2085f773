"""Tiny MoE models with random weights and different experts, one per shape of an expert's chain.

No vocabulary: tests feed token ids. All weights are f32, so that llama.cpp's CPU kernels are the same
with and without the expert device and results can be compared bit by bit.
"""

from pathlib import Path

import gguf
import numpy as np

VOCAB = 96
EMBED = 64
HEADS = 4
KV_HEADS = 2
HEAD = 16
FF = 96


class TinyModel:
    """Collects tensors of a model with `layers` blocks and `experts` experts of which `used` compute."""

    def __init__(self, path: Path, architecture: str, *, layers: int, experts: int, used: int) -> None:
        self.layers, self.experts, self.used = layers, experts, used
        self.architecture = architecture
        self.random = np.random.default_rng(7)
        self.writer = gguf.GGUFWriter(path, architecture)
        self.writer.add_name(f"tiny {architecture}")
        self.writer.add_block_count(layers)
        self.writer.add_context_length(512)
        self.writer.add_embedding_length(EMBED)
        self.writer.add_feed_forward_length(FF)
        self.writer.add_head_count(HEADS)
        self.writer.add_head_count_kv(KV_HEADS)
        self.writer.add_key_length(HEAD)
        self.writer.add_value_length(HEAD)
        self.writer.add_layer_norm_rms_eps(1e-5)
        self.writer.add_rope_freq_base(10000.0)
        self.writer.add_expert_count(experts)
        self.writer.add_expert_used_count(used)
        self.writer.add_vocab_size(VOCAB)
        self.writer.add_tokenizer_model("no_vocab")

    def add(self, name: str, *shape: int, scale: float = 0.15, ones: bool = False) -> None:
        """A random tensor; `shape` is in ggml's order."""
        values = np.ones(shape) if ones else self.random.standard_normal(shape) * scale
        self.writer.add_tensor(name, np.ascontiguousarray(values.T, dtype=np.float32))

    def ends(self) -> None:
        """Embeddings and output."""
        self.add("token_embd.weight", EMBED, VOCAB, scale=1.0)
        self.add("output_norm.weight", EMBED, ones=True)
        self.add("output.weight", EMBED, VOCAB)

    def attention(self, layer: int) -> None:
        """Grouped-query attention without biases."""
        block = f"blk.{layer}"
        self.add(f"{block}.attn_norm.weight", EMBED, ones=True)
        self.add(f"{block}.attn_q.weight", EMBED, HEADS * HEAD)
        self.add(f"{block}.attn_k.weight", EMBED, KV_HEADS * HEAD)
        self.add(f"{block}.attn_v.weight", EMBED, KV_HEADS * HEAD)
        self.add(f"{block}.attn_output.weight", HEADS * HEAD, EMBED)

    def expert_ffn(self, layer: int, ff: int) -> None:
        """Router, gate, up and down of all experts."""
        block = f"blk.{layer}"
        self.add(f"{block}.ffn_gate_inp.weight", EMBED, self.experts)
        self.add(f"{block}.ffn_gate_exps.weight", EMBED, ff, self.experts)
        self.add(f"{block}.ffn_up_exps.weight", EMBED, ff, self.experts)
        self.add(f"{block}.ffn_down_exps.weight", ff, EMBED, self.experts)

    def write(self) -> None:
        """Write the file."""
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def mixtral(path: Path, *, layers: int = 3, experts: int = 8, used: int = 2) -> None:
    """`llama` with experts: softmax routing, SwiGLU."""
    model = TinyModel(path, "llama", layers=layers, experts=experts, used=used)
    model.writer.add_rope_dimension_count(HEAD)
    model.ends()
    for layer in range(layers):
        model.attention(layer)
        model.add(f"blk.{layer}.ffn_norm.weight", EMBED, ones=True)
        model.expert_ffn(layer, FF)
    model.write()


def qwen3moe(path: Path, *, layers: int = 3, experts: int = 16, used: int = 4) -> None:
    """`qwen3moe`: normalised heads, expert width of its own."""
    model = TinyModel(path, "qwen3moe", layers=layers, experts=experts, used=used)
    model.writer.add_expert_feed_forward_length(FF)
    model.ends()
    for layer in range(layers):
        model.attention(layer)
        model.add(f"blk.{layer}.attn_q_norm.weight", HEAD, ones=True)
        model.add(f"blk.{layer}.attn_k_norm.weight", HEAD, ones=True)
        model.add(f"blk.{layer}.ffn_norm.weight", EMBED, ones=True)
        model.expert_ffn(layer, FF)
    model.write()


def gpt_oss(path: Path, *, layers: int = 4, experts: int = 8, used: int = 2) -> None:
    """`gpt-oss`: biases on every product (ADD_ID in the chain), its own SwiGLU, sliding windows, sinks."""
    model = TinyModel(path, "gpt-oss", layers=layers, experts=experts, used=used)
    model.writer.add_expert_feed_forward_length(FF)
    model.writer.add_sliding_window(32)
    model.ends()
    for layer in range(layers):
        block = f"blk.{layer}"
        model.attention(layer)
        model.add(f"{block}.attn_q.bias", HEADS * HEAD)
        model.add(f"{block}.attn_k.bias", KV_HEADS * HEAD)
        model.add(f"{block}.attn_v.bias", KV_HEADS * HEAD)
        model.add(f"{block}.attn_output.bias", EMBED)
        model.add(f"{block}.attn_sinks.weight", HEADS)
        model.add(f"{block}.post_attention_norm.weight", EMBED, ones=True)
        model.expert_ffn(layer, FF)
        model.add(f"{block}.ffn_gate_inp.bias", model.experts)
        model.add(f"{block}.ffn_gate_exps.bias", FF, model.experts)
        model.add(f"{block}.ffn_up_exps.bias", FF, model.experts)
        model.add(f"{block}.ffn_down_exps.bias", EMBED, model.experts)
    model.write()


def shared_expert(path: Path, *, layers: int = 2, experts: int = 8, used: int = 2) -> None:
    """`qwen2moe`: a shared expert with its own gate beside the routed ones."""
    model = TinyModel(path, "qwen2moe", layers=layers, experts=experts, used=used)
    model.writer.add_expert_feed_forward_length(FF)
    model.writer.add_expert_shared_feed_forward_length(FF)
    model.ends()
    for layer in range(layers):
        block = f"blk.{layer}"
        model.attention(layer)
        model.add(f"{block}.attn_q.bias", HEADS * HEAD)
        model.add(f"{block}.attn_k.bias", KV_HEADS * HEAD)
        model.add(f"{block}.attn_v.bias", KV_HEADS * HEAD)
        model.add(f"{block}.ffn_norm.weight", EMBED, ones=True)
        model.expert_ffn(layer, FF)
        model.add(f"{block}.ffn_gate_inp_shexp.weight", EMBED)
        model.add(f"{block}.ffn_gate_shexp.weight", EMBED, FF)
        model.add(f"{block}.ffn_up_shexp.weight", EMBED, FF)
        model.add(f"{block}.ffn_down_shexp.weight", FF, EMBED)
    model.write()


SHAPES = {"mixtral": mixtral, "qwen3moe": qwen3moe, "gpt_oss": gpt_oss, "shared_expert": shared_expert}
