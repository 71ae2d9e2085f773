"""Why an AMD card's clock is kept down, from its driver's table of measurements (gpu_metrics)."""

import struct

from app.hardware.sources import NotSeenError
from app.hardware.tree import KernelPath

# metrics_table_header: structure_size, format_revision, content_revision.
_HEAD = struct.Struct("<HBB")
# Where the bits that mean the same for every chip (indep_throttle_status) lie, by the table's revision: of cards
# from Linux 5.14 on, and of chips with a processor. Older tables have bits of their own for each chip; the tables
# of computing cards (1.4 and newer) and of the newest laptops (3.0) count otherwise.
_PLACES = {(1, 3): 112, (2, 2): 120, (2, 3): 120, (2, 4): 120}
_BITS = struct.Struct("<Q")
_NOT_TOLD = 2**64 - 1
"""The driver fills the table with ones before it writes what the chip tells."""
POWER, CURRENT, HEAT, HARDWARE, OTHER = "power", "current", "heat", "hardware", "other"
_GROUPS = ((POWER, range(8)), (CURRENT, range(16, 24)), (HEAT, range(32, 46)), (HARDWARE, range(46, 48)))
_KNOWN = sum(1 << bit for _, bits in _GROUPS for bit in bits)


def read_causes(card: KernelPath) -> tuple[str, ...]:
    """What keeps the clock down now, of POWER, CURRENT, HEAT, HARDWARE and OTHER; empty where nothing does.

    Args:
        card: The card's device folder.

    Raises:
        NotSeenError: its driver does not tell.
    """
    try:
        table = (card / "gpu_metrics").read_bytes()
    except OSError as error:
        raise NotSeenError("Its driver has no table that tells whether its clock is kept down.") from error
    bits = throttle_bits(table)
    found = [name for name, group in _GROUPS if any(bits >> bit & 1 for bit in group)]
    return (*found, OTHER) if bits & ~_KNOWN else tuple(found)


def throttle_bits(table: bytes) -> int:
    """The bits in a table.

    Raises:
        NotSeenError: it is of a revision without them, is cut, or holds none.
    """
    if len(table) < _HEAD.size:
        raise NotSeenError("Its driver's table of measurements cannot be read.")
    size, *revision = _HEAD.unpack_from(table)
    place = _PLACES.get((revision[0], revision[1]))
    if place is None:
        raise NotSeenError(f"Its driver's table (revision {revision[0]}.{revision[1]}) is not read for throttling.")
    if min(size, len(table)) < place + _BITS.size:
        raise NotSeenError("Its driver's table of measurements cannot be read.")
    (bits,) = _BITS.unpack_from(table, place)
    if bits == _NOT_TOLD:
        raise NotSeenError("This card does not tell whether its clock is kept down.")
    return int(bits)
