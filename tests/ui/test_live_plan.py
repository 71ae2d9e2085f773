"""What of a plan is changed without a reload: pins, pool, policy; exact, whatever came before."""

from hypothesis import given
from hypothesis import strategies as st
from ui_factories import MIB, make_facts, make_machine

from app.placement.memory import predict
from app.placement.plan import CachePolicy
from app.placement.planner import make_plan, with_lanes
from app.ui.live_plan import changed_pins, orders_of, pins_of, with_pins, with_policy, with_pool_bytes

FACTS, MACHINE = make_facts(), make_machine()
PLAN = with_lanes(make_plan(FACTS, MACHINE), FACTS, MACHINE, range(4), "CPU")
PINS = st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 7)), st.sampled_from(["auto", "gpu", "cpu"]))


@given(PINS, PINS)
def test_the_changed_pins_make_one_plan_into_the_other_and_back(first, second):
    before, after = with_pins(PLAN, first), with_pins(with_pins(PLAN, first), second)
    assert with_pins(before, changed_pins(before, after)) == after
    assert with_pins(after, changed_pins(after, before)) == before
    assert pins_of(after) == {cell: pin for cell, pin in (first | second).items() if pin != "auto"}


def test_pins_are_kept_in_order_and_automatic_ones_not_at_all():
    plan = with_pins(PLAN, {(2, 5): "cpu", (0, 3): "gpu", (1, 1): "auto"})
    assert [(pin.layer, pin.expert, pin.pin) for pin in plan.pins] == [(0, 3, "gpu"), (2, 5, "cpu")]
    assert with_pins(plan, {(0, 3): "gpu"}) is plan
    assert [pin.pin for pin in orders_of({(1, 2): "auto", (1, 0): "auto"})] == ["auto", "auto"]


def test_a_pool_changes_its_own_memory_and_leaves_the_rest_as_predicted():
    resized = with_pool_bytes(PLAN, 16 * MIB, FACTS, MACHINE)
    assert resized.pool_bytes == 16 * MIB
    assert resized.memory == predict(FACTS, MACHINE, resized)
    assert {part.bytes for part in resized.memory if part.part == "pool"} == {16 * MIB}
    assert resized.staging_bytes == PLAN.staging_bytes
    assert with_pool_bytes(resized, 0, FACTS, MACHINE).memory == PLAN.memory
    assert with_pool_bytes(PLAN, PLAN.pool_bytes, FACTS, MACHINE) is PLAN


def test_another_policy_is_no_longer_the_plan_that_was_measured():
    policy = CachePolicy(kind="decay")
    changed = with_policy(PLAN, policy)
    assert (changed.policy, changed.speed, changed.tuned) == (policy, None, "")
    assert with_policy(changed, policy) is changed
