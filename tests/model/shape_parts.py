"""Pieces of a model's tensor table: attention, experts, dense feed-forward parts, and what surrounds them.

The mixtures of types follow what llama.cpp's quantisation gives: Q4_K_M stores the down projections of
about half the layers wider, and rows that are no multiple of 256 in a type of small blocks.
"""

from gguf_files import Tensor, Value


def widened(layer: int, layers: int) -> bool:
    """Whether Q4_K_M stores this layer's down projection wider than the rest."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def down_type(layer: int, layers: int, row: int) -> str:
    """The type of a down projection in Q4_K_M."""
    if row % 256 == 0:
        return "Q6_K" if widened(layer, layers) else "Q4_K"
    return "Q8_0" if widened(layer, layers) else "Q5_0"


def named(layer: int, shapes: dict[str, tuple[tuple[int, ...], str]]) -> list[Tensor]:
    """Tensors of one layer from their local names."""
    return [Tensor(f"blk.{layer}.{name}", shape, kind) for name, (shape, kind) in shapes.items()]


def attention(
    layer: int, embedding: int, query: int, key: int, *, output: int | None = None, head_norm: int = 0
) -> list[Tensor]:
    """Attention with separate projections: `query` values, `key` values of K and of V.

    `output` is the width that enters the output projection, `head_norm` the width of norms per head.
    """
    norms = {f"attn_{part}_norm.weight": ((head_norm,), "F32") for part in "qk" if head_norm}
    return named(
        layer,
        {
            **norms,
            "attn_norm.weight": ((embedding,), "F32"),
            "attn_q.weight": ((embedding, query), "Q4_K"),
            "attn_k.weight": ((embedding, key), "Q4_K"),
            "attn_v.weight": ((embedding, key), "Q6_K"),
            "attn_output.weight": ((output or query, embedding), "Q4_K"),
            "ffn_norm.weight": ((embedding,), "F32"),
        },
    )


def experts(layer: int, layers: int, embedding: int, inner: int, count: int) -> list[Tensor]:
    """A router and `count` experts with separate gate, up and down projections."""
    return named(
        layer,
        {
            "ffn_gate_inp.weight": ((embedding, count), "F32"),
            "ffn_gate_exps.weight": ((embedding, inner, count), "Q4_K"),
            "ffn_up_exps.weight": ((embedding, inner, count), "Q4_K"),
            "ffn_down_exps.weight": ((inner, embedding, count), down_type(layer, layers, inner)),
        },
    )


def ffn(layer: int, layers: int, embedding: int, inner: int, suffix: str = "") -> list[Tensor]:
    """A dense feed-forward part, or shared experts with the suffix "_shexp"."""
    return named(
        layer,
        {
            f"ffn_gate{suffix}.weight": ((embedding, inner), "Q4_K"),
            f"ffn_up{suffix}.weight": ((embedding, inner), "Q4_K"),
            f"ffn_down{suffix}.weight": ((inner, embedding), down_type(layer, layers, inner)),
        },
    )


def ends(embedding: int, vocabulary: int, *, tied: bool = False) -> list[Tensor]:
    """The tensors outside the layers."""
    output = [] if tied else [Tensor("output.weight", (embedding, vocabulary), "Q6_K")]
    return [
        Tensor("token_embd.weight", (embedding, vocabulary), "Q4_K"),
        Tensor("output_norm.weight", (embedding,)),
        *output,
    ]


def keys(layers: int, embedding: int, vocabulary: int, heads: int, kv_heads: Value) -> dict[str, Value]:
    """The keys every model has."""
    return {
        "context_length": 32768,
        "embedding_length": embedding,
        "block_count": layers,
        "vocab_size": vocabulary,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
    }
