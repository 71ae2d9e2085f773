"""Reading the kernel's small text files below a root, so that recorded trees can stand in for it."""

import os
from pathlib import Path

from app.hardware.tree import KernelPath

_PART_BYTES = 16_384
_MOST_CPU = 65535
"""The largest number of a processor that is believed: Linux is built for 8,192 at most."""


def read_text(path: KernelPath) -> str | None:
    """The file's text without surrounding blanks, or None where it is missing or refuses to be read."""
    try:
        data = _bytes(path) if isinstance(path, Path) else path.read_bytes()
    except OSError:
        return None
    return data.decode("utf-8", "replace").strip()


def _bytes(path: Path) -> bytes:
    """As `Path.read_bytes`, in a third of its time for files of a few lines: samples read dozens of them a second."""
    file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        parts = []
        while part := os.read(file, _PART_BYTES):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)


def read_int(path: KernelPath) -> int | None:
    """The one number in a file, or None where there is none ("max", missing, unreadable)."""
    text = read_text(path)
    try:
        return int(text or "")
    except ValueError:
        return None


def read_cpu_list(path: KernelPath) -> frozenset[int] | None:
    """The processors in a kernel list such as "0-3,8"; None where the file says none."""
    return parse_cpu_list(read_text(path) or "")


def parse_cpu_list(text: str) -> frozenset[int] | None:
    """The processors that a kernel list such as "0-3,8" names; None for no list."""
    found: set[int] = set()
    try:
        for part in filter(None, text.strip().split(",")):
            first, _, last = part.partition("-")
            least, most = int(first), int(last or first)
            if not 0 <= least <= most <= _MOST_CPU:
                return None
            found.update(range(least, most + 1))
    except ValueError:
        return None
    return frozenset(found) or None


def read_fields(path: KernelPath) -> dict[str, int]:
    """The "name number" lines of a statistics file; empty where it cannot be read."""
    fields = {}
    for line in (read_text(path) or "").splitlines():
        name, _, number = line.partition(" ")
        if number.isdecimal():
            fields[name] = int(number)
    return fields
