"""The main-memory tier over the real engine: the demo model as it lies in its file, its budget set by hand."""

import contextlib
from pathlib import Path

import pytest
from controller_driver import seen
from lanes_driver import header_of, show
from memory_driver import MIB, budget_of, cells_in, cpu_words, memory_of
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.engine import protocol
from app.library.demo import build_demo
from app.placement.planner import Wishes
from app.ui.controller import Controller
from app.ui.engine import Engine

PATIENCE = 60_000
TOKENS = 120  # long enough to be looked at several times, also on a fast machine
LEFT = Qt.MouseButton.LeftButton


@pytest.fixture(scope="module")
def demo_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("demo") / "demo.gguf"
    build_demo(path)
    return path


@pytest.fixture
def panel(qapp, store, home, demo_model, theme, qtbot):
    """The lanes over the demo, its experts on the CPU and in the file."""
    sampling = protocol.Sampling(temperature=0)
    controller = Controller(Engine(), store, home, sampling=lambda: (sampling, TOKENS))
    with qtbot.waitSignals([controller.machine_changed, controller.model_changed], timeout=PATIENCE):
        controller.probe()
        controller.choose_model(Path(demo_model))
    controller.set_plan(controller.propose_plan(Wishes(gpu=None, residency="mapped", n_ctx=512, threads=2)))
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.load()
    if not controller.loaded_report.expert_device:
        pytest.skip(f"no expert device: {controller.loaded_report.reason}")
    made = show(controller, theme, qtbot)
    yield made
    made.set_active(False)
    controller.shutdown()
    controller.engine.deleteLater()
    controller.deleteLater()


def answer(qtbot, panel):
    """Ask and wait for the whole answer, as long as tokens come: a busy machine takes its time for them."""
    controller = panel._controller
    told, done = seen(controller.token), seen(controller.finished)
    controller.ask("Tell a long story about a river.")
    before = -1
    while not done and len(told) > before:
        before = len(told)
        with contextlib.suppress(qtbot.TimeoutError):
            qtbot.waitUntil(lambda: bool(done), timeout=PATIENCE)
    assert done, f"{len(told)} tokens came, and then none any more"
    return done[0].text


def test_a_budget_moves_experts_to_the_disk_lane_and_the_answers_stay_the_same(panel, qtbot):
    board = panel.state.board
    every = board.rows * board.experts
    first = answer(qtbot, panel)
    assert memory_of(panel).total_bytes == int(board.expert_bytes.sum()) * board.experts
    qtbot.waitUntil(lambda: cells_in(panel, "CPU") == every, timeout=PATIENCE)  # there is room for all of it
    half = memory_of(panel).total_bytes // 2 // MIB
    panel.orders.set_memory(half * MIB)
    qtbot.waitUntil(lambda: budget_of(panel) == half, timeout=PATIENCE)
    panel._controller.new_conversation()
    assert answer(qtbot, panel) == first
    qtbot.waitUntil(lambda: 0 < cells_in(panel, "disk") < every, timeout=PATIENCE)
    memory = memory_of(panel)
    assert memory.resident_bytes <= memory.budget_bytes
    one = int(board.expert_bytes[0])
    assert cells_in(panel, "CPU") == memory.resident_bytes // one
    assert f"(budget {half}.0 MiB)" in cpu_words(panel)
    totals = panel._controller.cache.facts.decode
    assert totals.cold_reads > 0
    assert " reads a token, " in cpu_words(panel)


def test_release_and_warm_up_are_followed_by_the_lanes(panel, qtbot):
    board = panel.state.board
    every = board.rows * board.experts
    answer(qtbot, panel)
    its = header_of(panel, "CPU").memory_buttons
    qtbot.waitUntil(its.release.isEnabled, timeout=PATIENCE)
    QTest.mouseClick(its.release, LEFT)
    qtbot.waitUntil(lambda: cells_in(panel, "disk") == every, timeout=PATIENCE)
    assert "0 B of " in cpu_words(panel)
    qtbot.waitUntil(lambda: " of main memory given up: 0 B of " in its.text, timeout=PATIENCE)
    QTest.mouseClick(its.warm, LEFT)
    qtbot.waitUntil(lambda: cells_in(panel, "CPU") == every, timeout=PATIENCE)
    qtbot.waitUntil(lambda: " of experts called into memory: " in its.text, timeout=PATIENCE)
