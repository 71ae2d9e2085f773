"""Snapshots of whole machines: what the probe makes of each, on any system and without looking at this one."""

import json
import os
import re
from pathlib import Path

import msgspec
import psutil
import pytest
from hardware_trees import GIB, hybrid_intel, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.errors import AppError, ErrorCode
from app.hardware import files
from app.hardware.facts import GpuKind, one_row_per_card
from app.hardware.profile_file import read_profile
from app.hardware.snapshot import COMPOSED, RECORDED, read_snapshot, record, write_snapshot

FOLDER = Path(__file__).parents[1] / "snapshots"
FILES = sorted(FOLDER.glob("*.json"))
MIB = 1024**2


def machine(name):
    return read_snapshot(FOLDER / f"{name}.json").machine()


def unseen(probed):
    return {each.fact for each in probed.unseen}


@pytest.fixture
def blind(monkeypatch):
    """Called, it makes whatever looks at the machine the tests run on fail."""

    def looked(*_arguments, **_names):
        raise AssertionError("this machine was looked at")

    def close_eyes():
        for name in ("virtual_memory", "swap_memory", "disk_partitions", "cpu_count", "Process"):
            monkeypatch.setattr(psutil, name, looked)
        for name in ("read_bytes", "read_text", "open", "iterdir", "exists", "is_dir", "resolve", "readlink"):
            monkeypatch.setattr(Path, name, looked)
        monkeypatch.setattr(os, "listdir", looked)
        monkeypatch.setattr(files, "_bytes", looked)
        monkeypatch.setattr("platform.machine", looked)

    return close_eyes


# ---- all of them -----------------------------------------------------------------------------


def test_there_are_machines_of_every_kind_and_one_was_recorded():
    origins = [read_snapshot(file).origin for file in FILES]
    assert len(FILES) >= 14
    assert set(origins) == {RECORDED, COMPOSED}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_snapshot_is_computed_alike_each_time_and_without_this_machine(file, blind):
    snapshot = read_snapshot(file)
    blind()
    probed = snapshot.machine()
    assert probed == snapshot.machine()
    assert probed.cpu.name
    assert probed.ram.total_bytes > GIB
    assert all(words.why.endswith(".") and "record holds no" not in words.why for words in probed.unseen)
    assert all("record holds no" not in note for note in probed.notes)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_snapshots_machine_is_a_profile_and_its_file_holds_nothing_private(file, tmp_path):
    profile = tmp_path / "profile.json"
    profile.write_bytes(msgspec.json.encode(read_snapshot(file).machine()))
    assert read_profile(profile) == read_snapshot(file).machine()
    text = file.read_text(encoding="utf-8")
    assert not re.search(
        r"/home/(?!user[/\"])|/root|Users\\\\(?!user\\\\)|serial_number=(?!\(scrubbed)", text, re.IGNORECASE
    )


# ---- each of them ----------------------------------------------------------------------------


def test_one_module_in_two_slots_is_one_channel_and_one_card_of_two_backends_one_row():
    probed = machine("laptop_nvidia_hybrid_single_channel")
    assert (probed.ram.channels, probed.ram.free_slots, probed.ram.speed_mts) == (1, 1, 4800)
    assert [(kind.name, kind.cores, len(kind.cpus), kind.max_mhz) for kind in probed.cpu.core_classes] == [
        ("performance", 6, 12, 4700),
        ("efficiency", 8, 8, 3500),
    ]
    assert [[gpu.device for gpu in row] for row in one_row_per_card(probed.gpus)] == [["CUDA0", "Vulkan1"], ["Vulkan0"]]
    nvidia, intel, _ = probed.gpus
    assert (nvidia.card, nvidia.dedicated_bytes, nvidia.unified, nvidia.cuda) == (
        "0000:01:00.0",
        6 * GIB,
        False,
        "12.4",
    )
    assert (nvidia.power_limit_watts, nvidia.power_max_watts) == (115, 130)
    assert [(program.name, program.used_bytes) for program in nvidia.programs] == [
        ("gnome-shell", 6 * MIB),
        ("Xorg", 4 * MIB),
    ]
    assert (intel.kind, intel.unified, intel.programs[0].used_bytes) == (GpuKind.INTEGRATED, True, 180 * MIB)
    assert (probed.power.laptop, probed.power.on_battery, probed.power.saver) == (True, False, False)
    assert probed.virtual == ""
    assert probed.unused_cards == ()
    assert probed.engine.cpu_variant == "alderlake"


def test_a_card_in_a_full_slot_has_all_its_lanes_and_memory_two_channels():
    probed = machine("desktop_nvidia_x16_dual_channel")
    (gpu,) = probed.gpus
    assert (gpu.pcie.lanes, gpu.pcie.max_lanes, gpu.pcie.card_lanes, gpu.pcie.max_generation) == (16, 16, 16, 4)
    assert (gpu.driver_version, gpu.free_bytes) == ("570.153.02", 11 * GIB)
    assert (probed.ram.channels, probed.ram.free_slots, probed.ram.speed_mts) == (2, 2, 6000)
    assert (probed.ram.swap_kind, probed.disk.bus, probed.disk.filesystem) == ("compressed memory", "NVMe", "btrfs")
    assert probed.power.laptop is False
    assert probed.unseen == probed.notes == ()
    l2, l3 = probed.cpu.caches[-2:]
    assert (l2.size_bytes, l2.total_bytes, l3.level, l3.total_bytes) == (1 * MIB, 8 * MIB, 3, 32 * MIB)


def test_a_card_on_four_lanes_and_memory_below_its_speed_are_told():
    probed = machine("desktop_nvidia_pcie_x4")
    (gpu,) = probed.gpus
    assert (gpu.pcie.lanes, gpu.pcie.max_lanes, gpu.pcie.card_lanes) == (4, 4, 16)
    assert (gpu.power_limit_watts, gpu.power_max_watts) == (280, 366)
    filled = [module for module in probed.ram.modules if module.size_bytes]
    assert [(module.slot, module.rated_mts, module.speed_mts) for module in filled] == [
        ("DIMM_A2", 3200, 2133),
        ("DIMM_B2", 3200, 2133),
    ]
    assert sum(cache.total_bytes for cache in probed.cpu.caches if cache.level == 3) == 32 * MIB


def test_a_radeon_behind_its_own_switch_tells_memory_link_and_who_uses_it():
    probed = machine("desktop_radeon_amdgpu")
    (gpu,) = probed.gpus
    assert (gpu.pcie.lanes, gpu.pcie.max_generation, gpu.card) == (16, 4, "0000:08:00.0")
    assert (gpu.dedicated_bytes, gpu.free_bytes) == (16 * GIB - 16 * MIB, 11 * GIB - 16 * MIB)
    assert gpu.shared_bytes > 15 * GIB
    assert [program.name for program in gpu.programs] == ["steam", "Xwayland"]
    assert (gpu.power_limit_watts, gpu.power_max_watts) == (263, 303)
    assert gpu.driver.startswith("amdgpu")
    assert gpu.driver_version is None
    assert "NVML" not in " ".join(probed.notes)


def test_a_gpu_in_a_ryzen_works_in_main_memory_of_two_channels():
    probed = machine("laptop_ryzen_uma")
    (gpu,) = probed.gpus
    assert (gpu.kind, gpu.unified, gpu.pcie, gpu.dedicated_bytes) == (GpuKind.INTEGRATED, True, None, 4 * GIB)
    assert gpu.programs[0].used_bytes == 240 * MIB
    assert (probed.ram.channels, probed.ram.free_slots, len(probed.ram.modules)) == (2, 0, 4)
    assert probed.ram.modules[0].type == "LPDDR5"


def test_an_arc_tells_what_its_driver_does_not():
    probed = machine("desktop_intel_arc")
    (gpu,) = probed.gpus
    assert (gpu.pcie.lanes, gpu.pcie.max_lanes, gpu.dedicated_bytes) == (16, 16, None)
    assert [(each.fact, each.device) for each in probed.unseen] == [("gpus.dedicated_bytes", "Vulkan0")]
    assert any("memory use" in note for note in probed.notes)


def test_a_power_saver_on_battery_is_told_without_an_administrators_rights():
    probed = machine("laptop_intel_igpu_power_saver")
    power = probed.power
    assert (power.laptop, power.on_battery, power.battery_percent, power.saver) == (True, True, 34, True)
    assert (power.profile, power.preference) == ("low-power", "power")
    assert (probed.ram.channels, probed.ram.speed_mts) == (2, 4800)
    assert probed.product == "HP EliteBook 840 14 inch G9 Notebook PC"


def test_a_server_without_a_gpu_tells_its_nodes_and_its_slow_clocks():
    probed = machine("server_no_gpu_two_sockets")
    assert probed.gpus == probed.unused_cards == ()
    assert (probed.cpu.numa_nodes, probed.cpu.physical_cores, probed.ram.channels) == (2, 20, 8)
    assert (probed.power.saver, probed.power.governor) == (True, "powersave")
    assert "avx2" not in probed.cpu.isa
    assert (probed.disk.bus, probed.disk.rotational, probed.disk.network) == ("SATA", False, False)


def test_a_driver_that_refuses_leaves_the_card_among_the_unused():
    probed = machine("desktop_nvidia_driver_mismatch")
    (card,) = probed.unused_cards
    assert (card.maker, card.pci_id, card.driver) == ("NVIDIA", "0000:01:00.0", "nvidia 550.120")
    assert any("Driver/library version mismatch" in note for note in probed.notes)


def test_a_card_without_a_driver_says_that_none_runs_it():
    probed = machine("desktop_nvidia_no_driver")
    (card,) = probed.unused_cards
    assert (card.maker, card.driver) == ("NVIDIA", None)
    assert any("no driver runs it" in note for note in probed.notes)


def test_a_driver_that_hangs_leaves_what_the_kernel_knows():
    probed = machine("desktop_nvidia_nvml_hangs")
    (gpu,) = probed.gpus
    assert "The NVIDIA driver did not answer in time." in probed.notes
    assert (gpu.pcie.lanes, gpu.driver_version, gpu.dedicated_bytes) == (16, "550.144.03", None)
    assert gpu.free_bytes == pytest.approx(5.6 * GIB, abs=1)
    assert {"gpus.programs", "gpus.dedicated_bytes"} <= unseen(probed)


def test_a_driver_that_lies_is_not_believed():
    probed = machine("desktop_nvidia_driver_lies")
    (gpu,) = probed.gpus
    assert gpu.dedicated_bytes is None
    assert gpu.free_bytes == pytest.approx(5.6 * GIB, abs=1)
    assert any("cannot be" in note for note in probed.notes)


def test_two_equal_cards_are_two_rows_with_their_own_programs():
    probed = machine("workstation_two_gpus")
    first, second = probed.gpus
    assert len(one_row_per_card(probed.gpus)) == 2
    assert (first.programs, second.programs[0].name) == ((), "python3")
    assert second.free_bytes < first.free_bytes - 8 * GIB
    assert (first.pcie.max_lanes, first.pcie.card_lanes, first.uuid == second.uuid) == (8, 16, False)
    assert (probed.ram.channels, probed.ram.swap_total_bytes) == (2, 0)


def test_models_on_a_share_are_on_the_network():
    disk = machine("desktop_models_on_network").disk
    assert (disk.network, disk.bus, disk.filesystem, disk.rotational) == (True, "network", "nfs4", None)


def test_a_hard_disk_by_usb_and_much_swap_in_use_are_told():
    probed = machine("desktop_models_on_usb_hard_disk")
    assert (probed.disk.bus, probed.disk.rotational, probed.disk.network) == ("USB", True, False)
    assert (probed.ram.channels, probed.ram.swap_kind) == (1, "disk")
    assert probed.ram.swap_total_bytes - probed.ram.swap_free_bytes == 5000 * MIB


def test_virtual_machines_are_told_and_their_memory_has_no_channels():
    composed, recorded = machine("vm_kvm_old_processor"), machine("vm_software_vulkan_recorded")
    assert (composed.virtual, composed.ram.channels, composed.disk.bus) == ("KVM", None, "virtual")
    assert composed.disk.rotational is None
    assert (recorded.virtual, recorded.disk.bus, recorded.cpu.logical_cores) == ("a virtual machine", "virtual", 2)
    assert [(gpu.kind, gpu.unified) for gpu in recorded.gpus] == [(GpuKind.SOFTWARE, True)]
    assert {"ram.modules", "power", "product"} == unseen(recorded)
    assert [(cache.level, cache.kind, cache.total_bytes) for cache in recorded.cpu.caches][-1] == (
        3,
        "unified",
        32 * MIB,
    )


def test_a_windows_laptop_tells_as_much():
    probed = machine("laptop_windows_nvidia_battery")
    assert probed.os == "Windows 11 (build 26100), AMD64"
    assert [(kind.name, kind.cores, len(kind.cpus)) for kind in probed.cpu.core_classes] == [
        ("performance", 6, 12),
        ("efficiency", 8, 8),
    ]
    assert [(cache.level, cache.kind) for cache in probed.cpu.caches] == [
        (1, "data"),
        (1, "instruction"),
        (2, "unified"),
        (3, "unified"),
    ]
    power = probed.power
    assert (power.laptop, power.on_battery, power.battery_percent, power.saver) == (True, True, 47, True)
    assert (probed.ram.channels, probed.ram.free_slots, probed.ram.swap_kind) == (1, 1, "disk")
    assert (probed.disk.bus, probed.disk.rotational, probed.disk.network) == ("NVMe", False, False)
    (devices,) = one_row_per_card(probed.gpus)
    assert [gpu.device for gpu in devices] == ["CUDA0", "Vulkan0"]
    assert devices[0].dedicated_bytes == 8 * GIB - 12 * MIB
    assert devices[0].shared_bytes == int(7.85 * GIB)
    # NVIDIA's driver tells no memory by program on Windows; Windows does.
    assert [(program.name, program.used_bytes) for program in devices[0].programs] == [
        ("game.exe", 3 * GIB),
        ("dwm.exe", 120 * MIB),
    ]
    assert (probed.product, probed.virtual) == ("ASUSTeK COMPUTER INC. ROG Strix G614JV", "")


# ---- making and reading them -----------------------------------------------------------------


def test_a_recorded_machine_is_played_back_as_it_was(tmp_path):
    root, models = tmp_path / "root", tmp_path / "models"
    models.mkdir()
    hybrid_intel(root)
    write(root, "proc/sys/kernel/osrelease", "6.11.4")
    write(root, "sys/firmware/acpi/platform_profile", "low-power")
    snapshot, probed = record(models, (), None, root)
    path = tmp_path / "snapshot.json"
    write_snapshot(path, snapshot)
    again = read_snapshot(path)
    assert again == snapshot
    played = again.machine()
    assert (played.cpu, played.ram, played.power) == (probed.cpu, probed.ram, probed.power)
    assert (played.os, played.unseen) == (probed.os, probed.unseen)
    assert played.disk.total_bytes == probed.disk.total_bytes
    assert snapshot.origin == RECORDED


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"version": 2, "origin": "x", "system": "linux", "models_folder": "/"}',
        b'{"origin": "x", "system": "linux", "models_folder": "/", "file": {}}',
        b'{"origin": "x", "system": "linux", "models_folder": "/", "files": {"a": {"hex": "xyz"}}}',
        b'{"origin": "x", "system": "linux", "models_folder": "/", "files": {"a": 7}}',
    ],
)
def test_a_file_that_is_no_snapshot_is_refused_with_its_name(tmp_path, data):
    path = tmp_path / "machine.json"
    path.write_bytes(data)
    with pytest.raises(AppError, match="no snapshot") as caught:
        read_snapshot(path)
    assert caught.value.code is ErrorCode.BAD_USAGE
    assert str(path) in caught.value.message


def test_a_file_that_is_not_there_is_missing_and_one_that_cannot_be_written_told(tmp_path):
    with pytest.raises(AppError) as caught:
        read_snapshot(tmp_path / "none.json")
    assert caught.value.code is ErrorCode.FILE_MISSING
    with pytest.raises(AppError) as caught:
        write_snapshot(tmp_path / "none" / "x.json", read_snapshot(FILES[0]))
    assert caught.value.code is ErrorCode.FOLDER_NOT_WRITABLE


def test_a_snapshot_with_values_of_no_machine_is_refused():
    data = json.loads((FOLDER / "desktop_nvidia_x16_dual_channel.json").read_text(encoding="utf-8"))
    data["gpus"][0]["total_bytes"] = 2**60
    with pytest.raises(AppError, match="of no machine"):
        msgspec.convert(data, type(read_snapshot(FILES[0]))).machine()


def test_kernel_files_that_may_not_be_read_leave_what_drivers_tell_and_reasons_for_the_rest():
    snapshot = read_snapshot(FOLDER / "desktop_nvidia_x16_dual_channel.json")
    closed = msgspec.structs.replace(snapshot, refusals=dict.fromkeys(snapshot.files, "Permission denied"), folders={})
    probed = closed.machine()
    assert probed.ram.total_bytes == 62 * GIB
    assert probed.gpus[0].driver_version == "570.153.02"
    assert {"cpu.caches", "cpu.numa_nodes", "ram.modules", "ram.swap_total_bytes", "power", "product"} <= unseen(probed)
    assert any("administrator" in each.why for each in probed.unseen)
    assert any("cores is not known" in note for note in probed.notes)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_sources_that_say_anything_make_a_machine_or_one_clear_refusal(data):
    snapshot = read_snapshot(FOLDER / "desktop_radeon_amdgpu.json")
    files = dict(snapshot.files)
    paths = data.draw(st.lists(st.sampled_from(sorted(files)), min_size=1, max_size=8))
    for path in paths:
        files[path] = data.draw(st.one_of(st.none(), st.text(max_size=12), st.integers().map(str)))
    refusals = dict.fromkeys(data.draw(st.lists(st.sampled_from(sorted(files)), max_size=8)), "Input/output error")
    try:
        probed = msgspec.structs.replace(snapshot, files=files, refusals=refusals).machine()
    except AppError:
        return  # what no machine has is refused in words
    # A source that breaks instead of refusing is told with these words.
    told = [*probed.notes, *(each.why for each in probed.unseen)]
    assert not [words for words in told if " could not be read: " in words]


def test_cards_are_told_also_where_the_engine_could_not_be_asked():
    for name, words in (("desktop_nvidia_x16_dual_channel", "NVIDIA"), ("desktop_radeon_amdgpu", "AMD")):
        snapshot = msgspec.structs.replace(read_snapshot(FOLDER / f"{name}.json"), gpus=(), engine=None)
        probed = snapshot.machine()
        assert probed.gpus == probed.unused_cards == ()
        (note,) = [note for note in probed.notes if "the engine did not tell whether it can use it" in note]
        assert words in note


def test_a_later_version_is_named_also_where_it_has_fields_that_this_one_does_not_know(tmp_path):
    later = json.loads(FILES[0].read_bytes()) | {"version": 2, "colour": "red"}
    path = tmp_path / "later.json"
    path.write_text(json.dumps(later), encoding="utf-8")
    with pytest.raises(AppError, match="of version 2, and this app reads 1"):
        read_snapshot(path)


def test_a_record_of_a_model_is_told_to_be_one():
    with pytest.raises(AppError, match="`doctor --replay` reads"):
        read_snapshot(FOLDER / "pool_never_hit.jsonl")
