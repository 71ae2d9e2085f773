"""What a tensor is for, told from its name alone.

The names are those of llama.cpp's `llama-arch.cpp`. A tensor's name is `blk.<layer>.<base>.<kind>` or,
outside the layers, `<base>.<kind>`; the role follows from the base.
"""

import enum
import re
from typing import NamedTuple

_BLOCK = re.compile(r"(?:enc\.|dec\.)?blk\.(\d{1,6})\.(.+)")
# `_chexps` are chunks of routed experts; `_shexp` (shared) must not match.
_EXPERTS = re.compile(r"ffn_(?:gate|up|down|gate_up)_(?:ch)?exps")
# One tensor for each expert: the layout before the experts of a layer were stacked into one tensor.
_UNSTACKED_EXPERT = re.compile(r"ffn_(?:gate|up|down)\.\d+\.")

_ROUTER = {"ffn_gate_inp", "exp_probs_b", "exp_probs_b_vl", "ffn_gate_tid2eid"}
_DENSE_FFN = {"ffn_gate", "ffn_up", "ffn_down"}
_MIXER_PREFIXES = ("attn_", "ssm_", "time_mix_", "indexer", "cross_attn_", "vis_attn_")
_MIXERS = {"shortconv", "post_attention_norm"}
_EMBEDDINGS = {"token_embd", "token_embd_norm", "position_embd", "token_types", "per_layer_token_embd"}


class Role(enum.StrEnum):
    """The parts of a model by what they cost and where they may live; names of `ModelBytes` fields.

    `ATTENTION` is whatever mixes tokens: attention, or the recurrence in its place.
    `SHARED_EXPERTS` is every feed-forward part beside routed experts that each token passes.
    """

    EXPERTS = "experts"
    SHARED_EXPERTS = "shared_experts"
    ATTENTION = "attention"
    ROUTER = "router"
    EMBEDDINGS = "embeddings"
    OUTPUT = "output"
    OTHER = "other"


class TensorName(NamedTuple):
    """A tensor's name in parts: its layer (None outside the layers), its base, and what follows."""

    layer: int | None
    base: str
    rest: str


def parse_name(name: str) -> TensorName:
    """Divide a tensor's full name into layer, base and rest."""
    block = _BLOCK.fullmatch(name)
    layer, local = (int(block[1]), block[2]) if block else (None, name)
    base, _, rest = local.partition(".")
    return TensorName(layer, base, rest)


def is_expert(base: str) -> bool:
    """Whether tensors of this base hold routed experts."""
    return _EXPERTS.fullmatch(base) is not None


def is_unstacked_expert(name: TensorName) -> bool:
    """Whether the tensor is a single expert in the old layout, which llama.cpp no longer reads."""
    return _UNSTACKED_EXPERT.match(f"{name.base}.{name.rest}") is not None


def role_of(name: TensorName, *, beside_experts: bool) -> Role:
    """The role of a tensor; `beside_experts` says that its layer holds routed experts."""
    if name.layer is None:
        return _role_outside_layers(name.base)
    if is_expert(name.base):
        return Role.EXPERTS
    # Some models (Gemma 4, Arctic) call the part that every token passes like a dense model's.
    if name.base.endswith("_shexp") or (beside_experts and name.base in _DENSE_FFN):
        return Role.SHARED_EXPERTS
    if name.base in _ROUTER:
        return Role.ROUTER
    if name.base in _MIXERS or name.base.startswith(_MIXER_PREFIXES):
        return Role.ATTENTION
    return Role.OTHER


def _role_outside_layers(base: str) -> Role:
    if base in _EMBEDDINGS:
        return Role.EMBEDDINGS
    if base == "cls" or base.startswith("output"):
        return Role.OUTPUT
    return Role.OTHER
