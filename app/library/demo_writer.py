"""Writes the demo model's GGUF file: the dense source with its FFN stacked and a router added."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import gguf
import numpy as np

from app.errors import AppError, ErrorCode
from app.library.demo_router import STATISTICS_NAME, RouterStatistics
from app.library.demo_source import DEMO_NAME, resource_folder

_ROLES = ("ffn_gate", "ffn_up", "ffn_down")


class _Tensor:
    """What GGUFWriter asks of a tensor: `nbytes` and `tofile`. Rows are written `copies` times.

    NumPy's own `tofile` hides the reason of a failed write; a plain write raises it.
    """

    def __init__(self, name: str, data: Any, kind: gguf.GGMLQuantizationType, shape: tuple[int, ...], copies: int = 1):
        self.name = name
        self.kind = kind
        self.shape = shape
        self.nbytes = data.nbytes * copies
        self._data = data
        self._copies = copies

    def tofile(self, file: BinaryIO) -> None:
        raw = np.ascontiguousarray(self._data).data.cast("B")
        for _ in range(self._copies):
            file.write(raw)


def write_demo(path: Path, source: Path, experts: int, used: int, on_progress: Callable[[float], None]) -> None:
    """Write the demo with `experts` copies of the FFN of `source` to `path`, and have it on the disk.

    Raises:
        AppError: disk_full where the space is short from the start; file_missing or model_damaged for
            the router's statistics.
        OSError: the file could not be written.
    """
    statistics = RouterStatistics(resource_folder() / STATISTICS_NAME)
    reader = gguf.GGUFReader(source)
    tensors = tuple(_tensors(reader, statistics, experts, used))
    total = sum(tensor.nbytes for tensor in tensors)
    free = shutil.disk_usage(path.parent).free
    if free < total:
        raise AppError(
            ErrorCode.DISK_FULL, f"The demo needs {total:,} bytes in {path.parent}, where {free:,} are free."
        )
    writer = gguf.GGUFWriter(path, "llama")
    try:
        _add_metadata(writer, reader, experts, used)
        for tensor in tensors:
            writer.add_tensor_info(tensor.name, tensor.shape, np.dtype(np.float32), tensor.nbytes, tensor.kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        written = 0
        for tensor in tensors:
            writer.write_tensor_data(tensor)
            written += tensor.nbytes
            on_progress(written / total)
        writer.flush()
        os.fsync(writer.fout[0].fileno())
    finally:
        writer.close()


def _tensors(reader: Any, statistics: RouterStatistics, experts: int, used: int) -> Iterator[_Tensor]:
    """The demo's tensors in the source's order: FFNs stacked, a router before each gate, the rest as it is.

    Shapes are NumPy's (outermost first), the reverse of what GGUF stores.
    """
    for tensor in reader.tensors:
        shape = tuple(int(size) for size in reversed(tensor.shape))
        block, _, role = tensor.name.removesuffix(".weight").rpartition(".")
        if role not in _ROLES:
            yield _Tensor(tensor.name, tensor.data, tensor.tensor_type, shape)
            continue
        if role == "ffn_gate":
            rows = statistics.rows(int(block.removeprefix("blk.")), experts, used)
            yield _Tensor(f"{block}.ffn_gate_inp.weight", rows, gguf.GGMLQuantizationType.F32, rows.shape)
        yield _Tensor(f"{block}.{role}_exps.weight", tensor.data, tensor.tensor_type, (experts, *shape), experts)


def _add_metadata(writer: Any, reader: Any, experts: int, used: int) -> None:
    """Carry over every key of the source, then say what this model is."""
    own = {
        gguf.Keys.General.NAME: f"{DEMO_NAME} {experts}x SmolLM2 135M Instruct",
        gguf.Keys.General.DESCRIPTION: (
            f"demonstration MoE: {experts} identical copies of SmolLM2's FFN, constructed router; "
            "answers as the dense SmolLM2-135M-Instruct does"
        ),
        gguf.Keys.General.SIZE_LABEL: f"{experts}x135M",
    }
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != gguf.Keys.General.ARCHITECTURE and name not in own:
            sub_type = field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(name, field.contents(), field.types[0], sub_type)
    for name, text in own.items():
        writer.add_string(name, text)
    writer.add_expert_count(experts)
    writer.add_expert_used_count(used)
