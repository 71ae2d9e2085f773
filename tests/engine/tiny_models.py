"""Builds tiny MoE model files with random weights and different experts; `tiny_shapes.py` holds the architectures.

No vocabulary: tests feed token ids. Which experts a token is routed to depends on nothing that is computed
with rounding: the first `CODE` channels of the residual stream carry the token's class, no layer writes to
them, routers read only them, and their logits are evenly spaced. So a GPU that multiplies in half precision
routes every token as the CPU does, and differences between logits are differences of the experts' products.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType as Quantization

VOCAB = 96
EMBED = 64
HEADS = 4
KV_HEADS = 2
HEAD = 16
FF = 96
CODE = 16
CLASS_AMPLITUDE = 3.0
CONTEXT = 2048

Key = bool | int | float | str | Sequence[int] | Sequence[float] | Sequence[bool]


class TinyModel:
    """Collects keys and tensors of a model of `layers` blocks with `experts` experts, of which `used` compute.

    Args:
        path: file to write.
        architecture: llama.cpp's name of it.
        layers: blocks.
        experts: per MoE layer.
        used: top-k.
        embed: width of the residual stream.
        ff: width of an expert (and of dense blocks).
        keys: metadata under `{architecture}.`, over the defaults; None leaves a default out.
    """

    def __init__(
        self,
        path: Path,
        architecture: str,
        *,
        layers: int,
        experts: int,
        used: int,
        embed: int = EMBED,
        ff: int = FF,
        keys: Mapping[str, Key | None] | None = None,
    ) -> None:
        self.layers, self.experts, self.used, self.embed, self.ff = layers, experts, used, embed, ff
        self.random = np.random.default_rng(7)
        self.writer = gguf.GGUFWriter(path, architecture)
        self.writer.add_name(f"tiny {architecture}")
        self.writer.add_tokenizer_model("no_vocab")
        defaults: dict[str, Key] = {
            "vocab_size": VOCAB,
            "block_count": layers,
            "context_length": CONTEXT,
            "embedding_length": embed,
            "feed_forward_length": ff,
            "expert_count": experts,
            "expert_used_count": used,
            "expert_feed_forward_length": ff,
            "attention.head_count": HEADS,
            "attention.head_count_kv": KV_HEADS,
            "attention.key_length": HEAD,
            "attention.value_length": HEAD,
            "attention.layer_norm_rms_epsilon": 1e-5,
            "rope.freq_base": 10000.0,
            "rope.dimension_count": HEAD,
        }
        for name, value in {**defaults, **(keys or {})}.items():
            if value is not None:
                self._key(f"{architecture}.{name}", value)

    def _key(self, name: str, value: Key) -> None:
        match value:
            case bool():
                self.writer.add_bool(name, value)
            case int():
                self.writer.add_uint32(name, value)
            case float():
                self.writer.add_float32(name, value)
            case str():
                self.writer.add_string(name, value)
            case _:
                self.writer.add_array(name, list(value))

    def put(self, name: str, values: npt.NDArray[Any]) -> None:
        """An f32 tensor of these values; numpy's order of axes is the reverse of ggml's."""
        self.writer.add_tensor(name, np.ascontiguousarray(values, dtype=np.float32))

    def ones(self, name: str, *shape: int) -> None:
        """A norm's weights, in ggml's order of axes; not all equal, so that a mixed-up axis would show."""
        self.put(name, 1.0 + 0.1 * self.random.standard_normal(shape[::-1]))

    def add(
        self,
        name: str,
        *shape: int,
        scale: float | None = None,
        writes: bool = False,
        stored_as: Quantization = Quantization.F32,
    ) -> None:
        """A random tensor.

        Args:
            name: of the tensor.
            shape: in ggml's order: inputs first.
            scale: standard deviation; by default products keep about the size of what goes in.
            writes: its output is added to the residual stream, where the token's class must stay as it is.
            stored_as: the file's type of it.
        """
        scale = 1.2 / np.sqrt(shape[0]) if scale is None else scale
        values = self.random.standard_normal(shape[::-1]) * scale
        if writes:
            values[..., :CODE, :] = 0
        if stored_as is Quantization.F32:
            self.put(name, values)
            return
        blocks = quantised(values.astype(np.float32), stored_as, self.random)
        self.writer.add_tensor(name, blocks, raw_dtype=stored_as)

    def bias(self, name: str, *shape: int, writes: bool = False) -> None:
        """Small random values, in ggml's order of axes; `writes` as in `add`."""
        values = self.random.standard_normal(shape[::-1]) * 0.15
        if writes:
            values[..., :CODE] = 0
        self.put(name, values)

    def write(self) -> None:
        """Write the file."""
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()

    # Parts that many architectures share.

    def ends(self, norm: str = "output_norm") -> None:
        """Embeddings, which carry the token's class, and output."""
        table = self.random.standard_normal((VOCAB, self.embed))
        table[:, :CODE] = 0
        table[np.arange(VOCAB), np.arange(VOCAB) % CODE] = CLASS_AMPLITUDE
        self.put("token_embd.weight", table)
        self.ones(f"{norm}.weight", self.embed)
        self.add("output.weight", self.embed, VOCAB)

    def attention(self, layer: int, *, head_norms: bool = False, query_width: int = 1, biases: bool = False) -> None:
        """Grouped-query attention; `query_width` 2 is for architectures whose queries carry a gate."""
        block = f"blk.{layer}"
        self.ones(f"{block}.attn_norm.weight", self.embed)
        self.add(f"{block}.attn_q.weight", self.embed, HEADS * HEAD * query_width)
        self.add(f"{block}.attn_k.weight", self.embed, KV_HEADS * HEAD)
        self.add(f"{block}.attn_v.weight", self.embed, KV_HEADS * HEAD)
        self.add(f"{block}.attn_output.weight", HEADS * HEAD, self.embed, writes=True)
        if head_norms:
            self.ones(f"{block}.attn_q_norm.weight", HEAD)
            self.ones(f"{block}.attn_k_norm.weight", HEAD)
        if biases:
            self.bias(f"{block}.attn_q.bias", HEADS * HEAD)
            self.bias(f"{block}.attn_k.bias", KV_HEADS * HEAD)
            self.bias(f"{block}.attn_v.bias", KV_HEADS * HEAD)

    def router(self, layer: int, *, spread: float = 2.0) -> None:
        """For every class of tokens an order of the experts of its own, logits evenly spaced in ±`spread`."""
        weights = np.zeros((self.experts, self.embed))
        steps = np.linspace(-spread, spread, self.experts)
        for channel in range(CODE):
            weights[:, channel] = self.random.permutation(steps)
        self.put(f"blk.{layer}.ffn_gate_inp.weight", weights)

    def expert_tensor(
        self, layer: int, projection: str, width: int | None = None, stored_as: Quantization = Quantization.F32
    ) -> None:
        """`gate`, `up` or `down` of all experts; `width` is the stream's width where it is not `embed`."""
        outer = self.embed if width is None else width
        name = f"blk.{layer}.ffn_{projection}_exps.weight"
        if projection == "down":
            writes = width is None
            self.add(name, self.ff, outer, self.experts, writes=writes, stored_as=stored_as)
        else:
            self.add(name, outer, self.ff, self.experts, stored_as=stored_as)

    def expert_ffn(
        self, layer: int, stored_as: Mapping[str, Quantization] | None = None, *, spread: float = 2.0
    ) -> None:
        """Router and the three projections of all experts."""
        self.router(layer, spread=spread)
        for projection in ("gate", "up", "down"):
            self.expert_tensor(layer, projection, stored_as=(stored_as or {}).get(projection, Quantization.F32))

    def sigmoid_experts(self, layer: int) -> None:
        """Experts chosen by sigmoid and bias; logits small enough that sigmoids stay apart."""
        self.expert_ffn(layer, spread=1.0)
        self.put(f"blk.{layer}.exp_probs_b.bias", self.random.uniform(-0.01, 0.01, self.experts))

    def dense_ffn(self, layer: int, suffix: str = "", *, gate: bool = True) -> None:
        """A dense block's or (suffix `_shexp`) a shared expert's projections."""
        block = f"blk.{layer}"
        if gate:
            self.add(f"{block}.ffn_gate{suffix}.weight", self.embed, self.ff)
        self.add(f"{block}.ffn_up{suffix}.weight", self.embed, self.ff)
        self.add(f"{block}.ffn_down{suffix}.weight", self.ff, self.embed, writes=True)


def quantised(values: npt.NDArray[np.float32], kind: Quantization, random: np.random.Generator) -> npt.NDArray[Any]:
    """`values` in blocks of `kind`, as bytes: [..., rows, bytes of a row].

    The gguf package cannot quantise to K types: for these, blocks are random with the spread of `values`, and
    rows that are zero stay zero.
    """
    if kind not in (Quantization.Q4_K, Quantization.Q6_K):
        return gguf.quants.quantize(values, kind)
    rows = values.reshape(-1, values.shape[-1])
    block_size, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (rows.shape[0], rows.shape[1] // block_size, block_bytes), dtype=np.uint8)
    spread = float(values.std())
    if kind is Quantization.Q4_K:
        # value = d·scale·q − dmin·min with scale and min in 0…63 and q in 0…15; packed scales are any bytes.
        # The spread of scale·q is about 200, and dmin = 7.5·d centres it.
        head = np.array([spread / 200, 7.5 * spread / 200], dtype=np.float16)
        blocks[:, :, :4] = head.view(np.uint8)
    else:
        # value = d·scale·(q − 32) with q in 0…63; scales of ±32 keep d in f16's normal range.
        scales = random.integers(-32, 32, (*blocks.shape[:2], 16), dtype=np.int8)
        blocks[:, :, 192:208] = scales.view(np.uint8)
        blocks[:, :, 208:] = np.array([spread / 340], dtype=np.float16).view(np.uint8)
    blocks[~rows.any(axis=1)] = 0
    return blocks.reshape(*values.shape[:-1], -1)
