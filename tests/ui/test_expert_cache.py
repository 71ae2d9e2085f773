"""The window's face of the expert cache: when it asks, what it changes, and what survives a reload."""

import json

import pytest
from controller_driver import PATIENCE, answer, seen, until
from PySide6.QtCore import QObject
from scripted_cache import USED

from app.errors import ErrorCode
from app.placement.planner import with_lanes
from app.ui.controller import ANSWERING, READY

MIB = 1024**2


@pytest.fixture
def pooled(loaded_controller, qtbot):
    """`pooled(*arguments)`: a controller whose attention is on the GPU and whose experts are on the CPU lane."""

    def make(*arguments):
        controller = loaded_controller(*arguments)
        plan = with_lanes(controller.plan, controller.facts, controller.machine, range(4), "CPU")
        controller.set_plan(plan)
        with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
            controller.load()
        return controller

    return make


@pytest.fixture
def watcher(qapp):
    """Someone who looks at single experts."""
    return QObject()


def asked(record, kind="read_cache"):
    """The recorded requests of one kind."""
    requests = [json.loads(line) for line in record.read_text().splitlines()]
    return [request for request in requests if request["type"] == kind]


def wait_for_facts(qtbot, controller, condition=lambda facts: True):
    until(qtbot, lambda: controller.cache.facts is not None and condition(controller.cache.facts))
    return controller.cache.facts


def test_nothing_is_asked_while_nobody_looks_or_nothing_is_loaded(make_controller, pooled, qtbot, tmp_path, watcher):
    idle = make_controller()
    idle.cache.watch(watcher, experts=True)
    assert not idle.engine.running
    record = tmp_path / "requests"
    controller = pooled("--record", record)
    answer(qtbot, controller)
    assert asked(record) == []
    assert controller.cache.facts is None


def test_a_watcher_gets_the_facts_now_while_answering_and_once_after(pooled, qtbot, tmp_path, watcher):
    record = tmp_path / "requests"
    controller = pooled("--record", record, "--hold-after", 3)
    controller.cache.watch(watcher, experts=True)
    facts = wait_for_facts(qtbot, controller)
    assert set(facts.layers) == set(controller.facts.moe_layers)
    until(qtbot, lambda: not controller.cache.polling)
    assert len(asked(record)) == 1
    controller.ask("Go on")
    assert controller.state == ANSWERING
    until(qtbot, lambda: len(asked(record)) >= 4)
    with qtbot.waitSignal(controller.finished, timeout=PATIENCE):
        controller.stop()
    wait_for_facts(qtbot, controller, lambda facts: facts.decode.tokens == 3)
    until(qtbot, lambda: not controller.cache.polling)
    requests = asked(record)
    assert [request["since"] for request in requests][-1] == 3  # told batches are not asked for again


def test_one_question_is_open_at_a_time(pooled, qtbot, tmp_path, watcher):
    record = tmp_path / "requests"
    controller = pooled("--record", record)
    other = QObject()
    controller.cache.watch(watcher, experts=True)
    controller.cache.watch(other, experts=False)
    controller.cache.watch(watcher, experts=True)
    wait_for_facts(qtbot, controller)
    assert len(asked(record)) == 1


def test_who_wants_only_totals_does_not_take_the_experts_from_others(pooled, qtbot, watcher):
    controller = pooled()
    controller.cache.watch(watcher, experts=True)
    layers = wait_for_facts(qtbot, controller).layers
    controller.cache.unwatch(watcher)
    controller.cache.watch(watcher, experts=False)
    answer(qtbot, controller)
    facts = wait_for_facts(qtbot, controller, lambda facts: facts.decode.tokens > 0)
    assert facts.layers is layers


def test_experts_still_on_their_way_after_an_answer_are_looked_at_a_while_longer_and_not_for_ever(
    pooled, qtbot, tmp_path, watcher, monkeypatch
):
    record = tmp_path / "requests"
    controller = pooled("--record", record, "--tokens", 2)
    controller.cache._poll.setInterval(5)
    controller.cache.watch(watcher, experts=True)
    controller.cache.set_pool(8 * MIB)
    answer(qtbot, controller)
    wait_for_facts(qtbot, controller, lambda facts: any("m" in its.lanes for its in facts.layers.values()))
    before = len(asked(record))
    until(qtbot, lambda: not controller.cache.polling)
    assert 2 <= len(asked(record)) - before + 1 <= 10


def test_the_pool_is_resized_while_the_model_answers_and_the_last_of_many_wishes_wins(pooled, qtbot, tmp_path, watcher):
    record = tmp_path / "requests"
    controller = pooled("--record", record, "--hold-after", 2, "--pool-ms", 30)
    controller.cache.watch(watcher, experts=True)
    controller.ask("Go on")
    until(qtbot, lambda: controller.state == ANSWERING)
    for mib in (4, 8, 12, 16):
        controller.cache.set_pool(mib * MIB)
    assert controller.cache.resizing
    facts = wait_for_facts(qtbot, controller, lambda facts: facts.pool.requested_bytes == 16 * MIB)
    assert controller.state == ANSWERING
    assert facts.pool.allocated_bytes == 16 * MIB
    until(qtbot, lambda: not controller.cache.resizing)
    assert [request["pool_bytes"] // MIB for request in asked(record, "set_pool")] == [4, 16]
    assert {request["staging_bytes"] for request in asked(record, "set_pool")} == {controller.plan.staging_bytes}
    controller.stop()
    until(qtbot, lambda: controller.state == READY)


def test_pins_are_what_the_engine_reports_and_not_what_was_wished(pooled, qtbot, watcher):
    controller = pooled("--fail-pins", "bad_usage")
    refused = seen(controller.cache.refused)
    controller.cache.watch(watcher, experts=True)
    wait_for_facts(qtbot, controller)
    controller.cache.send_pins({(1, 0): "gpu", (1, 3): "gpu"})
    until(qtbot, lambda: len(refused) == 1)
    assert refused[0].code is ErrorCode.BAD_USAGE
    assert controller.cache.facts.layers[1].pins == "a" * 8


@pytest.mark.parametrize("bare", [(), ("--bare-changes",)])
def test_pins_take_effect_while_the_model_answers(pooled, qtbot, watcher, bare):
    controller = pooled("--hold-after", 2, *bare)
    controller.cache.watch(watcher, experts=True)
    controller.cache.set_pool(16 * MIB)
    controller.ask("Go on")
    controller.cache.send_pins({(1, 0): "gpu", (1, 3): "gpu"})
    facts = wait_for_facts(qtbot, controller, lambda facts: facts.layers and facts.layers[1].pins == "gaagaaaa")
    assert controller.state == ANSWERING
    assert facts.layers[1].lanes[0] == facts.layers[1].lanes[3] == "g"
    controller.stop()
    until(qtbot, lambda: controller.state == READY)


def test_a_refused_size_is_told_and_the_engines_own_stays(pooled, qtbot, watcher):
    controller = pooled("--fail-pool", "out_of_memory")
    refused = seen(controller.cache.refused)
    controller.cache.watch(watcher, experts=True)
    controller.cache.set_pool(16 * MIB)
    until(qtbot, lambda: len(refused) == 1)
    facts = wait_for_facts(qtbot, controller)
    assert facts.pool.requested_bytes == 0
    assert not controller.cache.resizing


def test_an_engine_that_cannot_tell_is_asked_once_a_load(pooled, qtbot, tmp_path, watcher):
    record = tmp_path / "requests"
    controller = pooled("--fail-cache", "engine_failed", "--record", record, "--tokens", 20, "--token-ms", 20)
    refused = seen(controller.cache.refused)
    controller.cache.watch(watcher, experts=True)
    answer(qtbot, controller)
    assert len(refused) == 1
    assert len(asked(record)) == 1
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.load()
    until(qtbot, lambda: len(refused) == 2)


def test_a_reload_of_the_model_keeps_pins_and_pool_of_the_run_before(pooled, qtbot, watcher):
    controller = pooled()
    controller.cache.watch(watcher, experts=True)
    controller.cache.set_pool(16 * MIB)
    controller.cache.send_pins({(1, 0): "gpu", (1, 3): "gpu"})
    controller.cache.send_pins({(2, 5): "cpu"})
    wait_for_facts(qtbot, controller, lambda facts: facts.layers and "c" in facts.layers[2].pins)
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.load()
    plan = controller.loaded_plan
    assert controller.plan == plan
    assert plan.pool_bytes == 16 * MIB
    assert {(part.device, part.bytes) for part in plan.memory if part.part == "pool"} == {("Vulkan0", 16 * MIB)}
    assert [(pin.layer, pin.expert, pin.pin) for pin in plan.pins] == [(1, 0, "gpu"), (1, 3, "gpu"), (2, 5, "cpu")]
    facts = wait_for_facts(qtbot, controller)
    assert facts.layers[1].pins == "gaagaaaa"
    controller.cache.send_pins({(1, 0): "auto", (1, 3): "auto"})
    wait_for_facts(qtbot, controller, lambda facts: facts.layers[1].pins == "a" * 8)
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.load()
    assert [(pin.layer, pin.expert) for pin in controller.loaded_plan.pins] == [(2, 5)]


def test_pins_of_a_layer_that_was_on_the_gpu_meanwhile_are_not_lost(pooled, qtbot, watcher):
    controller = pooled()
    controller.cache.watch(watcher, experts=True)
    controller.cache.send_pins({(1, 4): "cpu"})
    wait_for_facts(qtbot, controller, lambda facts: facts.layers and facts.layers[1].pins[4] == "c")
    for lane, pins in (("Vulkan0", 0), ("CPU", 1)):
        moved = with_lanes(controller.plan, controller.facts, controller.machine, (1,), lane)
        controller.set_plan(moved)
        with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
            controller.load()
        assert len(controller.loaded_plan.pins) == pins
        wait_for_facts(qtbot, controller)


def test_pins_outlive_an_engine_that_dies_and_a_pool_that_may_have_killed_it_does_not(pooled, qtbot, tmp_path, watcher):
    controller = pooled("--crash-after", 3, "--crash-once", tmp_path / "crashed")
    controller.cache.watch(watcher, experts=True)
    controller.cache.set_pool(16 * MIB)
    controller.cache.send_pins({(0, 2): "gpu"})
    wait_for_facts(qtbot, controller, lambda facts: facts.layers and facts.layers[0].pins[2] == "g")
    with qtbot.waitSignal(controller.failed, timeout=PATIENCE):
        controller.ask("Die")
    assert controller.cache.facts is None
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.load_again()
    assert len(controller.loaded_plan.pins) == 1
    assert controller.loaded_plan.pool_bytes == 0


def test_another_model_gets_no_pins_of_the_first(pooled, qtbot, make_facts, watcher):
    controller = pooled()
    controller.cache.watch(watcher, experts=True)
    controller.cache.send_pins({(0, 2): "gpu"})
    wait_for_facts(qtbot, controller, lambda facts: facts.layers and facts.layers[0].pins[2] == "g")
    controller._set_facts(make_facts(name="Another", fingerprint="77"))
    controller.set_plan(controller.propose_plan())
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.load()
    assert controller.loaded_plan.pins == ()


def test_the_last_answers_report_is_kept_until_another_model_is_loaded(pooled, qtbot, watcher):
    controller = pooled("--tokens", 12)
    answer(qtbot, controller)
    report = controller.cache.last_answer
    assert report.hits + report.misses == 12 * USED * len(controller.facts.moe_layers)
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.load()
    assert controller.cache.last_answer is None
