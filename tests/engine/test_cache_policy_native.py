"""The native cache policy beside the Python one: the same settings and routings, the same decisions and heat."""

import ctypes
import math
import random
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_policy import TESTS, Counts, NativePolicy, build_with_policy, load_policy

from app.placement.cache.policy import Insert, LayerPolicy
from app.placement.cache.replay import LayerPool, replay
from app.placement.plan import PINS, POLICIES, CachePolicy, ExpertPin

EXPERTS = 7


def python_state(layer):
    experts = range(layer.experts)
    heat = [layer.heat(expert) for expert in experts]
    return {
        "heat": heat,
        "single": [ctypes.c_float(value).value for value in heat],
        "lane": [layer.lane(expert) for expert in experts],
        "slot": [layer.ready_slot(expert) for expert in experts],
        "pin": [layer.pin(expert) for expert in experts],
        **{name: getattr(layer, name) for name, _ in Counts._fields_},
    }


class Both:
    """Both policies driven alike. Whatever happens, they agree, and what must always hold does."""

    def __init__(self, library):
        self.python = LayerPolicy(EXPERTS)
        self.native = NativePolicy(library, EXPERTS)
        self.policy = CachePolicy()
        self.copying: list[Insert] = []

    def do(self, action, *arguments):
        getattr(self, action)(*arguments)
        state = python_state(self.python)
        assert self.native.state() == state
        held = [slot for slot in state["slot"] if slot is not None] + [insert.slot for insert in self.copying]
        assert len(held) == len(set(held)), "two experts in one slot"
        assert all(0 <= slot < state["slots"] for slot in held)
        assert all(lane != "gpu" or pin != "cpu" for lane, pin in zip(state["lane"], state["pin"], strict=True))

    def settle(self, policy):
        self.policy = policy

    def step(self, routing):
        routed = [expert for expert, _ in routing]
        weights = [weight for _, weight in routing]
        used = {expert for expert in routed if 0 <= expert < EXPERTS and self.python.ready_slot(expert) is not None}
        assert len(used) <= self.python.slots
        inserts = self._same("step", self.policy, routed, weights)
        self._accept(inserts, self.policy.insert_cap)
        assert not used & {insert.evicted for insert in inserts}
        if self.policy.kind in ("frozen", "manual"):
            assert all(self.python.pin(insert.expert) == "gpu" for insert in inserts)

    def pin_while_it_computes(self, expert, others):
        """A pin to the CPU that comes when the token has looked its hits up: nothing may be copied over one."""
        slot = self.python.ready_slot(expert)
        self.set_pin(expert, "cpu")
        inserts = self._same("step", self.policy, [expert, *others], [1.0] * (1 + len(others)))
        assert slot is None or slot not in {insert.slot for insert in inserts}
        self._accept(inserts, self.policy.insert_cap)

    def step_without_weights(self, routed):
        self._accept(self._same("step", self.policy, routed), self.policy.insert_cap)

    def fill(self, limit):
        self._accept(self._same("fill", self.policy, limit), limit)
        if limit >= EXPERTS and not self.copying_unpinned():
            waiting = [e for e in range(EXPERTS) if self.python.pin(e) == "gpu" and self.python.lane(e) == "cpu"]
            assert len(waiting) == self.python.unplaced_pins, "a pin waits beside a slot that it could have"

    def complete(self, which, ok):
        if self.copying:
            insert = self.copying.pop(which % len(self.copying))
            self._same("complete", insert.slot, insert.expert, ok)
        else:  # of no copy: without effect
            self._same("complete", which - 1, which, ok)

    def set_pin(self, expert, pin):
        self._same("set_pin", expert, pin)

    def set_heat_and_pins(self, heat, pinned):
        self._same("set_heat", heat)
        for expert in pinned:
            self.set_pin(expert, "gpu")

    def set_heat(self, heat):
        self._same("set_heat", heat)

    def resize(self, slots, ok):
        while self.copying:
            self.complete(0, ok)
        pinned = {e for e in range(EXPERTS) if self.python.lane(e) == "gpu" and self.python.pin(e) == "gpu"}
        residents = self.python.resident
        moves = self._same("resize", self.policy, slots)
        assert len(moves) == min(residents, slots)
        kept = {move.expert for move in moves}
        assert pinned <= kept or kept <= pinned, "an expert without a pin was kept before one with"
        assert all(move.source == move.target or move.source >= slots for move in moves)

    def copying_unpinned(self):
        return [insert for insert in self.copying if self.python.pin(insert.expert) != "gpu"]

    def _same(self, name, *arguments):
        mine = getattr(self.python, name)(*arguments)
        assert getattr(self.native, name)(*arguments) == mine
        return mine

    def _accept(self, inserts, most):
        assert len(inserts) <= most
        for insert in inserts:
            assert self.python.pin(insert.expert) != "cpu"
            assert insert.evicted is None or self.python.pin(insert.evicted) == "auto"
        self.copying += inserts


experts = st.integers(0, EXPERTS - 1)
known_weights = st.floats(0, 1, width=32)
policies = st.builds(
    CachePolicy,
    kind=st.sampled_from(POLICIES),
    insert_cap=st.integers(1, 4),
    window=st.sampled_from([0, 1, 2, 5, 64]),
    # Doubles that are no float32: both sides must round them alike.
    decay=st.sampled_from([1.0, 0.98, 0.9, 0.7]) | st.floats(0.01, 1),
    margin=st.sampled_from([1.0, 1.1, 2.0]) | st.floats(1, 4),
    threshold=st.sampled_from([0.0, 0.0, 0.1, 0.5]) | known_weights,
)
steps = st.lists(
    st.tuples(
        # Few experts come often, as in real routings; ids that are none's come too.
        st.integers(0, 4) | st.integers(-1, EXPERTS),
        st.sampled_from([0.1, 0.1, 0.25, math.nan]) | known_weights,
    ),
    max_size=5,
)
actions = st.one_of(
    st.tuples(st.just("step"), steps),
    st.tuples(st.just("step"), steps),
    st.tuples(st.just("step"), steps),
    st.tuples(st.just("step_without_weights"), st.lists(experts, max_size=4)),
    st.tuples(st.just("pin_while_it_computes"), experts, st.lists(experts, max_size=3)),
    st.tuples(st.just("complete"), experts, st.sampled_from([True, True, True, False])),
    st.tuples(st.just("complete"), experts, st.just(True)),
    st.tuples(st.just("set_pin"), experts, st.sampled_from(PINS)),
    st.tuples(st.just("fill"), st.integers(0, 3) | st.just(EXPERTS)),
    st.tuples(st.just("settle"), policies),
    st.tuples(st.just("resize"), st.integers(0, EXPERTS), st.booleans()),
    st.tuples(
        st.just("set_heat"),
        st.lists(
            st.sampled_from([0.0, 1.0, 2.5]) | st.floats(-1, 1e6) | st.sampled_from([math.nan, math.inf, -math.inf]),
            min_size=EXPERTS,
            max_size=EXPERTS,
        ),
    ),
)


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """policy.cpp and its C face, compiled."""
    return load_policy(tmp_path_factory.mktemp("policy"))


@settings(max_examples=400, deadline=None)
@given(policies, st.integers(0, EXPERTS), st.lists(actions, max_size=50))
def test_both_policies_decide_alike_whatever_is_routed_pinned_resized_or_fails(library, policy, slots, order):
    both = Both(library)
    both.do("settle", policy)
    both.do("resize", slots, True)
    for action in order:
        both.do(*action)


@settings(max_examples=100, deadline=None)
@given(policies, st.integers(1, EXPERTS), st.lists(steps, min_size=20, max_size=60), st.integers(0, 3))
def test_both_policies_decide_alike_while_copies_come_late(library, policy, slots, routings, late):
    both = Both(library)
    both.do("settle", policy)
    both.do("resize", slots, True)
    for routing in routings:
        both.do("step", routing)
        while len(both.copying) > late:
            both.do("complete", 0, True)


def plain_action(chance):
    """An action of a long drive, with few different figures so that equals are common."""
    expert = chance.randrange(EXPERTS)
    routed = chance.sample(range(EXPERTS), chance.randint(1, 3))
    others = [other for other in routed if other != expert]
    policy = CachePolicy(
        kind=chance.choice(POLICIES),
        insert_cap=chance.randint(1, 3),
        window=chance.choice([0, 0, 1, 3]),
        decay=chance.choice([1.0, 1.0, 0.5, 0.98]),
        margin=chance.choice([1.0, 2.0]),
        threshold=chance.choice([0.0, 0.5]),
    )
    kinds = [
        (40, ("step", [(one, chance.choice([0.25, 0.5, 0.5, math.nan])) for one in routed])),
        (30, ("complete", expert, chance.random() < 0.9)),
        (10, ("set_pin", expert, chance.choice(PINS))),
        (4, ("pin_while_it_computes", expert, others)),
        (30, ("set_pin", expert, "auto")),
        (5, ("fill", chance.randint(0, EXPERTS))),
        (3, ("settle", policy)),
        (2, ("resize", chance.randint(1, 4), True)),
        (3, ("set_heat_and_pins", [float(chance.randrange(3)) for _ in range(EXPERTS)], routed)),
    ]
    return chance.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])[0]


@pytest.mark.parametrize("seed", range(3))
def test_both_policies_decide_alike_through_thousands_of_actions(library, seed):
    both = Both(library)
    chance = random.Random(seed)
    both.do("resize", 3, True)
    for _ in range(6000):
        both.do(*plain_action(chance))
    assert both.python.evictions > 100


def recorded_trace(tokens=400, layers=2, experts=32, used=4, seed=5):
    """A routing as skewed and as sticky as real ones: a token keeps half of the last one's experts."""
    random = np.random.default_rng(seed)
    popular = 1.0 / np.arange(1, experts + 1) ** 1.1
    popular /= popular.sum()
    trace = []
    last = {layer: [] for layer in range(layers)}
    for token in range(tokens):
        for layer in range(layers):
            kept = [expert for expert in last[layer] if random.random() < 0.5]
            fresh = random.choice(experts, size=experts, replace=False, p=popular).tolist()
            routed = (kept + [expert for expert in fresh if expert not in kept])[:used]
            weights = random.dirichlet(np.ones(used)).astype(np.float32).tolist()
            trace += [(token, layer, expert, weight) for expert, weight in zip(routed, weights, strict=True)]
            last[layer] = routed
    return trace


@pytest.mark.parametrize("kind", POLICIES)
def test_the_native_policy_repeats_every_decision_of_a_replayed_trace(library, kind):
    trace = recorded_trace()
    policy = CachePolicy(kind=kind, window=16, threshold=0.05)
    pins = [ExpertPin(layer=0, expert=30, pin="gpu"), ExpertPin(layer=1, expert=0, pin="cpu")]
    heat = {1: [float(expert % 7) for expert in range(32)]}
    simulated = replay(trace, {0: LayerPool(32, 9), 1: LayerPool(32, 9)}, policy, pins=pins, heat=heat)
    for layer, its in simulated.items():
        beside = NativePolicy(library, 32)
        beside.resize(policy, 9)
        for pin in pins:
            if pin.layer == layer:
                beside.set_pin(pin.expert, pin.pin)
        if layer in heat:
            beside.set_heat(heat[layer])
        decisions = beside.fill(policy, 9)
        for insert in decisions:
            beside.complete(insert.slot, insert.expert)
        hits = misses = 0
        for token in range(400):
            entries = [entry for entry in trace if entry[:2] == (token, layer)]
            ready = [beside.ready_slot(expert) is not None for _, _, expert, _ in entries]
            hits += sum(ready)
            misses += len(ready) - sum(ready)
            inserts = beside.step(policy, [entry[2] for entry in entries], [entry[3] for entry in entries])
            decisions += inserts
            for insert in inserts:
                beside.complete(insert.slot, insert.expert)
        assert decisions == [decision.insert for decision in its.decisions]
        assert (hits, misses, beside.evictions) == (its.hits, its.misses, its.evictions)
        if kind in ("lru", "decay"):
            assert its.evictions > 30
            assert its.hits > 400


def test_a_long_random_drive_of_the_native_policy_runs_clean_under_sanitizers(tmp_path):
    program = tmp_path / "policy_test"
    build_with_policy(
        "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
        str(TESTS / "policy_test.cpp"), "-o", str(program),
    )  # fmt: skip
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "ok"
