"""Hints in the window: judged beside it, shown with their evidence, fixed by a plan's change that is shown first."""

import msgspec
import pytest
from hint_driver import SLOW_RAM, SOON, hints_button, rules, wait_for
from PySide6.QtCore import Qt
from ui_factories import GIB, MIB, make_facts, make_machine

from app.doctor.hints import Change
from app.ui.hint_fixes import fixed
from app.ui.settings import HIDDEN_HINTS, Settings


@pytest.fixture
def settings(home):
    return Settings(home / "settings.json")


@pytest.fixture
def make_button(qtbot, settings):
    """`make_button(controller) -> HintsButton` that judges twenty milliseconds after a change."""
    made = []

    def make(controller):
        button = hints_button(controller, settings)
        qtbot.addWidget(button)
        made.append(button)
        return button

    yield make
    for button in made:
        button.shutdown()


def with_threads(controller, threads):
    controller.set_plan(msgspec.structs.replace(controller.plan, threads=threads))


@pytest.fixture
def crowded(loaded_controller, make_button, qtbot):
    """A loaded model whose engine computes with more threads than the machine has cores, and its button."""
    controller = loaded_controller("--no-gpu")
    with_threads(controller, 16)
    with qtbot.waitSignal(controller.loaded, timeout=10000):
        controller.load()
    button = make_button(controller)
    wait_for(qtbot, button, "threads")
    return controller, button


def test_without_hints_there_is_no_button(loaded_controller, make_button, qtbot):
    controller = loaded_controller()
    button = make_button(controller)
    qtbot.waitUntil(lambda: button.watch.facts is controller.loaded_facts, timeout=10000)
    assert rules(button) == []
    assert button.isHidden()


def test_the_button_tells_how_many_hints_there_are_and_which(crowded, qtbot):
    _, button = crowded
    assert button.text() == "1 hint"
    assert "More threads than cores" in button.accessibleName()
    assert not button.isHidden()


def test_a_hint_of_the_machine_is_there_before_any_model_is(make_controller, make_button, qtbot):
    controller = make_controller(machine=make_machine(ram=SLOW_RAM))
    button = make_button(controller)
    controller.probe()
    wait_for(qtbot, button, "single-channel")
    card = next(iter(button.panel.cards.values()))
    assert "16.0 GiB" in card.accessibleDescription()
    assert card.show_button.isHidden(), "no plan can add a module"


def test_a_fix_is_shown_as_a_difference_first_and_changes_the_plan_only_when_told(crowded, qtbot):
    controller, button = crowded
    button.open_panel()
    (card,) = button.panel.cards.values()
    assert card.show_button.hasFocus()
    qtbot.mouseClick(card.show_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not card.difference.isHidden(), timeout=10000)
    assert "Threads for answers: 16 → 6" in card.difference.text()
    assert "next load" in card.difference.text()
    assert controller.plan.threads == 16
    qtbot.mouseClick(card.change_button, Qt.MouseButton.LeftButton)
    assert controller.plan.threads == 6
    assert "load the model again" in card.difference.text()


def test_a_fix_is_one_step_that_can_be_undone(crowded, qtbot):
    controller, button = crowded
    panel = button.panel
    (card,) = panel.cards.values()
    card.show_button.click()
    qtbot.waitUntil(lambda: not card.change_button.isHidden(), timeout=10000)
    card.change_button.click()
    stack = panel._orders.stack
    assert stack.count() == 1
    assert "16 → 6" in stack.undoText()
    stack.undo()
    assert controller.plan.threads == 16


def test_a_fix_that_is_left_changes_nothing(crowded, qtbot):
    controller, button = crowded
    (card,) = button.panel.cards.values()
    card.show_button.click()
    qtbot.waitUntil(lambda: not card.keep_button.isHidden(), timeout=10000)
    card.keep_button.click()
    assert controller.plan.threads == 16
    assert card.difference.isHidden()
    assert not card.show_button.isHidden()


def test_after_a_reload_with_the_fix_the_hint_is_gone(crowded, qtbot):
    controller, button = crowded
    with_threads(controller, 6)
    with qtbot.waitSignal(controller.loaded, timeout=10000):
        controller.load()
    qtbot.waitUntil(lambda: rules(button) == [], timeout=10000)
    assert button.isHidden()


def test_what_the_user_hides_stays_hidden_on_this_machine_until_it_is_wanted_again(crowded, make_button, qtbot):
    controller, button = crowded
    button.open_panel()
    (card,) = button.panel.cards.values()
    qtbot.mouseClick(card.hide_button, Qt.MouseButton.LeftButton)
    assert rules(button) == []
    assert button.text() == "No hints"
    assert not button.isHidden(), "else nobody could get the hint back"
    again = make_button(controller)
    qtbot.waitUntil(lambda: again.watch.hidden == 1, timeout=10000)
    assert rules(again) == []
    qtbot.mouseClick(button.panel.hidden_button, Qt.MouseButton.LeftButton)
    assert rules(button) == ["threads"]


def test_what_is_hidden_on_one_machine_is_shown_on_another(crowded, settings):
    _, button = crowded
    button.watch.hide(button.watch.hints[0])
    (key,) = settings.get(HIDDEN_HINTS).split()
    rule, _, machine = key.partition("@")
    assert rule == "threads"
    settings.set(HIDDEN_HINTS, f"threads@{'0' * len(machine)}")
    button.watch._tell()
    assert rules(button) == ["threads"]


def test_escape_closes_the_hints(crowded, qtbot):
    _, button = crowded
    button.open_panel()
    qtbot.keyClick(button.panel, Qt.Key.Key_Escape)
    assert not button.panel.isVisible()


def test_a_card_stays_while_its_figures_change(crowded, qtbot):
    controller, button = crowded
    (card,) = button.panel.cards.values()
    with_threads(controller, 20)
    with qtbot.waitSignal(controller.loaded, timeout=10000):
        controller.load()
    qtbot.waitUntil(lambda: "20 threads" in card.accessibleDescription(), timeout=10000)
    assert list(button.panel.cards.values()) == [card]


def test_an_idle_pool_is_told_with_the_engines_own_reason(loaded_controller, make_button, qtbot):
    controller = loaded_controller("--no-pool", "the script has none")
    controller.set_plan(msgspec.structs.replace(controller.plan, pool_bytes=64 * MIB))
    button = make_button(controller)
    with qtbot.waitSignal(controller.loaded, timeout=10000):
        controller.load()
    controller.cache.watch(button, experts=False)
    wait_for(qtbot, button, "idle-pool")
    assert "the script has none" in next(h.evidence for h in button.watch.hints if h.rule == "idle-pool")


def test_samples_are_taken_only_while_an_answer_decodes(loaded_controller, make_button, qtbot):
    controller = loaded_controller("--hold-after", 3)
    button = make_button(controller)
    samples = button.watch.samples
    assert not samples.running
    assert samples.latest is None
    controller.ask("Why?")
    qtbot.waitUntil(lambda: samples.latest is not None, timeout=10000)
    assert samples.running
    assert samples.decoding[-1].engine_rss_bytes > 0
    with qtbot.waitSignal(controller.finished, timeout=10000):
        controller.stop()
    qtbot.waitUntil(lambda: not samples.running, timeout=10000)


def test_nothing_is_judged_more_often_than_the_interval_allows(crowded, qtbot):
    controller, button = crowded
    watch = button.watch
    watch._timer.setInterval(60_000)
    for threads in range(8, 16):
        with_threads(controller, threads)
    assert watch._timer.remainingTime() > 50_000 or watch._judging
    assert rules(button) == ["threads"]


def test_the_window_has_the_button_at_its_bottom_and_ends_with_its_engine(make_controller, settings, theme, qtbot):
    from app.ui.main_window import build_window

    controller = make_controller(machine=make_machine(ram=SLOW_RAM))
    window = build_window(controller, theme, settings)
    qtbot.addWidget(window)
    window.show()
    window.hints.watch._timer.setInterval(SOON)
    controller.probe()
    wait_for(qtbot, window.hints, "single-channel")
    assert window.statusBar().isAncestorOf(window.hints)
    assert window.hints.isVisible()
    assert window.hints.shortcut().toString() == "Ctrl+Shift+H"
    window.hints.click()
    assert window.hints.panel.isVisible()
    window.close()
    assert not window.hints.watch._timer.isActive()


# ---- what a fix makes of a plan -----------------------------------------------------------------


def a_plan(**changes):
    from app.placement.planner import make_plan

    facts, machine = make_facts(), make_machine()
    return facts, machine, msgspec.structs.replace(make_plan(facts, machine), **changes)


def test_several_changes_are_one_fix():
    facts, machine, plan = a_plan(threads=14, cpu_cores=(0, 1, 12))
    result = fixed((Change(key="threads", value=6), Change(key="cpu_cores", value=(0, 2, 4))), facts, machine, plan)
    assert [its.text for its in result.differences] == ["Threads for answers: 14 → 6", "Processors: 0, 1, 12 → 0, 2, 4"]
    assert (result.plan.threads, result.plan.cpu_cores) == (6, (0, 2, 4))
    assert not result.live


def test_a_fix_that_the_engine_follows_at_once_says_so():
    facts, machine, plan = a_plan()
    locked = msgspec.structs.replace(plan, policy=msgspec.structs.replace(plan.policy, lock_bytes=GIB))
    result = fixed((Change(key="lock_bytes", value=0),), facts, machine, locked)
    assert [its.text for its in result.differences] == ["Locked memory: 1.0 GiB → none"]
    assert result.live


def test_a_fix_that_does_not_fit_is_refused_with_the_reason():
    facts, machine, plan = a_plan(pool_bytes=0)
    result = fixed((Change(key="pool_bytes", value=64 * GIB),), facts, machine, plan)
    assert result.plan is None
    assert "Vulkan0" in result.refusal


def test_a_plan_that_is_so_already_has_no_difference():
    facts, machine, plan = a_plan(threads=6)
    assert fixed((Change(key="threads", value=6),), facts, machine, plan).differences == ()
