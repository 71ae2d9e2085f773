"""The routing trace: which experts every decoded token was routed to, as recorded in a file for the simulator.

The file is one line of JSON, the header, and then entries of 12 bytes each, little-endian: the token's
position since recording began (uint32), the MoE layer (int16), the expert (int16) and its routing weight
(float32, NaN where it is not known). Entries of one token and layer follow each other. An entry of layer −1
stands where entries were lost for want of room; its token is how many. A file whose writer was killed may end
within an entry, which is left out.
"""

import errno
import os
import struct
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from app.errors import AppError, ErrorCode
from app.units import format_bytes

FORMAT = "expert-lanes routing trace"
VERSION = 1
LOST = -1
KEPT_BYTES = 32 << 20
"""More than a file that keeps the latest routings ever has: a larger one is damaged."""
ENTRY = np.dtype([("token", "<u4"), ("layer", "<i2"), ("expert", "<i2"), ("weight", "<f4")])

_LOSS = struct.Struct("<Ihhf")
_LONGEST_HEADER = 1 << 16
_MOST_INDEX = 2**15 - 1
# More than an hour of a fast model; all of it is held in memory.
_LARGEST = 2 << 30


class TraceHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What a trace was recorded of.

    Attributes:
        fingerprint: `ModelFacts.fingerprint` of the model. name: its name, for people.
        experts: MoE layer index to the number of its experts; the layers that are recorded.
        experts_used: top-k.
    """

    format: str = FORMAT
    version: int = VERSION
    fingerprint: str
    name: str
    experts: dict[int, int]
    experts_used: int


class Trace(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A recorded routing.

    Attributes:
        header: What it was recorded of.
        entries: One-dimensional, of dtype ENTRY, in the order recorded; every expert is one of its layer's.
        lost: Entries that were routed and could not be kept.
    """

    header: TraceHeader
    entries: npt.NDArray[np.void]
    lost: int


def kept_name(fingerprint: str) -> str:
    """Name of the file that keeps the latest routings of a model, by `ModelFacts.fingerprint`."""
    return f"{fingerprint}.trace"


def encode_header(header: TraceHeader) -> bytes:
    """The file's first line."""
    return msgspec.json.encode(header) + b"\n"


def encode_loss(entries: int) -> bytes:
    """The entry that says how many were lost."""
    return _LOSS.pack(min(entries, 2**32 - 1), LOST, LOST, 0.0)


def read_trace(path: Path, largest: int = _LARGEST) -> Trace:
    """Read the trace at `path`, of `largest` bytes at most.

    Raises:
        AppError: file_missing; file_unreadable, also for a file that is no trace, of a later version, or too large.
    """
    try:
        with path.open("rb") as file:
            header = _header(file.readline(_LONGEST_HEADER), path)
            if os.fstat(file.fileno()).st_size > largest:
                raise AppError(
                    ErrorCode.FILE_UNREADABLE, f"The routing trace {path} is larger than {format_bytes(largest)}."
                )
            data = file.read()
    except OSError as error:
        missing = error.errno == errno.ENOENT
        code = ErrorCode.FILE_MISSING if missing else ErrorCode.FILE_UNREADABLE
        message = f"There is no file {path}." if missing else f"{path} cannot be read."
        raise AppError(code, message, str(error)) from error
    entries = np.frombuffer(data, dtype=ENTRY, count=len(data) // ENTRY.itemsize)
    gaps = entries["layer"] == LOST
    lost = int(entries["token"][gaps].sum(dtype=np.uint64))
    if gaps.any():
        entries = entries[~gaps]
    _check(entries, header, path)
    return Trace(header=header, entries=entries, lost=lost)


def _check(entries: npt.NDArray[np.void], header: TraceHeader, path: Path) -> None:
    """Refuse experts and layers that the header does not know."""
    experts = np.zeros(2**16, dtype=np.uint16)  # by layer, as an unsigned number
    for layer, count in header.experts.items():
        experts[layer] = count
    # A negative expert is a large unsigned one, and a negative layer has no experts.
    wrong = entries["expert"].view(np.uint16) >= experts[entries["layer"].view(np.uint16)]
    if wrong.any():
        _, layer, expert, _ = entries[int(wrong.argmax())].item()
        raise AppError(
            ErrorCode.FILE_UNREADABLE,
            f"The routing trace {path} is damaged: its model has no expert {expert} in layer {layer}.",
        )


def _header(line: bytes, path: Path) -> TraceHeader:
    try:
        header = msgspec.json.decode(line, type=TraceHeader)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise AppError(ErrorCode.FILE_UNREADABLE, f"{path} is no routing trace.", str(error)) from error
    if header.format != FORMAT or header.version != VERSION:
        raise AppError(
            ErrorCode.FILE_UNREADABLE,
            f"{path} is a '{header.format}' of version {header.version}; version {VERSION} of '{FORMAT}' can be read.",
        )
    damaged = f"The routing trace {path} is damaged: it speaks of"
    if not 1 <= header.experts_used <= _MOST_INDEX:
        raise AppError(ErrorCode.FILE_UNREADABLE, f"{damaged} top-{header.experts_used}.")
    for layer, count in header.experts.items():
        if not (0 <= layer <= _MOST_INDEX and 1 <= count <= _MOST_INDEX):
            raise AppError(ErrorCode.FILE_UNREADABLE, f"{damaged} {count:,} experts in layer {layer:,}.")
    return header
