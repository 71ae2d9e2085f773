"""The curve of main memory: predicted tokens a second by the budget of experts, which mouse, keys and box set live."""

import msgspec
import pytest
from controller_driver import answer, choose, until
from curve_driver import MIB, drag, near
from memory_driver import load_mapped, mapped_plan
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from ui_factories import make_facts

from app.placement.speed.curve import SpeedCurve, SpeedPoint
from app.placement.speed.types import Range
from app.ui.orders import Orders
from app.ui.tuning.curve_data import GPU_TIER, MEMORY_TIER, Measured, Question, measured_sizes
from app.ui.tuning.curve_marks import marks, outside_text
from app.ui.tuning.curve_page import CurvePage
from app.ui.tuning.curve_words import measured_text, point_text
from app.ui.tuning.evidence import TuningEvidence

FACTS = make_facts(experts=16, expert_mib=64.0)  # 4 GiB of experts
ENGINE = ("--experts", 16, "--expert-mib", 64, "--memory-mib", 2048)


@pytest.fixture
def make_page(qtbot, theme, make_controller, tmp_path):
    """`make_page(*engine_arguments, **of_the_plan)`: a shown page, the curve of main memory chosen and computed."""
    made = []

    def make(*arguments, load=True, chosen=True, **wishes):
        controller = make_controller(*(arguments or ENGINE), facts=FACTS)
        orders, evidence = Orders(controller), TuningEvidence(controller)
        page = CurvePage(controller, orders, evidence, theme)
        made.append((page, evidence, controller))
        qtbot.addWidget(page)
        page.resize(700, 620)
        page.show()
        page.set_active(True)
        choose(qtbot, controller, tmp_path)
        controller.set_plan(mapped_plan(controller, **wishes))
        if load:
            load_mapped(controller, qtbot, **wishes)
        if chosen:
            QTest.mouseClick(page.tiers.buttons[MEMORY_TIER], Qt.MouseButton.LeftButton)
            computed(qtbot, page)
        return page

    yield make
    for page, evidence, controller in made:
        page.shutdown()
        evidence.set_active(False)
        until(qtbot, lambda its=controller: not its.background.busy)


def computed(qtbot, page):
    """Wait for the curve of memory."""
    until(
        qtbot,
        lambda: page.curve is not None and page.curve.axis == "memory" and not page._controller.background.busy,
    )


def budget(page):
    """The engine's budget in bytes."""
    return page._controller.cache.facts.memory.budget_bytes


def test_the_curve_goes_from_next_to_nothing_to_all_experts_with_its_marks_in_words(make_page):
    page = make_page(budget=1024 * MIB)
    points = page.curve.points
    assert [points[0].pool_bytes, points[-1].pool_bytes] == [0, 4096 * MIB]
    assert points[0].decode.likely < points[-1].decode.likely
    assert page.plot.mark_words[0] == "one token's experts: 512.0 MiB"
    assert "1.0 GiB of memory: " in page.text
    assert " tokens/s predicted (likeliest " in page.text
    assert "of the routed experts need no disk." in page.text
    assert "What is in memory of the experts that are needed is assumed" in page.text
    assert page.plot.accessibleName() == "Predicted tokens per second by the main memory for experts"
    assert page.box.box.accessibleName() == "Main memory for experts"
    assert page.plot.getAxis("bottom").labelText == "experts in memory (GiB)"


def test_the_running_point_is_the_budget_that_the_engine_chose(make_page, qtbot):
    page = make_page()
    until(qtbot, lambda: page.plot.pool_bytes == 2048 * MIB)
    assert page._controller.plan.resident_bytes is None


def test_the_running_point_is_the_engines_budget_also_where_the_plan_asks_for_more(make_page, qtbot):
    page = make_page(budget=3072 * MIB)
    until(qtbot, lambda: page.plot.pool_bytes == 2048 * MIB)
    assert page._controller.plan.resident_bytes == 3072 * MIB
    page._orders.set_memory(1024 * MIB)
    assert page.plot.pool_bytes == 1024 * MIB, "it stays where it was put while the engine changes it"
    until(qtbot, lambda: budget(page) == page.plot.pool_bytes == 1024 * MIB)


def test_dragging_the_point_sets_the_budget_live_as_one_step_that_can_be_undone(make_page, qtbot):
    page = make_page(budget=1024 * MIB)
    drag(page, 1024 * MIB, 1700 * MIB)
    wanted = page._controller.plan.resident_bytes
    assert near(wanted, 1700 * MIB, page)
    until(qtbot, lambda: budget(page) == wanted)
    assert page._controller.loaded_plan.resident_bytes == wanted
    assert page._orders.stack.count() == 1
    page._orders.stack.undo()
    until(qtbot, lambda: budget(page) == 1024 * MIB)
    until(qtbot, lambda: page.plot.pool_bytes == 1024 * MIB)


def test_keys_and_the_box_choose_it_too(make_page, qtbot):
    page = make_page(budget=1024 * MIB)
    page.plot.setFocus()
    QTest.keyClick(page.plot, Qt.Key.Key_Right)
    until(qtbot, lambda: page._controller.plan.resident_bytes > 1024 * MIB)
    box = page.box.box
    box.setFocus()
    box.selectAll()
    QTest.keyClicks(box, "512")
    QTest.keyClick(box, Qt.Key.Key_Return)
    until(qtbot, lambda: budget(page) == 512 * MIB)


def test_the_left_end_is_the_least_budget_and_not_the_systems_choice(make_page, qtbot):
    page = make_page(budget=1024 * MIB)
    page.plot.setFocus()
    QTest.keyClick(page.plot, Qt.Key.Key_Home)
    until(qtbot, lambda: page._controller.plan.resident_bytes == MIB)


def test_a_refusal_of_the_engine_is_told_on_the_page(make_page, qtbot):
    page = make_page(budget=1024 * MIB)
    drag(page, 1024 * MIB, 3800 * MIB)
    until(qtbot, lambda: page._controller.plan.resident_bytes == 1024 * MIB)
    until(qtbot, lambda: page.plot.pool_bytes == 1024 * MIB)


def test_the_switch_is_worked_with_the_keyboard_and_shows_the_other_curve(make_page, qtbot):
    page = make_page(budget=1024 * MIB, pool=256 * MIB)
    buttons = page.tiers.buttons
    buttons[MEMORY_TIER].setFocus()
    QTest.keyClick(buttons[MEMORY_TIER], Qt.Key.Key_Left)
    assert page.tiers.tier == GPU_TIER
    until(qtbot, lambda: page.curve is not None and page.curve.axis == "pool")
    assert page.plot.pool_bytes == 256 * MIB
    assert page.box.box.accessibleName() == "Size of the expert pool"
    QTest.keyClick(buttons[GPU_TIER], Qt.Key.Key_Right)
    computed(qtbot, page)
    assert all(button.text() and button.toolTip() for button in buttons.values())


def test_without_a_gpu_the_page_begins_with_main_memory(make_page, qtbot):
    page = make_page("--no-gpu", *ENGINE, budget=1024 * MIB, chosen=False)
    computed(qtbot, page)
    assert page.tiers.tier == MEMORY_TIER
    assert not page.card.isVisibleTo(page)
    QTest.mouseClick(page.tiers.buttons[GPU_TIER], Qt.MouseButton.LeftButton)
    assert "A pool needs a GPU" in page.text
    assert page.card.isVisibleTo(page)
    page._refresh()
    assert page.tiers.tier == GPU_TIER  # what the user chose stays


def test_copied_experts_have_no_curve_of_memory_and_it_says_why(make_page, qtbot):
    page = make_page(residency="repacked", chosen=False)
    QTest.mouseClick(page.tiers.buttons[MEMORY_TIER], Qt.MouseButton.LeftButton)
    assert "copied into the processor's faster layout" in page.text
    assert page.plot._picture is None


def test_an_answer_is_shown_at_the_budget_it_had(make_page, qtbot):
    page = make_page(*ENGINE, "--token-ms", 2, "--tokens", 40, budget=1024 * MIB)
    answer(qtbot, page._controller)
    until(qtbot, lambda: bool(page.measured))
    assert page.measured[0].pool_bytes == 1024 * MIB
    assert "Measured with 1.0 GiB of memory for experts: " in page.text


# ---- figures and words --------------------------------------------------------------------------


def curve(*likely, bound=None):
    points = tuple(
        SpeedPoint(
            pool_bytes=size, decode=Range(low=rate / 2, likely=rate, high=rate * 2), hit_rate=0.5, whole_layers=None
        )
        for size, rate in likely
    )
    return SpeedCurve(points=points, cycle_bytes=50, break_even_bytes=bound, axis="memory")


def asked(most=300):
    return Question(
        facts=FACTS, machine=None, evidence=None, plan=None, card="", most_bytes=most, card_bytes=0, all_bytes=most,
        tier=MEMORY_TIER,
    )  # fmt: skip


def test_the_mark_says_up_to_where_the_disk_bounds_it():
    made = curve((0, 2.0), (300, 30.0), bound=200)
    assert [mark.words for mark in marks(made, asked(), 250)] == [
        "one token's experts: 50 B",
        "below 200 B the disk bounds it",
        "fits now (predicted): 250 B",
    ]
    assert outside_text(made, asked()) == ""
    assert "The disk is not predicted to be what slows it" in outside_text(curve((0, 2.0), (300, 2.0)), asked())


def test_a_point_and_an_answer_of_memory_are_told_as_such():
    words = point_text(curve((500, 20.0)).points[0], MEMORY_TIER)
    assert words == (
        "500 B of memory: 10.0–40.0 tokens/s predicted (likeliest 20.0 tokens/s); 50 % of the routed experts need no "
        "disk."
    )
    assert measured_text(Measured(500, (19.0,)), MEMORY_TIER) == (
        "Measured with 500 B of memory for experts: 19.0 tokens/s in 1 answer."
    )


def test_answers_count_that_differ_in_the_budget_alone(loaded_controller):
    controller = loaded_controller(facts=FACTS)
    plan = mapped_plan(controller, budget=1024 * MIB, pool=256 * MIB)

    class Seen:
        def __init__(self, rate, **changes):
            self.plan = msgspec.structs.replace(plan, **changes)
            self.decode_tokens_per_second = rate

    answers = [
        Seen(5.0),
        Seen(6.0, resident_bytes=2048 * MIB),
        Seen(7.0, resident_bytes=None),
        Seen(8.0, pool_bytes=0),
        Seen(9.0),
    ]
    found = measured_sizes(answers, plan, MEMORY_TIER)
    assert [(its.pool_bytes // MIB, its.rates) for its in found] == [(1024, (5.0, 9.0)), (2048, (6.0,))]
