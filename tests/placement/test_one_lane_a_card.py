"""One card that several backends offer: which of its devices stands for it."""

import pytest
from factories import GIB, make_gpu
from hypothesis import given
from hypothesis import strategies as st

from app.placement.cards import one_device_a_card, other_offers

HERE, THERE = "0000:01:00.0", "0000:02:00.0"


def card(device, place=None, name="Card", **fields):
    return make_gpu(8 * GIB, device=device, name=name, card=place, pci_id=place, **fields)


def kept(*gpus, used=()):
    return [gpu.device for gpu in one_device_a_card(gpus, used)]


def test_a_card_is_its_makers_device_unless_the_other_is_used():
    both = card("Vulkan0", HERE), card("CUDA0", HERE, name="Card of another spelling")
    assert kept(*both) == ["CUDA0"]
    assert kept(*both, used=("Vulkan0",)) == ["Vulkan0"]
    assert kept(*both, used=("Vulkan0", "CUDA0")) == ["Vulkan0", "CUDA0"]
    assert [gpu.device for gpu in other_offers(both[1], both)] == ["Vulkan0"]


def test_two_cards_of_one_name_are_told_apart_by_their_places():
    four = card("CUDA0", HERE), card("CUDA1", THERE), card("Vulkan0", THERE), card("Vulkan1", HERE)
    assert kept(*four) == ["CUDA0", "CUDA1"]
    assert kept(*four, used=("Vulkan0",)) == ["CUDA0", "Vulkan0"]
    assert [gpu.device for gpu in other_offers(four[1], four)] == ["Vulkan0"]


def test_spellings_of_one_place_are_one_card():
    both = card("CUDA0", "00000000:01:00.0"), card("Vulkan0", HERE, name="Other")
    assert kept(*both) == ["CUDA0"]


def test_without_places_cards_of_one_name_are_not_lost_where_one_of_them_is_used():
    four = card("CUDA0", HERE), card("CUDA1", THERE), card("Vulkan0"), card("Vulkan1")
    assert kept(*four) == ["CUDA0", "CUDA1"]
    assert kept(*four, used=("Vulkan0",)) == ["CUDA0", "CUDA1", "Vulkan0"]
    assert kept(card("CUDA0", HERE), card("Vulkan0"), used=("Vulkan0",)) == ["Vulkan0"]


def test_windows_numbers_of_cards_tell_them_apart_too():
    two = (
        make_gpu(GIB, device="Vulkan0", name="Card", card="luid 0x1"),
        make_gpu(GIB, device="SYCL0", name="Card", card="luid 0x2"),
    )
    assert kept(*two) == ["Vulkan0", "SYCL0"]


def test_devices_of_one_backend_never_stand_for_each_other():
    parts = card("CUDA0", HERE), card("CUDA1", HERE)
    assert kept(*parts) == ["CUDA0", "CUDA1"]
    assert kept(*parts, used=("CUDA1",)) == ["CUDA0", "CUDA1"]


devices = st.lists(
    st.builds(
        card,
        st.sampled_from([f"{backend}{number}" for backend in ("CUDA", "Vulkan", "SYCL") for number in range(3)]),
        st.sampled_from([None, HERE, THERE]),
        st.sampled_from(["One", "Two"]),
    ),
    unique_by=lambda gpu: gpu.device,
    max_size=6,
)


@given(devices, st.sets(st.sampled_from(["CUDA0", "Vulkan0", "SYCL1"])))
def test_every_card_keeps_a_device_and_what_is_used_is_always_kept(gpus, used):
    told = one_device_a_card(gpus, used)
    assert {gpu.device for gpu in gpus if gpu.device in used} <= {gpu.device for gpu in told}
    for gpu in gpus:
        assert gpu in told or any(its in told for its in other_offers(gpu, gpus))


@pytest.mark.parametrize("used", [(), ("Nothing0",)])
def test_a_machine_without_cards_has_none(used):
    assert one_device_a_card((), used) == ()
