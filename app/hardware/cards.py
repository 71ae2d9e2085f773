"""What every driver says of a card: where it sits, which devices are the same one, and how full its memory is."""

import re
from dataclasses import dataclass

from app.hardware.facts import Gpu
from app.units import format_bytes

_PCI_ID = re.compile(r"([0-9a-f]+):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")

MOST_CARD_BYTES = 4 * 1024**4
"""Twenty times the largest card's; one that shares main memory may have that of a large server."""


@dataclass(frozen=True)
class CardMemory:
    """A card's memory in bytes, over all programs, as its driver reports it."""

    used_bytes: int
    total_bytes: int

    @property
    def doubt(self) -> str:
        """Why the figures cannot be true, as the end of a sentence; empty where they can."""
        if self.total_bytes <= 0:
            return "its driver reports no memory at all"
        if self.total_bytes > MOST_CARD_BYTES:
            return f"its driver reports {format_bytes(self.total_bytes)} of memory, more than any card has"
        if not 0 <= self.used_bytes <= self.total_bytes:
            used, total = format_bytes(self.used_bytes), format_bytes(self.total_bytes)
            return f"its driver reports {used} used of {total}, which cannot be"
        return ""


def normal_pci_id(text: str) -> str | None:
    """A PCI address as Linux writes it ("0000:01:00.0"), from any tool's spelling; None for no address.

    NVML pads the domain to eight digits; ggml adds "-v1" where it splits one CUDA card into several.
    """
    match = _PCI_ID.match(text.strip().lower())
    return f"{int(match[1], 16):04x}:{match[2]}:{match[3]}.{match[4]}" if match else None


def same_card(one: Gpu, other: Gpu) -> bool:
    """Whether two devices are, or may be, one card: by its place, and by its name where a driver tells no place."""
    places = [normal_pci_id(gpu.card or gpu.pci_id or "") for gpu in (one, other)]
    if all(places):
        return places[0] == places[1]
    if one.card and other.card and not any(places):
        return one.card == other.card
    return one.name == other.name
