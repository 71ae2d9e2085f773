"""What one program holds on graphics cards, as the Linux kernel tells of its open files (/proc/PID/fdinfo).

The form is the kernel's "DRM client usage stats": amdgpu tells it since Linux 5.14.
"""

from pathlib import Path

from app.hardware.cards import normal_pci_id
from app.hardware.files import read_text
from app.hardware.sources import NotSeenError

_UNITS = {"": 1, "B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_CARDS = "/dev/dri/"
# What is really there first; "memory" is the name that older kernels gave it.
_KINDS = ("resident", "memory", "total")


class DrmClients:
    """The open cards of one process."""

    def __init__(self, root: Path, pid: int) -> None:
        self._folder = root / f"proc/{pid}"

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
        try:
            files = list((self._folder / "fd").iterdir())
        except OSError:
            return []
        found = []
        for file in files:
            try:
                if not str(file.readlink()).startswith(_CARDS):
                    continue
            except OSError:
                continue  # closed meanwhile
            text = read_text(self._folder / "fdinfo" / file.name) or ""
            lines = (line.partition(":") for line in text.splitlines())
            found.append({name.strip(): value.strip() for name, _, value in lines})
        return found


def _heap_bytes(stats: dict[str, str], heap: str) -> int | None:
    for kind in _KINDS:
        number, _, unit = stats.get(f"drm-{kind}-{heap}", "").partition(" ")
        if number.isdecimal() and unit.strip() in _UNITS:
            return int(number) * _UNITS[unit.strip()]
    return None
