"""Which programs hold the most main memory: what could be closed where it is short."""

import msgspec

_MOST_PROGRAMS = 8
_LEAST_BYTES = 64 * 1024**2
"""Smaller ones are not worth a word."""


class RamProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A program and the main memory that it alone holds, all of its processes together.

    Attributes:
        name: Without folder and arguments.
        bytes: Resident memory without pages of files, which the system can drop; without shared ones where the
            system tells them apart.
    """

    name: str
    bytes: int


def read_ram_programs(but: frozenset[int] = frozenset()) -> tuple[RamProgram, ...]:
    """The largest programs that this user may look at, largest first.

    Args:
        but: Process ids that are not counted: the engine's and this program's own.
    """
    import psutil  # noqa: PLC0415 - the window knows this record from its start, and looks much later

    held: dict[str, int] = {}
    for process in psutil.process_iter(("pid", "name", "memory_info")):
        found = process.info
        memory = found["memory_info"]
        if found["pid"] in but or memory is None or not found["name"]:
            continue  # another user's, or gone meanwhile
        # Windows counts what a program holds alone; elsewhere pages that are shared are taken off.
        size = getattr(memory, "private", None)
        size = memory.rss - getattr(memory, "shared", 0) if size is None else min(size, memory.rss)
        held[found["name"]] = held.get(found["name"], 0) + max(int(size), 0)
    programs = [RamProgram(name=name, bytes=size) for name, size in held.items() if size >= _LEAST_BYTES]
    return tuple(sorted(programs, key=lambda its: -its.bytes)[:_MOST_PROGRAMS])
