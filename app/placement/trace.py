"""The routing trace: which experts every decoded token was routed to, as recorded in a file for the simulator.

The file is one line of JSON, the header, and then entries of 12 bytes each, little-endian: the token's
position since recording began (uint32), the MoE layer (int16), the expert (int16) and its routing weight
(float32, NaN where it is not known). Entries of one token and layer follow each other. An entry of layer −1
stands where entries were lost for want of room; its token is how many. A file whose writer was killed may end
within an entry, which is left out.
"""

import errno
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec

from app.errors import AppError, ErrorCode

FORMAT = "expert-lanes routing trace"
VERSION = 1
LOST = -1

_ENTRY = struct.Struct("<Ihhf")
_LONGEST_HEADER = 1 << 16


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


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded routing.

    Attributes:
        header: What it was recorded of.
        entries: (token, layer, expert, weight) in the order recorded; NaN for an unknown weight.
        lost: Entries that were routed and could not be kept.
    """

    header: TraceHeader
    entries: tuple[tuple[int, int, int, float], ...]
    lost: int


def encode_header(header: TraceHeader) -> bytes:
    """The file's first line."""
    return msgspec.json.encode(header) + b"\n"


def encode_loss(entries: int) -> bytes:
    """The entry that says how many were lost."""
    return _ENTRY.pack(min(entries, 2**32 - 1), LOST, LOST, 0.0)


def read_trace(path: Path) -> Trace:
    """Read the trace at `path`.

    Raises:
        AppError: file_missing; file_unreadable, also for a file that is no trace or of a later version.
    """
    try:
        with path.open("rb") as file:
            header = _header(file.readline(_LONGEST_HEADER), path)
            data = file.read()
    except OSError as error:
        missing = error.errno == errno.ENOENT
        code = ErrorCode.FILE_MISSING if missing else ErrorCode.FILE_UNREADABLE
        message = f"There is no file {path}." if missing else f"{path} cannot be read."
        raise AppError(code, message, str(error)) from error
    entries = []
    lost = 0
    for token, layer, expert, weight in _entries(data):
        if layer == LOST:
            lost += token
        elif expert in range(header.experts.get(layer, 0)):
            entries.append((token, layer, expert, weight))
        else:
            raise AppError(
                ErrorCode.FILE_UNREADABLE,
                f"The routing trace {path} is damaged: its model has no expert {expert} in layer {layer}.",
            )
    return Trace(header=header, entries=tuple(entries), lost=lost)


def _entries(data: bytes) -> Iterator[tuple[int, int, int, float]]:
    yield from _ENTRY.iter_unpack(data[: len(data) // _ENTRY.size * _ENTRY.size])


def _header(line: bytes, path: Path) -> TraceHeader:
    try:
        header = msgspec.json.decode(line, type=TraceHeader)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise AppError(ErrorCode.FILE_UNREADABLE, f"{path} is no routing trace.", str(error)) from error
    if header.format != FORMAT or header.version != VERSION:
        raise AppError(
            ErrorCode.FILE_UNREADABLE,
            f"{path} is a '{header.format}' of version {header.version}; version {VERSION} of '{FORMAT}' can be read.",
        )
    return header
