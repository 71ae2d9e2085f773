"""Memory modules and names of the machine in the firmware's tables (SMBIOS), parsed from bytes.

Field places are those of the DMTF's "System Management BIOS Reference Specification" (DSP0134).
"""

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.hardware.facts import RamModule
from app.hardware.sources import NotSeenError

SYSTEM, CHASSIS, MEMORY_DEVICE = 1, 3, 17
_END = 127
_HEAD = struct.Struct("<BBH")
_MEMORY_TYPES = {
    0x07: "RAM",
    0x12: "DDR",
    0x13: "DDR2",
    0x18: "DDR3",
    0x1A: "DDR4",
    0x1B: "LPDDR",
    0x1C: "LPDDR2",
    0x1D: "LPDDR3",
    0x1E: "LPDDR4",
    0x20: "HBM",
    0x21: "HBM2",
    0x22: "DDR5",
    0x23: "LPDDR5",
    0x24: "HBM3",
}
# Numbers of serials, asset tags and the machine's UUID: never kept in records. Each is a place in the formatted
# part and its bytes.
_PRIVATE = {SYSTEM: ((7, 1), (8, 16)), CHASSIS: ((7, 1), (8, 1)), MEMORY_DEVICE: ((0x18, 1), (0x19, 1))}
_CONTROLLER = re.compile(r"controller[ _-]*(\d+)", re.IGNORECASE)
_NODE = re.compile(r"\b(?:p|cpu|node|proc)[ _-]*(\d+)", re.IGNORECASE)
_CHANNEL = re.compile(r"ch(?:annel)?[ _-]*([a-p]|\d{1,2})(?![a-z])", re.IGNORECASE)
_LETTERED_SLOT = re.compile(r"(?:dimm)[ _-]*([a-h])[ _-]?\d?\b", re.IGNORECASE)
_CHANNEL_BITS = 64
_MOST_MODULE_BYTES = 4 * 1024**4


@dataclass(frozen=True)
class Structure:
    """One table entry: its type, the formatted part with its head, and the strings after it."""

    type: int
    data: bytes
    strings: tuple[str, ...]

    def number(self, place: int, size: int) -> int | None:
        """The number of `size` bytes at `place`; None past the end, for older versions have fewer fields."""
        field = self.data[place : place + size]
        return int.from_bytes(field, "little") if len(field) == size else None

    def text(self, place: int) -> str:
        """The string that the field at `place` points at; empty where it points at none."""
        index = self.number(place, 1) or 0
        return self.strings[index - 1].strip() if 0 < index <= len(self.strings) else ""


def structures(table: bytes) -> Iterator[Structure]:
    """The entries of a table, as far as they can be followed; a damaged rest is left out."""
    at = 0
    while at + _HEAD.size <= len(table):
        kind, length, _handle = _HEAD.unpack_from(table, at)
        end = table.find(b"\0\0", at + length)
        if length < _HEAD.size or end < 0:
            return
        texts = table[at + length : end].split(b"\0") if end > at + length else []
        yield Structure(kind, table[at : at + length], tuple(text.decode("utf-8", "replace") for text in texts))
        if kind == _END:
            return
        at = end + 2


def parse_modules(table: bytes) -> tuple[RamModule, ...]:
    """Every slot and soldered part of main memory.

    Raises:
        NotSeenError: the tables list none.
    """
    found = tuple(module for each in structures(table) if each.type == MEMORY_DEVICE and (module := _module(each)))
    if not found:
        raise NotSeenError("The firmware's tables list no memory modules.")
    return found


def maker_and_product(table: bytes) -> tuple[str, str]:
    """Who made the machine, and what they call it; empty where the tables do not say."""
    for each in structures(table):
        if each.type == SYSTEM:
            return each.text(4), each.text(5)
    return "", ""


def chassis(table: bytes) -> int | None:
    """The number of the machine's form (10 is a notebook)."""
    for each in structures(table):
        if each.type == CHASSIS:
            return (each.number(5, 1) or 0) & 0x7F
    return None


def channels(modules: Sequence[RamModule]) -> int | None:
    """How many channels of 64 bits hold memory; None where neither names of slots nor their number tell."""
    filled = [module for module in modules if module.size_bytes]
    if not filled or not all((module.type or "").startswith(("DDR", "LPDDR")) for module in filled):
        return None  # a virtual machine's memory has no channels, whatever its tables say
    soldered = any((module.type or "").startswith("LPDDR") for module in filled)
    widths: dict[str, int] = {}
    for module in filled:
        label = _channel_name(module)
        if label is None:
            return 1 if len(filled) == 1 and not soldered else None
        widths[label] = max(widths.get(label, 0), module.width_bits or 0)
    if not soldered:
        return len(widths)  # a module is one channel, also where it is two halves of 32 bits (DDR5)
    # Soldered memory has channels of 16 or 32 bits.
    return max(1, round(sum(widths.values()) / _CHANNEL_BITS)) if all(widths.values()) else None


def without_private_parts(table: bytes) -> bytes:
    """The entries that are read here, without serial numbers, asset tags and the machine's UUID."""
    kept = bytearray()
    for each in structures(table):
        if each.type not in _PRIVATE:
            continue
        data, strings = bytearray(each.data), list(each.strings)
        for place, size in _PRIVATE[each.type]:
            index = data[place] if place < len(data) else 0
            if size == 1 and 0 < index <= len(strings):
                strings[index - 1] = "scrubbed"
            elif size > 1:
                data[place : place + size] = bytes(len(data[place : place + size]))
        kept += bytes(data) + b"".join(text.encode() + b"\0" for text in strings)
        kept += b"\0" if strings else b"\0\0"
    return bytes(kept)


def _module(each: Structure) -> RamModule | None:
    size = each.number(0x0C, 2)
    if size is None:
        return None
    size_bytes = (size & 0x7FFF) * (1024 if size & 0x8000 else 1024**2)
    if size == 0x7FFF:
        size_bytes = ((each.number(0x1C, 4) or 0) & 0x7FFFFFFF) * 1024**2
    if size == 0xFFFF:
        return None  # there is something, and the firmware does not know how large
    kind = _MEMORY_TYPES.get(each.number(0x12, 1) or 0)
    if size_bytes > _MOST_MODULE_BYTES or (size_bytes and kind is None):
        return None  # flash and the like, or no size that a module has
    width = each.number(0x0A, 2) or 0
    return RamModule(
        slot=each.text(0x10),
        bank=each.text(0x11),
        size_bytes=size_bytes,
        type=kind if size_bytes else None,
        width_bits=width if 0 < width <= 1024 else None,
        rated_mts=_speed(each, 0x15, 0x54) if size_bytes else None,
        speed_mts=_speed(each, 0x20, 0x58) if size_bytes else None,
    )


def _speed(each: Structure, place: int, longer: int) -> int | None:
    speed = each.number(place, 2) or 0
    if speed == 0xFFFF:
        speed = (each.number(longer, 4) or 0) & 0x7FFFFFFF
    return speed or None


def _channel_name(module: RamModule) -> str | None:
    """What tells the module's channel from others, from the names its board's maker gave."""
    words = f"{module.bank} {module.slot}"
    channel = _CHANNEL.search(words) or _LETTERED_SLOT.search(module.slot)
    if not channel:
        return None
    above = [found[1] for pattern in (_CONTROLLER, _NODE) if (found := pattern.search(words))]
    return "/".join([*above, channel[1].upper()])
