"""The board that follows the window: when it looks, what it believes, and what it tells."""

import msgspec
import pytest
from board_factories import AnsweringEngine
from controller_driver import seen
from ui_factories import MIB, make_facts, make_machine

from app.placement.plan import ExpertPin
from app.placement.planner import Wishes, with_lanes
from app.ui.controller import Controller
from app.ui.lanes.board import AUTO, ON_CPU, ON_GPU
from app.ui.lanes.board_state import BoardState

POOL = 8 * MIB


@pytest.fixture
def engine(qapp):
    return AnsweringEngine()


@pytest.fixture
def controller(engine, store, home):
    """A probed machine and a chosen model of 4 layers with 8 experts, all in the CPU lane, with a pool; not loaded."""
    made = Controller(engine, store, home)
    made._set_machine(make_machine())
    choose(made, make_facts())
    yield made
    made.shutdown()


def choose(controller, facts, pool_bytes=POOL, **wishes):
    controller._set_facts(facts)
    plan = controller.propose_plan(Wishes(gpu="Vulkan0", pool_bytes=pool_bytes, **wishes))
    controller.set_plan(with_lanes(plan, facts, controller.machine, facts.moe_layers, "CPU"))


def load(controller, engine):
    controller.load()
    engine.answer()


@pytest.fixture
def state(controller):
    made = BoardState(controller)
    made.set_active(True)
    yield made
    made.set_active(False)


def settle(qtbot, state):
    """Let the turn of the event loop end."""
    qtbot.waitUntil(lambda: not state._soon.isActive())


def test_nothing_is_looked_at_before_somebody_looks(controller):
    state = BoardState(controller)
    assert state.board.rows == 0
    assert not controller.cache.polling
    state.set_active(True)
    assert state.board.lane.shape == (4, 8)
    assert [lane.key for lane in state.lanes] == ["Vulkan0", "CPU", "disk"]
    assert state.board.lanes == ("Vulkan0", "CPU", "disk")


def test_many_signals_in_one_turn_are_one_look(controller, state, qtbot):
    told = seen(state.changed)
    facts, machine = controller.facts, controller.machine
    for layer in range(4):
        controller.set_plan(with_lanes(controller.plan, facts, machine, (layer,), "Vulkan0"))
    controller.cache.changed.emit()
    assert told == []
    settle(qtbot, state)
    assert len(told) == 1
    assert told[0].moved == 32
    assert state.board.on("Vulkan0").all()


def test_a_resting_board_stays_as_it_is_and_catches_up_when_it_is_looked_at(controller, engine, state, qtbot):
    state.set_active(False)
    told = seen(state.changed)
    controller.set_plan(with_lanes(controller.plan, controller.facts, controller.machine, (0,), "Vulkan0"))
    load(controller, engine)
    settle(qtbot, state)
    assert told == []
    assert not state.board.on("Vulkan0").any()
    assert controller.cache.facts is None
    state.set_active(True)
    assert len(told) == 1
    assert state.board.on("Vulkan0")[0].all()


def test_a_look_that_finds_nothing_new_tells_nothing(controller, state, qtbot):
    told, lanes = seen(state.changed), seen(state.lanes_changed)
    controller.cache.changed.emit()
    controller.state_changed.emit(controller.state)
    settle(qtbot, state)
    assert (told, lanes) == ([], [])


def test_experts_appear_in_the_lane_of_the_pool_when_the_engine_says_so(controller, engine, state, qtbot):
    load(controller, engine)
    engine.cache.pin([ExpertPin(layer=2, expert=5, pin="gpu")])
    controller.cache.watch(state, experts=True)
    engine.answer()
    settle(qtbot, state)
    assert state.board.cells(state.board.on("Vulkan0")) == {2: (5,)}
    assert state.board.counted.all()
    assert state.board.slots.tolist() == [2] * 4
    assert state.pool_device == "Vulkan0"


def test_facts_of_another_model_than_the_chosen_one_are_not_shown(controller, engine, state, qtbot):
    load(controller, engine)
    settle(qtbot, state)
    assert state.shown_is_loaded
    assert state.board.counted.all()
    choose(controller, make_facts(fingerprint="77aa"))
    settle(qtbot, state)
    assert not state.shown_is_loaded
    assert (state.loaded_report, state.loaded_plan) == (None, None)
    assert not state.board.counted.any()
    controller.return_to_loaded()
    settle(qtbot, state)
    assert state.board.counted.all()


def test_an_order_is_shown_as_wanted_until_the_engine_answers(controller, engine, state, qtbot):
    load(controller, engine)
    settle(qtbot, state)
    controller.cache.send_pins({(1, 3): "gpu"})
    controller.cache.send_pins({(0, 2): "cpu"})
    settle(qtbot, state)
    assert engine.cache.facts(0, experts=True).layers[1].pins == "a" * 8
    assert (state.board.pin[1, 3], state.board.pin[0, 2]) == (ON_GPU, ON_CPU)
    assert not state.board.on("Vulkan0").any()
    engine.answer()
    settle(qtbot, state)
    assert (state.board.pin[1, 3], state.board.pin[0, 2]) == (ON_GPU, ON_CPU)
    assert state.board.cells(state.board.on("Vulkan0")) == {1: (3,)}


def test_a_report_that_is_older_than_an_order_does_not_take_the_order_back(controller, engine, state, qtbot):
    load(controller, engine)
    controller.cache.watch(state, experts=True)
    assert len(engine.waiting) == 1
    controller.cache.send_pins({(1, 3): "gpu"})
    engine.answer(1)
    settle(qtbot, state)
    assert state.board.pin[1, 3] == ON_GPU


def test_an_order_that_the_engine_refuses_is_taken_back(controller, engine, state, qtbot):
    load(controller, engine)
    settle(qtbot, state)
    refused = seen(controller.cache.refused)
    controller.cache.send_pins({(1, 3): "gpu"})
    settle(qtbot, state)
    engine.refuses = "bad_usage"
    engine.answer(1)
    engine.refuses = ""
    settle(qtbot, state)
    assert len(refused) == 1
    assert state.board.pin[1, 3] == AUTO


def test_the_selection_knows_a_change_before_it_is_told(controller, state, qtbot):
    state.selection.set(state.board.mask({3: (7,)}))
    found = []
    state.changed.connect(lambda change: found.append((change.rebuilt, state.selection.count)))
    controller.set_plan(with_lanes(controller.plan, controller.facts, controller.machine, (3,), "Vulkan0"))
    settle(qtbot, state)
    choose(controller, make_facts(layers=2))
    settle(qtbot, state)
    assert found == [(False, 1), (True, 0)]


def test_a_gpu_that_is_gone_keeps_its_lane_while_something_is_planned_there(controller, state, qtbot):
    controller.set_plan(with_lanes(controller.plan, controller.facts, controller.machine, (0,), "Vulkan0"))
    told = seen(state.lanes_changed)
    controller._set_machine(make_machine(gpu=False))
    settle(qtbot, state)
    assert len(told) == 1
    assert [lane.key for lane in state.lanes] == ["Vulkan0", "CPU", "disk"]
    assert "did not find" in state.lanes[0].note
    controller.set_plan(msgspec.structs.replace(controller.plan, gpu=None, expert_lanes=dict.fromkeys(range(4), "CPU")))
    settle(qtbot, state)
    assert [lane.key for lane in state.lanes] == ["", "CPU", "disk"]
    assert state.pool_device is None
    assert state.board.on("CPU").all()


def test_the_device_of_the_pool_has_a_lane_also_where_the_probe_did_not_find_it(controller, state, qtbot):
    controller.set_plan(msgspec.structs.replace(controller.plan, pool_device="Vulkan1"))
    settle(qtbot, state)
    assert state.pool_device == "Vulkan1"
    assert [lane.key for lane in state.lanes] == ["Vulkan0", "Vulkan1", "CPU", "disk"]


def test_other_figures_of_the_same_lanes_are_told_and_rebuild_nothing(controller, state, qtbot):
    lanes, told = seen(state.lanes_changed), seen(state.changed)
    controller._set_machine(make_machine(cpu=msgspec.structs.replace(controller.machine.cpu, name="Another CPU")))
    settle(qtbot, state)
    assert (len(lanes), told) == (1, [])


def test_a_dense_model_and_a_model_without_a_plan_have_no_cells(controller, state, qtbot):
    controller._set_facts(make_facts(fingerprint="77aa"))
    settle(qtbot, state)
    assert state.board.rows == 0
    dense = make_facts(experts=0, moe_layers=(), expert_bytes={}, experts_used=0)
    controller._set_facts(dense)
    settle(qtbot, state)
    assert state.board.lane.shape == state.selection.mask.shape == (0, 0)
    assert state.lanes
