"""The curve page over the real engine: a drag resizes the pool, an answer is measured and its routing recorded."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from vulkan_driver import (  # noqa: F401 - fixtures
    DEVICE,
    EAGER,
    MIB,
    demo_model,
    software_gpu,
    until,
    with_a_driver_that_lives,
    with_memory,
)

from app.engine.protocol import Sampling
from app.library.routing_records import recorded_hits
from app.placement.plan import CPU_LANE, Plan
from app.placement.speed.learning import LEAST_DECODED
from app.ui.controller import READY, Controller
from app.ui.engine import Engine
from app.ui.orders import Orders
from app.ui.speed_memory import SpeedMemory
from app.ui.tuning import evidence as evidence_module
from app.ui.tuning.curve_page import CurvePage
from app.ui.tuning.evidence import TuningEvidence

TOKENS = LEAST_DECODED + 4


@pytest.fixture
def make_page(demo_model, store, home, theme, qtbot, monkeypatch):  # noqa: F811 - a fixture
    """A page over the loaded demo with a pool of 64 MiB; its controller, and a wait that ends with the engine."""
    monkeypatch.setenv("GGML_VK_VISIBLE_DEVICES", "0")
    monkeypatch.setattr(evidence_module, "AFTER_ANSWER_MILLISECONDS", 300)
    monkeypatch.setattr(evidence_module, "LEAST_MILLISECONDS", 300)
    monkeypatch.setattr(evidence_module, "LATE_READINGS", 1000)
    made = []

    def make():
        controller = Controller(Engine(), store, home, sampling=lambda: (Sampling(temperature=0), TOKENS))
        SpeedMemory(controller)
        evidence = TuningEvidence(controller)
        page = CurvePage(controller, Orders(controller), evidence, theme)
        made.append((controller, evidence, page))
        waiting = until(qtbot, controller)
        controller.probe()
        controller.choose_model(demo_model)
        waiting(lambda: controller.machine is not None and controller.facts is not None)
        facts = controller.facts
        lanes = dict.fromkeys(facts.moe_layers, CPU_LANE)
        plan = Plan(
            model_files=facts.files, gpu=DEVICE, expert_lanes=lanes, n_ctx=512, threads=2, threads_batch=2,
            pool_bytes=64 * MIB, policy=EAGER,
        )  # fmt: skip
        controller.set_plan(with_memory(plan, controller))
        controller.load()
        waiting(lambda: controller.loaded_facts is not None)
        qtbot.addWidget(page)
        page.resize(700, 620)
        page.show()
        page.set_active(True)
        waiting(lambda: page.curve is not None)
        return page, controller, evidence, waiting

    yield make
    for controller, evidence, page in made:
        page.shutdown()
        evidence.set_active(False)
        controller.shutdown()
        controller.engine.deleteLater()
        controller.deleteLater()


def test_a_drag_resizes_the_pool_and_an_answer_is_measured_and_recorded(make_page):
    def steps():
        page, controller, evidence, waiting = make_page()
        assert page.curve.points[-1].pool_bytes == controller.facts.bytes.experts
        port = page.plot.viewport()
        begin, end = (page.plot.place_of(size).toPoint() for size in (64 * MIB, 200 * MIB))
        QTest.mousePress(port, Qt.MouseButton.LeftButton, pos=begin)
        QTest.mouseMove(port, end)
        QTest.mouseRelease(port, Qt.MouseButton.LeftButton, pos=end)
        size = controller.plan.pool_bytes
        assert abs(size - 200 * MIB) < 8 * MIB
        waiting(lambda: not controller.cache.resizing and controller.cache.facts.pool.requested_bytes == size)
        controller.ask("The sea?")
        waiting(lambda: controller.state == READY and page.measured)
        (measured,) = page.measured
        assert 0.9 * size < measured.pool_bytes <= size
        assert "Measured with a pool of" in page.text
        waiting(lambda: evidence.recorded is not None and evidence.observations)
        assert evidence.recorded == recorded_hits(controller.facts)
        assert 0 < evidence.recorded.tokens <= TOKENS
        assert "of this model are recorded so far" in page.text

    with_a_driver_that_lives(steps)
