"""The page of knobs over a scripted engine: every knob by mouse and keyboard, what is live, what waits for a reload."""

import msgspec
import pytest
from knobs_driver import (
    FACTS,
    PATIENCE,
    POOL,
    box_of,
    by_keyboard,
    by_mouse,
    choose,
    load,
    page_over,
    press,
    settled,
    value,
)
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QLabel, QPushButton
from ui_factories import make_facts

from app.ui.controller import READY
from app.ui.orders import Orders
from app.ui.tuning import knob_turner
from app.ui.tuning.evidence import TuningEvidence
from app.ui.tuning.knob_values import LIVE, all_keys
from app.ui.tuning.knobs_page import KnobsPage


@pytest.fixture
def make_page(theme, qtbot):
    return lambda controller, **size: page_over(controller, theme, qtbot, **size)


@pytest.fixture
def loaded(make_controller, qtbot):
    """A controller whose model is loaded with its experts on the CPU and a pool."""
    return lambda *arguments, facts=FACTS, **wishes: load(make_controller(*arguments, facts=facts), qtbot, **wishes)


@pytest.fixture
def chosen(make_controller, qtbot):
    """A controller whose model is chosen and planned, not loaded."""
    return lambda *arguments, facts=FACTS, machine=None, **wishes: choose(
        make_controller(*arguments, facts=facts, machine=machine), qtbot, **wishes
    )


# ---- every knob ------------------------------------------------------------------------------


@pytest.mark.parametrize("hand", [by_mouse, by_keyboard])
@pytest.mark.parametrize("is_loaded", [True, False])
def test_every_knob_changes_the_plan_says_what_it_does_and_what_that_is_predicted_to_cost(
    loaded, chosen, make_page, qtbot, hand, is_loaded
):
    controller = loaded() if is_loaded else chosen()
    page = make_page(controller)
    at_first = {key: value(page, key) for key in all_keys()}
    for key in all_keys():
        row = page.rows[key]
        if not row.editor.widget.isEnabled():
            # The one that the policy of the moment does not use, and memory of experts that are copied.
            assert key in ("decay", "window", "resident_bytes"), key
            continue
        before, said = value(page, key), row.text
        hand(page, key, qtbot)
        assert value(page, key) != before, key
        assert row.editor.value == value(page, key), key
        assert row.text != said, key
        if is_loaded:
            assert "Predicted:" in row.text, (key, row.text)
            # What the loaded model follows already is told apart from what waits for a reload.
            assert ("(changed since the load)" if key in LIVE else "(changed)") in row.text, key
            assert ("At the load:" in row.text) == (key in LIVE), row.text
            assert ("at once" in row.text or "without a reload" in row.text) == (key in LIVE), row.text
            press(page, row.revert_button, qtbot)
            assert value(page, key) == at_first[key], key
            assert "(changed" not in row.text, key
        else:
            page._orders.stack.undo()
            settled(page, qtbot)
            assert value(page, key) == before, key
    assert (controller.state == READY) == is_loaded


def test_live_knobs_reach_the_engine_and_leave_nothing_to_apply(loaded, make_page, qtbot):
    controller = loaded()
    page = make_page(controller)
    controller.cache.watch(page, experts=False)
    by_keyboard(page, "insert_cap", qtbot)
    qtbot.waitUntil(lambda: controller.cache.facts is not None and controller.cache.facts.policy.insert_cap == 3)
    assert controller.loaded_plan.policy.insert_cap == 3
    by_keyboard(page, "pool_bytes", qtbot)
    qtbot.waitUntil(lambda: controller.cache.facts is None or controller.loaded_plan.pool_bytes == 2 * POOL)
    assert not page.footer.apply_button.isVisibleTo(page)
    assert page.footer.text.startswith("This plan is loaded.")


def test_knobs_that_need_a_reload_are_gathered_under_one_button_with_what_the_last_load_took(loaded, make_page, qtbot):
    controller = loaded()
    page = make_page(controller)
    by_keyboard(page, "n_ctx", qtbot)
    by_keyboard(page, "threads", qtbot)
    by_keyboard(page, "experts_used", qtbot)
    assert "context 8,192 → 16,384" in page.footer.text
    assert "threads 6 → 7" in page.footer.text
    assert "active experts as trained → 3" in page.footer.text
    assert page.footer.apply_button.text() == "Apply (reload ≈ 1.40 s)"
    assert "as the last load took" in page.footer.apply_button.toolTip()
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        qtbot.mouseClick(page.footer.apply_button, Qt.MouseButton.LeftButton)
    settled(page, qtbot)
    assert (controller.loaded_plan.n_ctx, controller.loaded_plan.threads) == (16384, 7)
    assert controller.loaded_plan.experts_used == 3
    assert page.footer.text.startswith("This plan is loaded.")
    assert not any("(changed)" in row.text for row in page.rows.values())


def test_without_a_load_there_is_no_time_and_everything_is_predicted_all_the_same(chosen, make_page, qtbot):
    page = make_page(chosen())
    assert page.footer.apply_button.text() == "Load the model"
    by_keyboard(page, "n_ctx", qtbot)
    assert "Predicted: Vulkan0 +" in page.rows["n_ctx"].text
    assert "With the next load." in page.rows["n_ctx"].text
    assert "tokens/s in answers" in page._outlook.text()
    assert "planner's own choice" in page._basis.text()
    assert not page.rows["n_ctx"].revert_button.isVisibleTo(page)


def test_discard_goes_back_to_what_is_loaded_and_undo_brings_the_change_back(loaded, make_page, qtbot):
    controller = loaded()
    page = make_page(controller)
    by_keyboard(page, "n_ctx", qtbot)
    press(page, page.footer.discard_button, qtbot)
    assert value(page, "n_ctx") == 8192
    page._orders.stack.undo()
    settled(page, qtbot)
    assert value(page, "n_ctx") == 16384
    assert "(changed)" in page.rows["n_ctx"].text
    page._orders.stack.undo()
    settled(page, qtbot)
    assert value(page, "n_ctx") == 8192
    assert page._orders.stack.index() == 0


def test_steps_in_a_row_are_one_step_of_the_history(loaded, make_page, qtbot):
    page = make_page(loaded())
    box = box_of(page, "threads")
    box.setFocus()
    for _ in range(3):
        qtbot.keyClick(box, Qt.Key.Key_Up)
    settled(page, qtbot)
    assert value(page, "threads") == 9
    assert page._orders.stack.count() == 1
    assert page._orders.stack.undoText() == "Threads for answers 6 → 9"


# ---- automatic -------------------------------------------------------------------------------


def test_automatic_returns_a_knob_to_the_planners_choice(loaded, make_page, qtbot):
    page = make_page(loaded())
    by_keyboard(page, "threads", qtbot)
    row = page.rows["threads"]
    assert row.automatic_button.toolTip() == "The planner's choice: 6"
    press(page, row.automatic_button, qtbot)
    assert value(page, "threads") == 6
    assert not row.automatic_button.isEnabled()
    by_keyboard(page, "gpu", qtbot)
    assert value(page, "gpu") is None
    press(page, page.rows["gpu"].automatic_button, qtbot)
    assert value(page, "gpu") == "Vulkan0"


def test_active_experts_are_marked_as_changing_answers_and_automatic_is_the_models_own(loaded, make_page, qtbot):
    page = make_page(loaded())
    row = page.rows["experts_used"]
    assert any(words.text() == "changes answers" and words.isVisibleTo(page) for words in row.findChildren(QLabel))
    assert "changes answers" in row.editor.widget.accessibleDescription()
    by_keyboard(page, "experts_used", qtbot)
    assert "this changes answers" in row.text
    press(page, row.automatic_button, qtbot)
    assert page._controller.plan.experts_used is None


# ---- what others do --------------------------------------------------------------------------


def test_a_plan_that_others_set_is_followed_and_another_model_too(loaded, make_page, qtbot):
    controller = loaded()
    page = make_page(controller)
    controller.set_plan(msgspec.structs.replace(controller.plan, threads=2))
    settled(page, qtbot)
    assert page.rows["threads"].editor.value == 2
    other = make_facts(name="Another", layers=3, experts=4)
    controller._set_facts(other)
    assert "Another has no plan yet." in page._empty.text()
    controller.set_plan(controller.propose_plan())
    settled(page, qtbot)
    assert page.rows["experts_used"].editor.widget.maximum() == 4
    assert page.footer.text.startswith("Another is not loaded.")
    assert not any("(changed)" in row.text for row in page.rows.values())
    controller.return_to_loaded()
    settled(page, qtbot)
    assert page.footer.text.startswith("This plan is loaded.")


def test_without_a_model_it_says_what_to_do(make_controller, theme, qtbot):
    controller = make_controller()
    page = KnobsPage(controller, Orders(controller, controller), TuningEvidence(controller, controller), theme)
    qtbot.addWidget(page)
    page.show()
    page.set_active(True)
    assert "Choose a model" in page._empty.text()
    assert not page.footer.isVisibleTo(page)


def test_a_page_that_is_not_seen_predicts_nothing_and_catches_up(loaded, make_page, qtbot):
    controller = loaded()
    page = make_page(controller)
    page.set_active(False)
    controller.set_plan(msgspec.structs.replace(controller.plan, threads=2))
    assert page.forecast.consequences is None
    qtbot.waitUntil(lambda: not controller.background.busy)
    assert page.forecast.consequences is None
    page.set_active(True)
    settled(page, qtbot)
    assert page.rows["threads"].editor.value == 2


def test_a_load_is_shown_and_can_be_cancelled_here(loaded, make_page, qtbot):
    controller = loaded("--load-ms", 50)
    page = make_page(controller)
    by_keyboard(page, "n_ctx", qtbot)
    qtbot.mouseClick(page.footer.apply_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: page.footer.cancel_button.isVisibleTo(page))
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        pass
    settled(page, qtbot)


def test_what_was_changed_by_hand_before_the_page_was_opened_is_told_against_the_load(loaded, make_page, qtbot):
    controller = loaded()
    Orders(controller, controller).set_pool(2 * POOL)
    qtbot.waitUntil(lambda: not controller.cache.resizing)
    page = make_page(controller)
    row = page.rows["pool_bytes"]
    assert row.revert_button.accessibleName() == "Expert pool: back to 64.0 MiB, as it was loaded"
    press(page, row.revert_button, qtbot)
    assert value(page, "pool_bytes") == POOL


def test_what_waits_for_a_reload_is_told_against_what_runs_now_and_not_against_the_load(loaded, make_page, qtbot):
    controller = loaded()
    page = make_page(controller)
    by_keyboard(page, "pool_bytes", qtbot)
    qtbot.waitUntil(lambda: not controller.cache.resizing)
    settled(page, qtbot)
    found = page.forecast.consequences
    assert found.before.memory == found.now.memory
    assert "At the load: 64.0 MiB" in page.rows["pool_bytes"].text
    assert "Vulkan0 +" in page.rows["pool_bytes"].text
    by_keyboard(page, "n_ctx", qtbot)
    assert "Runs now with: 8" in page.rows["n_ctx"].text
    assert "pool" not in page.footer.text.partition("\n")[0]
    found = page.forecast.consequences
    changed = {device: found.now.memory[device] - found.before.memory[device] for device in found.now.memory}
    back = found.without["n_ctx"].memory
    assert changed == {device: found.now.memory[device] - back[device] for device in found.now.memory}


def test_back_on_the_device_of_the_load_the_pool_is_as_it_runs_now(loaded, make_page, qtbot):
    controller = loaded()
    page = make_page(controller)
    gpu = value(page, "gpu")
    by_keyboard(page, "pool_bytes", qtbot)
    qtbot.waitUntil(lambda: not controller.cache.resizing)
    size = controller.loaded_plan.pool_bytes
    for wanted in (None, gpu):
        page.turner.turn_now("gpu", wanted)
        settled(page, qtbot)
        assert value(page, "gpu") == wanted
    assert value(page, "pool_bytes") == size != POOL
    assert controller.loaded_plan.pool_bytes == size
    assert page.footer.text.startswith("This plan is loaded.")


def test_the_next_knob_can_be_turned_after_an_error_that_nobody_expected(loaded, make_page, qtbot, monkeypatch):
    page = make_page(loaded())
    works = knob_turner.turned

    def fails(*_arguments):
        raise ZeroDivisionError

    monkeypatch.setattr(knob_turner, "turned", fails)
    with qtbot.captureExceptions() as caught:
        page.turner.turn_now("threads", 2)
        qtbot.waitUntil(lambda: bool(caught))
    assert not page.turner.busy
    assert "could not be worked out" in page.rows["threads"].text
    monkeypatch.setattr(knob_turner, "turned", works)
    page.turner.turn_now("threads", 2)
    settled(page, qtbot)
    assert value(page, "threads") == 2


# ---- by anybody ------------------------------------------------------------------------------


def test_every_control_has_a_name_and_is_reached_by_the_tab_key(loaded, make_page, qtbot):
    page = make_page(loaded())
    wanted = {box_of(page, key) for key in all_keys() if box_of(page, key).isEnabled()}
    for key in all_keys():
        assert box_of(page, key).accessibleName(), key
        assert box_of(page, key).accessibleDescription(), key
    for button in page.findChildren(QPushButton):
        assert button.accessibleName() or button.text()
    first = box_of(page, "n_ctx")
    first.setFocus()
    reached = {first}
    for _ in range(120):
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
        reached.add(QApplication.focusWidget())
        if wanted <= reached:
            break
    assert wanted <= reached


def test_scrolling_the_page_over_a_knob_changes_nothing(loaded, make_page, qtbot):
    page = make_page(loaded())
    for key in ("threads", "kv_type", "threshold"):
        box = box_of(page, key)
        box.clearFocus()
        before = value(page, key)
        middle = QPointF(box.rect().center())
        wheel = QWheelEvent(
            middle, QPointF(box.mapToGlobal(middle.toPoint())), QPoint(), QPoint(0, 120), Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        QApplication.sendEvent(box, wheel)
        settled(page, qtbot)
        assert value(page, key) == before


def test_a_narrow_page_is_not_wider_than_its_dock(loaded, make_page, theme, qapp, qtbot):
    theme.apply(qapp)
    page = make_page(loaded(), width=320)
    for key in ("residency", "kind", "kv_type", "experts_used"):  # their way back and marks take room too
        by_keyboard(page, key, qtbot)
    inner = page._scroll.widget()
    assert inner.minimumSizeHint().width() <= page._scroll.viewport().width()
