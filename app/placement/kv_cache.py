"""The size of the KV cache: cells of every layer by cache type, and the states of recurrent layers.

The rules are llama.cpp's own (`llama-context.cpp`, `llama-kv-cache-iswa.cpp`): sequences share the cells.
"""

from app.model.facts import KvLayer, ModelFacts
from app.placement.plan import KV_TYPES

CONTEXT_BLOCK = 256
"""Tokens: llama.cpp rounds the context and every attention window up to whole blocks of so many."""

# 32 values take so many bytes: two each in f16; a byte or half a byte each, and a 2-byte scale, when quantised.
_BLOCK_VALUES = 32
_BLOCK_BYTES = {"f16": 64, "q8_0": 34, "q4_0": 18}


def kv_bytes(facts: ModelFacts, n_ctx: int, n_ubatch: int, kv_type: str, n_seq_max: int = 1) -> int:
    """Bytes of the KV cache, and of the recurrent states, which every sequence has its own of, in all layers."""
    values = 0
    for layer in facts.kv_layers:
        sharing, caches = (n_seq_max, 1) if layer.shared else (1, n_seq_max)
        window = window_cells(layer.window, n_ctx, n_ubatch, sharing)
        if layer.kind == "window":
            values += caches * window * (layer.key_width + layer.value_width)
        elif layer.kind in ("full", "latent"):
            cells = full_cells(-(-n_ctx // layer.ratio))
            values += caches * (cells * (layer.key_width + layer.value_width) + window * layer.raw_width)
    states = n_seq_max * sum(layer.state_bytes for layer in facts.kv_layers)
    return -(-values * _BLOCK_BYTES[kv_type] // _BLOCK_VALUES) + states


def full_cells(n_ctx: int) -> int:
    """Cells of a layer that keeps every token."""
    return -(-n_ctx // CONTEXT_BLOCK) * CONTEXT_BLOCK


def window_cells(window: int, n_ctx: int, n_ubatch: int, n_seq_max: int = 1) -> int:
    """Cells of a layer that keeps a window: it must hold that of every sequence and a whole micro-batch."""
    return full_cells(min(full_cells(n_ctx), window * n_seq_max + n_ubatch))


def usable_kv_types(facts: ModelFacts) -> tuple[str, ...]:
    """The cache types this model can have, largest first.

    Quantised caches hold whole blocks of values, and need flash attention for V, which the engine then
    asks for.
    """
    return KV_TYPES if all(_whole_blocks(layer) for layer in facts.kv_layers) else KV_TYPES[:1]


def _whole_blocks(layer: KvLayer) -> bool:
    return layer.key_width % _BLOCK_VALUES == 0 and layer.value_width % _BLOCK_VALUES == 0
