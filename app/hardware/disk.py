"""The disk under a folder: its size, its file system, how it is connected, and whether it spins."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from app.hardware import windows_calls
from app.hardware.answers import LIVE, Answers
from app.hardware.files import read_int
from app.hardware.tree import KernelPath, children

_NETWORK = {
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "davfs",
    "davfs2",
    "glusterfs",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs3",
    "nfs4",
    "smb2",
    "smb3",
    "smbfs",
    "sshfs",
}
# File systems that another system lends to this virtual one: not on a network, and slow.
_LENT = {"9p", "virtiofs", "vboxsf", "vmhgfs", "prl_fs", "drvfs"}
# Parts of a block device's place in /sys, to how it is connected; the first that fits.
_BUSES = (
    ("usb", "USB"),
    ("nvme", "NVMe"),
    ("virtio", "virtual"),
    ("vbd", "virtual"),
    ("mmc", "MMC"),
    ("ata", "SATA"),
    ("loop", "loop"),
)
_MOST_LAYERS = 8


@dataclass(frozen=True)
class Space:
    """Room on the disk of `folder`, in bytes; `free_bytes` is what this user may still write."""

    folder: Path
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True)
class Medium:
    """What the bytes lie on; None where nothing tells."""

    filesystem: str | None
    rotational: bool | None
    bus: str | None = None
    network: bool | None = None


@dataclass(frozen=True)
class Mount:
    """Where a folder's file system comes from.

    Attributes:
        filesystem: Its kind; empty where nothing tells.
        numbers: "major:minor" of the block devices that may be meant.
    """

    filesystem: str
    numbers: tuple[str, ...]


def nearest_folder(folder: Path) -> Path:
    """`folder`, or the nearest of its parents that exists and may be looked at."""
    folder = folder.expanduser().absolute()
    while folder != folder.parent and not _is_folder(folder):
        folder = folder.parent
    return folder


def read_space(folder: Path, answers: Answers = LIVE) -> Space:
    """The room on the disk that `folder` is on, or would be if it were made.

    Raises:
        OSError: it cannot be read.
    """

    def live() -> tuple[str, int, int]:
        nearest = nearest_folder(folder)
        usage = shutil.disk_usage(nearest)
        return str(nearest), usage.total, usage.free

    path, total, free = answers.ask("disk space", live, tuple[str, int, int])
    return Space(Path(path), total, free)


def read_medium(folder: Path, root: KernelPath, answers: Answers = LIVE, system: str = sys.platform) -> Medium:
    """The file system and the kind of disk under `folder`.

    Raises:
        OSError: the folder cannot be looked at.
    """
    mount = answers.ask("mount", lambda: _mount(nearest_folder(folder).resolve()), Mount)
    filesystem = mount.filesystem or None
    if system == "win32":
        drive = windows_calls.drive(answers, str(folder))
        return Medium(filesystem, drive.rotational, drive.bus, drive.network)
    kind = mount.filesystem.lower().removeprefix("fuse.")
    if kind in _NETWORK:
        return Medium(filesystem, None, "network", True)
    if kind in _LENT:
        return Medium(filesystem, None, "shared folder", False)
    if not system.startswith("linux"):
        return Medium(filesystem, None)
    blocks = [(root / f"sys/dev/block/{number}").resolve() for number in mount.numbers]
    bus = next((found for block in blocks if (found := _bus(block))), None)
    return Medium(filesystem, _rotational(blocks, bus), bus, False if bus else None)


def _is_folder(folder: Path) -> bool:
    try:
        return folder.is_dir()
    except OSError:
        return False


def _mount(folder: Path) -> Mount:
    """Of the deepest mount point above `folder`; of two on one point, the later."""
    best_depth, device, filesystem = -1, "", ""
    for partition in psutil.disk_partitions(all=True):
        point = Path(partition.mountpoint)
        if folder.is_relative_to(point) and len(point.parts) >= best_depth:
            best_depth, device, filesystem = len(point.parts), partition.device, partition.fstype
    if sys.platform == "win32":
        return Mount(filesystem, ())
    numbers = [folder.stat().st_dev]
    if device and Path(device).is_block_device():
        # File systems of several volumes (btrfs) have a number of their own: ask the mounted device.
        numbers.append(Path(device).stat().st_rdev)
    return Mount(filesystem, tuple(f"{os.major(number)}:{os.minor(number)}" for number in numbers))


def _bus(block: KernelPath) -> str | None:
    """How a block device is connected; of one made of others (encryption, RAID), how its first part is."""
    for _ in range(_MOST_LAYERS):
        below = children(block / "slaves")
        if not below:
            break
        block = below[0].resolve()
    for beginning, bus in _BUSES:
        if any(part.startswith(beginning) for part in block.parts):
            return bus
    return None


def _rotational(blocks: list[KernelPath], bus: str | None) -> bool | None:
    """What the kernel's block layer says; None for network, memory and virtual disks."""
    if bus == "virtual":
        # A virtual disk says "rotational" by default and knows nothing of what it lies on.
        return None
    for block in blocks:
        # A partition has no queue of its own: its disk, the folder above, has.
        for owner in (block, block.parent):
            rotational = read_int(owner / "queue/rotational")
            if rotational is not None:
                return bool(rotational)
    return None
