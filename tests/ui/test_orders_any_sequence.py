"""Orders in any sequence: plan and engine agree after each, and all of them undo to where they began."""

import pytest
from controller_driver import until
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from memory_driver import MIB, load_mapped
from PySide6.QtCore import QObject

from app.placement.plan import CachePolicy
from app.ui.live_plan import MemoryBudget, pins_of
from app.ui.orders import Orders

POOL = 16 * MIB
EXPERTS = 32 * MIB
"""All of them: 4 layers of 8, which the engine keeps in memory where it chooses."""
POLICIES = [CachePolicy(), CachePolicy(kind="decay"), CachePolicy(window=4)]

BUDGETS = st.sampled_from([None, 0, 8 * MIB, 16 * MIB])
SIZES = st.sampled_from([0, 8 * MIB, 12 * MIB, POOL])
CELLS = st.dictionaries(st.integers(0, 3), st.lists(st.integers(0, 7), min_size=1, max_size=8, unique=True), min_size=1)
PINS = st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 7)), st.sampled_from(["gpu", "cpu"]), max_size=8)
LANES = st.sampled_from(["Vulkan0", "CPU", "disk"])
STEPS = st.one_of(
    st.tuples(st.just("pin"), CELLS, st.sampled_from(["gpu", "cpu", "auto"])),
    st.tuples(st.just("to_lane"), CELLS, LANES),
    st.tuples(st.just("move_layers"), st.lists(st.integers(0, 3), min_size=1), LANES),
    st.tuples(st.just("set_pool"), SIZES),
    st.tuples(st.just("set_memory"), BUDGETS),
    st.tuples(st.just("set_policy"), st.sampled_from(POLICIES)),
    st.tuples(
        st.just("set_all"),
        PINS,
        st.sampled_from(POLICIES),
        st.none() | SIZES,
        st.just("a profile"),
        st.none() | BUDGETS.map(MemoryBudget),
    ),
    st.tuples(st.just("undo")),
    st.tuples(st.just("redo")),
)


@pytest.fixture
def orders_of_now(loaded_controller, qtbot):
    """Controller and orders over a model in its file: 4 layers on the CPU lane, a pool, and what fits in memory."""
    controller = load_mapped(loaded_controller(), qtbot, pool=POOL)
    watcher = QObject(controller)
    controller.cache.watch(watcher, experts=True)
    until(qtbot, lambda: controller.cache.facts is not None and bool(controller.cache.facts.layers))
    return controller, Orders(controller, controller)


def settled(qtbot, controller):
    """Every order is answered, and what the engine says of policy and memory is of now."""
    cache = controller.cache
    until(qtbot, lambda: not cache.ordered and not cache.resizing and not cache.budgeting)
    until(qtbot, lambda: cache.facts.policy == controller.plan.policy)


def check_engine(controller):
    """The engine has just what the plan says."""
    plan, facts = controller.plan, controller.cache.facts
    wanted = pins_of(plan)
    for layer, its in facts.layers.items():
        letters = ["agc"[("auto", "gpu", "cpu").index(wanted.get((layer, expert), "auto"))] for expert in range(8)]
        assert its.pins == "".join(letters)
    assert facts.pool.requested_bytes == plan.pool_bytes
    budget = EXPERTS if plan.resident_bytes is None else plan.resident_bytes
    assert (facts.memory.budget_bytes if facts.memory is not None else 0) == budget


@given(steps=st.lists(STEPS, max_size=10))
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_sequence_of_orders_undoes_to_where_it_began_in_plan_and_engine(orders_of_now, steps, qtbot):
    controller, orders = orders_of_now
    first = controller.plan
    for name, *arguments in steps:
        getattr(orders.stack if name in ("undo", "redo") else orders, name)(*arguments)
    settled(qtbot, controller)
    check_engine(controller)
    while orders.stack.canUndo():
        orders.stack.undo()
    assert controller.plan == first
    settled(qtbot, controller)
    check_engine(controller)
    assert {its.pins for its in controller.cache.facts.layers.values()} == {"a" * 8}
    orders.stack.clear()
