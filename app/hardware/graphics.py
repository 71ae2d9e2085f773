"""GPUs: what the engine says of them, completed with what their drivers say."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import msgspec

from app.hardware import matching
from app.hardware.cards import CardMemory
from app.hardware.drm import VENDORS, DrmCard
from app.hardware.facts import Gpu, GpuKind, Pcie, UnusedCard
from app.hardware.nvml import Nvml, NvmlCard, NvmlDetails
from app.hardware.sources import NotSeenError

log = logging.getLogger(__name__)

_T = TypeVar("_T")


@dataclass(frozen=True)
class NvidiaCard:
    """All that one card's driver told; None where it refused, with the reason in `notes`."""

    card: NvmlCard
    driver: str | None
    memory: CardMemory | None
    link: Pcie | None
    notes: tuple[str, ...]
    details: NvmlDetails = field(default_factory=NvmlDetails)


def read_nvidia(open_nvml: Callable[[], Nvml]) -> tuple[NvidiaCard, ...]:
    """Every card that the NVIDIA driver sees.

    Raises:
        NotSeenError: there is no such driver, or it cannot list its cards.
    """
    nvml = open_nvml()
    try:
        found = []
        for card in nvml.cards():
            notes: list[str] = []
            driver = _attempt(nvml.driver, notes)
            memory = _attempt(partial(nvml.memory, card), notes)
            link = _attempt(partial(nvml.link, card), notes)
            details = _attempt(partial(nvml.details, card), notes) or NvmlDetails()
            found.append(NvidiaCard(card, driver, memory, link, tuple(notes), details))
        return tuple(found)
    finally:
        unheard: list[str] = []
        _attempt(nvml.close, unheard)
        for why in unheard:
            log.warning("NVML did not close: %s", why)


def complete(
    gpus: Sequence[Gpu], nvidia: Sequence[NvidiaCard] | None, cards: Sequence[DrmCard]
) -> tuple[tuple[Gpu, ...], tuple[str, ...]]:
    """The engine's devices with driver, link and free memory, and what could not be seen.

    Args:
        gpus: As the engine lists them.
        nvidia: From `read_nvidia`; None where NVML could not be asked.
        cards: From `drm.read_cards`.
    """
    notes: list[str] = []
    completed = tuple(_complete(gpu, nvidia, cards, notes) for gpu in gpus)
    return completed, tuple(dict.fromkeys(notes))


def unused_cards(
    gpus: Sequence[Gpu], nvidia: Sequence[NvidiaCard] | None, cards: Sequence[DrmCard]
) -> tuple[UnusedCard, ...]:
    """Each card in this machine that the engine has no device for."""
    drivers = {card.pci_id: card.driver for card in cards}
    missing = {
        known.card.pci_id: UnusedCard(
            name=known.card.name,
            maker="NVIDIA",
            pci_id=known.card.pci_id,
            driver=known.driver or drivers.get(known.card.pci_id),
        )
        for known in nvidia or ()
        if not matching.offered(known.card, "NVIDIA", gpus)
    }
    for card in cards:
        # Other makers' are display adapters of servers and virtual machines, which compute nothing.
        if card.vendor in VENDORS.values() and not matching.offered(card, card.vendor, gpus):
            name = f"An {card.vendor} graphics device"
            missing.setdefault(
                card.pci_id, UnusedCard(name=name, maker=card.vendor, pci_id=card.pci_id, driver=card.driver)
            )
    return tuple(missing.values())


def not_offered(gpus: Sequence[Gpu], nvidia: Sequence[NvidiaCard] | None, cards: Sequence[DrmCard]) -> tuple[str, ...]:
    """A sentence for each card in this machine that the engine has no device for."""
    return tuple(
        f"{card.name} at {card.pci_id or 'an unknown place'} is in this machine, but the engine offers no device for "
        f"it{'' if card.driver else ', and no driver runs it'}."
        for card in unused_cards(gpus, nvidia, cards)
    )


def not_asked_for(nvidia: Sequence[NvidiaCard] | None, cards: Sequence[DrmCard]) -> tuple[str, ...]:
    """A sentence for each card in this machine where the engine could not be asked for its devices."""
    return tuple(
        f"{card.name} at {card.pci_id or 'an unknown place'} is in this machine; the engine did not tell whether it "
        f"can use it{'' if card.driver else ', and no driver runs it'}."
        for card in unused_cards((), nvidia, cards)
    )


def _complete(gpu: Gpu, nvidia: Sequence[NvidiaCard] | None, cards: Sequence[DrmCard], notes: list[str]) -> Gpu:
    if gpu.kind is GpuKind.SOFTWARE:
        return gpu
    if nvidia is not None and matching.maker(gpu) == "NVIDIA":
        driver, link, memory = _from_nvidia(gpu, nvidia, notes)
    else:
        driver, link, memory = _from_kernel(gpu, cards, notes)
    free_bytes = gpu.free_bytes
    if memory:
        if memory.doubt:
            notes.append(f"The free memory of {gpu.device} is the engine's figure: {memory.doubt}.")
        else:
            free_bytes = min(free_bytes, memory.total_bytes - memory.used_bytes)
    if link and not link.possible:
        notes.append(f"The PCIe link of {gpu.device} is not known: its driver reports one that cannot be.")
        link = None
    return msgspec.structs.replace(gpu, driver=driver, pcie=link, free_bytes=free_bytes)


_Told = tuple[str | None, Pcie | None, CardMemory | None]


def _from_nvidia(gpu: Gpu, nvidia: Sequence[NvidiaCard], notes: list[str]) -> _Told:
    card = _attempt(partial(matching.nvml_card, gpu, [known.card for known in nvidia]), notes)
    for known in nvidia:
        if known.card == card:
            notes.extend(f"{gpu.device}: {why}" for why in known.notes)
            return known.driver, known.link, known.memory
    return None, None, None


def _from_kernel(gpu: Gpu, cards: Sequence[DrmCard], notes: list[str]) -> _Told:
    card = _attempt(partial(matching.drm_card, gpu, cards), notes)
    if card is None:
        return None, None, None
    if gpu.kind is GpuKind.INTEGRATED:
        # It sits in the processor: no slot, and main memory is what the engine's figure counts.
        return card.driver, None, None
    why: list[str] = []
    told = card.driver, _attempt(card.link, why), _attempt(partial(card.memory, shared=False), why)
    notes.extend(f"{gpu.device}: {reason}" for reason in why)
    return told


def _attempt(read: Callable[[], _T], notes: list[str]) -> _T | None:
    try:
        return read()
    except NotSeenError as error:
        notes.append(str(error))
        return None
