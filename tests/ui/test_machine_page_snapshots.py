"""The machine page over whole machines from snapshots: every fact in words, and what could not be seen."""

from pathlib import Path

import pytest
from wizard_driver import opened_wizards

from app.hardware.snapshot import read_snapshot

SNAPSHOTS = sorted((Path(__file__).parents[1] / "snapshots").glob("*.json"))


@pytest.fixture
def page_of(qtbot, theme, store):
    """`page_of(snapshot's name)`: the text of the machine's page."""
    with opened_wizards(qtbot, theme, store) as make_wizard:

        def show(name):
            file = next(file for file in SNAPSHOTS if file.stem == name)
            wizard = make_wizard(machine=read_snapshot(file).machine())
            return wizard.machine_page.text

        yield show


def test_a_card_of_two_backends_is_one_card_on_the_page(page_of):
    text = page_of("laptop_nvidia_hybrid_single_channel")
    assert text.count("NVIDIA GeForce RTX 3060 Laptop GPU, 6.0 GiB") == 1
    assert "The same card can be used as Vulkan1 too." in text
    assert "1 channel, 1 slot free" in text
    assert "in use by gnome-shell 6.0 MiB, Xorg 4.0 MiB" in text


def test_battery_and_saver_are_on_the_page(page_of):
    assert "Power: laptop on battery (34 %), power saver on, profile low-power" in page_of(
        "laptop_intel_igpu_power_saver"
    )


def test_what_could_not_be_seen_is_on_the_page_with_its_reason(page_of):
    text = page_of("vm_software_vulkan_recorded")
    assert "Not seen: This system has no table of its memory modules" in text
    assert "virtual machine" in text
