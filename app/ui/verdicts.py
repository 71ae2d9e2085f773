"""What comes of an order: what was or can be done of it, why the rest is refused, and the ways out. Data, no Qt."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from app.ui.live_plan import Pins


@dataclass(frozen=True)
class Done:
    """An order that was carried out.

    Attributes:
        text: What was done, as the history calls it.
        cells: Experts that were pinned or made automatic, by layer.
        layers: Layers that moved as a whole, and the lane they are in now.
    """

    text: str
    cells: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    layers: tuple[int, ...] = ()
    lane: str = ""


@dataclass(frozen=True)
class Offer:
    """A way out of a refusal: what it does, in words for a button, and doing it."""

    text: str
    take: Callable[[], None]


@dataclass(frozen=True)
class Refusal:
    """Why an order, or a part of it, was not carried out."""

    text: str
    offers: tuple[Offer, ...] = ()


@dataclass(frozen=True)
class Way:
    """What an offer would do, as data.

    Attributes:
        text: The same in words.
        pins: Pins to be made.
        pool_bytes: Size to be given to the pool; None for no change.
        layers: Layers to be moved as a whole to `lane`.
        memory_bytes: Budget of main memory to be given to mapped experts; None for no change.
        warm: Whether the hottest are read in then. release: whether the memory is given up.
    """

    text: str
    pins: Pins = field(default_factory=dict)
    pool_bytes: int | None = None
    layers: tuple[int, ...] = ()
    lane: str = ""
    memory_bytes: int | None = None
    warm: bool = False
    release: bool = False


@dataclass(frozen=True)
class Verdict:
    """What can be done at once, and for the rest the reason and the ways out; an empty text for no rest."""

    pins: Pins
    text: str = ""
    ways: tuple[Way, ...] = ()
