"""The disk under a folder: its size, its file system, and whether it spins."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from app.hardware.files import read_int


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


def nearest_folder(folder: Path) -> Path:
    """`folder`, or the nearest of its parents that exists and may be looked at."""
    folder = folder.expanduser().absolute()
    while folder != folder.parent and not _is_folder(folder):
        folder = folder.parent
    return folder


def read_space(folder: Path) -> Space:
    """The room on the disk that `folder` is on, or would be if it were made.

    Raises:
        OSError: it cannot be read.
    """
    folder = nearest_folder(folder)
    usage = shutil.disk_usage(folder)
    return Space(folder, usage.total, usage.free)


def read_medium(folder: Path, root: Path) -> Medium:
    """The file system and the kind of disk under `folder`.

    Raises:
        OSError: the folder cannot be looked at.
    """
    folder = nearest_folder(folder).resolve()
    device, filesystem = _mount(folder)
    return Medium(filesystem, _rotational(folder, device, root))


def _is_folder(folder: Path) -> bool:
    try:
        return folder.is_dir()
    except OSError:
        return False


def _mount(folder: Path) -> tuple[str, str | None]:
    """Device and file system of the deepest mount point above `folder`; of two on one point, the later."""
    best_depth, device, filesystem = -1, "", ""
    for partition in psutil.disk_partitions(all=True):
        point = Path(partition.mountpoint)
        if folder.is_relative_to(point) and len(point.parts) >= best_depth:
            best_depth, device, filesystem = len(point.parts), partition.device, partition.fstype
    return device, filesystem or None


def _rotational(folder: Path, device: str, root: Path) -> bool | None:
    """What the kernel's block layer says; None for network, memory and virtual disks."""
    if sys.platform == "win32":
        return None
    numbers = [folder.stat().st_dev]
    if device and Path(device).is_block_device():
        # File systems of several volumes (btrfs) have a number of their own: ask the mounted device.
        numbers.append(Path(device).stat().st_rdev)
    for number in numbers:
        block = (root / f"sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
        if any(part.startswith("virtio") for part in block.parts):
            # A virtual disk says "rotational" by default and knows nothing of what it lies on.
            return None
        # A partition has no queue of its own: its disk, the folder above, has.
        for owner in (block, block.parent):
            rotational = read_int(owner / "queue/rotational")
            if rotational is not None:
                return bool(rotational)
    return None
