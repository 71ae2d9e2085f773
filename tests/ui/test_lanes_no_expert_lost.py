"""Whatever is done by hand and whatever the engine tells: every expert is in exactly one lane, and where it belongs."""

import msgspec
import numpy as np
import pytest
from board_factories import AnsweringEngine
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from PySide6.QtCore import QCoreApplication
from ui_factories import GIB, GPU, MIB, make_facts, make_machine

from app.hardware.facts import Ram
from app.placement.plan import CPU_LANE, DISK_LANE
from app.placement.planner import Wishes, with_lanes
from app.ui.controller import Controller
from app.ui.lanes.board import PIN_WORDS
from app.ui.lanes.board_state import BoardState
from app.ui.lanes.packing import Packing
from app.ui.orders import Orders
from app.ui.refusals import planned_slots

TWO_GPUS = make_machine(gpus=(GPU, msgspec.structs.replace(GPU, device="Vulkan1")))
LITTLE_MEMORY = make_machine(ram=Ram(total_bytes=16 * GIB, available_bytes=1040 * MIB))  # for two layers of four
MACHINES = (TWO_GPUS, make_machine(), LITTLE_MEMORY, make_machine(gpu=False))
MODELS = (
    make_facts(),
    make_facts(fingerprint="0b0e"),
    make_facts(layers=3, experts=5, moe_layers=(1, 2), expert_bytes={1: MIB, 2: 2 * MIB}, fingerprint="77aa"),
    make_facts(layers=2, experts=0, used=0, moe_layers=(), expert_bytes={}, fingerprint="de5e"),
)
LANES = ("Vulkan0", "Vulkan1", CPU_LANE, DISK_LANE, "")
PIN_OF_LETTER = {"a": "auto", "g": "gpu", "c": "cpu"}

CELLS = st.dictionaries(
    st.integers(0, 4),
    st.lists(st.integers(0, 8), min_size=1, max_size=5, unique=True).map(tuple),
    min_size=1,
    max_size=4,
)
LETTERS = st.dictionaries(st.integers(0, 3), st.text("gcm", min_size=8, max_size=8), max_size=4)


class Hands(RuleBasedStateMachine):
    """A user's hands on a board, with an engine that answers late, refuses, and tells whatever it likes."""

    def __init__(self, store, home):
        super().__init__()
        self.engine = AnsweringEngine()
        self.controller = Controller(self.engine, store, home)
        self.controller.cache._poll.setInterval(10**8)  # no clock: reads are a rule
        self.orders = Orders(self.controller)
        self.state = BoardState(self.controller)
        self.state.changed.connect(self.follow)
        self.lanes_seen = self.state.board.lane.copy()
        self.selected = {}
        self.refusals = []
        self.first_plan = None
        self.orders.refused.connect(self.refusals.append)
        self.state.set_active(True)

    def teardown(self):
        self.state.set_active(False)
        self.controller.shutdown()
        for made in (self.state, self.orders, self.controller, self.engine):
            made.deleteLater()

    def follow(self, change):
        """What a view does: it knows of moves only what it is told."""
        if change.rebuilt:
            self.lanes_seen = self.state.board.lane.copy()
            self.selected = {}
            return
        assert (self.lanes_seen[change.rows, change.experts] == change.before).all()
        self.lanes_seen[change.rows, change.experts] = change.after

    def turn(self):
        """The turn of the event loop ends."""
        QCoreApplication.processEvents()
        assert not self.state._soon.isActive()

    # ---- the window ---------------------------------------------------------------------------

    @initialize(machine=st.sampled_from(MACHINES), pool=st.integers(0, 24), loaded=st.booleans())
    def open(self, machine, pool, loaded):
        self.controller._set_machine(machine)
        self.choose(MODELS[0], pool)
        if loaded:
            self.load(answered=True)

    def choose(self, facts, pool):
        """Another model, its layers in the CPU lane and a pool of so many MiB on the first GPU.

        With an odd number of them the experts stay in the file.
        """
        controller = self.controller
        gpu = controller.machine.gpus[0].device if controller.machine.gpus else None
        controller._set_facts(facts)
        residency = "mapped" if pool % 2 and facts.moe_layers else None
        plan = controller.propose_plan(Wishes(gpu=gpu, pool_bytes=pool * MIB if gpu else 0, residency=residency))
        controller.set_plan(with_lanes(plan, facts, controller.machine, facts.moe_layers, CPU_LANE))

    @rule(answered=st.booleans())
    def load(self, answered):
        self.engine.experts = self.controller.facts.expert_count
        self.controller.load()
        if answered:
            self.engine.answer()

    @rule(
        what=st.sampled_from(("model", "model", "machine", "loaded model", "engine", "eyes")),
        model=st.sampled_from((*MODELS, MODELS[1])),
        machine=st.sampled_from(MACHINES),
        pool=st.integers(0, 24),
    )
    def disturb(self, what, model, machine, pool):
        """What ends a history, or comes between."""
        if what == "model":
            self.choose(model, pool)
        elif what == "machine":
            self.controller._set_machine(machine)
        elif what == "loaded model":
            self.controller.return_to_loaded()
        elif what == "engine":
            self.controller.end_engine()
        else:
            self.state.set_active(False)
            self.state.set_active(True)

    # ---- the engine ---------------------------------------------------------------------------

    @rule(most=st.integers(1, 3))
    def answer(self, most):
        self.engine.answer(most)

    @rule()
    def answer_everything(self):
        self.engine.answer()

    @precondition(lambda self: self.engine.waiting)
    @rule()
    def refuse(self):
        self.engine.refuses = "bad_usage"
        self.engine.answer(1)
        self.engine.refuses = ""

    @precondition(lambda self: self.controller.loaded_facts is not None)
    @rule(told=LETTERS, tokens=st.integers(0, 5))
    def tell(self, told, tokens):
        """A live update: counts grow, and experts are wherever the engine says."""
        experts = self.controller.loaded_facts.expert_count
        self.engine.told = {layer: letters[:experts] for layer, letters in told.items()}
        for _ in range(tokens if self.engine.cache else 0):
            self.engine.cache.decode()
        self.controller.cache._read()

    # ---- the hands ----------------------------------------------------------------------------

    @rule(cells=CELLS, pin=st.sampled_from(PIN_WORDS))
    def pin(self, cells, pin):
        self.orders.pin(cells, pin)

    @rule(cells=CELLS, lane=st.sampled_from(LANES))
    def drag(self, cells, lane):
        self.orders.to_lane(cells, lane)

    @rule(layers=st.lists(st.integers(0, 3), unique=True, min_size=1, max_size=4), lane=st.sampled_from(LANES))
    def drag_layers(self, layers, lane):
        known = self.controller.plan.expert_lanes
        self.orders.move_layers([layer for layer in layers if layer in known], lane)

    @rule(mib=st.integers(0, 60))
    def resize_pool(self, mib):
        self.orders.set_pool(mib * MIB)

    @rule(mib=st.sampled_from((None, 0, 1, 5, 9, 40)))
    def budget_memory(self, mib):
        self.orders.set_memory(None if mib is None else mib * MIB)

    @rule(warm=st.booleans())
    def warm_up_or_release(self, warm):
        cache = self.controller.cache
        (cache.warm_memory if warm else cache.release_memory)()

    @precondition(lambda self: self.refusals and self.refusals[-1].offers)
    @rule(which=st.integers(0, 3))
    def take_an_offer(self, which):
        offers = self.refusals[-1].offers
        self.refusals.clear()
        offers[which % len(offers)].take()

    @rule()
    def discard(self):
        self.orders.discard()

    @rule()
    def undo(self):
        self.orders.stack.undo()

    @rule()
    def redo(self):
        self.orders.stack.redo()

    @precondition(lambda self: self.orders.stack.index())
    @rule()
    def undo_everything_and_redo_it(self):
        self.engine.answer()
        self.turn()
        stack, plan, pins = self.orders.stack, self.controller.plan, self.state.board.pin.copy()
        steps = stack.index()
        for _ in range(steps):
            stack.undo()
            self.engine.answer()
        assert self.controller.plan.loads_like(self.first_plan)
        for _ in range(steps):
            stack.redo()
            self.engine.answer()
        self.turn()
        assert stack.index() == steps
        assert self.controller.plan == plan
        assert (self.state.board.pin == pins).all()

    @rule(cells=CELLS, how=st.sampled_from(("set", "add", "toggle")))
    def select(self, cells, how):
        self.turn()
        board = self.state.board
        mask = board.mask(cells)
        chosen = {(layer, expert) for layer, experts in board.cells(mask).items() for expert in experts}
        before = {(layer, expert) for layer, experts in self.selected.items() for expert in experts}
        after = {"set": chosen, "add": before | chosen, "toggle": before ^ chosen}[how]
        getattr(self.state.selection, how)(mask)
        self.selected = {
            layer: tuple(sorted(expert for its, expert in after if its == layer)) for layer in sorted(dict(after))
        }

    # ---- what holds ---------------------------------------------------------------------------

    @invariant()
    def remember_where_the_history_begins(self):
        self.turn()
        if not self.orders.stack.count():
            self.first_plan = self.plan_as_told()

    @invariant()
    def every_expert_is_in_one_lane_and_in_one_place_of_it(self):
        board = self.state.board
        packings = [Packing(board.on(lane)) for lane in board.lanes]
        assert sum(packing.cells for packing in packings) == board.rows * board.experts
        found = np.zeros(board.lane.shape, int)
        for packing in packings:
            for row, experts in packing.order.items():
                found[row, experts] += 1
                for expert in experts:
                    assert packing.cell_at(*packing.place_of(row, expert)) == (row, expert)
        assert (found == 1).all()
        assert self.state.selection.mask.shape == board.lane.shape

    @invariant()
    def every_expert_is_where_the_plan_or_the_engine_has_it(self):
        self.turn()
        board, plan = self.state.board, self.controller.plan
        facts = self.controller.facts
        if facts is None:
            return
        assert board.layers == facts.moe_layers
        assert board.experts == (facts.expert_count if facts.moe_layers else 0)
        expected = [self.row_by_rule(layer, facts, plan) for layer in board.layers]
        shown = [
            [(board.lanes[lane], PIN_WORDS[pin]) for lane, pin in zip(board.lane[row], board.pin[row], strict=True)]
            for row in range(board.rows)
        ]
        assert shown == expected
        told = [self.told_of(layer) for layer in board.layers]
        assert board.counted.tolist() == [its is not None for its in told]
        assert board.routed.tolist() == [list(its.routed) if its else [0] * board.experts for its in told]

    @invariant()
    def views_that_follow_the_changes_show_the_same(self):
        self.turn()
        assert (self.lanes_seen == self.state.board.lane).all()
        assert self.state.selection.cells() == self.selected
        assert [lane.key for lane in self.state.lanes] == list(self.state.board.lanes)

    def plan_as_told(self):
        """The plan with what the engine was told since its load: where an order begins."""
        controller = self.controller
        if controller.plan is None or controller.loaded_facts is not controller.facts:
            return controller.plan
        return controller.cache.carried(controller.facts, controller.machine, controller.plan)

    def told_of(self, layer):
        """What the engine told of a layer of the model shown."""
        controller = self.controller
        if controller.cache.facts is None or controller.loaded_facts is not controller.facts:
            return None
        return controller.cache.facts.layers.get(layer)

    def row_by_rule(self, layer, facts, plan):
        """Lane and pin of each expert of a layer, one by one, from the plan and the engine's facts."""
        cache, device, told = self.controller.cache, self.state.pool_device, self.told_of(layer)
        pins = {(pin.layer, pin.expert): pin.pin for pin in plan.pins}
        ordered = cache.ordered if self.state.shown_is_loaded else {}
        home = plan.expert_lanes[layer]
        room = planned_slots(plan.expert_lanes, facts, plan, pins).get(layer, 0)
        row = []
        for expert in range(facts.expert_count):
            pin = PIN_OF_LETTER[told.pins[expert]] if told else pins.get((layer, expert), "auto")
            if told:
                in_pool = told.lanes[expert] == "g"
            else:
                in_pool = pin == "gpu" and room > 0
                room -= in_pool
            where = told.memory[expert] if told and told.memory and home in (CPU_LANE, DISK_LANE) else ""
            there = in_pool and device is not None and home in (CPU_LANE, DISK_LANE)
            by_memory = {"r": CPU_LANE, "d": DISK_LANE}.get(where, home)
            row.append((device if there else by_memory, ordered.get((layer, expert), pin)))
        return row


@pytest.mark.usefixtures("qapp")
def test_no_sequence_of_moves_undo_and_live_updates_loses_or_duplicates_an_expert(store, home):
    run_state_machine_as_test(
        lambda: Hands(store, home),
        settings=settings(
            max_examples=100,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
