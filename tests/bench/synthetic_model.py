"""Writes a Mixture-of-Experts model of a realistic shape whose router follows a trace drawn beforehand.

The weights are random; the layers are those of `qwen3moe` (Qwen3-30B-A3B unless told otherwise), only fewer.

How the trace is imposed. The last `codes` dimensions of the hidden state carry the token's code: the embedding of
token v is `CODE` at dimension v mod codes of them and 0 at the others, beside random numbers in the remaining
dimensions. Nothing ever adds to the code: the rows of attention output and of the experts' down projections that
belong to it are zero, so it reaches every layer as it was. A layer's router looks at nothing else. Its column of a
code gives the `used` experts that `routing_trace.routes` chose for that code a logit of 3 to 5, all others 0 to 1;
the RMS norm before the router only scales all of them alike. So the experts of every token are known without
running the model, whatever comes before it, and the other weights cost what they cost in a trained model.

Routing by token alone is a simplification that published analyses of trained models support; what matters for a
cache, popularity and what neighbouring tokens share, is set by `routing_trace`.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType
from routing_trace import RoutingShape, routes
from weight_blocks import TYPES, random_rows, row_bytes

from app.errors import AppError, ErrorCode, writing_error
from app.library.file_lock import FileLock
from app.library.folders import cache_folder, ensure_folder

CODE = 8.0
_ROWS_AT_ONCE = 1 << 16
_MARGIN_BYTES = 1 << 30  # left free on the disk
_FORMAT = 1  # counts up when the same parameters give another file


@dataclass(frozen=True)
class ModelShape:
    """A model: its layers' widths, the type of its matrices (a key of `weight_blocks.TYPES`) and its routing."""

    quantisation: str
    routing: RoutingShape
    hidden: int = 2048
    expert_ff: int = 768
    heads: int = 32
    kv_heads: int = 4
    head: int = 128
    vocabulary: int = 4096
    context: int = 4096

    def __post_init__(self) -> None:
        if self.routing.codes >= self.hidden or self.vocabulary % self.routing.codes:
            raise ValueError("the codes must leave hidden dimensions over and divide the vocabulary")

    @property
    def expert_bytes(self) -> int:
        """Bytes of one expert: gate, up and down."""
        kind = TYPES[self.quantisation]
        return 2 * self.expert_ff * row_bytes(kind, self.hidden) + self.hidden * row_bytes(kind, self.expert_ff)

    @property
    def experts_bytes(self) -> int:
        """Bytes of all experts of all layers."""
        return self.expert_bytes * self.routing.experts * self.routing.layers


def cached_model(shape: ModelShape, folder: Path | None = None) -> Path:
    """The model's file in `folder` (default: `bench` in the application's cache folder), written if missing.

    Written under another name and renamed when whole; one process writes at a time.

    Raises:
        AppError: disk_full or folder_not_writable.
    """
    folder = ensure_folder(folder or cache_folder() / "bench")
    path = (
        folder / f"moe-{shape.quantisation.lower()}-{shape.routing.layers}x{shape.routing.experts}-{_key(shape)}.gguf"
    )
    part = path.with_name(f".{path.name}.part")
    with FileLock(path, lambda: None):
        if not path.exists():
            try:
                write_model(part, shape)
                part.replace(path)
            except OSError as error:
                raise writing_error(error, part) from error
            finally:
                part.unlink(missing_ok=True)
    return path


def write_model(path: Path, shape: ModelShape) -> None:
    """Write the model to `path` and have it on the disk. Holds no more than a piece of one tensor in memory.

    Raises:
        AppError: disk_full where the space is short from the start.
        OSError: the file could not be written.
    """
    tensors = tuple(_tensors(shape))
    total = sum(tensor.nbytes for tensor in tensors)
    free = shutil.disk_usage(path.parent).free
    if free < total + _MARGIN_BYTES:
        raise AppError(
            ErrorCode.DISK_FULL,
            f"The model needs {total:,} bytes in {path.parent}, where {free:,} are free; 1 GiB of it is kept.",
        )
    writer = gguf.GGUFWriter(path, "qwen3moe")
    try:
        _add_metadata(writer, shape)
        for tensor in tensors:
            writer.add_tensor_info(tensor.name, tensor.shape, np.dtype(np.float32), tensor.nbytes, tensor.kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for tensor in tensors:
            writer.write_tensor_data(tensor)
        writer.flush()
        os.fsync(writer.fout[0].fileno())
    finally:
        writer.close()


def _key(shape: ModelShape) -> str:
    """Changes with every parameter, and with the routes drawn from them (NumPy may change its streams)."""
    digest = hashlib.sha256(json.dumps([_FORMAT, asdict(shape)], sort_keys=True).encode())
    digest.update(routes(shape.routing).tobytes())
    return digest.hexdigest()[:12]


class _Tensor:
    """What GGUFWriter asks of a tensor: `nbytes` and `tofile`. `shape` is NumPy's, outermost first."""

    def __init__(
        self, name: str, kind: GGMLQuantizationType, shape: tuple[int, ...], pieces: Callable[[], Iterator[Any]]
    ) -> None:
        self.name, self.kind, self.shape = name, kind, shape
        rows = int(np.prod(shape[:-1]))
        width = {GGMLQuantizationType.F32: 4, GGMLQuantizationType.F16: 2}.get(kind)
        self.nbytes = rows * (width * shape[-1] if width else row_bytes(kind, shape[-1]))
        self._pieces = pieces

    def tofile(self, file: BinaryIO) -> None:
        for piece in self._pieces():
            file.write(np.ascontiguousarray(piece).data.cast("B"))


def _whole(name: str, values: npt.NDArray[Any]) -> _Tensor:
    kind = GGMLQuantizationType.F16 if values.dtype == np.float16 else GGMLQuantizationType.F32
    return _Tensor(name, kind, values.shape, lambda: iter((values,)))


def _matrix(name: str, shape: ModelShape, sizes: tuple[int, ...], gain: float, keep: int | None = None) -> _Tensor:
    """A random matrix (or stack of them) that takes inputs of RMS 1 to outputs of RMS `gain`.

    Args:
        name: The tensor's.
        shape: The model's; its seed and the name decide the weights.
        sizes: (..., rows, columns).
        gain: RMS of the output.
        keep: Rows of each matrix from this one on are zero.
    """
    kind = TYPES[shape.quantisation]
    rows, columns = sizes[-2:]
    matrices = int(np.prod(sizes[:-2]))
    together = max(1, _ROWS_AT_ONCE // rows)

    def pieces() -> Iterator[npt.NDArray[np.uint8]]:
        random = np.random.default_rng([shape.routing.seed, *name.encode()])
        for first in range(0, matrices, together):
            count = min(together, matrices - first)
            blocks = random_rows(random, kind, count * rows, columns, gain / columns**0.5).reshape(count, rows, -1)
            if keep is not None:
                blocks[:, keep:] = 0
            yield blocks

    return _Tensor(name, kind, sizes, pieces)


def _tensors(shape: ModelShape) -> Iterator[_Tensor]:
    routing, hidden = shape.routing, shape.hidden
    free = hidden - routing.codes
    chosen = routes(routing)
    ones = np.ones(hidden, dtype=np.float32)
    yield _whole("token_embd.weight", _embeddings(shape))
    yield _whole("output_norm.weight", ones)
    yield _matrix("output.weight", shape, (shape.vocabulary, hidden), 1.0)
    for layer in range(routing.layers):
        block = f"blk.{layer}"
        yield _whole(f"{block}.attn_norm.weight", ones)
        yield _matrix(f"{block}.attn_q.weight", shape, (shape.heads * shape.head, hidden), 1.0)
        yield _matrix(f"{block}.attn_k.weight", shape, (shape.kv_heads * shape.head, hidden), 1.0)
        yield _matrix(f"{block}.attn_v.weight", shape, (shape.kv_heads * shape.head, hidden), 1.0)
        # Half of what comes in is added to the hidden state, so that its size stays near 1 over the layers.
        yield _matrix(f"{block}.attn_output.weight", shape, (hidden, shape.heads * shape.head), 0.5, keep=free)
        yield _whole(f"{block}.attn_q_norm.weight", ones[: shape.head])
        yield _whole(f"{block}.attn_k_norm.weight", ones[: shape.head])
        yield _whole(f"{block}.ffn_norm.weight", ones)
        yield _whole(f"{block}.ffn_gate_inp.weight", _router(shape, chosen[layer], layer))
        stack = (routing.experts, shape.expert_ff, hidden)
        yield _matrix(f"{block}.ffn_gate_exps.weight", shape, stack, 1.0)
        yield _matrix(f"{block}.ffn_up_exps.weight", shape, stack, 1.0)
        yield _matrix(
            f"{block}.ffn_down_exps.weight", shape, (routing.experts, hidden, shape.expert_ff), 0.5, keep=free
        )


def _embeddings(shape: ModelShape) -> npt.NDArray[np.float16]:
    """float16 [vocabulary, hidden]: random, then the code."""
    random = np.random.default_rng((shape.routing.seed, 3))
    free = shape.hidden - shape.routing.codes
    values = np.zeros((shape.vocabulary, shape.hidden), dtype=np.float16)
    values[:, :free] = random.standard_normal((shape.vocabulary, free))
    ids = np.arange(shape.vocabulary)
    values[ids, free + ids % shape.routing.codes] = CODE
    return values


def _router(shape: ModelShape, chosen: npt.NDArray[np.int32], layer: int) -> npt.NDArray[np.float32]:
    """float32 [experts, hidden] that gives `chosen` [codes, used] the highest logits, the first the most."""
    random = np.random.default_rng((shape.routing.seed, 4, layer))
    routing, free = shape.routing, shape.hidden - shape.routing.codes
    norm = np.sqrt((free + CODE**2) / shape.hidden)  # of an embedding; later layers' is a little larger
    logits = random.random((routing.codes, routing.experts)).astype(np.float32)
    np.put_along_axis(logits, chosen, np.linspace(5.0, 3.0, routing.used, dtype=np.float32)[None, :], axis=1)
    rows = np.zeros((routing.experts, shape.hidden), dtype=np.float32)
    rows[:, free:] = logits.T * (norm / CODE)
    return rows


def _add_metadata(writer: Any, shape: ModelShape) -> None:
    routing = shape.routing
    writer.add_name(f"synthetic qwen3moe, {routing.layers} layers of {routing.experts} experts, {shape.quantisation}")
    writer.add_block_count(routing.layers)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.expert_ff * routing.used)
    writer.add_expert_feed_forward_length(shape.expert_ff)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head)
    writer.add_value_length(shape.head)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_expert_count(routing.experts)
    writer.add_expert_used_count(routing.used)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_tokenizer_model("no_vocab")
