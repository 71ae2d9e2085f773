"""Orders that the engine refuses after others were given: no order takes the blame for another."""

import pytest
from board_factories import AnsweringEngine
from controller_driver import seen
from ui_factories import MIB, make_facts, make_machine

from app.placement.plan import CachePolicy
from app.placement.planner import Wishes, with_lanes
from app.ui.controller import Controller
from app.ui.live_plan import pins_of
from app.ui.orders import Orders

DECAY = CachePolicy(kind="decay")


@pytest.fixture
def engine(qapp):
    return AnsweringEngine()


@pytest.fixture
def controller(engine, store, home):
    """A loaded model of 4 layers with 8 experts in the CPU lane, with a pool of 2 slots a layer."""
    made = Controller(engine, store, home)
    facts = make_facts()
    made._set_machine(make_machine())
    made._set_facts(facts)
    plan = made.propose_plan(Wishes(gpu="Vulkan0", pool_bytes=8 * MIB))
    made.set_plan(with_lanes(plan, facts, made.machine, range(4), "CPU"))
    made.load()
    engine.answer()
    yield made
    made.shutdown()


@pytest.fixture
def orders(controller):
    return Orders(controller)


def refuse(engine):
    engine.refuses = "out_of_memory"
    engine.answer(1)
    engine.refuses = ""


def test_a_refused_size_does_not_take_back_the_pin_that_was_ordered_after_it(controller, engine, orders):
    refused = seen(orders.refused)
    orders.set_pool(16 * MIB)
    orders.pin({1: (3,)}, "cpu")
    refuse(engine)
    engine.answer()
    assert len(refused) == 1
    assert "the 2 steps before it cannot be undone any more" in refused[0].text
    for plan in (controller.plan, controller.loaded_plan):
        assert (plan.pool_bytes, pins_of(plan)) == (8 * MIB, {(1, 3): "cpu"})
    assert engine.cache.facts(0, experts=True).layers[1].pins == "aaacaaaa"
    assert not orders.stack.canUndo()


def test_a_refused_pin_does_not_take_back_the_one_ordered_after_it(controller, engine, orders):
    orders.pin({1: (3,)}, "cpu")
    orders.pin({2: (0,)}, "gpu")
    refuse(engine)
    engine.answer()
    assert pins_of(controller.plan) == pins_of(controller.loaded_plan) == {(2, 0): "gpu"}
    assert controller.cache.carried(controller.facts, controller.machine, controller.plan) is controller.plan


def test_a_refused_size_does_not_take_back_the_layer_that_was_moved_after_it(controller, engine, orders):
    orders.set_pool(16 * MIB)
    orders.move_layers((0,), "Vulkan0")
    refuse(engine)
    assert controller.plan.expert_lanes[0] == "Vulkan0"
    assert controller.plan.pool_bytes == controller.loaded_plan.pool_bytes == 8 * MIB


def test_a_step_back_that_is_refused_is_not_taken_and_ends_the_history(controller, engine, orders):
    orders.set_policy(DECAY)
    orders.pin({1: (3,)}, "cpu")
    engine.answer()
    orders.stack.undo()
    refuse(engine)
    assert pins_of(controller.plan) == {(1, 3): "cpu"}
    assert controller.plan.policy == DECAY
    assert orders.stack.count() == 0


def test_a_refused_policy_leaves_the_one_that_was_taken_before(controller, engine, orders):
    orders.set_policy(DECAY)
    engine.answer()
    orders.set_policy(CachePolicy(kind="frozen"))
    refuse(engine)
    assert controller.plan.policy == controller.loaded_plan.policy == DECAY
    assert orders.stack.count() == orders.stack.index() == 1
    orders.stack.undo()
    assert controller.plan.policy == CachePolicy()


def test_the_pins_of_a_layer_that_is_to_go_to_a_gpu_come_back_with_it(controller, engine, orders):
    orders.pin({0: (3,)}, "cpu")
    orders.move_layers((0,), "Vulkan0")
    orders.discard()
    orders.stack.undo()
    assert controller.plan.expert_lanes[0] == "Vulkan0"
    assert pins_of(controller.plan) == {(0, 3): "cpu"}
    orders.stack.undo()
    assert (controller.plan.expert_lanes[0], pins_of(controller.plan)) == ("CPU", {(0, 3): "cpu"})


def test_a_refused_order_does_not_take_back_the_same_one_that_was_given_again(controller, engine, orders):
    orders.pin({1: (3,)}, "cpu")
    orders.stack.undo()
    orders.stack.redo()
    refuse(engine)
    engine.answer()
    assert pins_of(controller.plan) == pins_of(controller.loaded_plan) == {(1, 3): "cpu"}
    assert engine.cache.facts(0, experts=True).layers[1].pins == "aaacaaaa"


def test_a_refused_policy_does_not_take_back_the_same_one_that_was_given_again(controller, engine, orders):
    orders.set_policy(DECAY)
    orders.stack.undo()
    orders.stack.redo()
    refuse(engine)
    engine.answer()
    assert controller.plan.policy == controller.loaded_plan.policy == engine.cache.policy == DECAY


def test_of_two_orders_for_one_expert_that_are_both_refused_nothing_is_left(controller, engine, orders):
    orders.pin({1: (3,)}, "cpu")
    orders.pin({1: (3,)}, "gpu")
    refuse(engine)
    assert pins_of(controller.plan) == {(1, 3): "gpu"}  # which the engine has not answered yet
    refuse(engine)
    engine.answer()
    assert pins_of(controller.plan) == pins_of(controller.loaded_plan) == {}
    assert controller.cache.carried(controller.facts, controller.machine, controller.plan) is controller.plan


def test_a_size_that_is_refused_while_another_model_is_shown_is_not_what_the_loaded_one_has(controller, engine, orders):
    loaded = controller.loaded_facts
    orders.set_pool(16 * MIB)
    controller._set_facts(make_facts(fingerprint="0b0e"))
    refuse(engine)
    assert controller.loaded_plan.pool_bytes == 8 * MIB
    controller.return_to_loaded()
    assert (controller.facts, controller.plan.pool_bytes) == (loaded, 8 * MIB)


def test_a_pin_ordered_during_the_load_of_a_model_that_is_left_is_not_taken_for_the_engines(controller, engine, orders):
    controller.load()
    orders.pin({1: (3,)}, "cpu")
    controller._set_facts(make_facts(fingerprint="0b0e"))
    engine.answer()
    controller.return_to_loaded()
    assert pins_of(controller.plan) == {}
    assert controller.cache.carried(controller.facts, controller.machine, controller.plan) is controller.plan
