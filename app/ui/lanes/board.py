"""Where every single expert of a model is: its lane, pin and heat as arrays, whatever Qt shows of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.model.facts import ModelFacts
from app.placement.cache.facts import IN_MEMORY, IN_POOL, ON_DISK, LayerExperts
from app.placement.plan import CPU_LANE, DISK_LANE, Plan
from app.ui.lanes.heat import fractions_of
from app.ui.live_plan import Pins, pins_of
from app.ui.refusals import planned_slots

Cells = Mapping[int, Sequence[int]]
"""Experts by the index of their layer in the model file."""
Mask = NDArray[np.bool_]
"""Cells of a board, shape (rows, experts)."""

AUTO, ON_GPU, ON_CPU = 0, 1, 2
PIN_WORDS = ("auto", "gpu", "cpu")
"""What a plan calls the pins above."""
_PIN_OF_WORD = {word: pin for pin, word in enumerate(PIN_WORDS)}
_PIN_OF_LETTER = np.zeros(256, np.uint8)
_PIN_OF_LETTER[[ord("g"), ord("c")]] = ON_GPU, ON_CPU
_COPYING = ord("m")
UNKNOWN, FROM_MEMORY, FROM_DISK = 0, 1, 2
_MEMORY_OF_LETTER = np.zeros(256, np.uint8)
_MEMORY_OF_LETTER[[ord(IN_MEMORY), ord(ON_DISK)]] = FROM_MEMORY, FROM_DISK


@dataclass(frozen=True, eq=False)
class Change:
    """What another look at the engine or the plan found different; every array has a place for each cell moved.

    Attributes:
        rows, experts: The cells that are in another lane now, shape (moved,).
        before, after: Their lanes then and now, as places in `Board.lanes`.
        touched: The rows in which anything at all is different, rising, shape (touched rows,).
        rebuilt: True where it is another model or other lanes, so that no cell is the one it was.
    """

    rows: NDArray[np.intp]
    experts: NDArray[np.intp]
    before: NDArray[np.uint8]
    after: NDArray[np.uint8]
    touched: NDArray[np.intp]
    rebuilt: bool = False

    @property
    def moved(self) -> int:
        """How many cells are in another lane."""
        return len(self.rows)

    def concerns(self, lane: int) -> bool:
        """Whether a cell came to this place in `Board.lanes` or left it."""
        return bool(((self.before == lane) | (self.after == lane)).any())

    def __bool__(self) -> bool:
        """Whether anything is different."""
        return self.rebuilt or len(self.touched) > 0


class Board:
    """Every expert of every MoE layer, in exactly one lane each.

    Attributes:
        lanes: The plan's words for the lanes, from left to right.
        layers: The index in the model file of each row.
        experts: Experts of a layer.
        expert_bytes: Bytes of one expert of each row, shape (rows,).
        lane: Place in `lanes` of the lane that computes each, shape (rows, experts), uint8. Of layers that the
            engine tells nothing of, it is where the plan and its pins would have them.
        home: Place in `lanes` of the lane that the plan gives each layer, shape (rows,), uint8.
        pin: AUTO, ON_GPU or ON_CPU, shape (rows, experts), uint8.
        copying: Whether it is on its way into the pool, shape (rows, experts).
        memory: FROM_MEMORY or FROM_DISK where the engine tells of an expert of a mapped file, else UNKNOWN, shape
            (rows, experts), uint8. The CPU lane has those in memory, the disk lane the others, unless they are in the
            pool.
        routed: Times it was routed to in answers since the load, shape (rows, experts), int64.
        fraction: The same on the colour scale, 0 to 1, shape (rows, experts), float32.
        counted: Rows whose routings and lanes the engine tells, shape (rows,).
        slots: Experts of each row that the pool has room for, shape (rows,); predicted where not `counted`.
        hottest_share: The largest share that any expert has of its layer's routings; 0 where nothing was routed.
    """

    def __init__(self) -> None:
        self._model = ""
        self._clear((), (), 0)

    def _clear(self, lanes: tuple[str, ...], layers: tuple[int, ...], experts: int) -> None:
        self.lanes = lanes
        self.layers = layers
        self.experts = experts
        shape = (len(layers), experts)
        self._row_of = {layer: row for row, layer in enumerate(layers)}
        self.expert_bytes = np.zeros(len(layers), np.int64)
        self.home = np.zeros(len(layers), np.uint8)
        self.counted = np.zeros(len(layers), bool)
        self.slots = np.zeros(len(layers), np.int64)
        self.lane = np.zeros(shape, np.uint8)
        self.pin = np.zeros(shape, np.uint8)
        self.copying = np.zeros(shape, bool)
        self.memory = np.zeros(shape, np.uint8)
        self.routed = np.zeros(shape, np.int64)
        self.fraction = np.zeros(shape, np.float32)
        self.hottest_share = 0.0
        self._planned_of: tuple[Plan, NDArray[np.uint8], NDArray[np.int64]] | None = None

    @property
    def rows(self) -> int:
        """MoE layers."""
        return len(self.layers)

    @property
    def model(self) -> str:
        """The fingerprint of the model shown; empty for none."""
        return self._model

    @property
    def even_share(self) -> float:
        """What each expert of a layer would have of its routings if they were even; 0 without experts."""
        return 1 / self.experts if self.experts else 0.0

    def row_of(self, layer: int) -> int:
        """The row of a layer.

        Raises:
            KeyError: the model has no such MoE layer.
        """
        return self._row_of[layer]

    def find_row(self, layer: int) -> int | None:
        """The row of a layer; None where the model has no such MoE layer."""
        return self._row_of.get(layer)

    def show(
        self,
        facts: ModelFacts | None,
        plan: Plan | None,
        lanes: Sequence[str],
        reported: Mapping[int, LayerExperts],
        pool_device: str | None,
        ordered: Pins | None = None,
    ) -> Change:
        """Take a plan and what the engine says of the experts it computes.

        Args:
            facts: The model; None for none.
            plan: Where its layers are.
            lanes: The lanes there are, from left to right. One that the plan names besides is put behind them.
            reported: The engine's experts by layer; empty where the plan is not loaded.
            pool_device: The lane of experts that are in the pool.
            ordered: Pins, one of PIN_WORDS by (layer, expert), that the engine was told and has not answered yet:
                shown as wanted.
        """
        named = tuple(dict.fromkeys((*lanes, *(plan.expert_lanes.values() if plan else ()))))
        rebuilt = self._rebuild(facts, plan, named)
        if facts is None or plan is None or not self.layers:
            return _nothing(rebuilt=rebuilt)
        before, lane_before = self._seen(), self.lane
        place = {lane: index for index, lane in enumerate(self.lanes)}
        pool = place.get(pool_device) if pool_device is not None else None
        self.home = np.array([place[plan.expert_lanes[layer]] for layer in self.layers], np.uint8)
        pins, slots = self._planned(facts, plan)
        self.pin = pins.copy()
        self.slots = slots.copy() if pool is not None else np.zeros_like(slots)
        wanted = self.pin == ON_GPU
        in_pool = wanted & (np.cumsum(wanted, axis=1, dtype=np.int32) <= self.slots[:, None])
        self._take(reported, in_pool)
        if ordered:
            self._write_pins(self.pin, ordered)
        single = np.isin(self.home, [place[lane] for lane in (CPU_LANE, DISK_LANE) if lane in place])[:, None]
        self.copying &= single
        self.lane = np.repeat(self.home[:, None], self.experts, axis=1)
        for where, lane in ((FROM_MEMORY, CPU_LANE), (FROM_DISK, DISK_LANE)):
            if lane in place:
                self.lane[(self.memory == where) & single] = place[lane]
        if pool is not None:
            self.lane[in_pool & single] = pool
        if rebuilt:
            return _nothing(rebuilt=True)
        rows, experts = np.nonzero(lane_before != self.lane)
        return Change(
            rows=rows,
            experts=experts,
            before=lane_before[rows, experts],
            after=self.lane[rows, experts],
            touched=self._rows_unlike(before),
        )

    def cells(self, mask: Mask) -> dict[int, tuple[int, ...]]:
        """The cells of a mask of shape (rows, experts), by layer."""
        return {self.layers[row]: tuple(np.flatnonzero(mask[row]).tolist()) for row in np.flatnonzero(mask.any(axis=1))}

    def mask(self, cells: Cells) -> Mask:
        """A mask of shape (rows, experts) with these cells; those the model does not have are left out."""
        made = np.zeros(self.lane.shape, bool)
        for layer, experts in cells.items():
            if layer in self._row_of:
                made[self._row_of[layer], [expert for expert in experts if 0 <= expert < self.experts]] = True
        return made

    def on(self, lane: str) -> Mask:
        """The mask of the cells in a lane, shape (rows, experts)."""
        if lane not in self.lanes:
            return np.zeros(self.lane.shape, bool)
        return self.lane == self.lanes.index(lane)

    # ---- inside -------------------------------------------------------------------------------

    def _rebuild(self, facts: ModelFacts | None, plan: Plan | None, lanes: tuple[str, ...]) -> bool:
        sizes = facts.expert_bytes if facts and plan else {}
        layers = tuple(sorted(layer for layer in (plan.expert_lanes if plan else ()) if layer in sizes))
        experts = facts.expert_count if facts and layers else 0
        model = facts.fingerprint if facts and layers else ""
        if (lanes, layers, experts, model) == (self.lanes, self.layers, self.experts, self._model):
            return False
        self._clear(lanes, layers, experts)
        self._model = model
        self.expert_bytes = np.array([sizes[layer] for layer in layers], np.int64)
        return True

    def _planned(self, facts: ModelFacts, plan: Plan) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The plan's pins and the slots it would have, kept until there is another plan."""
        if self._planned_of is None or self._planned_of[0] is not plan:
            pins = pins_of(plan)
            made = np.zeros(self.lane.shape, np.uint8)
            self._write_pins(made, pins)
            slots = planned_slots(plan.expert_lanes, facts, plan, pins)
            self._planned_of = (plan, made, np.array([slots.get(layer, 0) for layer in self.layers], np.int64))
        return self._planned_of[1:]

    def _write_pins(self, into: NDArray[np.uint8], pins: Pins) -> None:
        if not pins or not self.layers:
            return
        cells = np.fromiter(chain.from_iterable(pins), np.int64, 2 * len(pins)).reshape(-1, 2)
        words = np.array(list(map(_PIN_OF_WORD.__getitem__, pins.values())), np.uint8)
        known = np.isin(cells[:, 0], self.layers) & (cells[:, 1] >= 0) & (cells[:, 1] < self.experts)
        into[np.searchsorted(self.layers, cells[known, 0]), cells[known, 1]] = words[known]

    def _take(self, reported: Mapping[int, LayerExperts], in_pool: Mask) -> None:
        """What the engine tells overrules the plan: its pins, slots and heat here, its lanes in `in_pool`."""
        self.counted = np.zeros(self.rows, bool)
        self.copying = np.zeros(self.lane.shape, bool)
        self.memory = np.zeros(self.lane.shape, np.uint8)
        self.routed = np.zeros(self.lane.shape, np.int64)
        told = {row: its for layer, its in reported.items() if (row := self._told_row(layer, its)) is not None}
        if told:
            rows, shape = list(told), (len(told), self.experts)
            lanes = _letters((its.lanes for its in told.values()), shape)
            in_pool[rows] = lanes == ord(IN_POOL)
            self.copying[rows] = lanes == _COPYING
            mapped = [its.memory if len(its.memory) == self.experts else " " * self.experts for its in told.values()]
            self.memory[rows] = _MEMORY_OF_LETTER[_letters(mapped, shape)]
            self.pin[rows] = _PIN_OF_LETTER[_letters((its.pins for its in told.values()), shape)]
            routed = chain.from_iterable(its.routed for its in told.values())
            self.routed[rows] = np.fromiter(routed, np.int64, shape[0] * shape[1]).reshape(shape)
            self.slots[rows] = [its.slots for its in told.values()]
            self.counted[rows] = True
        self.fraction, self.hottest_share = fractions_of(self.routed)

    def _told_row(self, layer: int, its: LayerExperts) -> int | None:
        """The row of a layer that the engine tells of; None for one that the shown model does not have like that."""
        if not len(its.lanes) == len(its.pins) == len(its.routed) == self.experts:
            return None
        return self._row_of.get(layer)

    def _seen(self) -> tuple[NDArray[Any], ...]:
        """All that is shown of the rows; never written to again, for every look makes new arrays."""
        return self.home, self.counted, self.slots, self.lane, self.pin, self.copying, self.routed, self.fraction

    def _rows_unlike(self, before: tuple[NDArray[Any], ...]) -> NDArray[np.intp]:
        unlike = np.zeros(self.rows, bool)
        for then, now in zip(before, self._seen(), strict=True):
            differs = then != now
            unlike |= differs.any(axis=1) if differs.ndim > 1 else differs
        return np.flatnonzero(unlike)


def _letters(words: Iterable[str], shape: tuple[int, int]) -> NDArray[np.uint8]:
    return np.frombuffer("".join(words).encode("ascii", "replace"), np.uint8).reshape(shape)


def _nothing(*, rebuilt: bool) -> Change:
    none, lanes = np.zeros(0, np.intp), np.zeros(0, np.uint8)
    return Change(rows=none, experts=none, before=lanes, after=lanes, touched=none, rebuilt=rebuilt)
