"""Reads the facts of a model from the tables of its GGUF files, without llama.cpp."""

import hashlib
import logging
import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from app.errors import AppError, ErrorCode
from app.model.facts import ModelBytes, ModelFacts
from app.model.gguf_table import Table, TensorInfo
from app.model.kv_layers import kv_bytes_per_token, read_kv_layers
from app.model.metadata import Metadata
from app.model.roles import Role, TensorName, is_expert, is_unstacked_expert, parse_name, role_of
from app.model.shards import model_name, read_shards

logger = logging.getLogger(__name__)

_TOKENS_KEY = "tokenizer.ggml.tokens"
_CHAT_TEMPLATE_KEY = "tokenizer.chat_template"
_TYPE_KEY = "general.type"
_EPSILONS = ("attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon")
_FINGERPRINT_BYTES = 16
# llama.cpp's own limits (`llama-hparams.h`); beyond them it ends the process.
_MOST_LAYERS = 512
_MOST_EXPERTS = 1024


class _Tensor(NamedTuple):
    info: TensorInfo
    name: TensorName
    role: Role


class ExpertTensor(NamedTuple):
    """Where the data of one tensor of routed experts lie: `bytes` bytes from `offset` on in `path`.

    `type` is the name of their type in `TENSOR_TYPES`.
    """

    name: str
    path: Path
    offset: int
    bytes: int
    type: str


class _Blocks(NamedTuple):
    """How many blocks the model has, how many of them are run, and which hold routed experts."""

    total: int
    loaded: int
    moe: tuple[int, ...]


def read_facts(path: Path) -> ModelFacts:
    """Read what the model at `path` is; any of its files may be given.

    Raises:
        AppError: FILE_MISSING, FILE_UNREADABLE, NOT_GGUF, MODEL_DAMAGED, SHARD_MISSING, or
            MODEL_UNSUPPORTED when metadata that the facts need are missing.
    """
    started = time.perf_counter()
    _check_encodable(path)
    tables = read_shards(path.absolute())
    facts = _facts(tables)
    logger.info("read the tables of %s in %.0f ms", path.name, (time.perf_counter() - started) * 1000)
    return facts


def read_expert_tensors(path: Path) -> tuple[ExpertTensor, ...]:
    """Every tensor of routed experts of the model at `path`, without those of blocks that only draft tokens.

    Raises:
        AppError: as `read_facts`.
    """
    _check_encodable(path)
    tables = read_shards(path.absolute())
    names = [parse_name(info.name) for table in tables for info in table.tensors]
    blocks = _blocks(Metadata(tables[0]), names)
    return tuple(
        ExpertTensor(info.name, table.path, table.data_offset + info.offset, info.bytes, info.type.name)
        for table in tables
        for info in table.tensors
        if _role(parse_name(info.name), blocks) is Role.EXPERTS
    )


def read_tensor_bytes(path: Path) -> dict[str, int]:
    """Bytes of every tensor of the model at `path`, by name.

    Raises:
        AppError: as `read_facts`.
    """
    _check_encodable(path)
    return {info.name: info.bytes for table in read_shards(path.absolute()) for info in table.tensors}


def _check_encodable(path: Path) -> None:
    """A file name outside Unicode (possible on Linux) could be neither shown nor sent to the engine."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        message = f"The name {str(path)!a} is not valid text: rename the file or its folder."
        raise AppError(ErrorCode.FILE_UNREADABLE, message, str(error)) from error


def _facts(tables: tuple[Table, ...]) -> ModelFacts:
    first = tables[0]
    metadata = Metadata(first)
    _check_is_model(metadata)
    infos = [info for table in tables for info in table.tensors]
    names = [parse_name(info.name) for info in infos]
    blocks = _blocks(metadata, names)
    tensors = [_Tensor(info, name, _role(name, blocks)) for info, name in zip(infos, names, strict=True)]
    expert_count, experts_used = _experts(metadata, blocks)
    expert_bytes = _expert_bytes(metadata, tensors, blocks.moe, expert_count)
    kv_layers = read_kv_layers(metadata, _bases(names, blocks.total), blocks.loaded)
    return ModelFacts(
        architecture=metadata.architecture,
        name=metadata.text("general.name") or model_name(first.path),
        files=tuple(str(table.path) for table in tables),
        file_bytes=sum(table.file_bytes for table in tables),
        quantization=_quantization(tensors),
        context_length=metadata.required("context_length"),
        vocab_size=_vocab_size(metadata, infos),
        layers=blocks.total,
        moe_layers=blocks.moe,
        expert_count=expert_count,
        experts_used=max(experts_used, default=0),
        experts_shared=_experts_shared(metadata, tensors, blocks.moe),
        embedding_length=metadata.required("embedding_length"),
        expert_feed_forward_length=_expert_feed_forward_length(metadata, tensors, blocks.moe),
        bytes=_bytes_by_role(tensors),
        expert_bytes=expert_bytes,
        token_cycle_bytes=sum(used * expert_bytes[layer] for layer, used in zip(blocks.moe, experts_used, strict=True)),
        kv_bytes_per_token=kv_bytes_per_token(kv_layers),
        chat_template=_CHAT_TEMPLATE_KEY in metadata,
        layer_bytes=_layer_bytes(tensors, blocks),
        kv_layers=kv_layers,
        fingerprint=_fingerprint(metadata.architecture, infos),
        draft_layers=tuple(range(blocks.loaded, blocks.total)),
        experts_used_listed=bool(blocks.moe) and metadata.is_array("expert_used_count"),
        output_tied=not any(tensor.name == TensorName(None, "output", "weight") for tensor in tensors),
    )


def _check_is_model(metadata: Metadata) -> None:
    kind = metadata.text(_TYPE_KEY)
    if kind not in ("", "model"):
        raise metadata.unsupported(f"it is of the type '{kind}', not a model")
    for key in _EPSILONS:
        epsilon = metadata.real(key)
        if epsilon is not None and not 0 <= epsilon < math.inf:  # llama.cpp ends the process on it
            raise metadata.damaged(f"its {key} is {epsilon}")


def _blocks(metadata: Metadata, names: Sequence[TensorName]) -> _Blocks:
    if not names:
        raise metadata.unsupported("it holds no tensors")
    count = metadata.required("block_count")
    if count > _MOST_LAYERS:
        raise metadata.damaged(f"it claims {count} blocks")
    drafting = metadata.number("nextn_predict_layers")
    if drafting >= count:
        raise metadata.unsupported("it only drafts tokens for another model")
    loaded = count - drafting
    present = {name.layer for name in names if name.layer is not None}
    last = max(present, default=-1)
    if not loaded - 1 <= last < count:
        raise metadata.damaged(f"it claims {count} blocks, and the tensors are those of {last + 1}")
    if any(is_unstacked_expert(name) for name in names if name.layer is not None):
        raise metadata.unsupported("it keeps each expert in a tensor of its own, which llama.cpp no longer reads")
    moe = {name.layer for name in names if name.layer is not None and is_expert(name.base)}
    return _Blocks(count, loaded, tuple(sorted(layer for layer in moe if layer < loaded)))


def _role(name: TensorName, blocks: _Blocks) -> Role:
    # Blocks that only draft tokens are not loaded: nothing of them is an expert to place.
    if name.layer is not None and name.layer >= blocks.loaded:
        return Role.OTHER
    return role_of(name, beside_experts=name.layer in blocks.moe)


def _experts(metadata: Metadata, blocks: _Blocks) -> tuple[int, tuple[int, ...]]:
    """The number of experts, and per MoE layer how many of them a token uses."""
    if not blocks.moe:
        return 0, ()
    count = metadata.required("expert_count")
    per_layer = metadata.per_layer("expert_used_count", blocks.total)
    used = tuple(per_layer[layer] for layer in blocks.moe)
    if not any(used):
        raise metadata.missing("expert_used_count")
    if count > _MOST_EXPERTS or max(used) > count:
        raise metadata.damaged(f"it claims {count} experts, of which a token uses {max(used)}")
    return count, used


def _expert_bytes(
    metadata: Metadata, tensors: Iterable[_Tensor], moe_layers: tuple[int, ...], expert_count: int
) -> dict[int, int]:
    totals = dict.fromkeys(moe_layers, 0)
    for info, name, role in tensors:
        if role is not Role.EXPERTS or name.layer is None:
            continue
        held = info.shape[-1] if info.shape else 1
        # Chunks of experts (Grove) are fewer than the experts; every other tensor has a slice for each.
        if held != expert_count and not (name.base.endswith("_chexps") and expert_count % held == 0):
            raise metadata.damaged(f"'{info.name}' holds {held} experts, the metadata say {expert_count}")
        totals[name.layer] += info.bytes
    return {layer: -(-total // expert_count) for layer, total in totals.items()}


def _experts_shared(metadata: Metadata, tensors: Iterable[_Tensor], moe_layers: tuple[int, ...]) -> int:
    if not moe_layers or not any(tensor.role is Role.SHARED_EXPERTS for tensor in tensors):
        return 0
    # Several models store the shared part as one expert and do not say how many it stands for.
    return metadata.number("expert_shared_count") or 1


def _expert_feed_forward_length(metadata: Metadata, tensors: Iterable[_Tensor], moe_layers: tuple[int, ...]) -> int:
    """The inner width of one expert, of the first MoE layer; 0 for a dense model."""
    widths = {
        tensor.name.layer: tensor.info.shape[0]
        for tensor in tensors
        if tensor.name.base == "ffn_down_exps" and tensor.name.rest == "weight"
    }
    for layer in moe_layers:
        if layer not in widths:
            raise metadata.damaged(f"block {layer} has experts without 'ffn_down_exps.weight'")
    return widths[moe_layers[0]] if moe_layers else 0


def _vocab_size(metadata: Metadata, infos: Iterable[TensorInfo]) -> int:
    stated = metadata.length(_TOKENS_KEY) or metadata.number("vocab_size")
    if stated:
        return stated
    for info in infos:
        if info.name == "token_embd.weight":
            return info.shape[-1]
    raise metadata.missing("vocab_size")


def _quantization(tensors: Sequence[_Tensor]) -> str:
    """The tensor type that stores the most values, of the experts where there are any."""
    experts = [tensor for tensor in tensors if tensor.role is Role.EXPERTS]
    values: Counter[str] = Counter()
    for tensor in experts or tensors:
        kind = tensor.info.type
        values[kind.name] += tensor.info.bytes * kind.block_values // kind.block_bytes
    return values.most_common(1)[0][0]


def _bytes_by_role(tensors: Iterable[_Tensor]) -> ModelBytes:
    sums = dict.fromkeys(Role, 0)
    for tensor in tensors:
        sums[tensor.role] += tensor.info.bytes
    return ModelBytes(total=sum(sums.values()), **{role.value: size for role, size in sums.items()})


def _layer_bytes(tensors: Iterable[_Tensor], blocks: _Blocks) -> tuple[int, ...]:
    sums = [0] * blocks.total
    for info, name, role in tensors:
        if name.layer is not None and name.layer < blocks.loaded and role is not Role.EXPERTS:
            sums[name.layer] += info.bytes
    return tuple(sums)


def _bases(names: Iterable[TensorName], count: int) -> list[frozenset[str]]:
    bases: list[set[str]] = [set() for _ in range(count)]
    for name in names:
        if name.layer is not None:
            bases[name.layer].add(name.base)
    return list(map(frozenset, bases))


def _fingerprint(architecture: str, infos: Iterable[TensorInfo]) -> str:
    """Equal for the same table whatever its order, its files and their names."""
    digest = hashlib.blake2b(architecture.encode(), digest_size=_FINGERPRINT_BYTES)
    for info in sorted(infos, key=lambda info: info.name):
        digest.update(f"\0{info.name}\0{info.type.name}\0{info.shape}".encode())
    return digest.hexdigest()
