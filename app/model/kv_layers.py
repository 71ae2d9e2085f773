"""What each block of a model keeps between tokens: cache cells, a window of them, or a fixed state.

The rules are those by which llama.cpp sizes its caches (`llama-hparams.cpp`, `llama-model.cpp`,
`create_memory`, and `load_arch_hparams` of each model). Which block is recurrent is told from its
tensors, so that hybrids need no list of names; the windows do need one, for files store only their size.
"""

from collections.abc import Sequence
from typing import NamedTuple

from app.model.facts import KvBytesPerToken, KvLayer
from app.model.metadata import Metadata

_STATE_PREFIXES = ("ssm_", "time_mix_")
_STATE_BASES = {"shortconv"}
_ATTENTION_BASES = {"attn_k", "attn_qkv", "attn_kv", "attn_kv_a_mqa"}
_STATE_VALUE_BYTES = 4  # states are kept in f32 whatever the cache type

# Models that are run without any cache: encoders and diffusion models.
_CACHELESS = {
    *("bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2", "jina-bert-v3"),
    *("eurobert", "gemma-embedding", "wavtokenizer-dec", "dream", "llada", "llada-moe", "rnd1"),
}

_EVERY_LAYER = 0


class _Windows(NamedTuple):
    """How an architecture spreads its sliding windows over the blocks.

    Attributes:
        period: Of so many blocks one has full attention, the last; `_EVERY_LAYER` for none.
            A pattern in the file, an array or a number, comes first.
        full_first: The first block of each period has full attention instead.
        default: Cells of the window where the file does not say.
        fixed: Cells of the window whatever the file says, unless it says 0.
    """

    period: int = 1
    full_first: bool = False
    default: int = 0
    fixed: int = 0


# llama.cpp ignores the windows of architectures that are not listed here.
_WINDOWS = {
    "afmoe": _Windows(4),
    "cohere2": _Windows(4),
    "cohere2moe": _Windows(4, full_first=True),
    "deepseek4": _Windows(_EVERY_LAYER),
    "dots3note": _Windows(),
    "exaone-moe": _Windows(4, default=128),
    "exaone4": _Windows(4),
    "gemma2": _Windows(2, default=4096),
    "gemma3": _Windows(6),
    "gemma3n": _Windows(5),
    "gemma4": _Windows(),
    "gpt-oss": _Windows(2),
    "granite_swa": _Windows(),
    "laguna": _Windows(4, full_first=True),
    "lfm2": _Windows(_EVERY_LAYER),
    "llama4": _Windows(4, default=8192, fixed=8192),
    "maple": _Windows(),
    "mellum": _Windows(4),
    "mimo2": _Windows(),
    "muse-glimmer": _Windows(4),
    "olmo2": _Windows(4),
    "plamo3": _Windows(8),
    "smallthinker": _Windows(4, full_first=True, fixed=4096),
    "spark2_5": _Windows(),
    "step35": _Windows(),
}
_GEMMA3N_LAYERS_WITH_CACHE = 20
# The cache of its sparse-attention index allocates values too, though nothing reads them.
_INDEX_WITH_VALUES = {"minimax-m3"}


class _Heads(NamedTuple):
    """Head counts per block, and the values of one head of K and V in full and windowed blocks."""

    query_heads: tuple[int, ...]
    kv_heads: tuple[int, ...]
    key: int
    value: int
    window_key: int
    window_value: int


def read_kv_layers(metadata: Metadata, blocks: Sequence[frozenset[str]], loaded: int) -> tuple[KvLayer, ...]:
    """What each block keeps between tokens.

    Args:
        metadata: The model's key-values.
        blocks: Per block, the base names of its tensors.
        loaded: The number of leading blocks that are run; those after it only draft tokens.

    Raises:
        AppError: MODEL_UNSUPPORTED, naming the key, where the metadata lack what sizes a cache.
    """
    if metadata.architecture in _CACHELESS:
        return (KvLayer(kind="none"),) * len(blocks)
    run = blocks[:loaded]
    recurrent = _recurrent(metadata, run)
    windows = _windows(metadata, recurrent)
    heads = _heads(metadata, loaded)
    ratios = metadata.per_layer("attention.compress_ratios", loaded)
    keys_only = bool(metadata.number("attention.key_length_mla")) or any(ratios)
    with_cache = _layers_with_cache(metadata, loaded)

    def layer(index: int) -> KvLayer:
        bases = run[index]
        state = _state_bytes(metadata, heads) if recurrent[index] else 0
        # Beside a state there is a cache only where the block has attention of its own (Falcon-H1):
        # the fused `attn_qkv` of a recurrent block feeds its recurrence.
        has_attention = bool(bases & ({"attn_k"} if state else _ATTENTION_BASES))
        if has_attention and not any(heads.query_heads):
            raise metadata.missing("attention.head_count")
        if not (has_attention and index < with_cache and heads.kv_heads[index]):
            return KvLayer(kind="recurrent" if state else "none", state_bytes=state)
        window = windows[index]
        key = heads.kv_heads[index] * (heads.window_key if window else heads.key)
        value = heads.kv_heads[index] * (heads.window_value if window else heads.value)
        if ratios[index]:
            return _compressed(metadata, key, window, ratios[index])
        if any(base.startswith("indexer") for base in bases):
            key += _index_width(metadata)
            value += heads.value if metadata.architecture in _INDEX_WITH_VALUES else 0
        return KvLayer(
            kind="window" if window else "latent" if keys_only else "full",
            key_width=key,
            value_width=0 if keys_only else value,
            window=window,
            state_bytes=state,
            shared=not any(ratios),
        )

    unused = (KvLayer(kind="none"),) * (len(blocks) - loaded)
    return tuple(map(layer, range(loaded))) + unused


def kv_bytes_per_token(layers: Sequence[KvLayer]) -> KvBytesPerToken:
    """Bytes one more cell costs over the layers that keep every token, by cache type.

    A value takes 2 bytes in f16, 34/32 in q8_0 and 18/32 in q4_0 (blocks of 32 values and a scale).
    """
    values = sum(
        -(-(layer.key_width + layer.value_width) // layer.ratio) for layer in layers if layer.kind in ("full", "latent")
    )
    return KvBytesPerToken(f16=values * 2, q8_0=-(-values * 34 // 32), q4_0=-(-values * 18 // 32))


def _recurrent(metadata: Metadata, blocks: Sequence[frozenset[str]]) -> tuple[bool, ...]:
    """Per block, whether it keeps a state: as the file says, else by its tensors."""
    if metadata.is_array("attention.recurrent_layers"):
        return tuple(map(bool, metadata.per_layer("attention.recurrent_layers", len(blocks))))
    interval = metadata.number("full_attention_interval")
    if interval:
        return tuple((index + 1) % interval != 0 for index in range(len(blocks)))
    return tuple(any(base in _STATE_BASES or base.startswith(_STATE_PREFIXES) for base in bases) for bases in blocks)


def _windows(metadata: Metadata, recurrent: tuple[bool, ...]) -> tuple[int, ...]:
    """Per block, the cells of its sliding window; 0 where it attends to everything."""
    layers = len(recurrent)
    rule = _WINDOWS.get(metadata.architecture)
    if rule is None:
        return (0,) * layers
    window = metadata.number("attention.sliding_window", rule.default)
    if window and rule.fixed:
        window = rule.fixed
    pattern = "attention.sliding_window_pattern"
    if metadata.is_array(pattern):
        windowed = metadata.per_layer(pattern, layers)
    else:
        period = metadata.number(pattern, rule.period)
        full = 0 if rule.full_first else period - 1
        windowed = tuple(not period or index % period != full for index in range(layers))
    return tuple(window if windowed[index] and not recurrent[index] else 0 for index in range(layers))


def _heads(metadata: Metadata, layers: int) -> _Heads:
    query_heads = metadata.per_layer("attention.head_count", layers)
    even_share = metadata.required("embedding_length") // max(*query_heads, 1)
    key = metadata.number("attention.key_length", even_share)
    value = metadata.number("attention.value_length", even_share)
    return _Heads(
        query_heads=query_heads,
        kv_heads=metadata.per_layer("attention.head_count_kv", layers, default=query_heads),
        key=key,
        value=value,
        window_key=metadata.number("attention.key_length_swa", key),
        window_value=metadata.number("attention.value_length_swa", value),
    )


def _layers_with_cache(metadata: Metadata, loaded: int) -> int:
    """The number of leading blocks with a cache of their own; later ones read an earlier block's."""
    if metadata.architecture == "gemma3n":
        return min(loaded, _GEMMA3N_LAYERS_WITH_CACHE)
    return loaded - metadata.number("attention.shared_kv_layers")


def _index_width(metadata: Metadata) -> int:
    """Values per token of a sparse-attention index: one more head of keys, in a cache of its own."""
    pooled = 3 if metadata.number("attention.indexer.kpool") else 1
    return metadata.required("attention.indexer.key_length") * pooled


def _compressed(metadata: Metadata, key: int, window: int, ratio: int) -> KvLayer:
    """A block of which one cell stands for `ratio` tokens (DeepSeek-V4).

    Beside the compressed cells it keeps a window of raw keys, and what it is about to compress: two values in
    f32, key and score, for each of `ratio` rows. Ratio 4 has rows that overlap, twice as many and twice as
    wide, and an index with all of that again.
    """
    index = metadata.required("attention.indexer.key_length") if ratio == 4 else 0
    overlap = 2 if ratio == 4 else 1
    rows, row = ratio * overlap, overlap * (key + index)
    return KvLayer(
        kind="latent",
        key_width=key + index,
        window=window,
        state_bytes=2 * rows * row * _STATE_VALUE_BYTES,
        ratio=ratio,
        raw_width=key,
        shared=False,
    )


def _state_bytes(metadata: Metadata, heads: _Heads) -> int:
    """Bytes of the fixed state of one recurrent block for one sequence: convolution and recurrence."""
    embedding = metadata.required("embedding_length")
    inner = metadata.number("ssm.inner_size")
    state = metadata.number("ssm.state_size")
    head = metadata.number("kda.head_dim")
    if wkv_head := metadata.number("wkv.head_size"):  # RWKV
        values = embedding * (metadata.number("token_shift_count", 2) + wkv_head)
    elif cells := metadata.number("shortconv.l_cache"):  # LFM2
        values = embedding * (cells - 1)
    elif head:  # Kimi delta attention: convolutions of Q, K and V
        convolution = metadata.number("ssm.conv_kernel", 4) - 1
        values = heads.query_heads[0] * head * (3 * convolution + head)
    elif inner and state:  # Mamba and gated delta networks
        convolution = max(metadata.number("ssm.conv_kernel") - 1, 0)
        values = convolution * (inner + 2 * metadata.number("ssm.group_count") * state) + state * inner
    elif metadata.architecture == "minimax-01":  # lightning attention
        values = heads.query_heads[0] * heads.key**2
    else:
        raise metadata.missing("ssm.state_size" if inner else "ssm.inner_size")
    return values * _STATE_VALUE_BYTES
