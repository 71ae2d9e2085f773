"""The table of a GGUF file: header, key-values and tensor infos; the tensor data are never read.

Everything in the file is treated as possibly wrong: each count, length and offset is checked against
the bytes that are there before it is used, so a damaged file fails at once instead of filling memory.
The rules are those by which llama.cpp accepts a file (its `gguf.cpp`), so what passes here loads there.
"""

import stat
import struct
from math import prod
from pathlib import Path

import msgspec

from app.errors import AppError, ErrorCode
from app.model.bounded_file import BoundedFile
from app.model.failures import unsupported
from app.model.tensor_types import TENSOR_TYPES, TensorType

MAGIC = b"GGUF"
VERSIONS = (2, 3)  # both lay out the table alike; version 1 had 32-bit counts

# Bounds far above any real model and low enough that a nonsense count is refused within a second.
MAX_KEYS = 1 << 16
MAX_TENSORS = 1 << 16
MAX_TEXTS = 1 << 22  # over all arrays of one file; the largest tokenizers hold less than a million
MAX_KEY_BYTES = (1 << 16) - 1
MAX_NAME_BYTES = 63
MAX_DIMENSIONS = 4
MAX_VALUES = (1 << 63) - 1
LONGEST_TEXT_BYTES = 1 << 20  # longer texts and arrays are stepped over: no fact needs them
LONGEST_ARRAY = 4096

_DEFAULT_ALIGNMENT = 32
_ALIGNMENT_KEY = "general.alignment"
_SMALLEST_KEY_VALUE_BYTES = 8 + 1 + 4 + 1
_SMALLEST_TENSOR_INFO_BYTES = 8 + 1 + 4 + 4 + 8
_TEXT = 8
_ARRAY = 9
_BOOL = 7
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "b", 10: "Q", 11: "q", 12: "d"}

_u32 = struct.Struct("<I").unpack
_u64 = struct.Struct("<Q").unpack
_counts = struct.Struct("<QQ").unpack
_array_head = struct.Struct("<IQ").unpack
# What follows a tensor's number of dimensions: the dimensions, the type, the offset.
_tensor_tails = [struct.Struct(f"<{dimensions}QIQ") for dimensions in range(MAX_DIMENSIONS + 1)]


class Unread(msgspec.Struct, frozen=True):
    """A value that was stepped over: an array of `count` elements, or a text of `count` bytes."""

    count: int


Number = int | float
Value = Number | str | tuple[Number, ...] | Unread  # a truth value is an int


class TensorInfo(msgspec.Struct, frozen=True):
    """One tensor of the table: `shape` has the row length first; `bytes` excludes padding.

    `offset` is where its data begin, in bytes from the table's `data_offset`.
    """

    name: str
    type: TensorType
    shape: tuple[int, ...]
    bytes: int
    offset: int


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """The table of one file, with the file's own size and the place of its tensor data, in bytes."""

    path: Path
    file_bytes: int
    data_offset: int
    metadata: dict[str, Value]
    tensors: tuple[TensorInfo, ...]


def read_table(path: Path) -> Table:
    """Read the table of the GGUF file at `path`.

    Raises:
        AppError: FILE_MISSING; FILE_UNREADABLE (also for a folder or a device); NOT_GGUF;
            MODEL_DAMAGED, also when the tensor data are cut short; MODEL_UNSUPPORTED for a version,
            byte order or tensor type that the engine does not read.
    """
    try:
        size = _file_bytes(path)
        with path.open("rb") as file:
            return _read(BoundedFile(file, size, path))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise AppError(ErrorCode.FILE_MISSING, f"There is no file {path}.", str(error)) from error
    except OSError as error:
        raise AppError(ErrorCode.FILE_UNREADABLE, f"{path} could not be read.", str(error)) from error


def _file_bytes(path: Path) -> int:
    try:
        status = path.stat()
    except ValueError as error:  # characters that no file name can have
        raise AppError(ErrorCode.FILE_MISSING, f"There is no file {path!r}.", str(error)) from error
    # Opening a pipe would wait for a writer, reading a device may never end.
    if not stat.S_ISREG(status.st_mode):
        raise AppError(ErrorCode.FILE_UNREADABLE, f"{path} is not a file.")
    return status.st_size


def _read(file: BoundedFile) -> Table:
    if file.size < len(MAGIC) or file.take(len(MAGIC)) != MAGIC:
        raise AppError(ErrorCode.NOT_GGUF, f"{file.path.name} is not a GGUF file.")
    _check_version(file)
    tensor_count, key_count = _counts(file.take(16))
    _check_count(file, "tensors", tensor_count, MAX_TENSORS, _SMALLEST_TENSOR_INFO_BYTES)
    _check_count(file, "key-values", key_count, MAX_KEYS, _SMALLEST_KEY_VALUE_BYTES)
    metadata = _read_metadata(file, key_count)
    alignment = _alignment(file, metadata)
    tensors = _read_tensors(file, tensor_count, alignment)
    return Table(
        path=file.path,
        file_bytes=file.size,
        data_offset=_padded(file.position, alignment),
        metadata=metadata,
        tensors=tensors,
    )


def _check_version(file: BoundedFile) -> None:
    (version,) = _u32(file.take(4))
    if version in VERSIONS:
        return
    # The same number, read with its bytes in the other order.
    if version & 0xFFFF == 0 and version:
        reason = "it was written for big-endian machines"
    else:
        reason = f"it has version {version} of the format, and only versions 2 and 3 can be read"
    raise unsupported(file.path, reason)


def _check_count(file: BoundedFile, what: str, count: int, most: int, smallest_bytes: int) -> None:
    if count > most or count * smallest_bytes > file.remaining:
        raise file.damaged(f"it claims {count} {what}, more than it can hold")


def _read_metadata(file: BoundedFile, count: int) -> dict[str, Value]:
    metadata: dict[str, Value] = {}
    texts_left = MAX_TEXTS
    for _ in range(count):
        key = _read_name(file, "key", MAX_KEY_BYTES)
        if key in metadata:
            raise file.damaged(f"the key {key!r} occurs twice")
        (kind,) = _u32(file.take(4))
        if kind == _ARRAY:
            element_kind, length = _array_head(file.take(12))
            if element_kind == _TEXT:
                texts_left -= length
                if texts_left < 0:
                    raise file.damaged(f"{key!r} claims {length} texts")
            metadata[key] = _read_array(file, key, element_kind, length)
        elif kind == _TEXT:
            metadata[key] = _read_text(file)
        else:
            metadata[key] = _read_numbers(file, key, kind, 1)[0]
    return metadata


def _read_name(file: BoundedFile, what: str, most_bytes: int) -> str:
    (length,) = _u64(file.take(8))
    if not 0 < length <= most_bytes:
        raise file.damaged(f"a {what} is {length} bytes long")
    # Wrong bytes stay visible and distinct instead of failing or merging two names.
    return file.take(length).decode("utf-8", "backslashreplace")


def _read_text(file: BoundedFile) -> str | Unread:
    (length,) = _u64(file.take(8))
    if length > LONGEST_TEXT_BYTES:
        file.skip(length)
        return Unread(length)
    return file.take(length).decode("utf-8", "replace")


def _read_array(file: BoundedFile, key: str, kind: int, length: int) -> Value:
    if kind == _TEXT:
        file.skip_texts(length)
        return Unread(length)
    if kind == _ARRAY:
        raise unsupported(file.path, f"{key!r} is an array of arrays, which the engine does not read")
    if length > LONGEST_ARRAY and kind in _SCALARS:
        file.skip(length * struct.calcsize(_SCALARS[kind]))
        return Unread(length)
    return _read_numbers(file, key, kind, length)


def _read_numbers(file: BoundedFile, key: str, kind: int, count: int) -> tuple[Number, ...]:
    if kind not in _SCALARS:
        raise file.damaged(f"the value of {key!r} has the unknown type {kind}")
    layout = struct.Struct(f"<{count}{_SCALARS[kind]}")
    numbers: tuple[Number, ...] = layout.unpack(file.take(layout.size))
    return tuple(map(bool, numbers)) if kind == _BOOL else numbers


def _alignment(file: BoundedFile, metadata: dict[str, Value]) -> int:
    alignment = metadata.get(_ALIGNMENT_KEY, _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
        raise file.damaged(f"the alignment {alignment} is not a power of two")
    return alignment


def _read_tensors(file: BoundedFile, count: int, alignment: int) -> tuple[TensorInfo, ...]:
    tensors: dict[str, TensorInfo] = {}
    data_bytes = 0  # of the tensors so far; each starts at the next multiple of the alignment
    for _ in range(count):
        name = _read_name(file, "tensor's name", MAX_NAME_BYTES)
        if name in tensors:
            raise file.damaged(f"the tensor {name!r} occurs twice")
        (dimensions,) = _u32(file.take(4))
        if dimensions > MAX_DIMENSIONS:
            raise file.damaged(f"the tensor {name!r} has {dimensions} dimensions")
        tail = _tensor_tails[dimensions]
        *shape, kind, offset = tail.unpack(file.take(tail.size))
        if offset != _padded(data_bytes, alignment):
            raise file.damaged(f"the data of {name!r} are not where those of the tensor before end")
        tensors[name] = _tensor(file, name, kind, tuple(shape), offset)
        data_bytes = offset + tensors[name].bytes
    needed = _padded(file.position, alignment) + data_bytes if tensors else file.position
    if needed > file.size:
        raise file.damaged(f"it is cut short: {needed:,} bytes are needed and {file.size:,} are there")
    return tuple(tensors.values())


def _tensor(file: BoundedFile, name: str, kind: int, shape: tuple[int, ...], offset: int) -> TensorInfo:
    tensor_type = TENSOR_TYPES.get(kind)
    if tensor_type is None:
        raise unsupported(file.path, f"{name!r} has tensor type {kind}, which the engine does not know")
    row = shape[0] if shape else 1
    values = prod(shape)
    if not 0 < values <= MAX_VALUES or row % tensor_type.block_values:
        raise file.damaged(f"the tensor {name!r} cannot have the shape {shape} in {tensor_type.name}")
    return TensorInfo(name, tensor_type, shape, values // tensor_type.block_values * tensor_type.block_bytes, offset)


def _padded(size: int, alignment: int) -> int:
    return (size + alignment - 1) // alignment * alignment
