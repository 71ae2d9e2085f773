"""What a drag carries, under types of our own: whole layers, or single experts, and the model they belong to."""

from collections.abc import Mapping, Sequence

import msgspec
from PySide6.QtCore import QMimeData

MIME_TYPE = "application/x-expert-lanes-layers"
CELLS_TYPE = "application/x-expert-lanes-experts"
_NOT_OURS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises where another program put something else under our types."""


class Dragged(msgspec.Struct, frozen=True, kw_only=True):
    """Layers on their way to another lane; `model` is the fingerprint of the weights."""

    model: str
    layers: tuple[int, ...]


class DraggedCells(msgspec.Struct, frozen=True, kw_only=True):
    """Single experts on their way, by layer."""

    model: str
    cells: dict[int, tuple[int, ...]]


def pack(dragged: Dragged) -> QMimeData:
    """The drag's data."""
    data = QMimeData()
    data.setData(MIME_TYPE, msgspec.json.encode(dragged))
    return data


def pack_cells(model: str, cells: Mapping[int, Sequence[int]]) -> QMimeData:
    """The data of a drag of single experts of `model`."""
    data = QMimeData()
    dragged = DraggedCells(model=model, cells={layer: tuple(experts) for layer, experts in cells.items()})
    data.setData(CELLS_TYPE, msgspec.json.encode(dragged))
    return data


def unpack(data: QMimeData, model: str) -> tuple[int, ...]:
    """The layers in `data`; empty if it holds none of this `model` (another program made it)."""
    if not data.hasFormat(MIME_TYPE):
        return ()
    try:
        dragged = msgspec.json.decode(bytes(data.data(MIME_TYPE).data()), type=Dragged)
    except _NOT_OURS:
        return ()
    return dragged.layers if dragged.model == model else ()


def unpack_cells(data: QMimeData, model: str) -> dict[int, tuple[int, ...]]:
    """The single experts in `data` by layer; empty if it holds none of this `model`."""
    if not data.hasFormat(CELLS_TYPE):
        return {}
    try:
        dragged = msgspec.json.decode(bytes(data.data(CELLS_TYPE).data()), type=DraggedCells)
    except _NOT_OURS:
        return {}
    return dragged.cells if dragged.model == model else {}
