"""Graphics cards are read from recorded kernel trees."""

import pytest
from hardware_trees import GIB, MIB, amd_card, drm_card, pci_device, write

from app.hardware.cards import CardMemory
from app.hardware.drm import read_cards
from app.hardware.facts import Pcie
from app.hardware.sources import NotSeenError


def test_an_amd_card_tells_its_place_driver_and_memory(tmp_path):
    amd_card(tmp_path)
    (card,) = read_cards(tmp_path)
    assert (card.vendor, card.pci_id, card.driver) == ("AMD", "0000:03:00.0", "amdgpu (Linux 6.8.0)")
    assert card.memory(shared=False) == CardMemory(3 * GIB, 16 * GIB)
    assert card.memory(shared=True) == CardMemory(3 * GIB + 100 * MIB, 24 * GIB)


def test_the_link_is_the_slots_not_the_one_inside_the_card(tmp_path):
    amd_card(tmp_path)
    link = read_cards(tmp_path)[0].link()
    assert (link.generation, link.lanes, link.max_generation, link.max_lanes) == (1, 16, 4, 16)


def test_a_link_can_do_what_both_the_card_and_its_slot_can(tmp_path):
    pci_device(tmp_path, "0000:00:01.0", "0x8086", "8.0 GT/s PCIe", 16)
    device = pci_device(tmp_path, "0000:00:01.0/0000:01:00.0", "0x10de", "8.0 GT/s PCIe", 4, "16.0 GT/s PCIe")
    drm_card(tmp_path, 0, device, "nvidia")
    write(tmp_path, "sys/module/nvidia/version", "550.54.14")
    (card,) = read_cards(tmp_path)
    assert card.link() == Pcie(generation=3, lanes=4, max_generation=3, max_lanes=16, card_generation=4, card_lanes=16)
    assert card.driver == "nvidia 550.54.14"


@pytest.mark.parametrize("speed", ["Unknown", "3.0 GT/s PCIe", ""])
def test_a_link_the_kernel_does_not_know_is_not_made_up(tmp_path, speed):
    device = pci_device(tmp_path, "0000:01:00.0", "0x1002", "8.0 GT/s PCIe", 16)
    write(device, "current_link_speed", speed)
    drm_card(tmp_path, 0, device)
    with pytest.raises(NotSeenError, match="PCIe link"):
        read_cards(tmp_path)[0].link()


def test_a_driver_that_does_not_tell_memory_is_named_in_the_reason(tmp_path):
    drm_card(tmp_path, 0, pci_device(tmp_path, "0000:00:02.0", "0x8086"), "i915")
    with pytest.raises(NotSeenError, match="i915"):
        read_cards(tmp_path)[0].memory(shared=False)


def test_connectors_and_displays_without_a_pci_device_are_no_cards(tmp_path):
    amd_card(tmp_path)
    write(tmp_path, "sys/class/drm/card1-DP-1/device/vendor", "0x1002")
    write(tmp_path, "sys/class/drm/card2/device/uevent", "simple-framebuffer")
    write(tmp_path, "sys/class/drm/version", "drm 1.1.0")
    assert len(read_cards(tmp_path)) == 1


def test_a_system_without_such_files_has_no_cards(tmp_path):
    assert read_cards(tmp_path) == ()
