"""What drivers tell of cards beside memory and link; what they cannot mean is not believed."""

import pytest
from hardware_trees import GEFORCE, GIB, LLVMPIPE, MIB, PlayedNvml, amd_card, drm_card, gpu, pci_device
from hypothesis import given
from hypothesis import strategies as st

from app.hardware.cards import CardMemory
from app.hardware.drm import read_cards, read_displays
from app.hardware.dxgi import Adapter
from app.hardware.facts import GpuKind, GpuProgram, Pcie, one_row_per_card
from app.hardware.gpu_details import Seen, with_details
from app.hardware.gpu_programs import CardUse, CountedCards, read_counted
from app.hardware.graphics import complete, read_nvidia
from app.hardware.nvml import NvmlCard, NvmlDetails
from app.hardware.sources import NotSeenError
from app.hardware.windows_gpu import PROGRAM_DEDICATED, GpuCounters

TOLD = NvmlDetails(
    uuid="GPU-1",
    cuda="12.4",
    power_limit_watts=115.0,
    power_max_watts=170.0,
    programs=((7, "game", 2 * GIB), (8, "desktop", 90 * MIB)),
)
NVIDIA_ADAPTER = Adapter(GEFORCE.name, 0xD2A1, 0x10DE, 12 * GIB, 16 * GIB, software=False)


def seen(**fields):
    empty = {"nvidia": None, "cards": (), "programs": None, "counted": None, "drivers": (), "refusals": {}}
    return Seen(**(empty | fields))


def nvidia(**fields):
    return read_nvidia(lambda: PlayedNvml(**({"told_details": TOLD} | fields)))


def detailed(device, **fields):
    sources = seen(**fields)
    completed, _notes = complete([device], sources.nvidia, sources.cards)
    (made,), unseen = with_details(completed, sources)
    return made, {each.fact: each.why for each in unseen}


def test_an_nvidia_card_tells_its_name_power_cuda_and_programs():
    card, unseen = detailed(GEFORCE, nvidia=nvidia())
    assert (card.uuid, card.card, card.cuda, card.driver_version) == ("GPU-1", "0000:01:00.0", "12.4", "550.54.14")
    assert (card.power_limit_watts, card.power_max_watts, card.dedicated_bytes) == (115.0, 170.0, 12 * GIB)
    assert [program.name for program in card.programs] == ["game", "desktop"]
    assert unseen == {}


def test_backends_that_offer_one_card_are_one_row_and_equal_cards_two():
    two = (NvmlCard(0, GEFORCE.name, "0000:01:00.0"), NvmlCard(1, GEFORCE.name, "0000:02:00.0"))
    devices = [
        gpu(GEFORCE.name, "CUDA0", pci_id="0000:01:00.0"),
        gpu(GEFORCE.name, "CUDA1", pci_id="0000:02:00.0"),
        gpu(GEFORCE.name, "Vulkan0", pci_id="0000:02:00.0"),
        LLVMPIPE,
    ]
    made, _ = with_details(devices, seen(nvidia=nvidia(found=two)))
    assert [[each.device for each in row] for row in one_row_per_card(made)] == [
        ["CUDA0"],
        ["CUDA1", "Vulkan0"],
        [LLVMPIPE.device],
    ]


def test_a_card_without_its_driver_says_why_its_programs_are_not_seen():
    card, unseen = detailed(GEFORCE, refusals={"nvidia": "The NVIDIA driver did not answer in time."})
    assert (card.programs, card.dedicated_bytes, card.power_limit_watts) == ((), None, None)
    assert unseen["gpus.programs"] == "The NVIDIA driver did not answer in time."
    assert {"gpus.dedicated_bytes", "gpus.pcie"} <= unseen.keys()


def test_a_driver_that_lists_no_programs_says_why():
    refused = NvmlDetails(programs_refused="Not supported.")
    card, unseen = detailed(GEFORCE, nvidia=nvidia(told_details=refused))
    assert card.programs == ()
    assert unseen["gpus.programs"] == "Not supported."


def test_details_that_are_refused_leave_the_rest():
    card, _ = detailed(GEFORCE, nvidia=nvidia(told_details=NotSeenError("No details.")))
    assert (card.driver, card.dedicated_bytes, card.uuid) == ("550.54.14", 12 * GIB, None)


@pytest.mark.parametrize(
    "memory",
    [
        CardMemory(used_bytes=13 * GIB, total_bytes=12 * GIB),
        CardMemory(used_bytes=-1, total_bytes=12 * GIB),
        CardMemory(used_bytes=0, total_bytes=0),
        CardMemory(used_bytes=0, total_bytes=2**63),
    ],
)
def test_memory_that_no_card_has_is_not_believed(memory):
    card, unseen = detailed(GEFORCE, nvidia=nvidia(told_memory=memory))
    assert (card.free_bytes, card.dedicated_bytes) == (GEFORCE.free_bytes, None)
    assert "gpus.dedicated_bytes" in unseen


@given(
    used=st.integers(-(2**64), 2**64),
    total=st.integers(-(2**64), 2**64),
    lanes=st.integers(-1, 2**32),
    watts=st.floats(allow_nan=True),
)
def test_any_lie_of_the_driver_leaves_figures_that_a_card_can_have(used, total, lanes, watts):
    lies = NvmlDetails(power_limit_watts=watts, power_max_watts=watts)
    link = Pcie(generation=lanes, lanes=lanes, max_generation=lanes, max_lanes=lanes)
    found = nvidia(told_memory=CardMemory(used, total), told_link=link, told_details=lies)
    card, _ = detailed(GEFORCE, nvidia=found)
    assert 0 <= card.free_bytes <= GEFORCE.total_bytes
    assert card.dedicated_bytes is None or 0 < card.dedicated_bytes <= 4 * 1024 * GIB
    assert card.pcie is None or card.pcie.lanes <= 8
    assert card.power_limit_watts is None or 0 < card.power_limit_watts <= 5000


def test_the_kernel_tells_what_an_nvidia_card_could_do_in_a_better_slot(tmp_path):
    pci_device(tmp_path, "0000:00:01.0", "0x8086", "8.0 GT/s PCIe", 4)
    device = pci_device(tmp_path, "0000:00:01.0/0000:01:00.0", "0x10de", "8.0 GT/s PCIe", 4, "16.0 GT/s PCIe")
    drm_card(tmp_path, 0, device, "nvidia")
    link = Pcie(generation=3, lanes=4, max_generation=3, max_lanes=4)
    card, _ = detailed(GEFORCE, nvidia=nvidia(told_link=link), cards=read_cards(tmp_path))
    assert (card.pcie.max_lanes, card.pcie.card_lanes, card.pcie.card_generation) == (4, 16, 4)


def test_an_amd_card_tells_its_own_and_shared_memory_and_the_kernel_its_programs(tmp_path):
    amd_card(tmp_path)
    uses = (CardUse("0000:03:00.0", 9, "steam", 3 * GIB, 50 * MIB), CardUse("0000:09:00.0", 9, "steam", 1, 1))
    radeon = gpu("AMD Radeon RX 6800 (RADV NAVI21)")
    card, unseen = detailed(radeon, cards=read_cards(tmp_path), programs=uses)
    assert (card.card, card.dedicated_bytes, card.shared_bytes) == ("0000:03:00.0", 16 * GIB, 8 * GIB)
    assert card.programs == (GpuProgram(name="steam", pid=9, used_bytes=3 * GIB),)
    assert unseen == {}


def test_windows_counts_programs_where_the_driver_tells_no_figure():
    told = NvmlDetails(programs=((7, "game.exe", None),))
    game = GpuProgram(name="game.exe", pid=7, used_bytes=2 * GIB)
    counted = CountedCards((NVIDIA_ADAPTER,), ((0xD2A1, game), (0x1, GpuProgram(name="other", pid=8, used_bytes=1))))
    card, unseen = detailed(GEFORCE, nvidia=nvidia(told_details=told), counted=counted)
    assert (card.programs, card.shared_bytes) == ((game,), 16 * GIB)
    assert unseen == {}


def test_windows_tells_cards_of_others_their_memory_and_driver():
    adapter = Adapter("AMD Radeon(TM) RX 6800", 0xABCD, 0x1002, 16 * GIB, 8 * GIB, software=False)
    drivers = (("AMD Radeon(TM) RX 6800", "31.0.1"), ("Other", "2"))
    card, unseen = detailed(gpu("AMD Radeon RX 6800"), counted=CountedCards((adapter,), ()), drivers=drivers)
    assert (card.driver_version, card.dedicated_bytes, card.card) == ("31.0.1", 16 * GIB, "luid 0xabcd")
    assert unseen.keys() == {"gpus.pcie"}


def test_windows_counters_are_read_by_program_and_given_back():
    closed = []
    values = {
        PROGRAM_DEDICATED: {
            "pid_7_luid_0x00000000_0x0000D2A1_phys_0": 5,
            "pid_8_luid_0x00000000_0x0000D2A1_phys_0": 9,
            "pid_9_luid_0x00000000_0x0000D2A1_phys_0": 0,
            "nonsense": 3,
        }
    }
    counters = GpuCounters((NVIDIA_ADAPTER,), lambda: values, lambda: closed.append(1))
    counted = read_counted(lambda: counters)
    assert [(luid, program.pid, program.used_bytes) for luid, program in counted.programs] == [
        (0xD2A1, 8, 9),
        (0xD2A1, 7, 5),
    ]
    assert closed == [1]


def test_a_gpu_in_the_processor_and_a_software_device_work_in_main_memory():
    made, unseen = with_details([gpu("Intel UHD", kind=GpuKind.INTEGRATED), LLVMPIPE], seen())
    assert [each.unified for each in made] == [True, True]
    assert [each.fact for each in unseen] == ["gpus.programs"]


def test_a_graphics_device_that_no_driver_shows_is_found_on_the_bus(tmp_path):
    amd_card(tmp_path)
    lone = pci_device(tmp_path, "0000:09:00.0", "0x10de")
    (lone / "class").write_text("0x030200\n")
    network = pci_device(tmp_path, "0000:0a:00.0", "0x8086")
    (network / "class").write_text("0x020000\n")
    bus = tmp_path / "sys/bus/pci/devices"
    bus.mkdir(parents=True, exist_ok=True)
    for device in (lone, network):
        (bus / device.name).symlink_to(device)
    (found,) = read_displays(tmp_path, read_cards(tmp_path))
    assert (found.vendor, found.pci_id, found.driver) == ("NVIDIA", "0000:09:00.0", None)
