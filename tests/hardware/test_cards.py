"""A card's place and memory, from any driver."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.hardware.cards import CardMemory, normal_pci_id


@pytest.mark.parametrize(("used", "total"), [(9, 8), (-1, 8), (0, 0), (0, -5)])
def test_impossible_memory_is_doubted(used, total):
    assert CardMemory(used, total).doubt


@pytest.mark.parametrize(("used", "total"), [(0, 8), (8, 8)])
def test_possible_memory_is_not_doubted(used, total):
    assert not CardMemory(used, total).doubt


@pytest.mark.parametrize(
    ("text", "pci_id"),
    [
        ("00000000:01:00.0", "0000:01:00.0"),
        ("0000:C1:00.0", "0000:c1:00.0"),
        ("0000:01:00.0-v1", "0000:01:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
        ("virtio0", None),
        ("", None),
    ],
)
def test_every_spelling_of_a_place_becomes_the_kernels(text, pci_id):
    assert normal_pci_id(text) == pci_id


@given(st.integers(0, 0xFFFF), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7))
def test_a_normal_place_stays_as_it_is(domain, bus, device, function):
    place = f"{domain:04x}:{bus:02x}:{device:02x}.{function}"
    assert normal_pci_id(place) == place
