"""The auto-tune page: what it explains, what can be tried, the table of a search, and what comes of it."""

import msgspec
import pytest
from controller_driver import PATIENCE, answer, until
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QAbstractSpinBox, QCheckBox, QTableView

from app.placement.plan import CPU_LANE
from app.placement.planner import with_lanes
from app.ui.controller import LENT, READY
from app.ui.orders import Orders
from app.ui.tuning.autotune_page import AutoTunePage
from app.ui.tuning.evidence import TuningEvidence
from app.ui.tuning.trials_model import GAIN, PLAN, TrialsModel

LONG = 30 * PATIENCE


@pytest.fixture
def make_page(theme, qtbot):
    """`make_page(controller) -> AutoTunePage`, shown and active."""
    made = []

    def make(controller):
        evidence = TuningEvidence(controller)
        page = AutoTunePage(controller, Orders(controller), evidence, theme)
        page.resize(440, 700)
        qtbot.addWidget(page)
        made.append((page, evidence))
        page.show()
        page.set_active(True)
        return page

    yield make
    for page, evidence in made:
        page.shutdown()
        evidence.set_active(False)


def on_cpu(controller, pool_mib=16):
    """Have the loaded model's experts on the CPU, with a pool; loads it again."""
    plan = with_lanes(controller.plan, controller.facts, controller.machine, controller.facts.moe_layers, CPU_LANE)
    controller.set_plan(msgspec.structs.replace(plan, pool_bytes=pool_mib * 1024**2))
    controller.load()


def explained(qtbot, page):
    until(qtbot, lambda: page.explainer.explained is not None and page.explain_card.buttons != [])
    return page.explainer.explained


# ---- the explanation -------------------------------------------------------------------------------


def test_without_a_model_it_says_what_will_be_there(make_controller, make_page, qtbot):
    page = make_page(make_controller())
    until(qtbot, lambda: "Choose a model" in page.explain_card.text)
    assert not page.tune_card.start_button.isEnabled()
    assert "Choose a model" in page.tune_card.text


def test_it_says_what_bounds_the_machine_and_what_would_help(loaded_controller, make_page, qtbot):
    controller = loaded_controller()
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        on_cpu(controller)
    page = make_page(controller)
    told = explained(qtbot, page).explanation
    assert told.bound in page.explain_card.text
    assert told.advice[0].words in page.explain_card.text
    assert "Predicted: decoding +" in page.explain_card.text
    assert "no measurement of this machine is used" in page.explain_card.text


def test_an_answer_is_told_beside_the_prediction(loaded_controller, make_page, qtbot):
    controller = loaded_controller("--token-ms", 5)
    page = make_page(controller)
    answer(qtbot, controller)
    until(qtbot, lambda: "(measured)" in page.explain_card.text)
    assert "The last answer came with" in page.explain_card.text


def test_a_change_can_be_tried_applied_and_undone(loaded_controller, make_page, qtbot):
    controller = loaded_controller()
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        on_cpu(controller)
    page = make_page(controller)
    told = explained(qtbot, page)
    place = next(place for place, its in enumerate(told.explanation.advice) if its.kind != "pool_bytes")
    wanted = told.explanation.advice[place].plan
    before = controller.plan
    qtbot.mouseClick(page.explain_card.buttons[place], Qt.MouseButton.LeftButton)
    assert controller.plan.loads_like(wanted)
    assert page.footer.apply_button.isVisible()
    page._orders.stack.undo()
    assert controller.plan.loads_like(before)
    page._orders.stack.redo()
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        qtbot.mouseClick(page.footer.apply_button, Qt.MouseButton.LeftButton)
    assert controller.loaded_plan.loads_like(wanted)
    assert not page.footer.isVisible()


def test_a_larger_pool_is_tried_without_a_reload(loaded_controller, make_page, qtbot):
    controller = loaded_controller()
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        on_cpu(controller)
    page = make_page(controller)
    told = explained(qtbot, page)
    before = controller.plan
    advice = next(its for its in told.explanation.advice if its.kind == "pool_bytes")
    larger = msgspec.structs.replace(before, pool_bytes=24 * 1024**2)
    page._try(msgspec.structs.replace(advice, plan=larger))
    until(qtbot, lambda: controller.cache.facts is not None and not controller.cache.resizing)
    assert controller.state == READY
    assert controller.loaded_plan.pool_bytes == 24 * 1024**2


def test_advice_about_a_plan_that_was_changed_meanwhile_is_not_taken(loaded_controller, make_page, qtbot):
    controller = loaded_controller()
    page = make_page(controller)
    advice = explained(qtbot, page).explanation.advice[0]
    other = msgspec.structs.replace(controller.plan, threads=1)
    page._orders.edit_plan(other, "one thread")
    page._try(advice)
    assert controller.plan == other


# ---- the search ------------------------------------------------------------------------------------


def hold_places(page):
    page.tune_card.held_boxes["places"].setChecked(True)
    page.tune_card.minutes_box.setValue(1)


def test_a_search_is_seen_live_and_its_plan_is_loaded(loaded_controller, make_page, qtbot):
    controller = loaded_controller("--best-threads", 4, "--fail-threads", 14)
    page = make_page(controller)
    explained(qtbot, page)
    hold_places(page)
    card = page.tune_card
    seen_rows = set()
    page.tuning.changed.connect(lambda: seen_rows.add(len(card.trials.rows)))
    with qtbot.waitSignal(page.tuning.kept, timeout=LONG), qtbot.waitSignal(page.tuning.ended, timeout=LONG):
        qtbot.mouseClick(card.start_button, Qt.MouseButton.LeftButton)
        until(qtbot, lambda: len(card.trials.rows) > 0)
        assert card.cancel_button.isVisible()
        assert page.explain_card.isHidden()
    assert len(seen_rows) > 2, "rows come one by one"
    texts = [card.trials.index(row, PLAN).data() for row in range(len(card.trials.rows))]
    assert texts[0] == "The plan as it is"
    place = texts.index("4 threads")
    assert card.trials.index(place, GAIN).data() == "+40 %"
    failed = next(text for text in texts if text.startswith("14 threads"))
    assert "failed: The script has no memory" in failed
    assert "4 threads: 35.7 → 50.0 tokens/s (+40 %, measured)" in card.text
    assert "Faster beyond noise" in card.text
    until(qtbot, lambda: "It is kept" in card.text)
    until(qtbot, lambda: controller.state == READY)
    assert controller.loaded_plan.threads == 6
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        qtbot.mouseClick(card.use_button, Qt.MouseButton.LeftButton)
    assert controller.loaded_plan.threads == 4
    assert "decoding 1.40×" in controller.plan.tuned


def test_a_search_can_be_ended_by_keyboard_and_the_best_so_far_be_tried(loaded_controller, make_page, qtbot):
    controller = loaded_controller("--best-threads", 4, "--hold-measure")
    page = make_page(controller)
    explained(qtbot, page)
    card = page.tune_card
    card.start_button.setFocus()
    qtbot.keyClick(card.start_button, Qt.Key.Key_Space)
    until(qtbot, lambda: page.tuning.fraction == 0.5)
    assert controller.state == LENT
    assert "Trial 1: The plan as it is" in card.text
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        qtbot.keyClick(card.cancel_button, Qt.Key.Key_Space)
    assert "The plan stays as it is." in card.text
    assert not card.use_button.isVisible()
    assert card.start_button.isEnabled()
    assert page.explain_card.isVisible()


def test_what_was_chosen_by_hand_is_held_unless_the_user_says_otherwise(loaded_controller, make_page, qtbot):
    from app.placement.planner import Wishes

    controller = loaded_controller()
    controller.set_plan(controller.propose_plan(Wishes(n_ctx=1024)))
    page = make_page(controller)
    explained(qtbot, page)
    boxes = page.tune_card.held_boxes
    assert boxes["context"].text() == "context (1,024)"
    assert {name: box.isChecked() for name, box in boxes.items()} == {
        "context": True,
        "kv_type": False,
        "threads": False,
        "places": False,
    }
    qtbot.mouseClick(boxes["context"], Qt.MouseButton.LeftButton, pos=boxes["context"].rect().center())
    boxes["context"].setChecked(False)
    page.tune_card.suggest_held(page.explainer.explained.by_hand)
    assert not page.tune_card.held.context


def test_while_an_answer_runs_no_search_begins(loaded_controller, make_page, qtbot):
    controller = loaded_controller("--hold-after", 2)
    page = make_page(controller)
    explained(qtbot, page)
    controller.ask("Hello?")
    assert not page.tune_card.start_button.isEnabled()
    assert "answering" in page.tune_card.text
    with qtbot.waitSignal(controller.finished, timeout=PATIENCE):
        controller.stop()
    until(qtbot, page.tune_card.start_button.isEnabled)


def test_a_hidden_page_explains_nothing_and_a_search_goes_on(loaded_controller, make_page, qtbot):
    controller = loaded_controller("--best-threads", 4, "--measure-ms", 5)
    page = make_page(controller)
    explained(qtbot, page)
    hold_places(page)
    with qtbot.waitSignal(page.tuning.ended, timeout=LONG):
        page._start()
        page.set_active(False)
    assert page.tuning.result.best.threads == 4
    until(qtbot, lambda: controller.state == READY)
    before = page.explainer.explained
    controller.set_plan(msgspec.structs.replace(controller.plan, threads=2))
    qtbot.wait(400)  # longer than the explainer waits; nothing can be awaited that must not come
    assert page.explainer.explained is before
    page.set_active(True)
    until(qtbot, lambda: page.explainer.explained is not before)


def test_every_control_has_a_name_and_a_keyboard_path(loaded_controller, make_page, qtbot):
    page = make_page(loaded_controller())
    explained(qtbot, page)
    controls = [
        its
        for kind in (QAbstractButton, QAbstractSpinBox, QCheckBox, QTableView)
        for its in page.findChildren(kind)
        if its.isVisible() and not its.objectName().startswith("qt_")
    ]
    assert len(controls) > 6
    for control in controls:
        name = control.accessibleName() or (control.text() if hasattr(control, "text") else "")
        assert name, control
        assert control.focusPolicy() & Qt.FocusPolicy.TabFocus, name


def test_the_table_is_a_sound_model(loaded_controller, make_page, qtbot, qtmodeltester):
    controller = loaded_controller("--best-threads", 4)
    page = make_page(controller)
    explained(qtbot, page)
    hold_places(page)
    model = TrialsModel()
    qtmodeltester.check(model)
    page.tuning.changed.connect(lambda: model.show_result(page.tuning.result, page.tuning.trial))
    with qtbot.waitSignal(page.tuning.ended, timeout=LONG):
        page._start()
    qtmodeltester.check(page.tune_card.trials)
    model.show_result(page.tuning.result, None)
    assert model.rowCount() == len(page.tuning.result.tried)
    told = model.index(1, 0).data(Qt.ItemDataRole.AccessibleTextRole)
    assert "tokens/s (" in told
    assert "gain" in told
    model.show_result(None, None)
    assert model.rowCount() == 0
    until(qtbot, lambda: controller.state == READY)
