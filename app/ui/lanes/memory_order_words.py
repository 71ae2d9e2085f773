"""What came of an order for the memory of mapped experts, in words: asked, done with its figures, or why not."""

from app.placement.cache.facts import MemoryFacts
from app.ui.lanes.words import translate
from app.ui.memory_order import MemoryOrder
from app.ui.words import in_bytes, number


def order_text(order: MemoryOrder | None) -> str:
    """The last order: that it is asked for, then what the engine's own figures show of it; empty for none."""
    if order is None:
        return ""
    if order.why_not:
        return _refused_text(order)
    if order.open:
        return _asked_text(order)
    if order.after is None:
        return translate("Lanes", "The engine took the order, and tells nothing of what is in memory.")
    return _warmed_text(order, order.after) if order.warm else _released_text(order, order.after)


def _refused_text(order: MemoryOrder) -> str:
    words = translate("Lanes", "No experts were read in: {why}")
    if not order.warm:
        words = translate("Lanes", "The memory of experts was not given up: {why}")
    return words.format(why=order.why_not)


def _asked_text(order: MemoryOrder) -> str:
    words = translate("Lanes", "Asked the engine to read the hottest experts in…")
    if not order.warm:
        words = translate("Lanes", "Asked the engine to give up the memory of experts…")
    if order.late:
        return words + " " + translate("Lanes", "It has not answered yet.")
    return words


def _warmed_text(order: MemoryOrder, after: MemoryFacts) -> str:
    """What is asked for counts as in memory: the engine does not tell when the last of it was read."""
    if not order.changed:
        return translate("Lanes", "Nothing had to be read in: {there}, as before.").format(there=_there(after))
    there = translate("Lanes", "{resident} of {total} are there or being read").format(**_sizes(after))
    if order.moved_bytes:
        words = translate("Lanes", "{size} of experts called into memory: {there}.")
        return words.format(size=in_bytes(order.moved_bytes), there=there)
    one = translate("Lanes", "1 expert gave its place in memory to a hotter one: {there}.")
    many = translate("Lanes", "{count} experts gave their places in memory to hotter ones: {there}.")
    return (one if order.replaced == 1 else many).format(count=number(order.replaced), there=there)


def _released_text(order: MemoryOrder, after: MemoryFacts) -> str:
    if not order.changed:
        return translate("Lanes", "No memory was given up: {there}, as before.").format(there=_there(after))
    words = translate("Lanes", "{size} of main memory given up: {there}.")
    return words.format(size=in_bytes(order.moved_bytes), there=_there(after))


def _there(memory: MemoryFacts) -> str:
    return translate("Lanes", "{resident} of {total} are in memory").format(**_sizes(memory))


def _sizes(memory: MemoryFacts) -> dict[str, str]:
    return {"resident": in_bytes(memory.resident_bytes), "total": in_bytes(memory.total_bytes)}
