"""Firmware tables for tests, written as SMBIOS (DSP0134) says."""

import struct

SERIAL = "SN-12345678"
_TYPES = {"DDR4": 0x1A, "DDR5": 0x22, "LPDDR5": 0x23, "RAM": 7}


def structure(kind, body, strings=()):
    data = struct.pack("<BBH", kind, 4 + len(body), 0x1000 + kind) + body
    return data + (b"".join(text.encode() + b"\0" for text in strings) + b"\0" if strings else b"\0\0")


def system(maker="Maker", product="Product", chassis=10):
    one = structure(1, bytes([1, 2, 0, 3]) + b"\x5a" * 16 + bytes(3), [maker, product, SERIAL])
    return one + structure(3, bytes([1, chassis, 0, 2, 0]) + bytes(13), [maker, SERIAL])


def module(slot, bank="", mib=16384, kind="DDR4", width=64, rated=3200, speed=None, size=None):
    """A memory device; `mib` of 0 is an empty slot, `size` the field itself."""
    large = mib >= 0x7FFF
    field = (0x7FFF if large else mib) if size is None else size
    body = struct.pack(
        "<HHHHHBBBBBHHBBBBBIHHHH",
        *(0x1100, 0xFFFE, width, width, field, 9, 0, 1, 2, _TYPES.get(kind, 2), 0x80, rated, 3, 4, 5, 6, 1),
        *(mib if large else 0, rated if speed is None else speed, 0, 0, 0),
    )
    return structure(17, body, [slot, bank or "-", "Maker", SERIAL, "Tag", "Part"])


def table(*modules, **names):
    return system(**names) + b"".join(modules) + structure(127, b"")
