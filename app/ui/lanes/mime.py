"""What a drag of layers carries: the model it belongs to and the layers, under a type of our own."""

import msgspec
from PySide6.QtCore import QMimeData

MIME_TYPE = "application/x-expert-lanes-layers"


class Dragged(msgspec.Struct, frozen=True, kw_only=True):
    """Layers on their way to another lane; `model` is the fingerprint of the weights."""

    model: str
    layers: tuple[int, ...]


def pack(dragged: Dragged) -> QMimeData:
    """The drag's data."""
    data = QMimeData()
    data.setData(MIME_TYPE, msgspec.json.encode(dragged))
    return data


def unpack(data: QMimeData, model: str) -> tuple[int, ...]:
    """The layers in `data`; empty if it holds none of this `model` (another program made it)."""
    if not data.hasFormat(MIME_TYPE):
        return ()
    try:
        dragged = msgspec.json.decode(bytes(data.data(MIME_TYPE).data()), type=Dragged)
    except msgspec.MsgspecError:
        return ()
    return dragged.layers if dragged.model == model else ()
