"""Cards that several backends offer: which of their devices plans use, and which others are the same card."""

from collections.abc import Collection, Sequence

from app.hardware.cards import same_card
from app.hardware.facts import Gpu

_OF_EVERY_MAKER = "Vulkan"
"""The backend that offers cards of all makers: a maker's own gets more out of them."""


def one_device_a_card(gpus: Sequence[Gpu], used: Collection[str] = ()) -> tuple[Gpu, ...]:
    """The devices, of a card that several backends offer only those in `used`, else that of its maker's backend.

    Args:
        gpus: The devices.
        used: Engine names of those that a plan is on, whoever chose them.
    """
    left = [gpu for gpu in gpus if gpu.device in used or not _is_used_as_another(gpu, gpus, used)]
    return tuple(
        gpu for gpu in left if gpu.device in used or gpu.backend != _OF_EVERY_MAKER or not other_offers(gpu, left)
    )


def other_offers(gpu: Gpu, gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """The devices by which other backends offer the same card."""
    return tuple(its for its in gpus if its.backend != gpu.backend and same_card(its, gpu))


def _is_used_as_another(gpu: Gpu, gpus: Sequence[Gpu], used: Collection[str]) -> bool:
    """Whether another backend's device of the same card is in use.

    Of two cards of one name that nothing else tells apart, the one in use may be either: both count as not used.
    """
    return any(
        its.device in used and [card for card in other_offers(its, gpus) if card.backend == gpu.backend] == [gpu]
        for its in other_offers(gpu, gpus)
    )
