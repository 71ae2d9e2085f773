"""Graphics cards as the Linux kernel shows them (/sys/class/drm): AMD's memory, everyone's driver and link."""

import re
from dataclasses import dataclass
from pathlib import Path

from app.hardware.cards import CardMemory, normal_pci_id
from app.hardware.facts import Pcie
from app.hardware.files import read_int, read_text
from app.hardware.sources import NotSeenError

VENDORS = {"0x1002": "AMD", "0x8086": "Intel", "0x10de": "NVIDIA"}
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

    folder: Path
    vendor: str
    pci_id: str | None
    driver: str | None

    def memory(self, *, shared: bool) -> CardMemory:
        """Memory now, over all programs; with `shared` the part of main memory it may use too.

        Raises:
            NotSeenError: this driver does not tell.
        """
        used = total = 0
        for heap in ("vram", "gtt") if shared else ("vram",):
            heap_used = read_int(self.folder / f"mem_info_{heap}_used")
            heap_total = read_int(self.folder / f"mem_info_{heap}_total")
            if heap_used is None or heap_total is None:
                raise NotSeenError(f"The driver {self.driver or 'of this card'} does not tell its memory use.")
            used, total = used + heap_used, total + heap_total
        return CardMemory(used_bytes=used, total_bytes=total)

    def link(self) -> Pcie:
        """The link between the card and the machine.

        Raises:
            NotSeenError: the kernel does not tell.
        """
        port = self._port()
        speeds = [_generation(read_text(port / f"{when}_link_speed")) for when in ("current", "max")]
        lanes = [read_int(port / f"{when}_link_width") for when in ("current", "max")]
        if not (speeds[0] and speeds[1] and lanes[0] and lanes[1]):
            raise NotSeenError("The kernel does not tell the card's PCIe link.")
        return Pcie(generation=speeds[0], lanes=lanes[0], max_generation=speeds[1], max_lanes=lanes[1])

    def _port(self) -> Path:
        """The device whose link is the slot's.

        Larger AMD and Intel cards carry a switch: the graphics chip's own link is the one inside the
        card, and the slot's belongs to the outermost bridge of the same maker.
        """
        port = self.folder.resolve()
        vendor = read_text(port / "vendor")
        while read_text(port.parent / "vendor") == vendor and (port.parent / "current_link_speed").exists():
            port = port.parent
        return port


def read_cards(root: Path) -> tuple[DrmCard, ...]:
    """Every card with a kernel driver; empty where there is no such folder."""
    drm = root / "sys/class/drm"
    folders = sorted(drm.glob("card*")) if drm.is_dir() else []
    cards = []
    for folder in folders:
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


def _driver(device: Path, root: Path) -> str | None:
    link = device / "driver"
    if not link.exists():
        return None
    name = link.resolve().name
    # Modules that come with the kernel have its version and none of their own.
    if version := read_text(root / f"sys/module/{name}/version"):
        return f"{name} {version}"
    kernel = read_text(root / "proc/sys/kernel/osrelease")
    return f"{name} (Linux {kernel})" if kernel else name


def _generation(speed: str | None) -> int | None:
    """From "16.0 GT/s PCIe"; "Unknown" gives None."""
    match = re.match(r"([0-9.]+) GT/s", speed or "")
    return _GENERATIONS.get(match[1].removesuffix(".0")) if match else None
