"""GPU memory on Windows: counters and cards as Windows writes them, read without Windows."""

import struct
import sys

import pytest
from hardware_trees import GEFORCE, GIB, MIB, gpu
from hypothesis import given
from hypothesis import strategies as st

from app.hardware.dxgi import Adapter, parse_description, read_adapters
from app.hardware.facts import GpuKind
from app.hardware.pdh import PdhCounters, parse_items
from app.hardware.sources import NotSeenError
from app.hardware.windows_gpu import (
    CARD_DEDICATED,
    CARD_SHARED,
    PATHS,
    PROGRAM_DEDICATED,
    PROGRAM_SHARED,
    GpuCounters,
    WindowsMemory,
    adapter_of,
    card_bytes,
    open_counters,
    program_bytes,
)

LUID = 0x0000D2A1
CARD = "luid_0x00000000_0x0000D2A1_phys_0"
NVIDIA = Adapter(GEFORCE.name, LUID, 0x10DE, 12 * GIB, 16 * GIB, False)
INTEL = Adapter("Intel(R) UHD Graphics 770", 0x1_0000_BEEF, 0x8086, 128 * MIB, 16 * GIB, False)
WARP = Adapter("Microsoft Basic Render Driver", 5, 0x1414, 0, 16 * GIB, True)


def description(adapter, flags=0):
    name = adapter.name.encode("utf-16-le").ljust(256, b"\0")
    low, high = adapter.luid & 0xFFFFFFFF, adapter.luid >> 32
    sizes = (adapter.dedicated_bytes, 0, adapter.shared_bytes)
    return struct.pack("<256s4I3QIiI4x", name, adapter.vendor, 0x2504, 0, 0xA1, *sizes, low, high, flags)


def items(values, base=0x7F00_0000_1000, status=0):
    """A buffer as PdhGetFormattedCounterArrayW fills it: records, then the names they point to."""
    names, records = b"", b""
    at = 24 * len(values)
    for name, value in values.items():
        records += struct.pack("<QI4xq", base + at + len(names), status, value)
        names += name.encode("utf-16-le") + b"\0\0"
    return records + names, len(values), base


def counters(values, adapters=(NVIDIA,)):
    return GpuCounters(adapters=adapters, read=lambda: values, close=lambda: None)


def test_a_card_is_described_with_its_number_and_memory():
    assert parse_description(description(NVIDIA)) == NVIDIA
    assert parse_description(description(INTEL)).luid == 0x1_0000_BEEF
    assert parse_description(description(WARP, flags=2)) == WARP


def test_a_description_that_is_cut_is_not_read():
    with pytest.raises(NotSeenError):
        parse_description(description(NVIDIA)[:100])


def test_counters_are_read_with_the_names_they_point_to():
    values = {f"pid_4488_{CARD}": 3 * GIB, f"pid_12_{CARD}": 5}
    assert parse_items(*items(values)) == values


def test_a_counter_without_a_value_is_left_out():
    assert parse_items(*items({CARD: 5}, status=0xC0000BC6)) == {}


@given(st.binary(max_size=120), st.integers(0, 6), st.integers(0, 2**40))
def test_any_bytes_are_counters_or_not_seen(buffer, count, base):
    try:
        found = parse_items(buffer, count, base)
    except NotSeenError:
        return
    assert len(found) <= count


def test_a_programs_memory_is_told_from_that_of_others_and_summed_over_linked_chips():
    values = {
        f"pid_448_{CARD}": 1,
        "pid_448_luid_0x00000000_0x0000d2a1_phys_1": 2,
        f"pid_4488_{CARD}": 4,
        "pid_448_luid_0x00000001_0x0000BEEF_phys_0": 8,
        "something else": 16,
    }
    assert program_bytes(values, 448) == {LUID: 3, INTEL.luid: 8}
    assert card_bytes({CARD: 7, f"pid_448_{CARD}": 9}) == {LUID: 7}


def test_a_device_of_the_engine_is_found_by_its_name_or_by_being_the_only_card():
    cards = (NVIDIA, INTEL, WARP)
    assert adapter_of(GEFORCE, cards) is NVIDIA
    assert adapter_of(gpu("Intel(R) UHD Graphics 770"), cards) is INTEL
    assert adapter_of(gpu("AMD Radeon"), (WARP, INTEL)) is INTEL
    with pytest.raises(NotSeenError, match="no card like"):
        adapter_of(gpu("AMD Radeon"), cards)
    twin = Adapter(NVIDIA.name, 99, 0x10DE, 12 * GIB, 0, False)
    with pytest.raises(NotSeenError, match="2 cards like"):
        adapter_of(GEFORCE, (NVIDIA, twin))


def test_a_card_listed_twice_is_one_card():
    assert adapter_of(GEFORCE, (NVIDIA, NVIDIA)) is NVIDIA


def test_dedicated_and_spilled_memory_are_told_apart():
    values = {
        CARD_DEDICATED: {CARD: 7 * GIB},
        CARD_SHARED: {CARD: 2 * GIB},
        PROGRAM_DEDICATED: {f"pid_9_{CARD}": 6 * GIB},
        PROGRAM_SHARED: {f"pid_9_{CARD}": 1 * GIB, f"pid_8_{CARD}": 1 * GIB},
    }
    sample = WindowsMemory([GEFORCE], 9, lambda: counters(values)).read()["CUDA0"]
    assert (sample.used_bytes, sample.total_bytes) == (7 * GIB, 12 * GIB)
    assert (sample.process_bytes, sample.shared_bytes) == (6 * GIB, 1 * GIB)
    assert sample.others_bytes == 1 * GIB
    assert sample.missing == ""


def test_nothing_spills_from_a_gpu_whose_memory_is_main_memory():
    name = "luid_0x00000001_0x0000BEEF_phys_0"
    values = {
        CARD_DEDICATED: {name: 100 * MIB},
        CARD_SHARED: {name: 2 * GIB},
        PROGRAM_DEDICATED: {f"pid_9_{name}": 50 * MIB},
        PROGRAM_SHARED: {f"pid_9_{name}": 1 * GIB},
    }
    device = gpu(INTEL.name, kind=GpuKind.INTEGRATED)
    sample = WindowsMemory([device], 9, lambda: counters(values, (INTEL,))).read()["Vulkan0"]
    assert sample.used_bytes == 2 * GIB + 100 * MIB
    assert sample.process_bytes == 1 * GIB + 50 * MIB
    assert sample.shared_bytes is None


def test_an_engine_that_uses_no_card_yet_is_not_counted_as_zero():
    values = {CARD_DEDICATED: {CARD: 1 * GIB}}
    sample = WindowsMemory([GEFORCE], 9, lambda: counters(values)).read()["CUDA0"]
    assert sample.used_bytes == 1 * GIB
    assert sample.process_bytes is sample.shared_bytes is None
    assert "no memory of the engine" in sample.missing


@pytest.mark.parametrize("used", [13 * GIB, None], ids=["more than there is", "no such card"])
def test_figures_that_cannot_be_are_not_shown(used):
    values = {CARD_DEDICATED: {} if used is None else {CARD: used}}
    sample = WindowsMemory([GEFORCE], 9, lambda: counters(values)).read()["CUDA0"]
    assert sample.used_bytes is sample.total_bytes is None
    assert sample.missing


def test_a_card_that_windows_does_not_list_is_a_reason_for_that_device_alone():
    values = {CARD_DEDICATED: {CARD: 1 * GIB}}
    devices = [GEFORCE, gpu("AMD Radeon RX 6800", "Vulkan1")]
    found = WindowsMemory(devices, 9, lambda: counters(values, (NVIDIA, INTEL))).read()
    assert found["CUDA0"].used_bytes == 1 * GIB
    assert "no card like Vulkan1" in found["Vulkan1"].missing


def test_counters_that_do_not_exist_are_tried_once_and_what_was_opened_is_closed():
    tries, closed = [], []

    def missing():
        tries.append(1)
        raise NotSeenError("This Windows has no performance counters of GPUs.")

    reader = WindowsMemory([GEFORCE], 9, missing)
    for _ in range(3):
        with pytest.raises(NotSeenError, match="no performance counters"):
            reader.read()
    assert len(tries) == 1
    reader.close()
    opened = WindowsMemory([GEFORCE], 9, lambda: GpuCounters((NVIDIA,), dict, lambda: closed.append(1)))
    opened.read()
    opened.close()
    opened.close()
    assert closed == [1]


@pytest.mark.skipif(sys.platform == "win32", reason="it is Windows")
@pytest.mark.parametrize("ask", [read_adapters, open_counters, lambda: PdhCounters(PATHS)])
def test_elsewhere_it_is_said_that_this_is_not_windows(ask):
    with pytest.raises(NotSeenError, match="not Windows"):
        ask()
