"""Which experts of one layer get a slot: the native cache's policy, in Python.

`app/engine/native/policy.h` states the rules and `policy.cpp` is what runs beside the model; this is the same,
decision by decision, to simulate with. A test drives both with the same routings; a change here is a change there.

The rules, for both:

- One `step` is one decoded token of this layer. All heat is multiplied by `decay` and every routed expert gains
  1; heat is a double, made of the settings' float32 values.
- A candidate is a routed expert without a slot (not even loading), with no pin, whose weight is unknown (NaN) or
  at least `threshold`. Heavier candidates go first, unknown weights last, equals as given.
- Experts pinned to the GPU that have no slot yet go before all candidates, the hottest first (equals: the lower
  number), whatever threshold, window and margin say. They count towards `insert_cap` too.
- An insert takes the lowest free slot. Without one, the coldest resident goes that is neither pinned to the GPU,
  nor loading, nor routed in this token. Coldest is, for lru, least recently routed, then least hot; for the
  others least hot, then least recently routed; for all then in the lowest slot.
- lru evicts only for a candidate that was routed at most `window` tokens ago, this one not counted (`window` 0:
  for any). decay evicts only for one that is hotter than the coldest by `margin`. Both give free slots to any
  candidate.
- frozen takes no candidates: it evicts for pins only and its free slots are for `fill`. manual inserts pins only.
  Residents that are not pinned stay until a pin needs their slot.
"""

import ctypes
import math
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from app.placement.plan import CachePolicy


class Insert(msgspec.Struct, frozen=True):
    """An expert that is to be copied into a slot. `evicted` has lost it already; None where it was free."""

    expert: int
    slot: int
    evicted: int | None = None


class Move(msgspec.Struct, frozen=True):
    """An expert that keeps a slot when the pool is resized, and which."""

    expert: int
    source: int
    target: int


class LayerPolicy:
    """Heat, recency, pins and slots of one layer's experts, and what to copy next.

    `fill` and `resize` are for between tokens. Slots and experts are numbered from 0 and must exist; `policy`
    must be valid.
    """

    def __init__(self, experts: int) -> None:
        self._slot_of: list[int | None] = [None] * experts  # also while loading
        self._expert_of: list[int | None] = []
        self._withdrawn: list[int | None] = []  # per slot: whose pin to the CPU freed it since the last step
        self._loading: list[bool] = []
        self._pins = ["auto"] * experts
        self._heat = [0.0] * experts  # as of token `_heat_at`
        self._heat_at = [0] * experts
        self._last_routed = [-1] * experts
        self._decay = 1.0
        self._now = 0  # tokens stepped
        self.evictions = 0

    # ---- what is where

    @property
    def experts(self) -> int:
        """Experts of the layer."""
        return len(self._slot_of)

    @property
    def slots(self) -> int:
        """Slots of its pool."""
        return len(self._expert_of)

    @property
    def resident(self) -> int:
        """Slots whose expert is ready."""
        return sum(
            expert is not None and not loading
            for expert, loading in zip(self._expert_of, self._loading, strict=True)
        )  # fmt: skip

    @property
    def pinned_to_gpu(self) -> int:
        """Experts with a pin to the GPU, placed or not."""
        return self._pins.count("gpu")

    @property
    def unplaced_pins(self) -> int:
        """Experts pinned to the GPU that there will be no slot for: all others are to be had, sooner or later."""
        return max(self.pinned_to_gpu - self.slots, 0)

    def ready_slot(self, expert: int) -> int | None:
        """The slot of an expert that is ready to compute from."""
        slot = self._slot_of[expert]
        return None if slot is None or self._loading[slot] else slot

    def lane(self, expert: int) -> str:
        """Where it is computed from: "gpu" when ready, "copying" while it is being copied in, else "cpu"."""
        slot = self._slot_of[expert]
        if slot is None:
            return "cpu"
        return "copying" if self._loading[slot] else "gpu"

    def pin(self, expert: int) -> str:
        """One of plan.PINS."""
        return self._pins[expert]

    def heat(self, expert: int) -> float:
        """Decayed count of the tokens routed to `expert`."""
        return self._heat[expert] * _power(self._decay, self._now - self._heat_at[expert])

    # ---- a decoded token

    def step(self, policy: CachePolicy, routed: Sequence[int], weights: Sequence[float] | None = None) -> list[Insert]:
        """Counts a token routed to `routed` and says what to copy; each insert's slot is taken until `complete`.

        Args:
            policy: The settings in force.
            routed: Distinct experts, in any order; ids that are no expert's and repetitions are passed over.
            weights: Routing weight of each, rounded to float32 as the engine's are; NaN or None where unknown.
        """
        self._set_decay(_float32(policy.decay))
        self._now += 1
        candidates = self._note_routing(policy, routed, weights)
        inserts = self._place_pins(policy.kind, policy.insert_cap, in_token=True)
        if policy.kind in ("lru", "decay"):
            self._insert_candidates(policy, candidates, inserts)
        # The token that may have been under way when a pin freed a slot is this one, no later one.
        self._withdrawn = [None] * self.slots
        return inserts

    def _set_decay(self, decay: float) -> None:
        if decay == self._decay:
            return
        # The tokens so far cooled by the old factor.
        self._heat = [self.heat(expert) for expert in range(self.experts)]
        self._heat_at = [self._now] * self.experts
        self._decay = decay

    def _note_routing(
        self, policy: CachePolicy, routed: Sequence[int], weights: Sequence[float] | None
    ) -> list[tuple[int, int]]:
        """Updates heat and recency. Gives the candidates in order: (expert, token it was routed in before)."""
        threshold = _float32(policy.threshold)
        candidates: list[tuple[bool, float, int, int]] = []
        for place, expert in enumerate(routed):
            if not 0 <= expert < self.experts or self._routed_now(expert):
                continue
            self._heat[expert] = self.heat(expert) + 1.0
            self._heat_at[expert] = self._now
            before, self._last_routed[expert] = self._last_routed[expert], self._now
            weight = math.nan if weights is None else _float32(weights[place])
            unknown = math.isnan(weight)
            if (unknown or weight >= threshold) and self._slot_of[expert] is None and self._pins[expert] == "auto":
                candidates.append((unknown, 0.0 if unknown else -weight, expert, before))
        candidates.sort(key=lambda candidate: candidate[:2])
        return [(expert, before) for _, _, expert, before in candidates]

    def _insert_candidates(
        self, policy: CachePolicy, candidates: Sequence[tuple[int, int]], inserts: list[Insert]
    ) -> None:
        coldest = None
        looked = False  # `coldest` is up to date: it stays so until an insert
        for expert, before in candidates:
            if len(inserts) >= policy.insert_cap:
                return
            slot = self._free_slot(in_token=True)
            if slot is None:
                if not looked:
                    coldest, looked = self._coldest_slot(policy.kind, in_token=True), True
                if coldest is None:
                    return
                if not self._admitted(policy, expert, before, coldest):
                    continue
                slot = coldest
            inserts.append(self._reserve(slot, expert))
            looked = False

    def _admitted(self, policy: CachePolicy, expert: int, before: int, coldest: int) -> bool:
        """Whether a candidate is worth the slot of the coldest resident."""
        if policy.kind == "lru":
            return policy.window <= 0 or (before >= 0 and self._now - before <= policy.window)
        return self.heat(expert) > self.heat(self._holder(coldest)) * _float32(policy.margin)

    # ---- slots

    def complete(self, slot: int, expert: int, ok: bool = True) -> None:
        """A copy has ended: the expert is ready, or (not ok, or pinned to the CPU meanwhile) its slot is free again.

        Without effect when `expert` is not what `slot` is loading.
        """
        if not 0 <= slot < self.slots or self._expert_of[slot] != expert or not self._loading[slot]:
            return
        self._loading[slot] = False
        if not ok or self._pins[expert] == "cpu":
            self._release(slot)

    def _routed_now(self, expert: int | None) -> bool:
        return expert is not None and self._last_routed[expert] == self._now

    def _holder(self, slot: int) -> int:
        expert = self._expert_of[slot]
        assert expert is not None
        return expert

    def _free_slot(self, in_token: bool) -> int | None:
        if None not in self._expert_of:
            return None
        for slot, expert in enumerate(self._expert_of):
            if expert is None and not (in_token and self._routed_now(self._withdrawn[slot])):
                return slot
        return None

    def _coldest_slot(self, kind: str, in_token: bool) -> int | None:
        may_go = (
            slot
            for slot, expert in enumerate(self._expert_of)
            if expert is not None
            and not self._loading[slot]
            and self._pins[expert] != "gpu"
            and not (in_token and self._routed_now(expert))
        )
        return min(may_go, key=lambda slot: self._warmth(kind, self._holder(slot)), default=None)

    def _warmth(self, kind: str, expert: int) -> tuple[float, float]:
        """What the policy orders residents by, coldest first."""
        routed, heat = self._last_routed[expert], self.heat(expert)
        return (routed, heat) if kind == "lru" else (heat, routed)

    def _reserve(self, slot: int, expert: int) -> Insert:
        evicted = self._expert_of[slot]
        if evicted is not None:
            self._release(slot)
            self.evictions += 1
        self._expert_of[slot] = expert
        self._slot_of[expert] = slot
        self._loading[slot] = True
        self._withdrawn[slot] = None
        return Insert(expert, slot, evicted)

    def _release(self, slot: int) -> None:
        self._slot_of[self._holder(slot)] = None
        self._expert_of[slot] = None
        self._loading[slot] = False

    # ---- pins, heat, size

    def set_pin(self, expert: int, pin: str) -> None:
        """Pins an expert: `pin` is one of plan.PINS.

        A pin to the CPU frees the expert's slot at once unless it is loading; then `complete` frees it. The token
        under way may still compute from that slot: the next `step` leaves it alone where it routed to the expert.
        """
        self._pins[expert] = pin
        slot = self._slot_of[expert]
        if pin == "cpu" and slot is not None and not self._loading[slot]:
            self._release(slot)
            self._withdrawn[slot] = expert

    def _place_pins(self, kind: str, limit: int, in_token: bool) -> list[Insert]:
        inserts: list[Insert] = []
        while len(inserts) < limit:
            waiting = [e for e, pin in enumerate(self._pins) if pin == "gpu" and self._slot_of[e] is None]
            if not waiting:
                break
            slot = self._free_slot(in_token)
            if slot is None:
                slot = self._coldest_slot(kind, in_token)
            if slot is None:
                break
            inserts.append(self._reserve(slot, max(waiting, key=self.heat)))
        return inserts

    def fill(self, policy: CachePolicy, limit: int) -> list[Insert]:
        """At most `limit` inserts that need no routing.

        Pinned experts first, as in `step`, but the last token's experts may lose their slots too. Then, but not
        for manual, free slots are filled with experts that have any heat, the hottest first (equals: the lower
        number).
        """
        inserts = self._place_pins(policy.kind, limit, in_token=False)
        if policy.kind == "manual":
            return inserts
        waiting = [
            expert
            for expert in range(self.experts)
            if self._slot_of[expert] is None and self._pins[expert] == "auto" and self.heat(expert) > 0.0
        ]
        for expert in sorted(waiting, key=self.heat, reverse=True):
            slot = self._free_slot(in_token=False)
            if len(inserts) >= limit or slot is None:
                break
            inserts.append(self._reserve(slot, expert))
        return inserts

    def resize(self, policy: CachePolicy, slots: int) -> list[Move]:
        """Changes the number of slots; none may be loading. Gives the experts that keep one, by new slot.

        GPU pins are kept first, then the warmest by the policy's own measure. Who can keep its slot does, so no
        move goes into a slot that another one comes from.
        """
        slots = max(slots, 0)
        ready = [slot for slot in range(self.slots) if self._expert_of[slot] is not None and not self._loading[slot]]
        # Reversed sorting keeps equals in order: the lower slot stays.
        ready.sort(key=lambda slot: self._warmth(policy.kind, self._holder(slot)), reverse=True)
        ready.sort(key=lambda slot: self._pins[self._holder(slot)] != "gpu")
        kept = {slot: self._holder(slot) for slot in ready[:slots]}

        self._slot_of = [None] * self.experts
        self._expert_of = [kept.get(slot) for slot in range(slots)]
        self._withdrawn = [None] * slots
        self._loading = [False] * slots
        moves = []
        for source, expert in kept.items():
            target = source if source < slots else self._free_slot(in_token=False)
            assert target is not None
            self._expert_of[target] = expert
            self._slot_of[expert] = target
            moves.append(Move(expert, source, target))
        return sorted(moves, key=lambda move: move.target)

    def set_heat(self, heat: Sequence[float]) -> None:
        """Sets every expert's heat, as saved; what is not a positive number counts as 0."""
        rounded = (_float32(value) for value in heat)
        self._heat = [value if 0.0 < value < math.inf else 0.0 for value in rounded]
        self._heat_at = [self._now] * self.experts


def _float32(value: float) -> float:
    """`value` as the C interface carries it."""
    return ctypes.c_float(value).value


@lru_cache(maxsize=65536)
def _power(factor: float, exponent: int) -> float:
    """`factor` to the power of `exponent`, by multiplications only.

    `**` is the C library's, which may differ from another's by a last bit, and then from the native policy.
    """
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= factor
        factor *= factor
        exponent >>= 1
    return result
