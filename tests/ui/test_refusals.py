"""What can be done of an order, why the rest cannot, and what is offered; judged without Qt and without an engine."""

import msgspec
import pytest
from ui_factories import MIB, make_facts, make_machine

from app.placement.plan import CachePolicy
from app.placement.planner import make_plan, with_lanes
from app.ui.lanes.pool import PoolRoom
from app.ui.live_plan import pins_of, with_pins, with_pool_bytes
from app.ui.order_scene import Scene, planned_slots
from app.ui.refusals import judge_lane, judge_pins, judge_pool, ordered_plan

FACTS, MACHINE = make_facts(), make_machine()  # 4 layers of 8 experts of 1 MiB
PLAN = with_lanes(make_plan(FACTS, MACHINE), FACTS, MACHINE, range(4), "CPU")
ROOM = PoolRoom(device="Vulkan0", most_bytes=32 * MIB, cycle_bytes=8 * MIB)


@pytest.fixture(autouse=True)
def _application(qapp):
    """Translations need an application."""


def scene(pool=8 * MIB, pins=None, **overrides):
    """Four layers on the CPU lane, 2 slots each by a pool of 8 MiB."""
    plan = with_pins(with_pool_bytes(PLAN, pool, FACTS, MACHINE), pins or {})
    fields = {
        "facts": FACTS,
        "plan": plan,
        "machine": MACHINE,
        "lanes": dict(plan.expert_lanes),
        "slots": dict.fromkeys(range(4), pool // MIB // 4),
        "pins": pins or {},
        "room": ROOM,
        "routed": {layer: tuple(range(8)) for layer in range(4)},  # the last is the hottest
    }
    return Scene(**{**fields, **overrides})


def way(verdict, start):
    return next(its for its in verdict.ways if its.text.startswith(start))


def test_experts_that_find_room_are_kept_without_a_word():
    verdict = judge_pins(scene(), {0: (1, 2), 3: (7,)}, "gpu")
    assert verdict.pins == {(0, 1): "gpu", (0, 2): "gpu", (3, 7): "gpu"}
    assert (verdict.text, verdict.ways) == ("", ())


def test_a_layer_without_slots_enough_is_refused_whole_and_the_others_are_done():
    verdict = judge_pins(scene(), {0: (1, 2, 3), 1: (0,)}, "gpu")
    assert verdict.pins == {(1, 0): "gpu"}
    assert verdict.text.startswith("1 expert is kept on the GPU now. Layer 0 has 2 slots in the pool")
    assert "1 more" in verdict.text


def test_a_larger_pool_is_offered_that_just_holds_them_beside_the_other_layers_slots():
    verdict = judge_pins(scene(pins={(0, 0): "gpu"}), {0: (1, 2, 3)}, "gpu")
    grow = way(verdict, "Grow the pool from 8.0 MiB to ")
    assert grow.pool_bytes == (8 + 2 + 1) * MIB
    after = with_pins(scene(pins={(0, 0): "gpu"}).plan, grow.pins)
    slots = planned_slots(
        after.expert_lanes, FACTS, with_pool_bytes(after, grow.pool_bytes, FACTS, MACHINE), pins_of(after)
    )
    assert slots[0] == 4
    assert min(slots.values()) == 2


def test_no_pool_is_offered_that_the_device_has_no_room_for():
    full = PoolRoom(device="Vulkan0", most_bytes=9 * MIB, cycle_bytes=8 * MIB)
    verdict = judge_pins(scene(room=full), {0: (1, 2, 3, 4)}, "gpu")
    assert not any(its.pool_bytes for its in verdict.ways)


def test_the_hottest_that_fit_are_offered_layer_by_layer():
    verdict = judge_pins(scene(pins={(0, 0): "gpu"}), {0: (1, 2, 3), 1: (4, 5, 6)}, "gpu")
    assert verdict.text.startswith("Layers 0–1 lack 3 slots")
    assert way(verdict, "Keep only the 3 hottest that fit").pins == {(0, 3): "gpu", (1, 6): "gpu", (1, 5): "gpu"}


def test_the_coldest_others_are_offered_in_exchange_and_only_where_that_is_enough():
    kept = {(0, 0): "gpu", (0, 7): "gpu"}
    exchange = way(judge_pins(scene(pins=kept), {0: (3,)}, "gpu"), "Make 1 other automatic instead")
    assert exchange.pins == {(0, 0): "auto", (0, 3): "gpu"}
    verdict = judge_pins(scene(pins=kept), {0: (1, 2, 3)}, "gpu")
    assert not any("automatic" in its.text for its in verdict.ways)


def test_without_a_pool_one_is_offered_that_holds_them_and_at_least_a_token_cycle():
    verdict = judge_pins(scene(pool=0), {0: (1,)}, "gpu")
    assert verdict.pins == {}
    assert verdict.text.startswith("There is no pool on the GPU")
    (offer,) = verdict.ways
    assert offer.text == "Give the pool 16.0 MiB and keep them there"
    assert (offer.pool_bytes, offer.pins) == (16 * MIB, {(0, 1): "gpu"})


def test_without_a_pool_and_room_for_all_the_hottest_are_offered():
    room = PoolRoom(device="Vulkan0", most_bytes=8 * MIB, cycle_bytes=8 * MIB)
    verdict = judge_pins(scene(pool=0, room=room), dict.fromkeys(range(4), range(8)), "gpu")
    (offer,) = verdict.ways
    assert offer.text == "Give the pool 8.0 MiB and keep the 8 hottest there"
    assert {expert for _layer, expert in offer.pins} == {6, 7}


def test_why_there_can_be_no_pool_is_told_and_nothing_offered():
    verdict = judge_pins(scene(pool=0, room=PoolRoom(why_not="All is full.")), {0: (1,)}, "gpu")
    assert verdict.text == "There is no pool on the GPU that could hold single experts. All is full."
    assert verdict.ways == ()


def test_a_layer_that_is_on_a_gpu_as_a_whole_can_only_move_as_a_whole():
    plan = with_lanes(PLAN, FACTS, MACHINE, (0,), "Vulkan0")
    there = scene(plan=plan, lanes=dict(plan.expert_lanes))
    kept = judge_pins(there, {0: (1,)}, "gpu")
    assert kept.text == "Layer 0 is on Vulkan0 as a whole, and all its experts with it."
    assert kept.ways == ()
    verdict = judge_pins(there, {0: (1,), 1: (2,)}, "cpu")
    assert verdict.pins == {(1, 2): "cpu"}
    (offer,) = verdict.ways
    assert (offer.layers, offer.lane) == ((0,), "CPU")


@pytest.mark.parametrize(
    ("pin", "text"),
    [("gpu", "you keep this expert on the GPU"), ("cpu", "you keep this expert on the CPU"), ("auto", "is automatic")],
)
def test_what_is_so_already_is_told(pin, text):
    verdict = judge_pins(scene(pins={(0, 1): pin} if pin != "auto" else {}), {0: (1,)}, pin)
    assert verdict.pins == {}
    assert text in verdict.text


def test_experts_that_the_engine_cannot_tell_apart_are_not_ordered():
    verdict = judge_pins(scene(blind="ggml is too new"), {0: (1,)}, "cpu")
    assert (verdict.pins, verdict.text) == ({}, "Experts cannot be told apart: ggml is too new")


def test_nothing_and_what_the_model_does_not_have_is_no_order():
    assert judge_pins(scene(), {}, "gpu").text == "Select experts first."
    assert judge_pins(scene(), {9: (1,), 0: (99,)}, "gpu").text == "Select experts first."


def test_lanes_mean_pins():
    assert judge_lane(scene(), {0: (1,)}, "CPU", "") == "cpu"
    assert judge_lane(scene(), {0: (1,)}, "Vulkan0", "") == "gpu"


def test_the_disk_takes_no_experts_and_offers_the_cpu():
    verdict = judge_lane(scene(), {0: (1,)}, "disk", "")
    assert "follows from main memory" in verdict.text
    assert [its.pins for its in verdict.ways] == [{(0, 1): "cpu"}]


def test_a_gpu_without_the_pool_says_which_has_it():
    verdict = judge_lane(scene(), {0: (1,)}, "CUDA1", "")
    assert verdict.text == "Single experts are kept in the pool, which is on Vulkan0 and not on CUDA1."
    assert [its.text for its in verdict.ways] == ["Keep them on Vulkan0"]


def test_the_lane_of_a_gpu_that_is_not_there_says_so():
    assert judge_lane(scene(), {0: (1,)}, "", "No GPU was found.").text == "No GPU was found."


def test_a_pool_gets_what_there_is_room_for_and_the_rest_is_told():
    assert judge_pool(scene(), 16 * MIB) == (16 * MIB, "")
    size, why = judge_pool(scene(room=PoolRoom(device="Vulkan0", most_bytes=20 * MIB)), 24 * MIB)
    assert size == 20 * MIB
    assert why.startswith("The pool can have 20.0 MiB on Vulkan0, not 24.0 MiB")
    assert judge_pool(scene(), 64 * MIB)[1].startswith("The pool needs no more than 32.0 MiB")
    assert judge_pool(scene(room=PoolRoom(why_not="No GPU.")), 8 * MIB) == (0, "No GPU.")
    assert judge_pool(scene(room=PoolRoom(why_not="No GPU.")), 0) == (0, "")


def test_all_orders_at_once_replace_those_there_are_and_tell_what_has_no_effect():
    now = scene(pins={(0, 1): "cpu"})
    policy = CachePolicy(kind="decay")
    wanted = {(0, 5): "gpu", (1, 0): "gpu", (1, 1): "gpu", (1, 2): "gpu", (9, 0): "gpu"}
    after, remarks = ordered_plan(now, now.plan, wanted, policy, 8 * MIB)
    assert pins_of(after) == {cell: pin for cell, pin in wanted.items() if cell[0] != 9}
    assert (after.policy, after.pool_bytes) == (policy, 8 * MIB)
    assert remarks == (
        "1 expert of it is not in this model.",
        "1 expert that you keep on the GPU has no slot in the pool.",
    )


def test_a_pool_that_changes_with_the_pins_serves_them_first():
    now = scene(pool=0)
    wanted = {(1, expert): "gpu" for expert in range(4)}
    after, remarks = ordered_plan(now, now.plan, wanted, now.plan.policy, 8 * MIB)
    assert after.pool_bytes == 8 * MIB
    assert remarks == ()


def test_planned_slots_serve_pins_first_and_divide_the_rest_evenly():
    plan = msgspec.structs.replace(PLAN, pool_bytes=10 * MIB)
    assert planned_slots(PLAN.expert_lanes, FACTS, plan, {}) == {0: 3, 1: 3, 2: 2, 3: 2}
    pins = {(3, expert): "gpu" for expert in range(6)}
    assert planned_slots(PLAN.expert_lanes, FACTS, plan, pins) == {0: 2, 1: 1, 2: 1, 3: 6}
