"""What the tuning dock knows of model and machine: read off the UI thread, anew when it may be another."""

import itertools
import threading
import time

import pytest
from controller_driver import answer, choose, until
from made_traces import skewed_trace, write_trace
from ui_factories import make_facts

from app.library import speed_records
from app.library.routing_records import routing_folder
from app.placement.cache.trace import kept_name
from app.placement.plan import CPU_LANE
from app.placement.planner import Wishes, with_lanes
from app.ui.speed_memory import SpeedMemory
from app.ui.tuning import evidence as evidence_module
from app.ui.tuning.evidence import TuningEvidence


def record(facts, tokens=400, **fields):
    """Keep a recorded routing of `facts`, as the engine does."""
    trace = skewed_trace(
        tokens=tokens,
        layers=facts.moe_layers,
        experts=facts.expert_count,
        used=facts.experts_used,
        **{"fingerprint": facts.fingerprint, **fields},
    )
    routing_folder().mkdir(parents=True, exist_ok=True)
    write_trace(routing_folder() / kept_name(facts.fingerprint), trace)


@pytest.fixture
def make_evidence(qtbot):
    made = []

    def make(controller):
        evidence = TuningEvidence(controller)
        made.append((evidence, controller))
        return evidence

    yield make
    for evidence, controller in made:
        evidence.set_active(False)
        until(qtbot, lambda its=controller: not its.background.busy)


def test_nothing_is_known_until_a_model_is_chosen_and_then_what_is_kept_of_it(
    qtbot, make_controller, make_evidence, tmp_path
):
    controller = make_controller()
    evidence = make_evidence(controller)
    assert (evidence.recorded, evidence.observations, evidence.hit_basis) == (None, (), "")
    record(make_facts())
    with qtbot.waitSignal(evidence.changed, timeout=10000):
        choose(qtbot, controller, tmp_path)
    assert evidence.recorded.tokens == 400


def test_what_the_edited_plans_hit_rate_rests_on_is_said(qtbot, make_controller, make_evidence, tmp_path):
    controller = make_controller()
    record(make_facts())
    evidence = make_evidence(controller)
    choose(qtbot, controller, tmp_path)
    until(qtbot, lambda: evidence.recorded is not None)
    on_cpu = with_lanes(controller.plan, controller.facts, controller.machine, controller.facts.moe_layers, CPU_LANE)
    controller.set_plan(on_cpu)
    assert "LRU reaches on 400 tokens of this model" in evidence.hit_basis
    controller.set_plan(with_lanes(on_cpu, controller.facts, controller.machine, range(4), "Vulkan0"))
    assert evidence.hit_basis == ""  # there is nothing that a pool could hold


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (None, "no answer of this model was recorded"),
        (20, "20 tokens of this model are recorded so far, 64 are needed"),
    ],
)
def test_without_enough_recorded_the_hit_rate_is_assumed_and_that_is_said(
    qtbot, make_controller, make_evidence, tmp_path, tokens, words
):
    if tokens:
        record(make_facts(), tokens)
    controller = make_controller()
    evidence = make_evidence(controller)
    choose(qtbot, controller, tmp_path)
    plan = controller.propose_plan(Wishes(gpu=None))
    controller.set_plan(plan)
    until(qtbot, lambda: not controller.background.busy)
    assert "assumed from published figures" in evidence.hit_basis
    assert words in evidence.hit_basis


def test_a_damaged_recording_is_said_and_nothing_rests_on_it(qtbot, make_controller, make_evidence, tmp_path):
    facts = make_facts()
    record(facts)
    path = routing_folder() / kept_name(facts.fingerprint)
    path.write_bytes(b"{")
    controller = make_controller()
    evidence = make_evidence(controller)
    with qtbot.waitSignal(evidence.changed, timeout=10000):
        choose(qtbot, controller, tmp_path)
    assert evidence.recorded is None
    assert any("The recorded routing is not used" in note for note in evidence.evidence.notes)


def test_another_model_is_not_told_what_is_known_of_the_one_before(qtbot, make_controller, make_evidence, tmp_path):
    controller = make_controller()
    record(make_facts())
    evidence = make_evidence(controller)
    choose(qtbot, controller, tmp_path)
    until(qtbot, lambda: evidence.recorded is not None)
    controller._set_facts(make_facts(fingerprint="another"))
    assert evidence.recorded is None
    until(qtbot, lambda: not controller.background.busy)
    assert evidence.recorded is None


def test_an_answer_is_known_of_soon_after_and_readings_are_apart(
    qtbot, make_controller, make_evidence, monkeypatch, tmp_path
):
    monkeypatch.setattr(evidence_module, "AFTER_ANSWER_MILLISECONDS", 30)
    monkeypatch.setattr(evidence_module, "LEAST_MILLISECONDS", 40)
    monkeypatch.setattr(evidence_module, "LATE_READINGS", 50)  # a busy machine keeps an answer's speed late
    controller = make_controller("--tokens", 30, "--token-ms", "1")
    reads, run = [], controller.background.run

    def noted(function):
        if "TuningEvidence" in function.__qualname__:
            reads.append(time.monotonic())
        return run(function)

    monkeypatch.setattr(controller.background, "run", noted)
    SpeedMemory(controller)
    choose(qtbot, controller, tmp_path)
    with qtbot.waitSignal(controller.loaded, timeout=10000):
        controller.load()
    evidence = make_evidence(controller)
    until(qtbot, lambda: len(reads) == 1 and not controller.background.busy)
    answer(qtbot, controller)
    until(qtbot, lambda: len(evidence.observations) == 1)
    assert evidence.observations == speed_records.observations(controller.facts, controller.machine)
    for _ in range(3):
        answer(qtbot, controller)
    until(qtbot, lambda: len(evidence.observations) == 4)
    assert min(after - before for before, after in itertools.pairwise(reads[1:])) > 0.025


def test_nothing_is_read_on_the_ui_thread_nor_while_nobody_looks(
    qtbot, make_controller, make_evidence, tmp_path, monkeypatch
):
    threads = []
    real = evidence_module._read
    monkeypatch.setattr(
        evidence_module, "_read", lambda *given: threads.append(threading.current_thread()) or real(*given)
    )
    controller = make_controller()
    evidence = make_evidence(controller)
    evidence.set_active(False)
    record(make_facts())
    choose(qtbot, controller, tmp_path)
    until(qtbot, lambda: not controller.background.busy)
    assert threads == []
    evidence.set_active(True)
    until(qtbot, lambda: evidence.recorded is not None)
    assert threads
    assert threading.main_thread() not in threads


def test_a_routing_that_is_saved_late_is_found_without_another_answer_and_looked_for_a_few_times_only(
    qtbot, make_controller, make_evidence, monkeypatch, tmp_path
):
    monkeypatch.setattr(evidence_module, "AFTER_ANSWER_MILLISECONDS", 10)
    monkeypatch.setattr(evidence_module, "LEAST_MILLISECONDS", 10)
    reads = []
    real = evidence_module._read

    def read(facts, machine):
        reads.append(facts)
        if len(reads) == 3:  # the first is of the chosen model, the second comes too soon after the answer
            record(facts)
        return real(facts, machine)

    controller = make_controller()
    choose(qtbot, controller, tmp_path)
    with qtbot.waitSignal(controller.loaded, timeout=10000):
        controller.load()
    monkeypatch.setattr(evidence_module, "_read", read)
    evidence = make_evidence(controller)
    until(qtbot, lambda: len(reads) == 1 and not controller.background.busy)
    answer(qtbot, controller)
    until(qtbot, lambda: evidence.recorded is not None)
    assert len(reads) == 3
    answer(qtbot, controller)  # of which nothing is ever saved
    most = 3 + 1 + evidence_module.LATE_READINGS
    until(qtbot, lambda: len(reads) == most and not controller.background.busy)
    assert not evidence._after_answers.isActive()
