"""Orders over the scripted engine: what reaches it at once, what waits for a load, and that steps undo exactly."""

import json

import msgspec
import pytest
from controller_driver import PATIENCE, answer, choose, seen, until
from PySide6.QtCore import QObject
from ui_factories import MIB

from app.placement.plan import CachePolicy
from app.placement.planner import Wishes, with_lanes
from app.ui.controller import ANSWERING, READY
from app.ui.live_plan import pins_of, with_pool_bytes
from app.ui.orders import Orders

DECAY = CachePolicy(kind="decay")


@pytest.fixture
def live(loaded_controller, qtbot):
    """`live(*engine_arguments, pool=16 MiB)`: controller and orders over a loaded model, 4 layers on the CPU lane."""
    watchers = []

    def make(*arguments, pool=16 * MIB):
        controller = loaded_controller(*arguments)
        plan = with_lanes(controller.plan, controller.facts, controller.machine, range(4), "CPU")
        controller.set_plan(with_pool_bytes(plan, pool, controller.facts, controller.machine))
        with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
            controller.load()
        watchers.append(QObject())
        controller.cache.watch(watchers[-1], experts=True)
        until(qtbot, lambda: controller.cache.facts is not None and bool(controller.cache.facts.layers))
        return controller, Orders(controller, controller)

    return make


@pytest.fixture
def planned(make_controller, qtbot, home):
    """`planned()`: controller and orders over a model that is chosen and not loaded."""

    def make(wishes=None, **changes):
        controller = make_controller()
        choose(qtbot, controller, home)
        plan = with_lanes(controller.plan, controller.facts, controller.machine, range(4), "CPU")
        controller.set_plan(msgspec.structs.replace(plan, **changes))
        return controller, Orders(controller, controller)

    return make


def engine_pins(controller):
    return {layer: its.pins for layer, its in controller.cache.facts.layers.items()}


def engine_pool(controller):
    return controller.cache.facts.pool.requested_bytes


def settled(qtbot, controller):
    until(qtbot, lambda: not controller.cache.ordered and not controller.cache.resizing)


def sent(record, kind):
    return [request for line in record.read_text().splitlines() if (request := json.loads(line))["type"] == kind]


def test_a_pin_reaches_the_engine_at_once_and_stays_in_the_plan(live, qtbot):
    controller, orders = live("--hold-after", 2)
    done = seen(orders.moved)
    controller.ask("Go on")
    assert orders.pin({1: (0, 3)}, "gpu")
    assert pins_of(controller.plan) == pins_of(controller.loaded_plan) == {(1, 0): "gpu", (1, 3): "gpu"}
    until(qtbot, lambda: engine_pins(controller)[1] == "gaagaaaa")
    assert controller.state == ANSWERING
    assert (done[0].text, done[0].cells) == ("keeping 2 experts on the GPU", {1: (0, 3)})
    orders.stack.undo()
    assert controller.plan.pins == ()
    until(qtbot, lambda: engine_pins(controller)[1] == "a" * 8)
    orders.stack.redo()
    until(qtbot, lambda: engine_pins(controller)[1] == "gaagaaaa")
    controller.stop()
    until(qtbot, lambda: controller.state == READY)


def test_undoing_gives_every_cell_the_pin_it_had(live, qtbot):
    controller, orders = live()
    orders.pin({0: (1,)}, "gpu")
    orders.pin({0: (2,)}, "cpu")
    orders.pin({0: (1, 2, 3)}, "cpu")
    until(qtbot, lambda: engine_pins(controller)[0] == "acccaaaa")
    orders.stack.undo()
    until(qtbot, lambda: engine_pins(controller)[0] == "agcaaaaa")
    orders.stack.undo()
    orders.stack.undo()
    until(qtbot, lambda: engine_pins(controller)[0] == "a" * 8)
    assert not orders.stack.canUndo()


def test_a_partial_refusal_does_what_can_be_done_and_tells_the_rest(live, qtbot):
    controller, orders = live(pool=8 * MIB)  # 2 slots a layer
    refused = seen(orders.refused)
    assert orders.pin({0: (0, 1, 2), 1: (5,)}, "gpu")
    assert pins_of(controller.plan) == {(1, 5): "gpu"}
    (refusal,) = refused
    assert "Layer 0 has 2 slots" in refusal.text
    assert [offer.text.split(" ")[0] for offer in refusal.offers] == ["Grow", "Keep"]


def test_an_offer_grows_the_pool_and_pins_in_one_step(live, qtbot):
    controller, orders = live(pool=8 * MIB)
    refused = seen(orders.refused)
    assert not orders.pin({0: (0, 1, 2)}, "gpu")
    refused[0].offers[0].take()
    settled(qtbot, controller)
    until(qtbot, lambda: controller.cache.facts.layers[0].lanes.startswith("ggg"))
    assert engine_pool(controller) == controller.plan.pool_bytes == 10 * MIB
    assert orders.stack.count() == 1
    orders.stack.undo()
    until(qtbot, lambda: engine_pool(controller) == 8 * MIB and engine_pins(controller)[0] == "a" * 8)


def test_experts_sent_to_lanes_are_pinned_and_the_disk_takes_none(live, qtbot):
    controller, orders = live()
    refused = seen(orders.refused)
    assert orders.to_lane({2: (4,)}, "Vulkan0")
    assert orders.to_lane({2: (5,)}, "CPU")
    until(qtbot, lambda: engine_pins(controller)[2] == "aaaagcaa")
    assert not orders.to_lane({2: (6,)}, "disk")
    assert "follows from main memory" in refused[0].text
    refused[0].offers[0].take()
    until(qtbot, lambda: engine_pins(controller)[2] == "aaaagcca")


def test_the_pool_is_resized_live_and_a_gesture_is_one_step(live, qtbot):
    controller, orders = live("--pool-ms", 20)
    gesture = object()
    for mib in (18, 20, 22):
        assert orders.set_pool(mib * MIB, gesture)
    assert controller.plan.pool_bytes == controller.loaded_plan.pool_bytes == 22 * MIB
    until(qtbot, lambda: engine_pool(controller) == 22 * MIB)
    assert orders.stack.count() == 1
    orders.set_pool(24 * MIB)
    assert orders.stack.count() == 2
    orders.stack.undo()
    orders.stack.undo()
    until(qtbot, lambda: engine_pool(controller) == 16 * MIB)
    assert controller.plan.pool_bytes == 16 * MIB
    assert {part.bytes for part in controller.plan.memory if part.part == "pool"} == {16 * MIB}


def test_a_gesture_that_comes_back_to_where_it_began_is_no_step(live):
    controller, orders = live()
    gesture = object()
    orders.set_pool(20 * MIB, gesture)
    orders.set_pool(16 * MIB, gesture)
    assert orders.stack.count() == 0
    assert controller.plan.pool_bytes == 16 * MIB


def test_a_pool_beyond_what_the_experts_need_gets_that_and_is_told(live, qtbot):
    controller, orders = live()
    refused = seen(orders.refused)
    assert orders.set_pool(64 * MIB)
    assert controller.plan.pool_bytes == 32 * MIB
    assert "needs no more than 32.0 MiB" in refused[0].text
    assert not orders.set_pool(64 * MIB)


def test_a_policy_reaches_the_engine_and_undoes(live, qtbot):
    controller, orders = live()
    before = controller.plan.policy
    assert orders.set_policy(DECAY)
    assert not orders.set_policy(DECAY)
    until(qtbot, lambda: controller.cache.facts.policy == DECAY)
    assert controller.plan.policy == controller.loaded_plan.policy == DECAY
    orders.stack.undo()
    until(qtbot, lambda: controller.cache.facts.policy == before)


def test_a_reload_keeps_pins_pool_and_policy_and_the_history(live, qtbot):
    controller, orders = live()
    orders.pin({1: (0,)}, "gpu")
    orders.set_pool(20 * MIB)
    orders.set_policy(DECAY)
    plan = controller.plan
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.load()  # nobody waits for the answers of the changes
    assert controller.loaded_plan == controller.plan == plan
    until(qtbot, lambda: controller.cache.facts is not None and bool(controller.cache.facts.layers))
    assert (engine_pool(controller), engine_pins(controller)[1]) == (20 * MIB, "gaaaaaaa")
    assert controller.cache.facts.policy == DECAY
    assert orders.stack.count() == 3
    for _ in range(3):
        orders.stack.undo()
    settled(qtbot, controller)
    until(qtbot, lambda: engine_pool(controller) == 16 * MIB and engine_pins(controller)[1] == "a" * 8)


def test_what_the_engine_does_not_take_is_taken_back(live, qtbot):
    controller, orders = live("--fail-pins", "bad_usage")
    before = controller.plan
    refused = seen(orders.refused)
    orders.pin({1: (0,)}, "gpu")
    until(qtbot, lambda: len(refused) == 1)
    assert refused[0].text == "The script fails this request."
    assert controller.plan == before
    assert pins_of(controller.loaded_plan) == {}
    assert not orders.stack.canUndo()
    assert not orders.stack.canRedo()
    assert controller.cache.carried(controller.facts, controller.machine, controller.plan).pins == ()


def test_a_size_that_the_engine_refuses_is_taken_back_and_the_step_before_stays(live, qtbot):
    controller, orders = live("--fail-pool", "out_of_memory")
    refused = seen(orders.refused)
    orders.pin({1: (0,)}, "cpu")
    orders.set_pool(20 * MIB)
    until(qtbot, lambda: len(refused) == 1)
    assert controller.plan.pool_bytes == controller.loaded_plan.pool_bytes == 16 * MIB
    assert pins_of(controller.plan) == {(1, 0): "cpu"}
    orders.stack.undo()
    assert controller.plan.pins == ()


def test_with_nothing_loaded_orders_change_the_plan(planned):
    controller, orders = planned(pool_bytes=8 * MIB)
    refused = seen(orders.refused)
    assert orders.pin({0: (1,)}, "gpu")
    assert not orders.pin({0: (2, 3)}, "gpu")
    assert "Layer 0 has 2 slots" in refused[0].text
    assert orders.set_pool(16 * MIB)
    assert orders.set_policy(DECAY)
    assert (controller.plan.pool_bytes, controller.plan.policy) == (16 * MIB, DECAY)
    for _ in range(3):
        orders.stack.undo()
    assert (controller.plan.pool_bytes, controller.plan.pins) == (8 * MIB, ())


def test_orders_given_during_a_load_reach_the_engine_after_it(live, qtbot):
    controller, orders = live("--load-ms", 200)
    controller.load()
    assert orders.pin({3: (7,)}, "cpu")
    assert orders.set_pool(20 * MIB)
    until(qtbot, lambda: controller.state == READY and controller.cache.facts is not None)
    until(qtbot, lambda: engine_pins(controller).get(3) == "aaaaaaac" and engine_pool(controller) == 20 * MIB)
    assert controller.loaded_plan == controller.plan


def test_orders_given_while_the_engine_is_lent_reach_it_when_it_is_back(live, qtbot):
    controller, orders = live()
    controller.lend_engine()
    assert orders.pin({3: (7,)}, "cpu")
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.return_engine()
    until(qtbot, lambda: controller.cache.facts is not None and engine_pins(controller).get(3) == "aaaaaaac")
    assert controller.loaded_plan == controller.plan


def test_layers_move_for_the_next_load_and_undo_exactly(planned):
    controller, orders = planned()
    before = controller.plan
    done = seen(orders.moved)
    assert orders.move_layers((1, 2), "Vulkan0")
    assert controller.plan.expert_lanes == {0: "CPU", 1: "Vulkan0", 2: "Vulkan0", 3: "CPU"}
    assert (done[0].layers, done[0].lane) == ((1, 2), "Vulkan0")
    assert not orders.move_layers((1,), "Vulkan0")
    orders.stack.undo()
    assert controller.plan == before


def test_layers_that_the_model_has_not_or_that_are_named_twice_move_nothing_more(planned):
    controller, orders = planned()
    done = seen(orders.moved)
    assert orders.move_layers((1, 99, -1, 1, 2), "Vulkan0")
    assert [controller.plan.expert_lanes[layer] for layer in range(4)] == ["CPU", "Vulkan0", "Vulkan0", "CPU"]
    assert (done[0].layers, done[0].text) == ((1, 2), "move of 2 layers to Vulkan0")
    assert not orders.move_layers((99,), "Vulkan0")


def test_pins_and_moved_layers_undo_in_any_mixture(live, qtbot):
    controller, orders = live()
    first = controller.plan
    orders.pin({1: (0,)}, "gpu")
    orders.move_layers((1,), "Vulkan0")
    orders.pin({1: (4,)}, "cpu")  # the layer is still computed on the CPU
    until(qtbot, lambda: engine_pins(controller)[1] == "gaaacaaa")
    assert controller.loaded_plan.expert_lanes[1] == "CPU"
    while orders.stack.canUndo():
        orders.stack.undo()
    assert controller.plan == first
    until(qtbot, lambda: engine_pins(controller)[1] == "a" * 8)


def test_discarding_goes_back_to_what_runs_and_keeps_what_was_done_live(live):
    controller, orders = live()
    assert not orders.discard()
    orders.pin({1: (0,)}, "gpu")
    assert not orders.discard()
    orders.move_layers((0,), "Vulkan0")
    edited = controller.plan
    assert orders.discard()
    assert controller.plan == controller.loaded_plan
    assert pins_of(controller.plan) == {(1, 0): "gpu"}
    orders.stack.undo()
    assert controller.plan == edited


def test_an_edited_plan_takes_effect_at_once_as_far_as_it_can(live, qtbot):
    controller, orders = live()
    edited = msgspec.structs.replace(controller.plan, n_ctx=1024, policy=DECAY)
    assert orders.edit_plan(edited, "context and policy")
    assert orders.stack.undoText() == "context and policy"
    until(qtbot, lambda: controller.cache.facts.policy == DECAY)
    assert controller.loaded_plan.n_ctx != 1024
    assert not orders.edit_plan(edited, "the same")


def test_all_orders_at_once_are_one_step(live, qtbot):
    controller, orders = live()
    orders.pin({0: (1,)}, "cpu")
    refused = seen(orders.refused)
    assert orders.set_all({(2, 5): "gpu", (7, 0): "gpu"}, DECAY, 20 * MIB, "profile “a”")
    assert refused[0].text == "1 expert of it is not in this model."
    until(qtbot, lambda: engine_pins(controller)[2] == "aaaaagaa" and engine_pool(controller) == 20 * MIB)
    assert engine_pins(controller)[0] == "a" * 8
    orders.stack.undo()
    until(qtbot, lambda: engine_pins(controller)[0] == "acaaaaaa" and engine_pool(controller) == 16 * MIB)


@pytest.mark.parametrize("pin", ["cpu", "gpu"])
def test_a_load_keeps_the_history_when_a_layer_with_pinned_experts_went_whole_to_a_gpu(live, qtbot, pin):
    controller, orders = live()
    before = controller.plan
    assert orders.pin({1: (2, 3)}, pin)
    assert orders.move_layers([1], "Vulkan0")
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.load()
    assert controller.loaded_plan.expert_lanes[1] == "Vulkan0"
    assert orders.stack.count() == 2
    orders.stack.undo()
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.load()
    assert orders.stack.count() == 2
    assert pins_of(controller.loaded_plan) == {(1, 2): pin, (1, 3): pin}
    orders.stack.undo()
    assert controller.plan == before


def test_the_end_of_a_history_is_told_with_what_was_dropped(planned):
    controller, orders = planned()
    told = seen(orders.refused)
    plan = controller.plan
    controller.set_plan(msgspec.structs.replace(plan, threads=1))
    assert told == []
    orders.pin({1: (2,)}, "cpu")
    orders.pin({2: (2,)}, "cpu")
    controller.set_plan(plan)
    assert [its.text for its in told] == ["Another plan was set: the 2 steps before it cannot be undone any more."]


def test_a_plan_set_by_someone_else_and_another_model_end_the_history(planned, make_facts):
    controller, orders = planned()
    orders.move_layers((0,), "Vulkan0")
    controller.set_plan(controller.propose_plan(Wishes(gpu=None)))
    assert not orders.stack.canUndo()
    orders.move_layers((0,), "Vulkan0")
    controller._set_facts(make_facts(name="Another"))
    assert not orders.stack.canUndo()


def test_pins_survive_a_crash_and_go_into_the_next_load(live, qtbot, tmp_path):
    controller, orders = live("--crash-after", 3, "--crash-once", tmp_path / "crashed")
    orders.pin({0: (2,)}, "gpu")
    with qtbot.waitSignal(controller.failed, timeout=PATIENCE):
        controller.ask("Die")
    orders.pin({0: (3,)}, "cpu")
    orders.stack.undo()
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.load()
    assert pins_of(controller.loaded_plan) == {(0, 2): "gpu"}
    answer(qtbot, controller)
