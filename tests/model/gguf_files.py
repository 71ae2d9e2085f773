"""Writes GGUF files for tests byte by byte: whole ones, split ones, and shape files without data.

A shape file has the true tensor table of a model and a hole of the true size in place of the weights,
so a 30 GB model takes some kilobytes of disk and a few milliseconds. Plain functions only.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import gguf

DEFAULT_ALIGNMENT = 32
Value = bool | int | float | str | Sequence[bool] | Sequence[int] | Sequence[float] | Sequence[str]
_Type = gguf.GGUFValueType
_Kind = gguf.GGMLQuantizationType


@dataclass(frozen=True)
class Tensor:
    """A row of a tensor table; `shape` has the row length first, `type` is a name like "Q4_K"."""

    name: str
    shape: tuple[int, ...]
    type: str = "F32"

    @property
    def bytes(self) -> int:
        """Bytes of its data."""
        block_values, block_bytes = gguf.GGML_QUANT_SIZES[_Kind[self.type]]
        return prod(self.shape) // block_values * block_bytes


@dataclass(frozen=True)
class Model:
    """What a GGUF file says; keys of `keys` are below the architecture, those of `plain` are whole."""

    architecture: str
    keys: Mapping[str, Value]
    tensors: tuple[Tensor, ...]
    plain: Mapping[str, Value] = field(default_factory=dict)

    @property
    def metadata(self) -> dict[str, Value]:
        """All key-values of the file."""
        own = {f"{self.architecture}.{key}": value for key, value in self.keys.items()}
        # The vocabulary type lets llama.cpp itself load such a file; `plain` may bring a real one.
        return {
            "general.architecture": self.architecture,
            "tokenizer.ggml.model": "none",
            **self.plain,
            **own,
        }


def text(value: str) -> bytes:
    """A text as GGUF stores it."""
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value_bytes(value: Value) -> bytes:
    """A value with its type before it; whole numbers become 32 bits wide, or 64 where they must."""
    kind, data = _typed(value)
    return struct.pack("<I", kind) + data


def _typed(value: Value) -> tuple[int, bytes]:
    if isinstance(value, bool):
        return _Type.BOOL, struct.pack("<?", value)
    if isinstance(value, int):
        return (_Type.UINT32, struct.pack("<I", value)) if value < 1 << 32 else (_Type.UINT64, struct.pack("<Q", value))
    if isinstance(value, float):
        return _Type.FLOAT32, struct.pack("<f", value)
    if isinstance(value, str):
        return _Type.STRING, text(value)
    elements = [_typed(element) for element in value]
    kind = elements[0][0] if elements else _Type.UINT32
    return _Type.ARRAY, struct.pack("<IQ", kind, len(elements)) + b"".join(data for _, data in elements)


def key_bytes(metadata: Mapping[str, Value]) -> bytes:
    """The section of key-values."""
    return b"".join(text(key) + value_bytes(value) for key, value in metadata.items())


def tensor_bytes(tensors: Iterable[Tensor], alignment: int = DEFAULT_ALIGNMENT) -> tuple[bytes, int]:
    """The section of tensor infos, and the bytes of data it speaks of (the last one unpadded)."""
    section, end = b"", 0
    for tensor in tensors:
        offset = -(-end // alignment) * alignment
        dimensions = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
        section += text(tensor.name) + dimensions + struct.pack("<IQ", _Kind[tensor.type], offset)
        end = offset + tensor.bytes
    return section, end


def header(tensor_count: int, key_count: int, version: int = 3, magic: bytes = b"GGUF") -> bytes:
    """The first 24 bytes of a file."""
    return magic + struct.pack("<IQQ", version, tensor_count, key_count)


def table(metadata: Mapping[str, Value], tensors: Sequence[Tensor], version: int = 3) -> tuple[bytes, int]:
    """A whole table, padded to where the data start, and the size the file must have."""
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    assert isinstance(alignment, int)
    infos, data_bytes = tensor_bytes(tensors, alignment)
    head = header(len(tensors), len(metadata), version) + key_bytes(metadata) + infos
    head += b"\0" * (-len(head) % alignment)
    return head, len(head) + data_bytes


def write_file(path: Path, metadata: Mapping[str, Value], tensors: Sequence[Tensor], version: int = 3) -> Path:
    """Write a file with a hole for the data."""
    head, size = table(metadata, tensors, version)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)
    return path


def write_model(path: Path, model: Model) -> Path:
    """Write a model as one shape file."""
    return write_file(path, model.metadata, model.tensors)


def write_split(folder: Path, name: str, model: Model, count: int) -> list[Path]:
    """Write a model as `count` shape files, as llama.cpp's `gguf-split` names and fills them."""
    paths = []
    share = -(-len(model.tensors) // count)
    for part in range(count):
        split = {"split.no": part, "split.count": count, "split.tensors.count": len(model.tensors)}
        metadata = {**model.metadata, **split} if part == 0 else split
        path = folder / f"{name}-{part + 1:05d}-of-{count:05d}.gguf"
        paths.append(write_file(path, metadata, model.tensors[part * share : (part + 1) * share]))
    return paths


def vocabulary(size: int) -> dict[str, Value]:
    """The arrays of a byte-pair tokenizer with `size` tokens and as many merges."""
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": [f"token{index}" for index in range(size)],
        "tokenizer.ggml.token_type": [1] * size,
        "tokenizer.ggml.merges": [f"tok en{index}" for index in range(size)],
        "tokenizer.chat_template": "{{ messages[0]['content'] }}",
    }
