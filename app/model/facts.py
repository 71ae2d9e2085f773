"""What a GGUF model is, as plain data; every figure comes from the file's own tables."""

import msgspec


class ModelBytes(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of the weights by role; the parts add up to `total`."""

    total: int
    experts: int
    shared_experts: int
    attention: int
    router: int
    embeddings: int
    output: int
    other: int


class KvBytesPerToken(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes one more cell costs over all layers that keep a full-length cache, by cache type."""

    f16: int
    q8_0: int
    q4_0: int


class KvLayer(msgspec.Struct, frozen=True, kw_only=True):
    """What one layer keeps between tokens.

    Attributes:
        kind: "full" (a cell per context token), "window" (a bounded number of cells),
            "latent" (MLA: keys only), "recurrent" (fixed state), "none".
        key_width: Values of K per cell over all KV heads.
        value_width: Values of V per cell over all KV heads (0 for "latent", and for windows of latents).
        window: Cells of the sliding window (0 unless "window", or where there is one beside compressed cells).
        ratio: Tokens that one cell stands for; above 1 where the cache is compressed (DeepSeek-V4).
        raw_width: Values of K per cell of the window beside compressed cells.
        shared: Whether conversations that are decoded together share the cells; else each has its own.
        state_bytes: Bytes of a recurrent state for one sequence, in every cache type; also on layers
            that have both a cache and a state (Falcon-H1).
    """

    kind: str
    key_width: int = 0
    value_width: int = 0
    window: int = 0
    state_bytes: int = 0
    ratio: int = 1
    raw_width: int = 0
    shared: bool = True


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A model, from its GGUF tables alone.

    Attributes:
        architecture: `general.architecture`.
        name: `general.name`, or the file's stem.
        files: Absolute paths of every shard, in order.
        file_bytes: Size of all shards on disk.
        quantization: The commonest type of the expert tensors (of all weights in a dense model).
        layers: Transformer blocks, from `{arch}.block_count`.
        moe_layers: Indices of the blocks that hold expert tensors, without `draft_layers`.
        expert_count: Routed experts per MoE layer; 0 for a dense model.
        experts_used: top-k.
        experts_shared: Experts that every token passes.
        expert_bytes: Layer index to bytes of one expert (gate, up and down slices, biases, scales).
        token_cycle_bytes: Sum over MoE layers of top-k times the bytes of one expert.
        layer_bytes: Per block, bytes of everything that is not a routed expert; 0 for `draft_layers`.
        kv_layers: Per block, what it keeps between tokens.
        fingerprint: Hex digest over architecture and tensor table; names the same weights everywhere.
        draft_layers: Blocks at the end that only draft tokens (multi-token prediction). llama.cpp does
            not load them, so their weights count as `bytes.other` and nowhere else.
        output_tied: There is no output matrix of its own: the output is computed with the token
            embeddings, of which llama.cpp keeps a second copy where the output is on a GPU.
        experts_used_listed: The file lists top-k for each layer, and not one number for all: `experts_used` is the
            largest of them, and llama.cpp takes no other number in their place.
    """

    architecture: str
    name: str
    files: tuple[str, ...]
    file_bytes: int
    quantization: str
    context_length: int
    vocab_size: int
    layers: int
    moe_layers: tuple[int, ...]
    expert_count: int
    experts_used: int
    experts_shared: int
    embedding_length: int
    expert_feed_forward_length: int
    bytes: ModelBytes
    expert_bytes: dict[int, int]
    token_cycle_bytes: int
    kv_bytes_per_token: KvBytesPerToken
    chat_template: bool
    layer_bytes: tuple[int, ...]
    kv_layers: tuple[KvLayer, ...]
    fingerprint: str
    draft_layers: tuple[int, ...] = ()
    output_tied: bool = False
    experts_used_listed: bool = False
