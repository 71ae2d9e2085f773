"""Knobs over the real engine: what is turned live is in force, and what needs a reload is what llama.cpp then does.

The pool lies on the software Vulkan device, where there is one.
"""

from pathlib import Path

import pytest
from knobs_driver import box_of, by_keyboard, page_over, settled, typed, value
from PySide6.QtCore import Qt

from app.engine import protocol
from app.library.demo import build_demo
from app.placement.planner import Wishes
from app.ui.controller import Controller
from app.ui.engine import Engine

PATIENCE = 60_000
MIB = 1024**2
LAYERS = 30
TOKENS = 8
GREEDY = protocol.Sampling(temperature=0)


@pytest.fixture(scope="module")
def demo_model(tmp_path_factory):
    path = tmp_path_factory.mktemp("demo") / "demo.gguf"
    build_demo(path)
    return path


@pytest.fixture
def load_demo(qapp, store, home, demo_model, qtbot, monkeypatch):
    """`load_demo(gpu=...)`: the demo model in the real engine, its experts on the CPU, with a pool on the GPU if so."""
    monkeypatch.setenv("GGML_VK_VISIBLE_DEVICES", "0")
    controllers = []

    def load(*, gpu):
        controller = Controller(Engine(), store, home, sampling=lambda: (GREEDY, TOKENS))
        controllers.append(controller)
        with qtbot.waitSignals([controller.machine_changed, controller.model_changed], timeout=PATIENCE):
            controller.probe()
            controller.choose_model(Path(demo_model))
        if gpu and not controller.machine.gpus:
            pytest.skip("no software Vulkan device: there is no pool to turn knobs of")
        device = controller.machine.gpus[0].device if gpu else None
        wishes = Wishes(gpu=device, whole_layers=0, pool_bytes=128 * MIB if gpu else 0, n_ctx=512, threads=2)
        controller.set_plan(controller.propose_plan(wishes))
        with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
            controller.load()
        return controller

    yield load
    for controller in controllers:
        controller.shutdown()
        controller.engine.deleteLater()
        controller.deleteLater()


def test_active_experts_are_those_that_llama_cpp_computes_with_after_apply(load_demo, theme, qtbot):
    controller = load_demo(gpu=False)  # the software driver takes minutes for a prompt
    page = page_over(controller, theme, qtbot)
    by_keyboard(page, "experts_used", qtbot)
    assert value(page, "experts_used") == 3
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        qtbot.mouseClick(page.footer.apply_button, Qt.MouseButton.LeftButton)
    settled(page, qtbot)
    assert controller.loaded_report.differences == ()
    assert page.footer.text.startswith("This plan is loaded.")
    with qtbot.waitSignal(controller.finished, timeout=PATIENCE) as finished:
        controller.ask("Name three colours.")
    report = finished.args[0]
    assert report.completion_tokens == TOKENS
    # Every decoded token was routed to three experts in each layer; the last one need not be decoded.
    assert (report.cache.hits + report.cache.misses) / LAYERS / 3 in (TOKENS - 1, TOKENS)


def test_live_knobs_are_in_force_at_once(load_demo, theme, qtbot):
    controller = load_demo(gpu=True)
    page = page_over(controller, theme, qtbot)
    controller.cache.watch(page, experts=False)
    by_keyboard(page, "insert_cap", qtbot)
    typed(page, "pool_bytes", "64", qtbot)
    qtbot.waitUntil(
        lambda: (
            controller.cache.facts is not None
            and controller.cache.facts.policy.insert_cap == 3
            and controller.cache.facts.pool.requested_bytes == 64 * MIB
        ),
        timeout=PATIENCE,
    )
    assert not page.footer.apply_button.isVisibleTo(page)
    assert box_of(page, "pool_bytes").value() == 64
