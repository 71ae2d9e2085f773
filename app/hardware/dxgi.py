"""The cards that Windows' graphics system (DXGI) lists; parsing is apart from calling.

Importable everywhere; `read_adapters` works on Windows only.
"""

import ctypes
import struct
import sys
import uuid
from dataclasses import dataclass
from typing import Any

from app.hardware.sources import NotSeenError

# DXGI_ADAPTER_DESC1 on 64-bit Windows: Description[128], VendorId, DeviceId, SubSysId, Revision, DedicatedVideoMemory,
# DedicatedSystemMemory, SharedSystemMemory, AdapterLuid (low, high), Flags.
_DESCRIPTION = struct.Struct("<256s4I3QIiI4x")
_SOFTWARE = 2
_FACTORY = uuid.UUID("770aae78-f26f-4dba-a829-253c83d1b387")  # IDXGIFactory1
# Places in the tables of functions, counted from IUnknown's first.
_RELEASE, _ENUM_ADAPTERS, _GET_DESCRIPTION = 2, 12, 10
_NO_MORE = 0x887A0002
_MOST_ADAPTERS = 64


@dataclass(frozen=True)
class Adapter:
    """A card.

    Attributes:
        name: As its driver calls it.
        luid: The number that Windows' counters know it by, until the next start.
        dedicated_bytes: Memory of its own. shared_bytes: main memory that it may use.
        software: Whether the processor plays it.
    """

    name: str
    luid: int
    vendor: int
    dedicated_bytes: int
    shared_bytes: int
    software: bool


def parse_description(record: bytes) -> Adapter:
    """The card that a DXGI_ADAPTER_DESC1 describes.

    Raises:
        NotSeenError: the record is too short.
    """
    try:
        text, vendor, _device, _system, _revision, video, system, shared, low, high, flags = _DESCRIPTION.unpack_from(
            record
        )
    except struct.error as error:
        raise NotSeenError("Windows described a graphics card in a way that cannot be read.") from error
    return Adapter(
        name=text.decode("utf-16-le", "replace").partition("\0")[0],
        luid=((high & 0xFFFFFFFF) << 32) | low,
        vendor=vendor,
        dedicated_bytes=video + system,
        shared_bytes=shared,
        software=bool(flags & _SOFTWARE),
    )


def read_adapters() -> tuple[Adapter, ...]:
    """Every card that DXGI lists, software ones included.

    Raises:
        NotSeenError: this is not Windows, or DXGI refuses.
    """
    if sys.platform != "win32":
        raise NotSeenError("This is not Windows.")
    create = ctypes.WinDLL("dxgi").CreateDXGIFactory1
    create.argtypes, create.restype = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)], ctypes.c_long
    factory = ctypes.c_void_p()
    status = create(_FACTORY.bytes_le, ctypes.byref(factory))
    if status < 0 or not factory:
        raise NotSeenError(f"Windows does not list its graphics cards (0x{status & 0xFFFFFFFF:08x}).")
    try:
        found = []
        for index in range(_MOST_ADAPTERS):
            adapter = ctypes.c_void_p()
            status = _call(factory, _ENUM_ADAPTERS, ctypes.c_uint(index), ctypes.byref(adapter))
            if status & 0xFFFFFFFF == _NO_MORE:
                break
            if status < 0:
                raise NotSeenError(f"Windows does not list its graphics cards (0x{status & 0xFFFFFFFF:08x}).")
            try:
                record = ctypes.create_string_buffer(_DESCRIPTION.size)
                if _call(adapter, _GET_DESCRIPTION, record) >= 0:
                    found.append(parse_description(record.raw))
            finally:
                _call(adapter, _RELEASE)
        return tuple(found)
    finally:
        _call(factory, _RELEASE)


def _call(instance: ctypes.c_void_p, place: int, *arguments: Any) -> int:
    """Call the function at `place` of a COM object's table."""
    if sys.platform != "win32":
        raise NotSeenError("This is not Windows.")
    table = ctypes.cast(instance, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p))).contents
    kinds = [type(argument) if isinstance(argument, ctypes.c_uint) else ctypes.c_void_p for argument in arguments]
    function = ctypes.WINFUNCTYPE(ctypes.c_long, ctypes.c_void_p, *kinds)(table[place])
    plain = [
        argument if isinstance(argument, ctypes.c_uint) else ctypes.cast(argument, ctypes.c_void_p)
        for argument in arguments
    ]
    return int(function(instance, *plain))
