"""The typed, versioned messages between the application and its engine child: one JSON object a line.

Requests flow to the child's standard input, events come from its standard output. Pure data:
imports no llama.cpp and no Qt, so both sides and every test can use it.
"""

import msgspec

from app.engine.events import (
    AnyEvent,
    CacheFacts,
    Calibrated,
    CalibrateProgress,
    Devices,
    DryRan,
    Event,
    Failed,
    Finished,
    Loaded,
    LoadProgress,
    LogLine,
    Measured,
    MeasureProgress,
    PromptProgress,
    Ready,
    Routing,
    Token,
    TraceState,
    Unloaded,
)
from app.engine.requests import (
    AnyRequest,
    Calibrate,
    Cancel,
    DryRun,
    Generate,
    ListDevices,
    Load,
    LongOrder,
    Measure,
    Message,
    ReadCache,
    ReadRouting,
    ReleaseMemory,
    Request,
    Sampling,
    SetMemory,
    SetPins,
    SetPolicy,
    SetPool,
    SetTrace,
    ShortOrder,
    Unload,
    WarmMemory,
)

__all__ = [
    "MAX_LINE_BYTES",
    "PROTOCOL_VERSION",
    "AnyEvent",
    "AnyRequest",
    "CacheFacts",
    "Calibrate",
    "CalibrateProgress",
    "Calibrated",
    "Cancel",
    "Devices",
    "DryRan",
    "DryRun",
    "Event",
    "Failed",
    "Finished",
    "Generate",
    "ListDevices",
    "Load",
    "LoadProgress",
    "Loaded",
    "LogLine",
    "LongOrder",
    "Measure",
    "MeasureProgress",
    "Measured",
    "Message",
    "PromptProgress",
    "ReadCache",
    "ReadRouting",
    "Ready",
    "ReleaseMemory",
    "Request",
    "Routing",
    "Sampling",
    "SetMemory",
    "SetPins",
    "SetPolicy",
    "SetPool",
    "SetTrace",
    "ShortOrder",
    "Token",
    "TraceState",
    "Unload",
    "Unloaded",
    "WarmMemory",
    "decode_event",
    "decode_request",
    "encode",
]

PROTOCOL_VERSION = 4
MAX_LINE_BYTES = 64 * 1024 * 1024

_encoder = msgspec.json.Encoder()
_request_decoder = msgspec.json.Decoder(AnyRequest)
_event_decoder = msgspec.json.Decoder(AnyEvent)


def encode(message: Request | Event) -> bytes:
    """One line, newline included."""
    return _encoder.encode(message) + b"\n"


def decode_request(line: bytes) -> AnyRequest:
    """Parse one request line.

    Raises:
        msgspec.MsgspecError: the line is not a request of this protocol version.
    """
    return _request_decoder.decode(line)


def decode_event(line: bytes) -> AnyEvent:
    """Parse one event line.

    Raises:
        msgspec.MsgspecError: the line is not an event of this protocol version.
    """
    return _event_decoder.decode(line)
