"""One search over the real engine with the demonstration model, so short that it is the course that is tested."""

import pytest

from app.library import demo
from app.placement.evidence import NO_EVIDENCE
from app.placement.planner import Wishes
from app.placement.tuner.held import Held
from app.ui.controller import LENT, READY, Controller
from app.ui.engine import Engine
from app.ui.tuning.autotune import AutoTune

LONG = 120_000


@pytest.fixture
def controller(qapp, store, home):
    made = Controller(Engine(), store, home)
    yield made
    made.shutdown()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "demo.gguf"
    demo.build_demo(path, experts=4, used=2)
    return path


def test_a_search_measures_plans_of_a_real_model_and_gives_it_back(controller, model, qtbot):
    with qtbot.waitSignals([controller.machine_changed, controller.model_changed], timeout=LONG):
        controller.probe()
        controller.choose_model(model)
    controller.set_plan(controller.propose_plan(Wishes(gpu=None, n_ctx=512, threads=1)))
    with qtbot.waitSignal(controller.loaded, timeout=LONG):
        controller.load()
    tuning = AutoTune(controller)

    def end_after_the_second():
        if tuning.trial is not None and tuning.trial.number == 3:
            tuning.cancel()

    tuning.changed.connect(end_after_the_second)
    with qtbot.waitSignal(tuning.ended, timeout=LONG):
        tuning.start(10, Held(context=True, kv_type=True, threads=True, places=True), NO_EVIDENCE)
        qtbot.waitUntil(lambda: controller.state == LENT, timeout=LONG)
    tried = tuning.result.tried
    assert tuning.result.cancelled
    assert tried[0].decode.median > 0
    assert tried[0].prompt.median > 0
    qtbot.waitUntil(lambda: controller.state == READY, timeout=LONG)
    with qtbot.waitSignal(controller.token, timeout=LONG):
        controller.ask("Hello?")
    with qtbot.waitSignal(controller.conversation.ended, timeout=LONG):
        controller.stop()
    tuning.shutdown()
