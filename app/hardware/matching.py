"""Which card of a driver is which device of the engine."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from app.hardware.cards import normal_pci_id
from app.hardware.drm import DrmCard
from app.hardware.facts import Gpu, GpuKind
from app.hardware.nvml import NvmlCard
from app.hardware.sources import NotSeenError

# Words in device names, and backends that serve one maker only.
_MAKERS = {
    "NVIDIA": (("nvidia", "geforce"), ("CUDA",)),
    "AMD": (("amd ", "radeon"), ("ROCm",)),
    "Intel": (("intel",), ("SYCL",)),
}


class _Card(Protocol):
    @property
    def pci_id(self) -> str | None: ...


_C = TypeVar("_C", bound=_Card)


def maker(gpu: Gpu) -> str | None:
    """Who made the card: "NVIDIA", "AMD", "Intel"; None for others and for software devices."""
    if gpu.kind is GpuKind.SOFTWARE:
        return None
    for name, (words, backends) in _MAKERS.items():
        if gpu.backend in backends or any(word in gpu.name.lower() for word in words):
            return name
    return None


def nvml_card(gpu: Gpu, cards: Sequence[NvmlCard]) -> NvmlCard:
    """The card of NVML that the engine calls `gpu`.

    Raises:
        NotSeenError: no card, or more than one, may be meant.
    """
    return _the_one(gpu, cards, [card for card in cards if card.name == gpu.name], "NVIDIA driver")


def drm_card(gpu: Gpu, cards: Sequence[DrmCard]) -> DrmCard:
    """The card of the Linux kernel that the engine calls `gpu`.

    Raises:
        NotSeenError: no card, or more than one, may be meant.
    """
    if not cards:
        raise NotSeenError(f"This system tells no driver, link or memory use of {gpu.device} ({gpu.name}).")
    return _the_one(gpu, cards, [card for card in cards if card.vendor == maker(gpu)], "kernel")


def offered(card: NvmlCard | DrmCard, card_maker: str, gpus: Sequence[Gpu]) -> bool:
    """Whether a device of the engine is, or may be, this card."""
    return any(normal_pci_id(gpu.pci_id) == card.pci_id if gpu.pci_id else maker(gpu) == card_maker for gpu in gpus)


def _the_one(gpu: Gpu, cards: Sequence[_C], alike: Sequence[_C], who: str) -> _C:
    if gpu.pci_id:
        place = normal_pci_id(gpu.pci_id)
        for card in cards:
            if card.pci_id and card.pci_id == place:
                return card
        raise NotSeenError(f"The {who} shows no card at {gpu.pci_id}, where the engine sees {gpu.device}.")
    if len(alike) > 1:
        raise NotSeenError(f"The {who} shows {len(alike)} cards like {gpu.device}; which it is cannot be told.")
    if not alike:
        raise NotSeenError(f"The {who} shows no card like {gpu.device} ({gpu.name}).")
    return alike[0]
