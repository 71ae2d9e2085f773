"""Graphics cards as the Linux kernel shows them (/sys/class/drm): AMD's memory, everyone's driver and link."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from app.hardware.cards import MOST_CARD_BYTES, CardMemory, normal_pci_id
from app.hardware.facts import Pcie
from app.hardware.files import read_int, read_text
from app.hardware.sources import NotSeenError
from app.hardware.tree import KernelPath, children

VENDORS = {"0x1002": "AMD", "0x8086": "Intel", "0x10de": "NVIDIA"}
_DISPLAY_CLASS = "0x03"
"""Of PCI: VGA (0x0300), 3D (0x0302) and other (0x0380) controllers."""
# Gigatransfers a second and lane to the PCIe generation that runs them.
_GENERATIONS = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}


@dataclass(frozen=True)
class DrmCard:
    """A card and where its facts lie.

    Attributes:
        folder: Its device folder below /sys.
        vendor: "AMD", "Intel", "NVIDIA", or the number of another one.
        driver: The kernel module that runs it and the version, in words.
    """

    folder: KernelPath
    vendor: str
    pci_id: str | None
    driver: str | None

    @cached_property
    def _heaps(self) -> dict[str, tuple[KernelPath, KernelPath]]:
        """Files of what is used of each heap, and of all there is: samples read them many times."""
        return {
            heap: (self.folder / f"mem_info_{heap}_used", self.folder / f"mem_info_{heap}_total")
            for heap in ("vram", "gtt")
        }

    def memory(self, *, shared: bool) -> CardMemory:
        """Memory now, over all programs; with `shared` the part of main memory it may use too.

        Raises:
            NotSeenError: this driver does not tell.
        """
        used = total = 0
        for heap in ("vram", "gtt") if shared else ("vram",):
            heap_used, heap_total = (read_int(file) for file in self._heaps[heap])
            if heap_used is None or heap_total is None:
                raise NotSeenError(f"The driver {self.driver or 'of this card'} does not tell its memory use.")
            used, total = used + heap_used, total + heap_total
        return CardMemory(used_bytes=used, total_bytes=total)

    def heap_bytes(self, heap: str) -> int | None:
        """Size of the heap "vram" (its own) or "gtt" (main memory it may use); None where the driver does not tell."""
        size = read_int(self.folder / f"mem_info_{heap}_total")
        return size if size is not None and 0 < size <= MOST_CARD_BYTES else None

    def power_watts(self) -> tuple[float | None, float | None]:
        """What it may draw now, and the highest limit that may be set; None where the driver does not tell."""
        for sensors in children(self.folder / "hwmon"):
            limit, most = (read_int(sensors / name) for name in ("power1_cap", "power1_cap_max"))
            if limit:
                return limit / 1e6, most / 1e6 if most else None
        return None, None

    def link(self) -> Pcie:
        """The link between the card and the machine.

        Raises:
            NotSeenError: the kernel does not tell.
        """
        port = self._port()
        now, card, slot = _link(port, "current"), _link(port, "max"), _link(port.parent, "max")
        if now is None or card is None:
            raise NotSeenError("The kernel does not tell the card's PCIe link.")
        return Pcie(
            generation=now[0],
            lanes=now[1],
            max_generation=min(card[0], slot[0]) if slot else card[0],
            max_lanes=min(card[1], slot[1]) if slot else card[1],
            card_generation=card[0],
            card_lanes=card[1],
        )

    def _port(self) -> KernelPath:
        """The device whose link is the slot's.

        Larger AMD and Intel cards carry a switch: the graphics chip's own link is the one inside the
        card, and the slot's belongs to the outermost bridge of the same maker.
        """
        port = self.folder.resolve()
        vendor = read_text(port / "vendor")
        while read_text(port.parent / "vendor") == vendor and (port.parent / "current_link_speed").exists():
            port = port.parent
        return port


def read_cards(root: KernelPath) -> tuple[DrmCard, ...]:
    """Every card with a kernel driver; empty where there is no such folder."""
    drm = root / "sys/class/drm"
    cards = []
    for folder in children(drm):
        # "card0-DP-1" and the like are connectors.
        device = folder / "device"
        if not re.fullmatch(r"card\d+", folder.name) or not device.is_dir():
            continue
        vendor = read_text(device / "vendor")
        if vendor is None:
            continue  # a display without a PCI device behind it (simpledrm, USB)
        cards.append(
            DrmCard(
                folder=device,
                vendor=VENDORS.get(vendor, vendor),
                pci_id=normal_pci_id(device.resolve().name),
                driver=_driver(device, root),
            )
        )
    return tuple(cards)


def read_displays(root: KernelPath, cards: Sequence[DrmCard]) -> tuple[DrmCard, ...]:
    """Graphics devices on the PCI bus that are not among `cards`: no driver shows them to programs that draw."""
    known = {card.pci_id for card in cards}
    found = []
    for device in children(root / "sys/bus/pci/devices"):
        pci_id = normal_pci_id(device.name)
        if pci_id in known or not (read_text(device / "class") or "").startswith(_DISPLAY_CLASS):
            continue
        vendor = read_text(device / "vendor") or ""
        found.append(DrmCard(device, VENDORS.get(vendor, vendor), pci_id, _driver(device, root)))
    return tuple(found)


def _driver(device: KernelPath, root: KernelPath) -> str | None:
    link = device / "driver"
    if not link.exists():
        return None
    name = link.resolve().name
    # Modules that come with the kernel have its version and none of their own.
    if version := read_text(root / f"sys/module/{name}/version"):
        return f"{name} {version}"
    kernel = read_text(root / "proc/sys/kernel/osrelease")
    return f"{name} (Linux {kernel})" if kernel else name


def _link(port: KernelPath, when: str) -> tuple[int, int] | None:
    """Generation and lanes of a port, "current" or "max"; None where the kernel does not tell."""
    generation, lanes = _generation(read_text(port / f"{when}_link_speed")), read_int(port / f"{when}_link_width")
    return (generation, lanes) if generation and lanes else None


def _generation(speed: str | None) -> int | None:
    """From "16.0 GT/s PCIe"; "Unknown" gives None."""
    match = re.match(r"([0-9.]+) GT/s", speed or "")
    return _GENERATIONS.get(match[1].removesuffix(".0")) if match else None
