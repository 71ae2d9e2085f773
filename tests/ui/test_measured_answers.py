"""Every screen tells of the same measured answers, whichever of them is opened when."""

import msgspec
import pytest
from controller_driver import PATIENCE, answer, choose, until
from curve_driver import MIB, pooled
from memory_driver import load_mapped

from app.ui.measured_answers import CHANGED, DIFFERENT, SHORT
from app.ui.orders import Orders
from app.ui.truth_line import TruthLine
from app.ui.tuning.curve_page import CurvePage
from app.ui.tuning.evidence import TuningEvidence


@pytest.fixture
def open_page(qtbot, theme):
    """`open_page(controller) -> CurvePage`, opened now."""
    made = []

    def make(controller):
        evidence = TuningEvidence(controller)
        page = CurvePage(controller, Orders(controller), evidence, theme)
        qtbot.addWidget(page)
        made.append((page, evidence, controller))
        page.show()
        page.set_active(True)
        until(qtbot, lambda: page.curve is not None and not controller.background.busy)
        return page

    yield make
    for page, evidence, controller in made:
        page.shutdown()
        evidence.set_active(False)
        until(qtbot, lambda its=controller: not its.background.busy)


@pytest.fixture
def pool_loaded(qtbot, make_controller, tmp_path):
    """`pool_loaded(*engine_arguments) -> Controller` with every expert off the GPU and a pool."""

    def make(*arguments):
        controller = make_controller(*arguments)
        choose(qtbot, controller, tmp_path)
        controller.set_plan(pooled(controller, 8 * MIB))
        with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
            controller.load()
        return controller

    return make


def test_a_curve_that_is_opened_after_an_answer_tells_of_it_like_the_truth_line(qtbot, pool_loaded, open_page):
    controller = pool_loaded("--tokens", 30, "--token-ms", 2)
    line = TruthLine(controller)
    qtbot.addWidget(line)
    answer(qtbot, controller)
    page = open_page(controller)
    assert "in the last answer" in line.speed.full
    assert "Measured with a pool of" in page.text
    assert page.measured[0].rates == (controller.cache.last_finished.tokens_per_second,)


@pytest.mark.parametrize(
    ("arguments", "why_not", "words"),
    [
        (("--tokens", 5, "--token-ms", 2), SHORT, "an answer shorter than 16 tokens"),
        (("--tokens", 30, "--difference", "The KV cache is elsewhere."), DIFFERENT, "otherwise than planned"),
    ],
)
def test_an_answer_that_is_no_evidence_is_told_on_both_with_the_reason(
    qtbot, pool_loaded, open_page, arguments, why_not, words
):
    controller = pool_loaded(*arguments)
    line = TruthLine(controller)
    qtbot.addWidget(line)
    answer(qtbot, controller)
    page = open_page(controller)
    assert controller.answers.last.why_not == why_not
    assert "in the last answer" in line.speed.full
    assert page.measured == ()
    assert "The last answer reached" in page.text
    assert words in page.text
    assert "Nothing is measured yet" not in page.text


def test_an_answer_during_which_the_pool_changed_tells_of_no_plan(qtbot, pool_loaded, open_page):
    controller = pool_loaded("--tokens", 40, "--token-ms", 40)
    page = open_page(controller)
    plan = controller.loaded_plan
    with qtbot.waitSignal(controller.finished, timeout=PATIENCE):
        with qtbot.waitSignal(controller.token, timeout=PATIENCE):
            controller.ask("Hello?")
        controller.cache.set_pool(6 * MIB)
        controller.set_live_plan(msgspec.structs.replace(plan, pool_bytes=6 * MIB))
        controller.cache.changed.emit()
    assert (controller.answers.last.why_not, controller.answers.observations) == (CHANGED, ())
    assert "were changed while it came" in page.text


def test_answers_of_a_model_stay_known_over_a_reload_and_the_last_one_does_not(qtbot, pool_loaded):
    controller = pool_loaded("--tokens", 30)
    answer(qtbot, controller)
    assert controller.answers.last is not None
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.load_again()
    assert controller.answers.last is None
    assert len(controller.answers.observations) == 1


def test_an_answer_that_begins_while_a_budget_is_on_its_way_tells_of_no_plan(qtbot, make_controller, tmp_path):
    controller = make_controller("--tokens", 30)
    choose(qtbot, controller, tmp_path)
    load_mapped(controller, qtbot)
    answer(qtbot, controller)
    assert controller.answers.last.why_not == ""
    with qtbot.waitSignal(controller.finished, timeout=PATIENCE):
        assert Orders(controller).set_memory(8 * MIB)
        controller.ask("Hello?")
        assert controller.cache.budgeting
    assert controller.answers.last.why_not == CHANGED
    answer(qtbot, controller)
    assert controller.answers.last.plan.resident_bytes == 8 * MIB
