"""A model's first layers as a model of its own: its tokenizer and its texts' lengths, in a tenth of the time."""

import re
import struct
from pathlib import Path

import gguf
import numpy as np

from app.library import demo_source
from app.library.demo_writer import write_demo

_ALIGNMENT = 32
_TENSOR_COUNT = 8  # where the header has it
_LAYER = re.compile(r"blk\.(\d+)\.")


def build_short_demo(path: Path, *, experts: int = 4, used: int = 2, layers: int = 3) -> Path:
    """Write the demonstration model with so few layers to `path`; what it says is no language any more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    dense = path.with_suffix(".dense")
    first_layers(demo_source.find_source(), dense, layers)
    write_demo(path, dense, experts, used, lambda _fraction: None)
    dense.unlink()
    return path


def first_layers(source: Path, target: Path, layers: int) -> None:
    """Write `source` to `target` without the layers from `layers` on."""
    reader = gguf.GGUFReader(source)
    head = bytearray(source.read_bytes()[: reader.tensors[0].field.offset])  # counts and all key-values
    kept = [tensor for tensor in reader.tensors if _layer(tensor.name) < layers]
    [count] = [field for name, field in reader.fields.items() if name.endswith(".block_count")]
    value = count.offset + sum(part.nbytes for part in count.parts[:-1])
    assert struct.unpack_from("<I", head, value)[0] > layers
    struct.pack_into("<I", head, value, layers)
    struct.pack_into("<Q", head, _TENSOR_COUNT, len(kept))
    infos, data, offset = [], [], 0
    for tensor in kept:
        name, shape = tensor.name.encode(), [int(size) for size in tensor.shape]
        places = struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, tensor.tensor_type.value, offset)
        infos.append(struct.pack("<Q", len(name)) + name + places)
        raw = np.ascontiguousarray(tensor.data).tobytes()
        data.append(raw + bytes(-len(raw) % _ALIGNMENT))
        offset += len(data[-1])
    written = bytes(head) + b"".join(infos)
    with target.open("wb") as file:
        file.write(written + bytes(-len(written) % _ALIGNMENT))
        file.writelines(data)


def _layer(name: str) -> int:
    found = _LAYER.match(name)
    return int(found.group(1)) if found else -1
