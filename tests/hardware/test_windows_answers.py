"""What Windows' calls of the probe answer is parsed from recorded bytes."""

import struct
import sys
from pathlib import Path

import psutil
import pytest
from firmware_tables import structure, table
from hypothesis import given
from hypothesis import strategies as st

from app.hardware import windows_calls
from app.hardware.answers import LIVE, Answer, PlayedAnswers
from app.hardware.caches import parse_caches
from app.hardware.cores import windows_classes
from app.hardware.cpu import read_cpu
from app.hardware.disk import read_medium
from app.hardware.facts import Cache
from app.hardware.identity import read_virtual
from app.hardware.memory_modules import Swap, read_swap
from app.hardware.power import read_power
from app.hardware.snapshot import read_snapshot
from app.hardware.sources import NotSeenError
from app.hardware.windows import Core
from app.hardware.windows_calls import PageFiles

LAPTOP = Path(__file__).parents[1] / "snapshots" / "laptop_windows_nvidia_battery.json"
SAVER = "A1841308-3541-4FAB-BC81-F71556F20B4A"


def cache(level, kind, size, relation=2):
    return struct.pack("<IIBBHII18xHQH6x", relation, 56, level, 8, 64, size, kind, 1, 3, 0)


def device(bus):
    return struct.pack("<IIBBBBIIIII", 40, 200, 0, 0, 0, 1, 0, 0, 0, 0, bus).hex()


def played(**answers):
    return PlayedAnswers({f"windows.{name}": Answer(value=value) for name, value in answers.items()})


def firmware(tables):
    return played(**{"GetSystemFirmwareTable.RSMB": (struct.pack("<4BI", 0, 3, 2, 0, len(tables)) + tables).hex()})


def medium(tmp_path, **drive):
    record = {"mount": Answer(value={"filesystem": "NTFS", "numbers": []}), "windows.drive": Answer(value=drive)}
    return read_medium(tmp_path, tmp_path, PlayedAnswers(record), "win32")


@pytest.mark.parametrize(("affinity", "allowed"), [(4, 4), (20, None), (0, None), (None, None)])
def test_a_program_started_for_some_processors_may_keep_only_these_busy(affinity, allowed, tmp_path):
    record = dict(read_snapshot(LAPTOP).answers)
    if affinity is not None:  # what older records lack
        record["windows.GetProcessAffinityMask"] = Answer(value=affinity)
    cpu, notes = read_cpu(tmp_path, "win32", PlayedAnswers(record))
    assert (cpu.logical_cores, cpu.allowed_threads) == (20, allowed)
    assert any("only 4 of the processor's 20 threads" in note for note in notes) == (allowed is not None)


def test_caches_are_summed_by_level_and_kind():
    records = cache(1, 2, 48 << 10) + cache(1, 2, 32 << 10) + cache(3, 0, 24 << 20) + cache(1, 3, 7, relation=2)
    assert parse_caches(records) == (
        Cache(level=1, kind="data", size_bytes=48 << 10, total_bytes=80 << 10),
        Cache(level=3, kind="unified", size_bytes=24 << 20, total_bytes=24 << 20),
    )


@pytest.mark.parametrize("records", [b"", cache(1, 2, 1)[:30], bytes(56), cache(1, 2, 1, relation=0)])
def test_records_without_a_cache_are_not_seen(records):
    with pytest.raises(NotSeenError):
        parse_caches(records)


@given(st.binary(max_size=200))
def test_any_cache_records_are_caches_or_not_seen(records):
    try:
        found = parse_caches(records)
    except NotSeenError:
        return
    assert all(0 < each.size_bytes <= each.total_bytes for each in found)


def test_three_classes_of_cores_are_named_fastest_first():
    classes = windows_classes((Core(2, 2, (0, 1)), Core(1, 1, (2,)), Core(1, 0, (3,)), Core(1, 0, (4,))))
    assert [(each.name, each.cores, each.cpus) for each in classes] == [
        ("performance", 1, (0, 1)),
        ("efficiency", 1, (2,)),
        ("low-power efficiency", 2, (3, 4)),
    ]
    assert windows_classes((Core(2, 0), Core(2, 0))) == ()


@pytest.mark.parametrize(("number", "bus"), [(17, "NVMe"), (11, "SATA"), (7, "USB"), (99, None)])
def test_a_drive_tells_its_bus_and_whether_a_search_costs_time(tmp_path, number, bus):
    found = medium(tmp_path, kind=3, device=device(number), seek=struct.pack("<IIB3x", 12, 12, 1).hex())
    assert (found.bus, found.rotational, found.network, found.filesystem) == (bus, True, False, "NTFS")


def test_a_share_is_on_the_network_and_a_silent_drive_tells_nothing(tmp_path):
    share, silent = medium(tmp_path, kind=4), medium(tmp_path, kind=3)
    assert (share.bus, share.network, share.rotational) == ("network", True, None)
    assert (silent.bus, silent.network, silent.rotational) == (None, False, None)


def test_the_power_saver_scheme_is_a_saver_whatever_the_battery_says(tmp_path):
    status = bytes([1, 128, 255, 0]).hex()
    power = read_power(tmp_path, "win32", played(GetSystemPowerStatus=status, PowerGetActiveScheme=SAVER))
    assert (power.saver, power.profile, power.laptop) == (True, "power saver", False)
    other = read_power(tmp_path, "win32", played(PowerGetActiveScheme=SAVER.replace("A", "B")))
    assert (other.saver, other.profile) == (None, "the user's or the maker's own")


def test_a_windows_that_tells_nothing_of_power_is_not_seen(tmp_path):
    with pytest.raises(NotSeenError):
        read_power(tmp_path, "win32", played())


@pytest.mark.parametrize(
    ("maker", "product", "virtual"),
    [("QEMU", "Standard PC (Q35 + ICH9, 2009)", "KVM"), ("LENOVO", "21CB", "")],
)
def test_the_firmwares_names_tell_a_virtual_machine(tmp_path, maker, product, virtual):
    assert read_virtual(tmp_path, "win32", firmware(table(maker=maker, product=product))) == virtual


@pytest.mark.parametrize("tables", [table(maker="", product=""), b"", structure(127, b"")])
def test_firmware_without_names_is_no_real_machine(tmp_path, tables):
    with pytest.raises(NotSeenError, match="not whether it is a virtual one"):
        read_virtual(tmp_path, "win32", firmware(tables))


@pytest.mark.parametrize(
    ("files", "swap"),
    [
        (PageFiles(8 << 30, 3 << 30), Swap(8 << 30, 5 << 30, "disk")),
        (PageFiles(0, 0), Swap(0, 0, None)),
        (PageFiles(1 << 30, 2 << 30), Swap(1 << 30, 0, "disk")),
    ],
)
def test_page_files_are_told_without_performance_counters(tmp_path, monkeypatch, files, swap):
    monkeypatch.setattr(windows_calls, "page_files", lambda: files)
    monkeypatch.setattr(psutil, "swap_memory", lambda: pytest.fail("it needs counters that may be switched off"))
    assert read_swap(tmp_path, "win32", LIVE) == swap


@pytest.mark.skipif(sys.platform == "win32", reason="there they answer")
@pytest.mark.parametrize(
    "ask",
    [
        windows_calls.firmware_tables,
        lambda _answers: windows_calls.page_files(),
        windows_calls.power_status,
        windows_calls.power_scheme,
        windows_calls.cache_records,
        windows_calls.core_records,
        windows_calls.numa_nodes,
        windows_calls.display_drivers,
        lambda answers: windows_calls.drive(answers, "C:\\"),
    ],
)
def test_elsewhere_the_calls_say_that_this_is_not_windows(ask):
    with pytest.raises(NotSeenError, match="not Windows"):
        ask(LIVE)
