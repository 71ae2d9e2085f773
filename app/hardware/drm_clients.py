"""What one program holds on graphics cards, as the Linux kernel tells of its open files (/proc/PID/fdinfo).

The form is the kernel's "DRM client usage stats": amdgpu tells it since Linux 5.14.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from app.hardware.cards import normal_pci_id
from app.hardware.files import read_text
from app.hardware.sources import NotSeenError

LISTED_SECONDS = 2.0
"""How often at most a process' open files are looked through; what it holds is read each time."""
_UNITS = {"": 1, "B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_CARDS = "/dev/dri/"
# What is really there first; "memory" is the name that older kernels gave it.
_KINDS = ("resident", "memory", "total")


class DrmClients:
    """The open cards of one process."""

    def __init__(self, root: Path, pid: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = root / f"proc/{pid}"
        self._clock = clock
        self._due = clock()
        self._files: list[Path] = []

    def bytes_on(self, pci_id: str | None, heaps: tuple[str, ...]) -> int:
        """Memory of the process in these heaps of the card at `pci_id`.

        A file that was opened twice names the same client twice: it counts once.

        Raises:
            NotSeenError: the kernel does not tell, or the process has no such card open.
        """
        clients: dict[str, int] = {}
        for stats in self._stats():
            if pci_id and normal_pci_id(stats.get("drm-pdev", "")) == pci_id:
                sizes = [size for heap in heaps if (size := _heap_bytes(stats, heap)) is not None]
                if sizes:
                    clients[stats.get("drm-client-id", "")] = sum(sizes)
        if not clients:
            raise NotSeenError("The kernel does not tell this card's memory by program.")
        return sum(clients.values())

    def _stats(self) -> list[dict[str, str]]:
        now = self._clock()
        if now >= self._due:
            self._due = now + LISTED_SECONDS
            self._files = self._cards_files()
        found = []
        # A number that another file has got meanwhile has no such words.
        for file in self._files:
            lines = (line.partition(":") for line in (read_text(file) or "").splitlines() if line.startswith("drm-"))
            found.append({name: value.strip() for name, _, value in lines})
        return found

    def _cards_files(self) -> list[Path]:
        folder = str(self._folder / "fd")
        found = []
        try:
            names = os.listdir(folder)  # noqa: PTH208 - dozens of files, of which a path each would cost milliseconds
        except OSError:
            return []
        for name in names:
            try:
                # An engine has dozens of other files open.
                if os.readlink(f"{folder}/{name}").startswith(_CARDS):  # noqa: PTH115 - as above
                    found.append(self._folder / "fdinfo" / name)
            except OSError:
                continue  # closed meanwhile
        return found


def _heap_bytes(stats: dict[str, str], heap: str) -> int | None:
    for kind in _KINDS:
        number, _, unit = stats.get(f"drm-{kind}-{heap}", "").partition(" ")
        if number.isdecimal() and unit.strip() in _UNITS:
            return int(number) * _UNITS[unit.strip()]
    return None
