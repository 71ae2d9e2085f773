"""Orders for the main-memory tier in the lanes dock: warm up, release, and single experts sent there or to the disk."""

import pytest
from controller_driver import PATIENCE
from lanes_driver import ALT, CTRL, drag_cells, entries, hang, header_of, leave, offer, popup, select, shown, view_of
from memory_driver import MIB, budget_of, cells_in, cpu_words, mapped_panel, memory_of
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.errors import AppError, ErrorCode
from app.ui.lanes.mime import Dragged, pack, pack_cells

KEY, LEFT = Qt.Key, Qt.MouseButton.LeftButton
HALF = ("--memory-mib", 16)
"""Room for half of the 32 experts of 1 MiB."""


@pytest.fixture
def make_panel(loaded_controller, theme, qtbot):
    """A shown, watching panel; 4 layers of 8 experts of 1 MiB as they lie in the file."""
    return lambda *arguments, **wishes: mapped_panel(loaded_controller(*arguments), theme, qtbot, **wishes)


def buttons(panel):
    return header_of(panel, "CPU").memory_buttons


def some_in(panel, lane):
    """One expert of a lane, by layer."""
    layer, experts = next(iter(shown(panel)[lane].items()))
    return {layer: experts[:1]}


# ---- warm up and release ------------------------------------------------------------------------


def test_warm_up_and_release_by_mouse_say_what_they_do_and_do_it(make_panel, qtbot):
    panel = make_panel(*HALF)
    its = buttons(panel)
    assert "up to 16.0 MiB" in its.warm.toolTip()
    assert not its.release.isEnabled()
    QTest.mouseClick(its.warm, LEFT)
    qtbot.waitUntil(lambda: cells_in(panel, "CPU") == 16, timeout=PATIENCE)
    assert its.release.toolTip().startswith("Give 16.0 MiB of main memory back to other programs.")
    assert its.release.accessibleDescription() == its.release.toolTip()
    QTest.mouseClick(its.release, LEFT)
    qtbot.waitUntil(lambda: cells_in(panel, "CPU") == 0, timeout=PATIENCE)
    qtbot.waitUntil(lambda: "0 B of 32.0 MiB" in cpu_words(panel), timeout=PATIENCE)


def test_warm_up_and_release_by_keyboard(make_panel, qtbot):
    panel = make_panel(*HALF)
    its = buttons(panel)
    its.warm.setFocus()
    QTest.keyClick(its.warm, KEY.Key_Space)
    qtbot.waitUntil(lambda: memory_of(panel).resident_bytes == 16 * MIB, timeout=PATIENCE)
    its.release.setFocus()
    QTest.keyClick(its.release, KEY.Key_Space)
    qtbot.waitUntil(lambda: memory_of(panel).resident_bytes == 0, timeout=PATIENCE)
    assert not its.release.hasFocus()  # it takes no key any more


@pytest.mark.parametrize("lane", ["CPU", "disk"])
def test_warm_up_and_release_from_the_menu(make_panel, qtbot, lane):
    panel = make_panel(*HALF)
    for text, in_memory in (
        ("Warm up: read the hottest experts into memory", 16),
        ("Release the memory of experts", 0),
    ):
        view_of(panel, lane).ask_menu()
        with popup(qtbot) as menu:
            entries(menu)[text].trigger()
        qtbot.waitUntil(lambda wanted=in_memory: cells_in(panel, "CPU") == wanted, timeout=PATIENCE)


def test_the_gpus_menu_has_no_orders_for_memory(make_panel, qtbot):
    panel = make_panel(*HALF, pool=8 * MIB)
    view_of(panel, "Vulkan0").ask_menu()
    with popup(qtbot) as menu:
        assert not any("memory" in text for text in entries(menu))


# ---- the budget ---------------------------------------------------------------------------------


def test_a_budget_that_the_engine_did_not_have_at_the_load_can_be_asked_for_again(make_panel, qtbot):
    panel = make_panel(*HALF, budget=24 * MIB)
    qtbot.waitUntil(lambda: budget_of(panel) == 16, timeout=PATIENCE)
    assert panel.orders.set_memory(24 * MIB)
    qtbot.waitUntil(lambda: panel.notice.text == "The script has no memory for that.", timeout=PATIENCE)
    assert panel.orders.stack.count() == 0
    assert panel._controller.plan.resident_bytes == 24 * MIB
    panel.orders.set_memory(8 * MIB)
    assert not panel.orders.set_memory(8 * MIB), "it is on its way"
    qtbot.waitUntil(lambda: budget_of(panel) == 8, timeout=PATIENCE)
    assert not panel.orders.set_memory(8 * MIB), "it is there"


# ---- what came of it ----------------------------------------------------------------------------


def until_told(qtbot, panel, words):
    qtbot.waitUntil(lambda: words in buttons(panel).text, timeout=PATIENCE)


def test_what_came_of_an_order_is_told_by_the_engines_figures_and_read_out(make_panel, qtbot, monkeypatch):
    said = []
    monkeypatch.setattr("app.ui.lanes.memory_buttons.say", lambda _widget, words: said.append(words))
    panel = make_panel(*HALF)
    assert buttons(panel).text == ""
    QTest.mouseClick(buttons(panel).warm, LEFT)
    assert buttons(panel).text == "Asked the engine to read the hottest experts in…"
    until_told(qtbot, panel, "16.0 MiB of experts called into memory: 16.0 MiB of 32.0 MiB are there or being read.")
    QTest.mouseClick(buttons(panel).release, LEFT)
    assert buttons(panel).text == "Asked the engine to give up the memory of experts…"
    until_told(qtbot, panel, "16.0 MiB of main memory given up: 0 B of 32.0 MiB are in memory.")
    assert [words.split()[0] for words in said] == ["Asked", "16.0", "Asked", "16.0"]
    assert buttons(panel).text.rstrip(".") in header_of(panel, "CPU").accessibleName()


def test_an_order_is_no_news_any_more_when_the_next_answer_begins(make_panel, qtbot):
    panel = make_panel(*HALF)
    QTest.mouseClick(buttons(panel).warm, LEFT)
    until_told(qtbot, panel, "called into memory")
    panel._controller.ask("Hello?")
    qtbot.waitUntil(lambda: buttons(panel).text == "", timeout=PATIENCE)


def test_a_refused_order_is_told_where_it_was_given_and_in_the_notice(make_panel, qtbot):
    panel = make_panel(*HALF, "--fail-orders", "engine_failed")
    QTest.mouseClick(buttons(panel).warm, LEFT)
    until_told(qtbot, panel, "No experts were read in: The script fails this request.")
    assert panel.notice.text == "The script fails this request."
    assert cells_in(panel, "CPU") == 0


def test_an_engine_that_does_not_answer_is_told_and_so_is_its_end(make_panel, qtbot):
    panel = make_panel(*HALF, "--hold-orders")
    cache = panel._controller.cache
    cache._late.setInterval(1)
    QTest.mouseClick(buttons(panel).warm, LEFT)
    until_told(qtbot, panel, "Asked the engine to read the hottest experts in… It has not answered yet.")
    panel._controller.engine_watch.end(AppError(ErrorCode.ENGINE_FAILED, "It hangs."))
    until_told(qtbot, panel, "The model was unloaded, or its engine ended, before it was done.")
    assert not buttons(panel).warm.isEnabled()


# ---- single experts -----------------------------------------------------------------------------


def test_an_expert_dropped_on_the_cpu_lane_is_not_called_into_memory_but_what_would_do_it_is_offered(make_panel, qtbot):
    panel = make_panel(*HALF)
    model, cells = panel.state.board.model, some_in(panel, "disk")
    assert hang(panel, "CPU", pack_cells(model, cells))
    assert view_of(panel, "CPU").drops.offer.text.startswith("No single expert is called into memory")
    assert drag_cells(panel, "CPU", cells)
    assert panel.notice.text.startswith("This expert is on the disk. No single one can be called into memory")
    assert panel._controller.plan.pins == ()
    offer(panel, "Warm up: read 16.0 MiB").click()
    qtbot.waitUntil(lambda: cells_in(panel, "CPU") == 16, timeout=PATIENCE)


def test_a_larger_budget_is_offered_as_far_as_there_is_room(make_panel, qtbot):
    panel = make_panel(budget=16 * MIB)
    QTest.mouseClick(buttons(panel).warm, LEFT)
    qtbot.waitUntil(lambda: cells_in(panel, "CPU") == 16, timeout=PATIENCE)
    assert drag_cells(panel, "CPU", {layer: experts for layer, experts in shown(panel)["disk"].items() if layer < 2})
    button = offer(panel, "Raise the budget from 16.0 MiB to ")
    assert [its.text() for its in panel.notice.buttons if its is not button] == [
        "Warm up: read the hottest in, in place of others"  # there is no room left
    ]
    button.click()
    qtbot.waitUntil(lambda: cells_in(panel, "CPU") > 16, timeout=PATIENCE)
    panel.orders.stack.undo()
    qtbot.waitUntil(lambda: budget_of(panel) == 16, timeout=PATIENCE)


def test_of_a_mixed_selection_those_in_the_pool_come_to_the_cpu_and_the_rest_is_told(make_panel, qtbot):
    panel = make_panel(*HALF, pool=8 * MIB)
    panel.orders.pin({0: (0,)}, "gpu")
    qtbot.waitUntil(lambda: 0 in shown(panel)["Vulkan0"].get(0, ()), timeout=PATIENCE)
    panel.orders.to_lane({0: (0, 5)}, "CPU")
    assert panel.notice.text.startswith("This expert is on the disk.")
    assert [(pin.layer, pin.expert, pin.pin) for pin in panel._controller.plan.pins] == [(0, 0, "cpu")]


def test_an_expert_sent_to_the_disk_by_keyboard_stays_and_giving_all_up_is_offered(make_panel, qtbot):
    panel = make_panel(*HALF)
    QTest.mouseClick(buttons(panel).warm, LEFT)
    qtbot.waitUntil(lambda: cells_in(panel, "CPU") == 16, timeout=PATIENCE)
    select(panel, some_in(panel, "CPU"))
    view = view_of(panel, "CPU")
    view.setFocus()
    QTest.keyClick(view, KEY.Key_Right, ALT)
    assert panel.notice.text.startswith("This expert is in memory. No single one can be sent to the disk")
    offer(panel, "Give up all 16.0 MiB").click()
    qtbot.waitUntil(lambda: cells_in(panel, "CPU") == 0, timeout=PATIENCE)


def test_the_keyboard_selects_all_of_the_disk_lane(make_panel, qtbot):
    panel = make_panel(*HALF)
    view = view_of(panel, "disk")
    view.setFocus()
    QTest.keyClick(view, KEY.Key_A, CTRL)
    assert panel.state.selection.count == 32


def test_a_layer_that_is_partly_on_the_disk_is_told_to_be_the_cpus_already(make_panel):
    panel = make_panel(*HALF)
    data = pack(Dragged(model=panel.state.board.model, layers=(0,)))
    assert hang(panel, "CPU", data)
    said = view_of(panel, "CPU").drops.offer
    assert "The CPU has these layers already; what of them is not in memory is shown on the disk." in said.text
    assert not said.taken
    leave(panel, "CPU")
