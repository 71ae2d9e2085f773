"""A copy of a GGUF file with some of its tensors in another type; everything else as it was."""

import struct
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np

ALIGNMENT = 32


def requantise(source: Path, target: Path, chosen: Callable[[str], bool], kind: gguf.GGMLQuantizationType) -> None:
    """Write `source` to `target` with the tensors whose names are `chosen` stored as `kind`."""
    reader = gguf.GGUFReader(source)
    first_info = reader.tensors[0].field.offset
    head = source.read_bytes()[:first_info]  # magic, version, counts and all key-values
    infos, data, offset = [], [], 0
    for tensor in reader.tensors:
        stored, values = tensor.tensor_type, tensor.data
        if chosen(tensor.name):
            stored = kind
            values = gguf.quants.quantize(gguf.quants.dequantize(tensor.data, tensor.tensor_type), kind)
        name = tensor.name.encode()
        shape = [int(size) for size in tensor.shape]
        infos.append(
            struct.pack("<Q", len(name)) + name
            + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, stored.value, offset)
        )  # fmt: skip
        raw = np.ascontiguousarray(values).tobytes()
        raw += bytes(-len(raw) % ALIGNMENT)
        data.append(raw)
        offset += len(raw)
    written = head + b"".join(infos)
    with target.open("wb") as file:
        file.write(written + bytes(-len(written) % ALIGNMENT))
        file.writelines(data)
