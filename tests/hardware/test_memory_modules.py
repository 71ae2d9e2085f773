"""Modules and the page file, from whichever table may be read."""

import pytest
from firmware_tables import module, table
from hardware_trees import GIB, write
from hypothesis import given
from hypothesis import strategies as st

from app.hardware.answers import LIVE, Answer, PlayedAnswers
from app.hardware.facts import Ram
from app.hardware.memory_modules import Swap, parse_udev, read_modules, read_swap, with_modules
from app.hardware.sources import NotSeenError
from app.hardware.tree import PlayedTree, TreePath, TreeRecord

DMI = "sys/firmware/dmi/tables/DMI"
UDEV = """I:17310
E:MEMORY_ARRAY_NUM_DEVICES=2
E:MEMORY_DEVICE_0_DATA_WIDTH=64
E:MEMORY_DEVICE_0_SIZE=8589934592
E:MEMORY_DEVICE_0_LOCATOR=DIMM_A1
E:MEMORY_DEVICE_0_BANK_LOCATOR=BANK 0
E:MEMORY_DEVICE_0_TYPE=DDR4
E:MEMORY_DEVICE_0_SPEED_MTS=3200
E:MEMORY_DEVICE_0_CONFIGURED_SPEED_MTS=2666
E:MEMORY_DEVICE_1_PRESENT=0
E:MEMORY_DEVICE_1_LOCATOR=DIMM_B1
"""
SWAPS = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


def refused(**files):
    record = TreeRecord(
        files={path: text.encode() for path, text in files.items()}, refusals={DMI: "Permission denied"}
    )
    return TreePath(PlayedTree(record))


def test_the_firmwares_table_gives_channels_free_slots_and_speed(tmp_path):
    file = write(tmp_path, DMI, "")
    file.write_bytes(table(module("DIMM_A2", speed=2133), module("DIMM_B2", mib=0)))
    ram = with_modules(Ram(total_bytes=1, available_bytes=1), read_modules(tmp_path, "linux", LIVE), None)
    assert (ram.channels, ram.free_slots, ram.speed_mts) == (1, 1, 2133)
    assert ram.swap_total_bytes is None


def test_without_an_administrators_rights_the_systems_own_record_is_read():
    first, second = read_modules(refused(**{"run/udev/data/+dmi:id": UDEV}), "linux", LIVE)
    assert (first.slot, first.size_bytes, first.type, first.speed_mts) == ("DIMM_A1", 8 * GIB, "DDR4", 2666)
    assert (second.slot, second.size_bytes) == ("DIMM_B1", 0)


def test_without_that_record_the_reason_says_who_may_read():
    with pytest.raises(NotSeenError, match="administrator"):
        read_modules(refused(), "linux", LIVE)


def test_a_system_without_tables_says_so(tmp_path):
    with pytest.raises(NotSeenError, match="no table"):
        read_modules(tmp_path, "linux", LIVE)


def test_windows_gives_the_same_table_behind_a_head(tmp_path):
    whole = table(module("DIMM_A1"), module("DIMM_B1"))
    raw = bytes([0, 3, 4, 0]) + len(whole).to_bytes(4, "little") + whole
    answers = PlayedAnswers({"windows.GetSystemFirmwareTable.RSMB": Answer(value=raw.hex())})
    assert len(read_modules(tmp_path, "win32", answers)) == 2


@pytest.mark.parametrize("value", ["", "00", "no hex", "00030400ffffffff"])
def test_what_windows_garbles_is_not_seen(tmp_path, value):
    answers = PlayedAnswers({"windows.GetSystemFirmwareTable.RSMB": Answer(value=value)})
    with pytest.raises(NotSeenError):
        read_modules(tmp_path, "win32", answers)


@pytest.mark.parametrize(
    ("lines", "swap"),
    [
        ("", Swap(0, 0, None)),
        ("/swapfile file 2097148 1024 -2\n", Swap(2097148 * 1024, 2096124 * 1024, "disk")),
        ("/dev/zram0 partition 4096 0 100\n", Swap(4096 * 1024, 4096 * 1024, "compressed memory")),
        ("/dev/zram0 partition 4096 0 100\n/dev/sda2 partition 4096 4096 -2\n", Swap(2**23, 2**22, "disk")),
        ("/a\\040b file 8 0 -2\n", Swap(8192, 8192, "disk")),
        ("nonsense\n", Swap(0, 0, None)),
    ],
)
def test_swap_is_summed_and_its_kind_told(tmp_path, lines, swap):
    write(tmp_path, "proc/swaps", SWAPS + lines)
    assert read_swap(tmp_path, "linux", LIVE) == swap


def test_a_system_that_lists_no_swap_is_not_seen(tmp_path):
    with pytest.raises(NotSeenError):
        read_swap(tmp_path, "linux", LIVE)


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["SIZE", "PRESENT", "TYPE", "X"]), st.text(max_size=25))))
def test_any_record_of_the_system_is_read(entries):
    text = "\n".join(f"E:MEMORY_DEVICE_{index}_{name}={value}" for index, name, value in entries)
    assert all(module.size_bytes >= 0 for module in parse_udev(text))
