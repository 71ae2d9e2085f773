"""The engine's devices are completed with what their drivers say, and with nothing they do not."""

from hardware_trees import (
    GEFORCE,
    GIB,
    IDLE_LINK,
    LLVMPIPE,
    RADEON,
    PlayedNvml,
    amd_card,
    drm_card,
    gpu,
    pci_device,
    write,
)

from app.hardware.cards import CardMemory
from app.hardware.drm import read_cards
from app.hardware.facts import GpuKind, Pcie
from app.hardware.graphics import complete, not_offered, read_nvidia
from app.hardware.nvml import NvmlCard
from app.hardware.sources import NotSeenError


def nvidia(**fields):
    played = PlayedNvml(**fields)
    facts = read_nvidia(lambda: played)
    assert played.closed.is_set()
    return facts


def two_alike():
    return (NvmlCard(0, GEFORCE.name, "0000:01:00.0"), NvmlCard(1, GEFORCE.name, "0000:02:00.0"))


def test_an_nvidia_card_gets_driver_link_and_free_memory_from_its_driver():
    (card,), notes = complete([GEFORCE], nvidia(), ())
    assert (card.driver, card.pcie, card.free_bytes) == ("550.54.14", IDLE_LINK, 10 * GIB)
    assert notes == ()


def test_the_engines_free_memory_stays_where_it_is_the_smaller():
    (card,), _ = complete([gpu(GEFORCE.name, "CUDA0", free_bytes=9 * GIB)], nvidia(), ())
    assert card.free_bytes == 9 * GIB


def test_the_same_card_is_found_through_vulkan_too():
    cards, notes = complete([GEFORCE, gpu(GEFORCE.name, "Vulkan0")], nvidia(), ())
    assert [card.driver for card in cards] == ["550.54.14"] * 2
    assert notes == ()


def test_a_lying_driver_is_not_believed_and_the_note_says_so():
    lie = CardMemory(used_bytes=13 * GIB, total_bytes=12 * GIB)
    (card,), notes = complete([GEFORCE], nvidia(told_memory=lie), ())
    assert card.free_bytes == GEFORCE.free_bytes
    assert len(notes) == 1
    assert "cannot be" in notes[0]


def test_what_a_driver_refuses_is_none_and_the_rest_stays():
    (card,), notes = complete([GEFORCE], nvidia(told_link=NotSeenError("No link.")), ())
    assert (card.driver, card.pcie, card.free_bytes) == ("550.54.14", None, 10 * GIB)
    assert notes == ("CUDA0: No link.",)


def test_equal_cards_are_told_apart_by_their_place():
    cards = (gpu(GEFORCE.name, "CUDA0", pci_id="0000:02:00.0"), gpu(GEFORCE.name, "CUDA1", pci_id="0000:01:00.0-v1"))
    completed, notes = complete(cards, nvidia(found=two_alike()), ())
    assert [card.driver for card in completed] == ["550.54.14"] * 2
    assert notes == ()


def test_equal_cards_without_a_place_are_not_guessed():
    (card,), notes = complete([GEFORCE], nvidia(found=two_alike()), ())
    assert (card.driver, card.pcie, card.free_bytes) == (None, None, GEFORCE.free_bytes)
    assert "2 cards like CUDA0" in notes[0]


def test_a_place_where_the_driver_sees_no_card_is_said():
    (card,), notes = complete([gpu(GEFORCE.name, "CUDA0", pci_id="0000:09:00.0")], nvidia(), ())
    assert card.driver is None
    assert "0000:09:00.0" in notes[0]


def test_an_amd_card_is_completed_from_the_kernel(tmp_path):
    amd_card(tmp_path, used=6 * GIB)
    (card,), notes = complete([RADEON], None, read_cards(tmp_path))
    assert card.driver == "amdgpu (Linux 6.8.0)"
    assert card.pcie == Pcie(generation=1, lanes=16, max_generation=4, max_lanes=16, card_generation=4, card_lanes=16)
    assert card.free_bytes == 10 * GIB
    assert notes == ()


def test_a_gpu_in_the_processor_has_no_link_and_keeps_the_engines_memory(tmp_path):
    amd_card(tmp_path, used=500, total=512)
    built_in = gpu("AMD Radeon 780M Graphics (RADV PHOENIX)", kind=GpuKind.INTEGRATED)
    (card,), notes = complete([built_in], None, read_cards(tmp_path))
    assert (card.driver, card.pcie, card.free_bytes) == ("amdgpu (Linux 6.8.0)", None, built_in.free_bytes)
    assert notes == ()


def test_an_nvidia_card_without_nvml_is_completed_from_the_kernel(tmp_path):
    device = pci_device(tmp_path, "0000:01:00.0", "0x10de", "8.0 GT/s PCIe", 4)
    drm_card(tmp_path, 0, device, "nvidia")
    write(tmp_path, "sys/module/nvidia/version", "550.54.14")
    (card,), notes = complete([GEFORCE], None, read_cards(tmp_path))
    assert card.driver == "nvidia 550.54.14"
    assert card.pcie == Pcie(generation=3, lanes=4, max_generation=3, max_lanes=16, card_generation=3, card_lanes=16)
    assert "memory" in notes[0]


def test_a_device_no_source_knows_stays_as_the_engine_says_with_a_note():
    (card,), notes = complete([RADEON], None, ())
    assert card == RADEON
    assert "Vulkan0" in notes[0]


def test_a_software_device_is_left_alone():
    assert complete([LLVMPIPE], None, ()) == ((LLVMPIPE,), ())


def test_cards_the_engine_has_no_device_for_are_named_once(tmp_path):
    amd_card(tmp_path)
    drm_card(tmp_path, 0, pci_device(tmp_path, "0000:01:00.0", "0x10de"))
    server_display = pci_device(tmp_path, "0000:04:00.0", "0x1a03")
    drm_card(tmp_path, 2, server_display)
    notes = not_offered([LLVMPIPE], nvidia(), read_cards(tmp_path))
    assert len(notes) == 2
    assert notes[0].startswith("NVIDIA GeForce RTX 3060 at 0000:01:00.0 ")
    assert notes[1].startswith("An AMD graphics device at 0000:03:00.0 ")


def test_cards_the_engine_offers_are_not_called_missing(tmp_path):
    amd_card(tmp_path)
    assert not_offered([GEFORCE, RADEON], nvidia(), read_cards(tmp_path)) == ()


def test_of_equal_cards_the_one_not_offered_is_named_by_its_place():
    offered = gpu(GEFORCE.name, "CUDA0", pci_id="0000:01:00.0")
    (note,) = not_offered([offered], nvidia(found=two_alike()), ())
    assert "0000:02:00.0" in note


def test_a_driver_that_does_not_close_loses_no_facts(caplog):
    class Stuck(PlayedNvml):
        def close(self):
            raise NotSeenError("busy")

    assert read_nvidia(Stuck)[0].driver == "550.54.14"
    assert "busy" in caplog.text
