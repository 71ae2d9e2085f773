"""The wizard's last page over a scripted engine: loading, cancelling, failing, and on to the chat."""

import pytest
from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QWidget
from wizard_driver import PATIENCE, choose, go_to, load, opened_wizards, wait_for_load, write_listed_model

from app.ui.controller import FAILED, READY
from app.ui.wizard.flow import LoadState, View


@pytest.fixture
def make_wizard(qtbot, theme, store):
    with opened_wizards(qtbot, theme, store) as make:
        yield make


@pytest.fixture
def model(home):
    return write_listed_model()


def test_the_whole_way_with_enter_alone_ends_in_the_chat(make_wizard, model, qtbot):
    wizard = make_wizard()
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.LOAD)
    wait_for_load(qtbot, wizard)
    assert wizard.controller.state == READY
    assert wizard.controller.loaded_plan == wizard.flow.choices.plan
    assert wizard.next_button.text() == "&Start chatting"
    assert wizard.next_button.hasFocus()
    with qtbot.waitSignal(wizard.finished, timeout=PATIENCE):
        qtbot.keyClick(wizard.next_button, Qt.Key.Key_Return)


def test_a_cancelled_load_leads_back_to_the_plan_with_everything_kept(make_wizard, model, qtbot):
    wizard = make_wizard("--hold-load")
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.LOAD)
    assert wizard.load_page.cancel_button.hasFocus()
    with qtbot.waitSignal(wizard.controller.state_changed, timeout=PATIENCE):
        wizard.load_page.cancel_button.click()
        assert wizard.load_page.text == "Cancelling…"
    assert wizard.flow.view is View.PLAN
    assert wizard.page is wizard.plan_page
    assert not wizard.load_page._tick.isActive()
    assert wizard.flow.choices.plan is not None
    assert wizard.next_button.isEnabled()


def test_escape_cancels_a_running_load(make_wizard, model, qtbot):
    wizard = make_wizard("--hold-load")
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.LOAD)
    qtbot.keyClick(wizard, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: wizard.flow.view is View.PLAN, timeout=PATIENCE)


def test_a_loaded_model_shows_prediction_beside_report_and_every_difference(make_wizard, model, qtbot):
    wizard = make_wizard("--difference", "Layer 3: planned on Vulkan0, loaded on CPU.")
    load(qtbot, wizard, model)
    said = wizard.load_page.text
    assert "Layer 3: planned on Vulkan0, loaded on CPU." in said
    plan = wizard.flow.choices.plan
    experts = next(part.bytes for part in plan.memory if (part.device, part.part) == ("CPU", "experts"))
    assert f"CPU, experts: {experts} predicted, {int(experts * 0.98)} reported" in said
    assert "CPU, margin: " in said
    assert "predicted, None reported" in said


def test_a_failed_load_is_told_with_advice_and_a_smaller_plan_is_loaded_on_demand(make_wizard, model, qtbot):
    wizard = make_wizard("--fail-load", "out_of_memory")
    load(qtbot, wizard, model)
    assert wizard.flow.view is View.LOAD
    assert wizard.flow.load is LoadState.FAILED
    assert "use a smaller plan" in wizard.load_page.banner.text
    assert not wizard.next_button.isEnabled()
    tried = wizard.controller.plan
    smaller, _again = wizard.load_page.banner._actions
    smaller.click()
    assert wizard.flow.load is LoadState.RUNNING
    plan = wizard.controller.plan
    assert plan.n_ctx == tried.n_ctx // 2
    assert tried.pool_bytes > 0
    assert (plan.pool_bytes, plan.staging_bytes <= tried.staging_bytes) == (0, True)
    assert "Vulkan0" not in plan.expert_lanes.values()
    wait_for_load(qtbot, wizard)
    wizard.back_button.click()
    assert wizard.flow.view is View.PLAN
    assert "This is the smaller plan from the failed load" in wizard.plan_page.text
    assert wizard.plan_page.controls.context.value() == plan.n_ctx


def test_an_engine_that_dies_in_the_load_is_told_and_loading_again_starts_a_new_one(make_wizard, model, home, qtbot):
    requests = home / "requests"
    wizard = make_wizard("--crash-on-load", "--record", requests)
    load(qtbot, wizard, model)
    assert wizard.controller.state == FAILED
    assert "SIGKILL" in wizard.load_page.banner.text
    _smaller, again = wizard.load_page.banner._actions
    first = wizard.controller.plan
    again.click()
    assert wizard.flow.load is LoadState.RUNNING
    wait_for_load(qtbot, wizard)
    assert wizard.controller.plan == first
    assert requests.read_bytes().count(b'"type":"load"') == 2


def test_closing_the_error_of_a_failed_load_leads_back_to_the_plan(make_wizard, model, qtbot):
    wizard = make_wizard("--fail-load", "engine_failed")
    load(qtbot, wizard, model)
    wizard.load_page.banner.dismissed.emit()
    assert wizard.flow.view is View.PLAN


def test_the_plan_that_is_loaded_already_is_not_loaded_twice(make_wizard, model, qtbot, tmp_path):
    requests = tmp_path / "requests"
    wizard = make_wizard("--record", requests)
    load(qtbot, wizard, model)
    wizard.hide()
    wizard.show()
    assert wizard.flow.view is View.MODEL
    go_to(qtbot, wizard, View.LOAD)
    assert wizard.flow.load is LoadState.DONE
    assert requests.read_bytes().count(b'"type":"load"') == 1


def test_a_load_begun_elsewhere_leaves_the_wizard_where_it_is(make_wizard, model, qtbot):
    wizard = make_wizard()
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.PLAN)
    wizard.controller.set_plan(wizard.flow.choices.plan)
    with qtbot.waitSignal(wizard.controller.loaded, timeout=PATIENCE):
        wizard.controller.load()
    assert wizard.flow.view is View.PLAN
    assert wizard.page is wizard.plan_page
    assert wizard.flow.load is LoadState.NONE


def test_a_load_begun_elsewhere_and_its_failure_leave_the_wizard_where_it_is(make_wizard, model, qtbot):
    wizard = make_wizard("--fail-load", "out_of_memory")
    choose(qtbot, wizard, model)
    go_to(qtbot, wizard, View.PLAN)
    wizard.controller.set_plan(wizard.flow.choices.plan)
    with qtbot.waitSignal(wizard.controller.failed, timeout=PATIENCE):
        wizard.controller.load()
    assert wizard.flow.view is View.PLAN
    pages = (wizard.model_page, wizard.machine_page, wizard.plan_page, wizard.load_page)
    assert not any(page.banner.isVisible() for page in pages)


def test_no_part_of_a_page_is_ever_a_window_of_its_own(make_wizard, model, qapp, qtbot):
    windows = set()

    class Watch(QObject):
        def eventFilter(self, watched, event):  # noqa: N802 - the name is Qt's
            if event.type() is QEvent.Type.Show and isinstance(watched, QWidget) and watched.isWindow():
                windows.add(type(watched).__name__)
            return False

    watch = Watch()
    qapp.installEventFilter(watch)
    try:
        wizard = make_wizard("--fail-load", "out_of_memory")
        load(qtbot, wizard, model)
        wizard.go_back()
        wizard.plan_page.controls.gpu.setCurrentIndex(1)
        make_wizard("--no-gpu")
    finally:
        qapp.removeEventFilter(watch)
    assert windows == {"Wizard"}
