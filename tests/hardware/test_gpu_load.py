"""Load, clocks, heat, power and throttling of GPUs: what drivers tell that can be true, and why the rest is missing."""

import struct
import time

import pytest
from hardware_trees import (
    GEFORCE,
    GIB,
    LLVMPIPE,
    PID,
    RADEON,
    PlayedNvml,
    amd_card,
    drm_card,
    gpu,
    no_nvml,
    pci_device,
    sampler,
    taken_by,
    write,
)

from app.hardware.amd_throttling import throttle_bits
from app.hardware.dxgi import Adapter
from app.hardware.gpu_load import (
    CURRENT_LIMIT,
    HARDWARE,
    HOT,
    HOT_HARDWARE,
    OTHER_LIMIT,
    POWER_BRAKE,
    POWER_LIMIT,
    read_levels,
    throttle_words,
)
from app.hardware.nvml import NvmlLoad
from app.hardware.samples import GPU_LOAD, GPU_MEMORY, GpuLoad
from app.hardware.sources import NotSeenError
from app.hardware.windows_gpu import GpuCounters
from app.hardware.windows_load import ENGINES, busy_by_card

FIGURES = ("busy_percent", "core_mhz", "core_max_mhz", "memory_mhz", "memory_max_mhz", "celsius", "watts")
BUSY_CARD = {
    "busy_percent": 97.0,
    "core_mhz": 1777.0,
    "core_max_mhz": 2100.0,
    "memory_mhz": 7501.0,
    "memory_max_mhz": 7501.0,
    "celsius": 81.0,
    "watts": 169.5,
}
SCLK = "0: 500Mhz\n1: 2105Mhz *\n2: 2475Mhz"


def first_load(made, wanted=frozenset((GPU_LOAD,))):
    """The first load that came in time: a driver's thread may need longer than a sample waits."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        (load,) = made.sample(wanted).gpu_loads
        if not any("in time" in why or "of this moment" in why for why in load.reasons.values()):
            return load
    raise AssertionError("the driver never answered")


def busy_amd_card(root):
    chip = amd_card(root)
    write(chip, "gpu_busy_percent", 88)
    write(chip, "pp_dpm_sclk", SCLK)
    write(chip, "pp_dpm_mclk", "0: 96Mhz\n1: 1000Mhz *")
    write(chip, "hwmon/hwmon4/temp1_input", 71_000)
    write(chip, "hwmon/hwmon4/power1_average", 203_000_000)
    return chip


def nothing_but_reasons(load):
    return all(getattr(load, name) is None and load.reasons[name] for name in (*FIGURES, "throttled"))


# ---- NVIDIA ------------------------------------------------------------------------------------------


def test_an_nvidia_card_tells_everything_through_its_driver(tmp_path):
    played = PlayedNvml(told_load=NvmlLoad(BUSY_CARD, events=0x4 | 0x20))
    with sampler(tmp_path, (GEFORCE,), nvml=lambda: played) as made:
        load = first_load(made)
        both = made.sample({GPU_LOAD, GPU_MEMORY})
    assert load == GpuLoad(
        device="CUDA0", source="NVIDIA driver (NVML)", throttled=(POWER_LIMIT, HOT), reasons={}, **BUSY_CARD
    )
    assert len(both.gpus) == len(both.gpu_loads) == 1


def test_memory_and_load_are_asked_of_one_library_and_each_only_where_it_is_wanted(tmp_path):
    opened = []

    def open_it():
        opened.append(PlayedNvml(told_load=NvmlLoad(BUSY_CARD, events=0)))
        return opened[-1]

    with sampler(tmp_path, (GEFORCE,), nvml=open_it) as made:
        load = first_load(made)
        assert not opened[0].entered.is_set(), "memory was not wanted"
        assert made.sample({GPU_LOAD}).gpus == ()
        assert made.sample({GPU_MEMORY}).gpu_loads == ()
    assert load.throttled == (), "a card that tells why and is not kept down"
    assert len(opened) == 1


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (0, ()),
        (0x1 | 0x2 | 0x10 | 0x100, ()),
        (0x4, (POWER_LIMIT,)),
        (0x20, (HOT,)),
        (0x8, (HARDWARE,)),
        (0x8 | 0x40, (HOT_HARDWARE,)),
        (0x8 | 0x80, (POWER_BRAKE,)),
        (0x1 | 0x4 | 0x20 | 0x40, (POWER_LIMIT, HOT, HOT_HARDWARE)),
    ],
)
def test_an_idle_card_is_not_throttled_and_each_cause_is_named_once(events, words):
    assert throttle_words(events) == words


def test_a_figure_that_the_driver_refuses_leaves_the_others(tmp_path):
    told = NvmlLoad({"busy_percent": 5.0}, None, {"watts": "No power.", "throttled": "No reasons."})
    with sampler(tmp_path, (GEFORCE,), nvml=lambda: PlayedNvml(told_load=told)) as made:
        load = first_load(made)
    assert load.busy_percent == 5.0
    assert load.watts is load.throttled is load.celsius is None
    assert (load.reasons["watts"], load.reasons["throttled"]) == ("No power.", "No reasons.")
    assert load.reasons["celsius"] == "The NVIDIA driver does not tell."


@pytest.mark.parametrize(
    ("name", "lie"),
    [("busy_percent", 101), ("celsius", 255), ("watts", 4_294_967), ("core_mhz", 4_294_967_295), ("memory_mhz", -1)],
)
def test_a_figure_that_cannot_be_is_not_believed(tmp_path, name, lie):
    told = NvmlLoad(BUSY_CARD | {name: float(lie)}, events=0)
    with sampler(tmp_path, (GEFORCE,), nvml=lambda: PlayedNvml(told_load=told)) as made:
        load = first_load(made)
    assert getattr(load, name) is None
    assert "cannot be" in load.reasons[name]
    assert list(load.reasons) == [name]


def test_a_lost_card_and_a_missing_driver_are_reasons_for_every_figure(tmp_path):
    lost = PlayedNvml(told_load=NotSeenError("GPU is lost."))
    with sampler(tmp_path, (GEFORCE,), nvml=lambda: lost) as made:
        load = first_load(made)
    assert nothing_but_reasons(load)
    assert set(load.reasons.values()) == {"GPU is lost."}
    with sampler(tmp_path, (GEFORCE,), nvml=no_nvml) as made:
        assert "not installed" in first_load(made).reasons["busy_percent"]


def test_a_hanging_driver_delays_a_sample_of_memory_and_load_once_and_a_little(tmp_path):
    played = PlayedNvml(hang=True, told_load=NvmlLoad(BUSY_CARD, events=0))
    try:
        with sampler(tmp_path, (GEFORCE,), nvml=lambda: played) as made:
            made.sample({GPU_LOAD, GPU_MEMORY})
            assert played.entered.wait(5)
            # 30 ms by design; the rest is for a busy machine.
            sample, taken = taken_by(lambda: made.sample({GPU_LOAD, GPU_MEMORY}), 0.5)
            assert taken < 0.5
            assert nothing_but_reasons(sample.gpu_loads[0])
            assert set(sample.gpu_loads[0].reasons.values()) == {"The NVIDIA driver did not answer in time."}
            played.hang = False
            played.released.set()
            assert first_load(made).busy_percent == 97.0
    finally:
        played.released.set()


# ---- AMD's and other kernel drivers -------------------------------------------------------------------


def test_an_amd_card_tells_load_clocks_heat_and_power_through_the_kernel(tmp_path):
    chip = busy_amd_card(tmp_path)
    with sampler(tmp_path, (RADEON,)) as made:
        (load,) = made.sample({GPU_LOAD}).gpu_loads
        write(chip, "gpu_busy_percent", 3)
        (later,) = made.sample({GPU_LOAD}).gpu_loads
    figures = {name: getattr(load, name) for name in FIGURES}
    assert figures == {
        "busy_percent": 88,
        "core_mhz": 2105,
        "core_max_mhz": 2475,
        "memory_mhz": 1000,
        "memory_max_mhz": 1000,
        "celsius": 71,
        "watts": 203,
    }
    assert load.throttled is None
    assert list(load.reasons) == ["throttled"]
    assert later.busy_percent == 3


def test_an_amd_chip_that_tells_the_power_of_the_moment_only_is_read_too(tmp_path):
    chip = busy_amd_card(tmp_path)
    (chip / "hwmon/hwmon4/power1_average").unlink()
    write(chip, "hwmon/hwmon4/power1_input", 15_500_000)
    with sampler(tmp_path, (RADEON,)) as made:
        assert made.sample({GPU_LOAD}).gpu_loads[0].watts == 15.5


def test_files_that_are_missing_leave_the_others(tmp_path):
    chip = busy_amd_card(tmp_path)
    (chip / "pp_dpm_sclk").unlink()
    (chip / "hwmon/hwmon4/temp1_input").unlink()
    with sampler(tmp_path, (RADEON,)) as made:
        (load,) = made.sample({GPU_LOAD}).gpu_loads
    assert load.core_mhz is load.core_max_mhz is load.celsius is None
    assert "amdgpu" in load.reasons["celsius"]
    assert load.busy_percent == 88


def test_files_that_refuse_to_be_read_are_reasons(tmp_path):
    chip = busy_amd_card(tmp_path)
    for name in ("gpu_busy_percent", "pp_dpm_sclk", "pp_dpm_mclk", "mem_info_vram_used", "hwmon/hwmon4/temp1_input"):
        (chip / name).unlink()
        (chip / name).mkdir()  # what a read of it is refused for, also for an administrator
    with sampler(tmp_path, (RADEON,)) as made:
        sample = made.sample({GPU_LOAD, GPU_MEMORY})
    (load,), (card,) = sample.gpu_loads, sample.gpus
    assert load.busy_percent is load.core_mhz is load.memory_mhz is load.celsius is None
    assert all(load.reasons[name] for name in ("busy_percent", "core_mhz", "memory_mhz", "celsius"))
    assert load.watts == 203
    assert card.used_bytes is None
    assert "does not tell its memory use" in card.missing


def metrics(bits, revision=(1, 3), place=112, size=None):
    """A table of measurements as the kernel's header lays it out, everything else in it ones."""
    table = bytearray(b"\xff" * (place + 8))
    struct.pack_into("<HBB", table, 0, size or len(table), *revision)
    struct.pack_into("<Q", table, place, bits)
    return bytes(table)


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0, ()),
        (1 << 0, (POWER_LIMIT,)),
        (1 << 22 | 1 << 36 | 1 << 35, (CURRENT_LIMIT, HOT)),
        (1 << 47, (HARDWARE,)),
        (1 << 45, (HOT,)),
        (1 << 57, (OTHER_LIMIT,)),
    ],
)
@pytest.mark.parametrize(("revision", "place"), [((1, 3), 112), ((2, 2), 120), ((2, 4), 120)])
def test_an_amd_card_tells_why_its_clock_is_kept_down(tmp_path, bits, words, revision, place):
    chip = busy_amd_card(tmp_path)
    (chip / "gpu_metrics").write_bytes(metrics(bits, revision, place))
    with sampler(tmp_path, (RADEON,)) as made:
        (load,) = made.sample({GPU_LOAD}).gpu_loads
    assert load.throttled == words
    assert load.reasons == {}


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (b"", "cannot be read"),
        (metrics(0)[:119], "cannot be read"),
        (metrics(0, size=100), "cannot be read"),
        (metrics(0, (1, 1)), "revision 1.1"),
        (metrics(0, (3, 0)), "revision 3.0"),
        (metrics(2**64 - 1), "does not tell"),
    ],
)
def test_a_table_that_does_not_tell_throttling_is_no_card_that_runs_freely(table, why):
    with pytest.raises(NotSeenError, match=why):
        throttle_bits(table)


def test_a_card_that_sleeps_is_not_woken(tmp_path):
    chip = busy_amd_card(tmp_path)
    write(chip, "power/runtime_status", "suspended")
    with sampler(tmp_path, (RADEON,)) as made:
        (load,) = made.sample({GPU_LOAD}).gpu_loads
    assert nothing_but_reasons(load)
    assert "sleeps" in load.reasons["busy_percent"]


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        (SCLK, (2105, 2475)),
        ("S: 19Mhz *\n0: 500Mhz\n1: 2475Mhz", (19, 2475)),
        ("0: 500Mhz\n1: 800Mhz", (None, 800)),
        ("", (None, None)),
        ("nonsense\n1: xMhz *", (None, None)),
    ],
)
def test_the_clock_in_force_is_the_marked_one(tmp_path, text, levels):
    assert read_levels(write(tmp_path, "pp_dpm_sclk", text)) == levels


def test_other_makers_cards_and_software_devices_say_why_nothing_is_told(tmp_path):
    drm_card(tmp_path, 0, pci_device(tmp_path, "0000:00:02.0", "0x8086"), "xe")
    arc = gpu("Intel(R) Arc(tm) A770 Graphics", "Vulkan1")
    with sampler(tmp_path, (arc, LLVMPIPE)) as made:
        intel, software = made.sample({GPU_LOAD}).gpu_loads
    assert nothing_but_reasons(intel)
    assert "xe" in intel.reasons["busy_percent"]
    assert nothing_but_reasons(software)
    assert "processor" in software.reasons["busy_percent"]


def test_a_sample_of_a_kernels_card_takes_little(tmp_path):
    busy_amd_card(tmp_path)
    with sampler(tmp_path, (RADEON,)) as made:
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            made.sample({GPU_LOAD})
            times.append(time.perf_counter() - begin)
    # A hundredth of a core at 5 Hz; the best of many is the cost.
    assert min(times) < 0.002


# ---- Windows, as far as it can be played -------------------------------------------------------------

ENGINE = "pid_{pid}_luid_0x00000000_0x0000D2A1_phys_0_eng_{engine}_engtype_{kind}"


def windows_sampler(tmp_path, values, **fields):
    adapters = (Adapter(RADEON.name, 0xD2A1, 0x1002, 16 * GIB, 16 * GIB, False),)

    def engines():
        return GpuCounters(adapters, lambda: {ENGINES: values}, lambda: None)

    def no_memory_counters():
        raise NotSeenError("Not asked here.")

    counters = {"counters": no_memory_counters, "engine_counters": engines}
    return sampler(tmp_path, (RADEON,), system="win32", **(counters | fields))


def test_windows_shows_the_busiest_engine_over_all_programs(tmp_path):
    values = {
        ENGINE.format(pid=PID, engine=0, kind="3D"): 30,
        ENGINE.format(pid=77, engine=0, kind="3D"): 12,
        ENGINE.format(pid=PID, engine=4, kind="Compute 0"): 61,
        "pid_1_luid_0x00000000_0x00000001_phys_0_eng_0_engtype_3D": 99,
        "what is this": 100,
    }
    assert busy_by_card(values) == {0xD2A1: 61, 1: 99}
    with windows_sampler(tmp_path, values) as made:
        load = first_load(made)
    assert load.busy_percent == 61
    assert load.throttled is load.core_mhz is None
    assert load.reasons["core_mhz"] == "Windows counts how busy a card is, and nothing else of it."


def test_many_programs_make_no_more_than_all_of_an_engine():
    values = {ENGINE.format(pid=pid, engine=0, kind="3D"): 60 for pid in range(3)}
    assert busy_by_card(values) == {0xD2A1: 100}


def test_a_card_that_windows_counts_nothing_of_is_no_idle_one(tmp_path):
    with windows_sampler(tmp_path, {}) as made:
        load = first_load(made)
    assert nothing_but_reasons(load)
    assert "counts nothing" in load.reasons["busy_percent"]


def test_without_counters_of_engines_the_reason_is_theirs(tmp_path):
    def none():
        raise NotSeenError("This Windows has no such counters.")

    with windows_sampler(tmp_path, {}, engine_counters=none) as made:
        assert first_load(made).reasons["busy_percent"] == "This Windows has no such counters."
