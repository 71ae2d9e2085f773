"""Which memory modules are in which slots, and how fast they run; and the page file."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import psutil

from app.hardware import smbios, windows_calls
from app.hardware.answers import Answers
from app.hardware.facts import Ram, RamModule
from app.hardware.files import read_text
from app.hardware.sources import NotSeenError
from app.hardware.tree import KernelPath

_TABLE = "sys/firmware/dmi/tables/DMI"
# systemd keeps what it read of the firmware's tables at start here, for every user to read.
_UDEV = "run/udev/data/+dmi:id"
_UDEV_LINE = re.compile(r"E:MEMORY_DEVICE_(\d+)_([A-Z_]+)=(.*)")


@dataclass(frozen=True)
class Swap:
    """The page file or swap in bytes; `kind` as in `Ram.swap_kind`."""

    total_bytes: int
    free_bytes: int
    kind: str | None


def read_modules(root: KernelPath, system: str, answers: Answers) -> tuple[RamModule, ...]:
    """Every slot that the firmware's tables list.

    Raises:
        NotSeenError: they cannot be read, with the reason.
    """
    if system == "win32":
        return smbios.parse_modules(windows_calls.firmware_tables(answers))
    if not system.startswith("linux"):
        raise NotSeenError(f"Memory modules are not read on {system}.")
    why = "This system has no table of its memory modules (as virtual machines and containers often have none)."
    try:
        return smbios.parse_modules((root / _TABLE).read_bytes())
    except PermissionError:
        why = "Only an administrator may read the firmware's table of memory modules; started with sudo it is seen."
    except FileNotFoundError:
        pass
    except OSError as error:
        why = f"The firmware's table of memory modules cannot be read: {error.strerror}."
    modules = parse_udev(read_text(root / _UDEV) or "")
    if not modules:
        raise NotSeenError(why)
    return modules


def parse_udev(text: str) -> tuple[RamModule, ...]:
    """The modules in systemd's record of the firmware's tables; empty where it has none."""
    devices: dict[int, dict[str, str]] = {}
    for line in text.splitlines():
        if found := _UDEV_LINE.fullmatch(line.strip()):
            devices.setdefault(int(found[1]), {})[found[2]] = found[3]
    modules = []
    for _, device in sorted(devices.items()):
        size = 0 if device.get("PRESENT") == "0" else _number(device, "SIZE")
        if size is not None:
            modules.append(
                RamModule(
                    slot=device.get("LOCATOR", ""),
                    bank=device.get("BANK_LOCATOR", ""),
                    size_bytes=size,
                    type=device.get("TYPE") if size else None,
                    width_bits=_number(device, "DATA_WIDTH") or None,
                    rated_mts=(_number(device, "SPEED_MTS") or None) if size else None,
                    speed_mts=(_number(device, "CONFIGURED_SPEED_MTS") or None) if size else None,
                )
            )
    return tuple(modules)


def read_swap(root: KernelPath, system: str, answers: Answers) -> Swap:
    """The page file, or all swap together.

    Raises:
        NotSeenError: it cannot be read.
    """
    if not system.startswith("linux"):
        return answers.ask("swap", _windows_swap if system == "win32" else _system_swap, Swap)
    text = read_text(root / "proc/swaps")
    if text is None:
        raise NotSeenError("The kernel does not list its swap.")
    total = used = 0
    names = []
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) >= 4 and words[-3].isdecimal() and words[-2].isdecimal():
            names.append(words[0])
            total += int(words[-3]) * 1024
            used += int(words[-2]) * 1024
    kind = None
    if total:
        kind = "compressed memory" if all(name.startswith("/dev/zram") for name in names) else "disk"
    return Swap(total, max(0, total - used), kind)


def with_modules(ram: Ram, modules: Sequence[RamModule] | None, swap: Swap | None) -> Ram:
    """`ram` with what modules and swap tell."""
    if modules:
        speeds = [module.speed_mts for module in modules if module.speed_mts]
        ram = msgspec.structs.replace(
            ram,
            modules=tuple(modules),
            channels=smbios.channels(modules),
            free_slots=sum(1 for module in modules if not module.size_bytes),
            speed_mts=min(speeds, default=None),
        )
    if swap is not None:
        ram = msgspec.structs.replace(
            ram, swap_total_bytes=swap.total_bytes, swap_free_bytes=swap.free_bytes, swap_kind=swap.kind
        )
    return ram


def _windows_swap() -> Swap:
    # Not through psutil, which needs performance counters: those are switched off or broken on some machines.
    files = windows_calls.page_files()
    return Swap(files.total_bytes, max(0, files.total_bytes - files.used_bytes), "disk" if files.total_bytes else None)


def _system_swap() -> Swap:
    swap = psutil.swap_memory()
    return Swap(swap.total, max(0, swap.total - swap.used), "disk" if swap.total else None)


def _number(device: dict[str, str], name: str) -> int | None:
    text = device.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < len(str(sys.maxsize)) else None
