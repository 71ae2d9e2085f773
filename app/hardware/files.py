"""Reading the kernel's small text files below a root, so that recorded trees can stand in for it."""

from app.hardware.tree import KernelPath

_MOST_CPU = 65535
"""The largest number of a processor that is believed: Linux is built for 8,192 at most."""


def read_text(path: KernelPath) -> str | None:
    """The file's text without surrounding blanks, or None where it is missing or refuses to be read."""
    try:
        return path.read_bytes().decode("utf-8", "replace").strip()
    except OSError:
        return None


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
