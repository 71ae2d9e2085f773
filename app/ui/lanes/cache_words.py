"""The expert pool and single experts in words: what is requested, allocated and used, and who pinned what."""

from app.engine.protocol import Loaded
from app.placement.cache.facts import IN_MEMORY, ON_DISK, CacheReport, LayerExperts, PoolFacts
from app.placement.plan import CPU_LANE, DISK_LANE
from app.ui.lanes.words import translate
from app.ui.words import in_bytes, in_percent, number

LANES = ("g", "m", "c")
PINS = ("g", "c", "a")


def lane_word(letter: str, memory: str = "") -> str:
    """Where one expert is computed: a cell of the table; `memory` is its letter of `LayerExperts.memory`."""
    if letter == "c" and memory == ON_DISK:
        return translate("Lanes", "CPU, from the disk")
    if letter == "c" and memory == IN_MEMORY:
        return translate("Lanes", "CPU, in memory")
    words = {
        "g": translate("Lanes", "GPU pool"),
        "m": translate("Lanes", "copying"),
        "c": translate("Lanes", "CPU"),
    }
    return words.get(letter, letter)


def pin_word(letter: str) -> str:
    """The user's order for one expert: a cell of the table, in the column "Keep"."""
    words = {
        "g": translate("Lanes", "on GPU"),
        "c": translate("Lanes", "on CPU"),
        "a": translate("Lanes", "automatic"),
    }
    return words.get(letter, letter)


def residency_text(experts: LayerExperts) -> str:
    """A layer's experts by lane and pin: "12 of 128 in the GPU pool, 1 being copied, 2 kept on the GPU"."""
    total = number(len(experts.lanes))
    counts = {letter: experts.lanes.count(letter) for letter in LANES}
    pins = {letter: experts.pins.count(letter) for letter in PINS}
    parts = []
    if experts.slots or counts["g"]:
        parts.append(
            translate("Lanes", "{count} of {total} experts in the GPU pool").format(
                count=number(counts["g"]), total=total
            )
        )
    if counts["m"]:
        parts.append(translate("Lanes", "{count} being copied there").format(count=number(counts["m"])))
    if experts.memory:
        parts.append(
            translate("Lanes", "{count} of {total} in main memory").format(
                count=number(experts.memory.count(IN_MEMORY)), total=total
            )
        )
    if pins["g"]:
        parts.append(translate("Lanes", "{count} kept on the GPU by you").format(count=number(pins["g"])))
    if pins["c"]:
        parts.append(translate("Lanes", "{count} kept on the CPU by you").format(count=number(pins["c"])))
    return ", ".join(parts)


def pool_text(pool: PoolFacts | None) -> str:
    """The pool's size as three facts, and what it holds.

    Example: "Requested 64.0 MiB, allocated 62.0 MiB, in use: 19 experts in 20 slots".
    """
    if pool is None or not (pool.requested_bytes or pool.allocated_bytes):
        return translate("Lanes", "No expert pool: the CPU computes the experts of its layers")
    if pool.resident and not pool.used:
        words = translate(
            "Lanes",
            "Requested {requested}, allocated {allocated}, holds {resident} experts in {slots} slots, but no routed "
            "expert was found there since the pool was set",
        )
        return words.format(
            requested=in_bytes(pool.requested_bytes),
            allocated=in_bytes(pool.allocated_bytes),
            resident=number(pool.resident),
            slots=number(pool.slots),
        )
    text = size_text(pool.requested_bytes, pool.allocated_bytes, used=pool.used)
    text += ": " + translate("Lanes", "{resident} experts in {slots} slots").format(
        resident=number(pool.resident), slots=number(pool.slots)
    )
    return text


def staging_text(pool: PoolFacts | None) -> str:
    """What the device gave besides the pool; empty for nothing."""
    if pool is None or not pool.staging_bytes:
        return ""
    return translate("Lanes", "{size} more on {device} for experts that are copied over for a prompt.").format(
        size=in_bytes(pool.staging_bytes), device=pool.device
    )


def size_text(requested: int, allocated: int, *, used: bool) -> str:
    """Requested, allocated and used: three facts, none of which follows from another."""
    return translate("Lanes", "Requested {requested}, allocated {allocated}, {used}").format(
        requested=in_bytes(requested),
        allocated=in_bytes(allocated),
        used=translate("Lanes", "in use") if used else translate("Lanes", "not in use"),
    )


def pool_note(pool: PoolFacts | None, cycle_bytes: int) -> str:
    """Why a pool that is large enough is not used yet, such as that nothing was asked since the load."""
    return _sentence(pool.reason) if pool is not None and pool.reason and not _lacks(pool, cycle_bytes) else ""


def pool_warning(pool: PoolFacts | None, cycle_bytes: int) -> str:
    """Why there is no pool though one was asked for, or why it does not help; pins without room.

    Args:
        pool: The pool as the engine reports it.
        cycle_bytes: What one token is routed to; a smaller pool loses experts before they are used again.
    """
    if pool is None:
        return ""
    sentences = [_sentence(pool.reason)] if pool.reason and _lacks(pool, cycle_bytes) else []
    if pool.unplaced_pins == 1:
        sentences.append(translate("Lanes", "1 expert that you keep on the GPU has no slot in the pool."))
    elif pool.unplaced_pins:
        sentences.append(
            translate("Lanes", "{count} experts that you keep on the GPU have no slot in the pool.").format(
                count=number(pool.unplaced_pins)
            )
        )
    return " ".join(sentences)


def hit_rate(hits: int, misses: int | None) -> float | None:
    """Share of routed experts that were computed from the pool, 0 to 1; None where none was routed or counted."""
    return hits / (hits + misses) if misses is not None and hits + misses else None


def last_answer_text(report: CacheReport | None) -> str:
    """The hit rate of the last answer: "hits 71 % of routed experts in the last answer"; empty where unknown."""
    if report is None or not report.requested_bytes:
        return ""
    rate = hit_rate(report.hits, report.misses)
    if rate is None:
        return ""
    return translate("Lanes", "hits {share} of routed experts in the last answer").format(share=in_percent(rate))


def why_no_experts(report: Loaded | None, layer: int) -> str:
    """Why the experts of a layer cannot be shown one by one; `report` is None while the model is not loaded."""
    if report is None:
        return translate("Lanes", "Load the model first: experts can be seen and placed one by one while it is loaded.")
    if not report.expert_device:
        return translate("Lanes", "Experts cannot be told apart: {reason}").format(reason=report.reason)
    lane = report.expert_layers.get(layer, CPU_LANE)
    if lane not in (CPU_LANE, DISK_LANE):
        words = translate(
            "Lanes",
            "Layer {layer} was loaded on {lane} as a whole, so all its experts are there. Experts are placed one "
            "by one in layers of the CPU lane.",
        )
        return words.format(layer=layer, lane=lane)
    return translate("Lanes", "The engine has not told of the experts of layer {layer} yet.").format(layer=layer)


def _lacks(pool: PoolFacts, cycle_bytes: int) -> bool:
    """True where a pool was asked for and is missing or too small to help."""
    return bool(pool.requested_bytes) and pool.allocated_bytes < max(cycle_bytes, 1)


def _sentence(text: str) -> str:
    """`text` as a sentence of its own."""
    text = text.strip()
    ended = text if text.endswith((".", "!", "?")) else text + "."
    return ended[:1].upper() + ended[1:]
