"""The main-memory tier in the lanes dock: what is in memory and on the disk, its budget by hand, and its orders."""

import msgspec
import pytest
from controller_driver import PATIENCE, answer
from lanes_driver import (
    header_of,
    show,
    shown,
    view_of,
)
from memory_driver import MIB, budget_of, cells_in, cpu_words, load_mapped, mapped_panel, mapped_plan
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.ui.lanes.lane_overlay import nothing_text
from app.ui.lanes.lane_words import cell_text, layer_tip
from app.ui.live_plan import MemoryBudget

KEY, LEFT = Qt.Key, Qt.MouseButton.LeftButton
HALF = ("--memory-mib", 16)
"""Room for half of the 32 experts of 1 MiB."""


@pytest.fixture
def make_panel(loaded_controller, theme, qtbot):
    """A shown, watching panel; 4 layers of 8 experts of 1 MiB as they lie in the file."""
    return lambda *arguments, **wishes: mapped_panel(loaded_controller(*arguments), theme, qtbot, **wishes)


def until_said(qtbot, panel, words):
    qtbot.waitUntil(lambda: words in cpu_words(panel), timeout=PATIENCE)


def buttons(panel):
    return header_of(panel, "CPU").memory_buttons


# ---- where experts are -------------------------------------------------------------------------


def test_experts_in_memory_are_in_the_cpu_lane_and_the_others_in_the_disk_lane_live(make_panel, qtbot):
    panel = make_panel(*HALF)
    assert (cells_in(panel, "CPU"), cells_in(panel, "disk")) == (0, 32)  # nothing was read yet
    assert nothing_text(view_of(panel, "CPU")).startswith("No experts are in main memory: they are read when")
    answer(qtbot, panel._controller)
    qtbot.waitUntil(lambda: cells_in(panel, "CPU") == 16, timeout=PATIENCE)
    assert cells_in(panel, "disk") == 16
    told = panel._controller.cache.facts.layers
    assert shown(panel)["CPU"] == {
        layer: tuple(place for place, letter in enumerate(its.memory) if letter == "r")
        for layer, its in told.items()
        if "r" in its.memory
    }


def test_an_expert_in_the_pool_is_in_the_gpus_lane_whatever_memory_has(make_panel, qtbot):
    panel = make_panel(*HALF, pool=8 * MIB)
    panel.orders.pin({0: (0, 1)}, "gpu")
    qtbot.waitUntil(lambda: cells_in(panel, "Vulkan0") >= 2, timeout=PATIENCE)
    assert set(shown(panel)["Vulkan0"][0]) >= {0, 1}
    assert panel._controller.cache.facts.layers[0].memory[0] == "d"


def test_where_all_fit_all_are_in_the_cpu_lane_and_nothing_is_read(make_panel, qtbot):
    panel = make_panel()
    assert (cells_in(panel, "CPU"), cells_in(panel, "disk")) == (32, 0)
    until_said(qtbot, panel, "All 32.0 MiB of experts in memory (budget 32.0 MiB): nothing is read")
    assert not buttons(panel).warm.isEnabled()
    assert buttons(panel).warm.toolTip() == "All experts are in memory."


def test_the_head_of_the_cpu_lane_tells_what_is_in_memory_and_what_reading_costs(make_panel, qtbot):
    panel = make_panel(*HALF, "--tokens", 100_000, "--token-ms", 4)
    until_said(qtbot, panel, "0 B of 32.0 MiB of experts in memory or being read (budget 16.0 MiB)")
    panel._controller.ask("Hello?")
    until_said(qtbot, panel, "16.0 MiB of 32.0 MiB of experts in memory or being read (budget 16.0 MiB), ")
    until_said(qtbot, panel, " reads a token, ")
    until_said(qtbot, panel, " MB/s, waiting ")
    panel._controller.stop()
    until_said(qtbot, panel, "; at the end of the last answer ")
    assert "Not in main memory: read from the file when a token needs them" in header_of(panel, "disk").text


def test_hovering_tells_of_one_expert_and_of_a_layers_share(make_panel, qtbot):
    panel = make_panel(*HALF)
    answer(qtbot, panel._controller)
    qtbot.waitUntil(lambda: cells_in(panel, "CPU") == 16, timeout=PATIENCE)
    board = panel.state.board
    for lane, words in (("CPU", "CPU lane, in main memory"), ("disk", "disk lane, on the disk only: read when")):
        layer, experts = next(iter(shown(panel)[lane].items()))
        assert words in cell_text(board, board.row_of(layer), experts[0])
        view = view_of(panel, lane)
        assert words in view.tip_at(view.cell_rect(layer, experts[0]).center())
    view = view_of(panel, "CPU")
    row = next(iter(view.packing.order))
    letters = panel._controller.cache.facts.layers[board.layers[row]].memory
    tip = layer_tip(board, view.packing, row, view.lane, panel.state.loaded_report)
    assert f"{letters.count('r')} of 8 of its experts are in memory." in tip


def test_the_table_of_a_layer_tells_where_the_processor_has_each_expert_from(make_panel, qtbot):
    panel = make_panel(*HALF)
    answer(qtbot, panel._controller)
    qtbot.waitUntil(lambda: cells_in(panel, "CPU") == 16, timeout=PATIENCE)
    layer = next(iter(shown(panel)["CPU"]))
    panel.open_experts(layer)
    page = panel.experts_page
    letters = panel._controller.cache.facts.layers[layer].memory
    said = [page.experts.index(row, 1).data() for row in range(8)]
    assert said == [{"r": "CPU, in memory", "d": "CPU, from the disk"}[letter] for letter in letters]
    assert f"{letters.count('r')} of 8 in main memory" in page.text


def test_without_a_gpu_the_lanes_are_memory_and_disk(loaded_controller, theme, qtbot):
    panel = mapped_panel(loaded_controller("--no-gpu", *HALF), theme, qtbot)
    answer(qtbot, panel._controller)
    qtbot.waitUntil(lambda: cells_in(panel, "CPU") == 16, timeout=PATIENCE)
    assert header_of(panel, "CPU").budget.isVisibleTo(panel)
    QApplication.processEvents()
    absent, cpu, disk = panel.lanes.boxes
    assert absent.info.note
    assert absent.width() < min(cpu.width(), disk.width()) / 2


# ---- the budget ---------------------------------------------------------------------------------


@pytest.fixture
def make_large(loaded_controller, make_facts, theme, qtbot):
    """The same with 64 experts of 64 MiB, so that a pixel of the bar is less than one expert; room for 2 GiB."""

    def make():
        facts = make_facts(experts=16, expert_mib=64.0)
        controller = loaded_controller("--experts", 16, "--expert-mib", 64, "--memory-mib", 2048, facts=facts)
        return mapped_panel(controller, theme, qtbot)

    return make


def test_the_budget_is_dragged_live_as_one_step_and_undone(make_large, qtbot):
    panel = make_large()
    QTest.mouseClick(buttons(panel).warm, LEFT)
    qtbot.waitUntil(lambda: cells_in(panel, "CPU") == 32, timeout=PATIENCE)
    bar = header_of(panel, "CPU").budget
    assert bar.isVisibleTo(panel)
    bar._pace.setInterval(1)
    middle = bar.height() // 2
    QTest.mousePress(bar, LEFT, pos=QPoint(round(bar._handle()), middle))
    for mib in (1500, 700, 1000):
        QTest.mouseMove(bar, QPoint(round((bar._fixed + mib * MIB) * bar._scale()), middle))
        qtbot.waitUntil(lambda wanted=mib: abs(budget_of(panel) - wanted) <= 64, timeout=PATIENCE)
    QTest.mouseRelease(bar, LEFT, pos=QPoint(round((bar._fixed + 1000 * MIB) * bar._scale()), middle))
    qtbot.waitUntil(lambda: cells_in(panel, "CPU") <= 11, timeout=PATIENCE)
    assert panel.orders.stack.count() == 1
    panel.orders.stack.undo()
    qtbot.waitUntil(lambda: budget_of(panel) == 2048, timeout=PATIENCE)
    assert panel._controller.plan.resident_bytes is None


def test_keys_change_the_budget_and_fewer_experts_stay_in_memory(
    make_panel, make_facts, loaded_controller, theme, qtbot
):
    facts = make_facts(experts=16, expert_mib=4.0)  # 256 MiB: the keys' steps are of 16
    controller = loaded_controller("--experts", 16, "--expert-mib", 4, "--memory-mib", 128, facts=facts)
    panel = mapped_panel(controller, theme, qtbot)
    answer(qtbot, controller)
    qtbot.waitUntil(lambda: cells_in(panel, "CPU") == 32, timeout=PATIENCE)
    bar = header_of(panel, "CPU").budget
    bar.setFocus()
    QTest.keyClick(bar, KEY.Key_Left)
    qtbot.waitUntil(lambda: budget_of(panel) == 112, timeout=PATIENCE)
    qtbot.waitUntil(lambda: cells_in(panel, "CPU") == 28, timeout=PATIENCE)
    assert controller.plan.resident_bytes == controller.loaded_plan.resident_bytes == 112 * MIB
    assert panel.footer.text.startswith("This plan is loaded.")
    assert panel.orders.stack.undoText() == "memory for experts: 112.0 MiB"
    qtbot.waitUntil(lambda: not bar.busy, timeout=PATIENCE)
    panel.orders.stack.undo()  # back to what the engine chose itself
    qtbot.waitUntil(lambda: budget_of(panel) == 128, timeout=PATIENCE)
    assert controller.plan.resident_bytes is None


def test_a_budget_of_0_leaves_it_to_the_system_and_can_be_taken_back(make_panel, qtbot):
    panel = make_panel(*HALF)
    bar = header_of(panel, "CPU").budget
    bar.setFocus()
    QTest.keyClick(bar, KEY.Key_Home)
    until_said(qtbot, panel, "The system decides which experts of the file stay in memory")
    assert cells_in(panel, "CPU") == 32  # nobody tells: where the plan has them
    assert "give the experts a budget first" in buttons(panel).warm.toolTip()
    assert not buttons(panel).release.isEnabled()
    qtbot.waitUntil(lambda: not bar.busy, timeout=PATIENCE)
    panel.orders.stack.undo()
    until_said(qtbot, panel, "(budget 16.0 MiB)")


def test_a_budget_that_the_engine_refuses_is_told_and_the_handle_goes_back(make_panel, qtbot):
    panel = make_panel(*HALF)
    bar = header_of(panel, "CPU").budget
    bar.setFocus()
    QTest.keyClick(bar, KEY.Key_End)  # 32 MiB, which the machine was probed to have
    qtbot.waitUntil(lambda: panel.notice.text == "The script has no memory for that.", timeout=PATIENCE)
    qtbot.waitUntil(lambda: bar.value() == 16 and not bar.busy, timeout=PATIENCE)
    assert panel._controller.plan.resident_bytes is None
    assert panel.orders.stack.count() == 0


def test_more_than_is_free_is_refused_with_what_there_is(make_panel, qtbot):
    panel = make_panel()
    assert panel.orders.set_memory(20 * MIB)
    assert panel.orders.set_memory(40 * MIB)  # as much as there is of it
    assert panel.notice.text == "A budget of 32.0 MiB is enough: that is all experts in the file."
    qtbot.waitUntil(lambda: budget_of(panel) == 32, timeout=PATIENCE)


def test_what_main_memory_lacks_is_said_in_figures(make_panel, make_machine, qtbot):
    panel = make_panel(*HALF)
    controller, machine = panel._controller, make_machine()
    used = machine.ram.available_bytes - panel.orders.scene().memory_room.most_bytes
    rest = sum(part.bytes for part in controller.plan.memory if part.device == "CPU" and part.part != "experts")
    tight = msgspec.structs.replace(machine.ram, available_bytes=rest + 20 * MIB)
    assert used > 0
    controller._set_machine(msgspec.structs.replace(machine, ram=tight))
    assert panel.orders.set_memory(30 * MIB)
    assert "can have 20.0 MiB of main memory, not 30.0 MiB" in panel.notice.text
    assert controller.plan.resident_bytes == 20 * MIB


def test_a_budget_outlives_a_reload(make_panel, qtbot):
    panel = make_panel(*HALF)
    controller = panel._controller
    panel.orders.set_memory(8 * MIB)
    qtbot.waitUntil(lambda: budget_of(panel) == 8, timeout=PATIENCE)
    controller.set_plan(mapped_plan(controller))  # somebody else's plan says nothing of it
    with qtbot.waitSignal(controller.loaded, timeout=PATIENCE):
        controller.load()
    assert controller.loaded_plan.resident_bytes == 8 * MIB


def test_a_planned_budget_is_told_before_the_load(make_controller, make_machine, theme, qtbot):
    controller = make_controller()
    controller._set_machine(make_machine())
    with qtbot.waitSignal(controller.model_changed, timeout=PATIENCE):
        controller.choose_model("model.gguf")
    controller.set_plan(mapped_plan(controller))
    panel = show(controller, theme, qtbot)
    assert "From the next load on, as much of the 32.0 MiB of experts as fits stays in memory" in cpu_words(panel)
    panel.orders.set_memory(8 * MIB)
    assert "From the next load on at most 8.0 MiB of 32.0 MiB of experts stay in memory" in cpu_words(panel)
    panel.orders.set_memory(0)
    assert "The system will decide how much of the 32.0 MiB" in cpu_words(panel)
    assert not buttons(panel).warm.isEnabled()
    assert buttons(panel).warm.toolTip() == "Load the model first: nothing of it is in memory."


def test_copied_experts_have_no_budget_and_the_buttons_say_why(make_panel):
    panel = make_panel(residency="repacked")
    assert not header_of(panel, "CPU").budget.isVisibleTo(panel)
    for button in (buttons(panel).warm, buttons(panel).release):
        assert not button.isEnabled()
        assert "copied into the processor's faster layout" in button.toolTip()
    assert not panel.orders.set_memory(8 * MIB)
    assert "copied into the processor's faster layout" in panel.notice.text


def test_only_the_newest_of_many_budgets_is_sent_after_the_first(loaded_controller, qtbot):
    controller = load_mapped(loaded_controller(*HALF), qtbot)
    controller.cache.watch(controller, experts=False)
    qtbot.waitUntil(lambda: controller.cache.facts is not None, timeout=PATIENCE)
    for mib in (15, 12, 9):
        controller.cache.set_memory(MemoryBudget(mib * MIB))
    assert controller.cache.budgeting
    qtbot.waitUntil(lambda: controller.cache.facts.memory.budget_bytes == 9 * MIB, timeout=PATIENCE)
    qtbot.waitUntil(lambda: not controller.cache.budgeting, timeout=PATIENCE)
    controller.cache.unwatch(controller)


def test_what_fits_is_given_to_a_load_that_had_a_budget_of_its_own(make_panel, qtbot):
    panel = make_panel(budget=8 * MIB)
    qtbot.waitUntil(lambda: budget_of(panel) == 8, timeout=PATIENCE)
    assert panel.orders.set_memory(None)
    qtbot.waitUntil(lambda: budget_of(panel) == 32, timeout=PATIENCE)
    panel.orders.stack.undo()
    qtbot.waitUntil(lambda: budget_of(panel) == 8, timeout=PATIENCE)


def test_the_engines_own_choice_can_be_had_again_though_less_is_predicted_to_fit(make_panel, make_machine, qtbot):
    panel = make_panel(*HALF)
    controller, machine = panel._controller, make_machine()
    qtbot.waitUntil(lambda: budget_of(panel) == 16, timeout=PATIENCE)
    rest = sum(part.bytes for part in controller.plan.memory if part.device == "CPU" and part.part != "experts")
    tight = msgspec.structs.replace(machine.ram, available_bytes=rest + 10 * MIB)
    controller._set_machine(msgspec.structs.replace(machine, ram=tight))
    panel.orders.set_memory(4 * MIB)
    qtbot.waitUntil(lambda: budget_of(panel) == 4, timeout=PATIENCE)
    assert panel.orders.scene().memory_room.most_bytes == 16 * MIB
