"""Memory modules and names in the firmware's tables; tables that are damaged give less, never an error."""

import pytest
from firmware_tables import SERIAL, module, structure, table
from hypothesis import given
from hypothesis import strategies as st

from app.hardware import smbios
from app.hardware.sources import NotSeenError

GIB = 1024**3


def modules(*those):
    return smbios.parse_modules(table(*those))


def test_a_module_tells_its_slot_size_kind_and_speeds():
    filled, empty = modules(module("DIMM_A2", "BANK 1", speed=2133), module("DIMM_B2", mib=0))
    assert (filled.slot, filled.bank, filled.size_bytes, filled.type) == ("DIMM_A2", "BANK 1", 16 * GIB, "DDR4")
    assert (filled.width_bits, filled.rated_mts, filled.speed_mts) == (64, 3200, 2133)
    assert (empty.slot, empty.size_bytes, empty.type, empty.speed_mts) == ("DIMM_B2", 0, None, None)


def test_sizes_are_read_in_all_their_three_ways():
    large, kibi, normal = modules(module("A", mib=65536), module("B", size=0x8000 | 512), module("C", mib=2048))
    assert [each.size_bytes for each in (large, kibi, normal)] == [64 * GIB, 512 * 1024, 2 * GIB]


def test_a_module_of_an_unknown_size_or_kind_is_left_out():
    assert [each.slot for each in modules(module("A", size=0xFFFF), module("B", kind="?"), module("C"))] == ["C"]


def test_a_machine_tells_maker_product_and_form():
    assert smbios.maker_and_product(table(maker="LENOVO", product="82TD")) == ("LENOVO", "82TD")
    assert smbios.chassis(table(chassis=0x80 | 10)) == 10


@pytest.mark.parametrize(
    ("those", "channels"),
    [
        ([module("DIMM1")], 1),
        ([module("DIMM_A2"), module("DIMM_A1")], 1),
        ([module("DIMM_A2"), module("DIMM_B2")], 2),
        ([module("DIMM 0", "P0 CHANNEL A"), module("DIMM 0", "P0 CHANNEL B")], 2),
        ([module("Controller0-ChannelA-DIMM0"), module("Controller1-ChannelA-DIMM0")], 2),
        ([module("Controller0-ChannelA-DIMM0"), module("Controller1-ChannelA-DIMM0", mib=0)], 1),
        ([module("DIMM 0", f"P0 CHANNEL {name}", kind="LPDDR5", width=32) for name in "ABCD"], 2),
        ([module(f"P{node}_DIMM{name}1", f"Node{node}_Channel{name}") for node in (1, 2) for name in "AB"], 4),
        ([module("slot 1"), module("slot 2")], None),
        ([module("onboard", kind="LPDDR5", width=64)], None),
        ([module("DIMM 0", kind="RAM")], None),
        ([module("DIMM 0", mib=0)], None),
    ],
)
def test_channels_are_counted_where_slots_tell_them_and_not_guessed_elsewhere(those, channels):
    assert smbios.channels(modules(*those)) == channels


def test_tables_without_modules_are_not_seen():
    with pytest.raises(NotSeenError, match="no memory modules"):
        modules()


def test_private_parts_are_taken_out_and_the_rest_is_read_as_before():
    whole = table(module("DIMM_A1"), module("DIMM_B1")) + structure(2, bytes(11), ["Board", SERIAL])
    kept = smbios.without_private_parts(whole)
    assert SERIAL.encode() not in kept
    assert b"\x5a" * 16 not in kept
    assert b"Tag" not in kept
    assert smbios.parse_modules(kept) == smbios.parse_modules(whole)
    assert smbios.maker_and_product(kept) == smbios.maker_and_product(whole)
    assert smbios.chassis(kept) == 10


def everything_of(data):
    """All that is read of a table; a refusal counts as an answer."""
    try:
        found = smbios.parse_modules(data)
    except NotSeenError:
        found = ()
    smbios.maker_and_product(data), smbios.chassis(data), smbios.without_private_parts(data)
    assert all(0 <= each.size_bytes <= 4 * 1024 * GIB for each in found)
    assert smbios.channels(found) is None or smbios.channels(found) >= 1


@given(st.binary(max_size=300))
def test_garbage_is_read_without_an_error(data):
    everything_of(data)


@given(st.data())
def test_a_damaged_table_is_read_without_an_error(data):
    whole = bytearray(table(module("DIMM_A1"), module("DIMM_B1", kind="DDR5"), module("C", mib=65536)))
    for _ in range(data.draw(st.integers(1, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    everything_of(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
