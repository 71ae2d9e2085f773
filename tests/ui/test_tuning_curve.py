"""The curve page: predictions and measurements told apart, and the pool resized by mouse, keys and box."""

import threading

import msgspec
import pytest
from controller_driver import answer, choose, until
from curve_driver import MIB, drag, near, pool_of, pooled
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QPushButton
from test_tuning_evidence import record
from ui_factories import make_facts, make_machine

from app.errors import AppError, ErrorCode
from app.ui.orders import Offer, Orders, Refusal
from app.ui.tuning import curve_maker
from app.ui.tuning.curve_page import STILL_MILLISECONDS, CurvePage
from app.ui.tuning.evidence import TuningEvidence

GIB = 1024**3


@pytest.fixture
def make_page(qtbot, theme, make_controller, tmp_path):
    """`make_page(*engine_arguments, pool=..., load=True, facts=..., machine=...)`: every expert off the GPU."""
    made = []

    def make(*arguments, pool=8 * MIB, load=True, facts=None, machine=None, plan=True):
        controller = make_controller(*arguments, facts=facts, machine=machine)
        orders, evidence = Orders(controller), TuningEvidence(controller)
        page = CurvePage(controller, orders, evidence, theme)
        made.append((page, evidence, controller))
        qtbot.addWidget(page)
        page.resize(700, 620)
        page.show()
        page.set_active(True)
        if not plan:
            return page
        choose(qtbot, controller, tmp_path)
        if controller.machine.gpus and controller.facts.moe_layers:
            controller.set_plan(pooled(controller, pool))
        if load:
            with qtbot.waitSignal(controller.loaded, timeout=10000):
                controller.load()
        if controller.machine.gpus and controller.facts.moe_layers:
            until(qtbot, lambda: page.curve is not None and not controller.background.busy)
        return page

    yield make
    for page, evidence, controller in made:
        page.shutdown()
        evidence.set_active(False)
        until(qtbot, lambda its=controller: not its.background.busy)


# ---- what is shown ---------------------------------------------------------------------------


def test_the_curve_goes_from_no_pool_to_all_experts_with_its_marks_in_words(make_page):
    page = make_page()
    facts = page._controller.facts
    assert [page.curve.points[0].pool_bytes, page.curve.points[-1].pool_bytes] == [0, facts.bytes.experts]
    assert page.plot.mark_words[0] == "one token's experts: 8.0 MiB"
    assert "No pool of this range is predicted to be faster than whole layers." in page.text  # it is tiny
    assert "Vulkan0 would be full with a pool of" in page.text  # far beyond what all experts need
    assert "Pool of 8.0 MiB:" in page.text
    assert "predicted" in page.text
    assert "whole layers in the same memory:" in page.text
    assert page.plot.accessibleName()
    assert "predicted" in page.plot.accessibleDescription()


def test_where_the_card_is_smaller_than_the_experts_its_limits_are_marks(make_page):
    machine = make_machine(
        ram=msgspec.structs.replace(make_machine().ram, total_bytes=64 * GIB, available_bytes=60 * GIB)
    )
    page = make_page(facts=make_facts(layers=30, experts=32, expert_mib=12.0), machine=machine, pool=GIB)
    words = page.plot.mark_words
    assert any(said.startswith("beats whole layers") for said in words)
    assert any(said.startswith("fits now (predicted):") for said in words)
    assert any(said.startswith("Vulkan0 is full:") for said in words)
    assert page.curve.points[-1].pool_bytes < page._controller.facts.bytes.experts


def test_what_the_curve_rests_on_is_said(make_page):
    record(make_facts(), tokens=400)
    page = make_page()
    assert "LRU reaches on 400 tokens of this model" in page.text
    assert "typical rates of such hardware: no measurement of this machine is used." in page.text


def test_a_measured_answer_is_told_apart_from_what_is_predicted(qtbot, make_page):
    page = make_page("--tokens", "30", "--token-ms", "2")
    assert page.measured == ()
    assert "Nothing is measured yet" in page.text
    assert page.legend.words == ["predicted: likeliest and range", "predicted: whole layers in the same memory"]
    for _ in range(2):
        answer(qtbot, page._controller)
    (measured,) = page.measured
    assert measured.pool_bytes == page._controller.cache.last_answer.allocated_bytes
    assert len(measured.rates) == 2
    assert measured.least <= measured.median <= measured.most
    assert "Measured with a pool of" in page.text
    assert "the median of 2 answers" in page.text
    assert page.legend.words[-1].startswith("measured")
    assert "Measured" in page.plot.accessibleDescription()


def test_answers_of_another_plan_are_not_shown_as_this_ones(qtbot, make_page):
    page = make_page("--tokens", "30")
    answer(qtbot, page._controller)
    assert page.measured
    controller = page._controller
    controller.set_plan(msgspec.structs.replace(controller.plan, threads=controller.plan.threads + 1))
    assert page.measured == ()
    assert "none yet with this one" in page.text


@pytest.mark.parametrize(
    ("arguments", "facts", "words"),
    [
        (("--no-gpu",), None, "none was found"),
        ((), make_facts(experts=0, moe_layers=(), expert_bytes={}, expert_count=0, experts_used=0), "has no experts"),
    ],
    ids=["no GPU", "dense"],
)
def test_without_a_curve_the_page_says_why(make_page, arguments, facts, words):
    page = make_page(*arguments, facts=facts, load=False)
    assert words in page.text
    assert page.curve is None
    assert page.plot.isHidden()
    assert page.box.isHidden()


def test_before_a_model_is_chosen_the_page_says_what_it_would_show(make_page):
    assert "Choose a model" in make_page(plan=False).text


def test_why_there_can_be_no_curve_stays_said_until_another_one_is_asked(qtbot, make_page, monkeypatch):
    page = make_page()

    def impossible(_question):
        raise AppError(ErrorCode.BAD_USAGE, "No law of speed knows this.")

    controller, real = page._controller, curve_maker.compute
    monkeypatch.setattr(curve_maker, "compute", impossible)
    controller.set_plan(msgspec.structs.replace(controller.plan, threads=1))
    until(qtbot, lambda: "No law of speed knows this." in page.text)
    controller.state_changed.emit(controller.state)
    assert "No law of speed knows this." in page.text
    monkeypatch.setattr(curve_maker, "compute", real)
    controller.set_plan(msgspec.structs.replace(controller.plan, threads=2))
    assert "No law of speed knows this." not in page.text
    until(qtbot, lambda: page.curve is not None)


def test_while_it_is_hidden_nothing_is_computed(qtbot, make_page, monkeypatch):
    page = make_page()
    page.set_active(False)
    monkeypatch.setattr(curve_maker, "compute", lambda _question: pytest.fail("it is hidden"))
    controller = page._controller
    controller.set_plan(msgspec.structs.replace(controller.plan, threads=controller.plan.threads + 1))
    qtbot.wait(curve_maker.DEBOUNCE_MILLISECONDS * 2)
    until(qtbot, lambda: not controller.background.busy)


def test_another_pool_alone_does_not_compute_the_curve_anew(qtbot, make_page, monkeypatch):
    page = make_page()
    before = page.curve
    monkeypatch.setattr(curve_maker, "compute", lambda _question: pytest.fail("only the pool changed"))
    page._orders.set_pool(12 * MIB)
    qtbot.wait(curve_maker.DEBOUNCE_MILLISECONDS * 2)
    until(qtbot, lambda: not page._controller.background.busy)
    assert page.curve is before
    assert page.plot.pool_bytes == 12 * MIB


def test_a_late_result_for_another_plan_is_dropped(qtbot, make_page, monkeypatch):
    page = make_page()
    before, begun, go_on = page.curve, threading.Event(), threading.Event()
    real = curve_maker.compute

    def slow(question):
        begun.set()
        assert go_on.wait(10)
        return real(question)

    controller = page._controller
    threads = controller.plan.threads
    monkeypatch.setattr(curve_maker, "compute", slow)
    controller.set_plan(msgspec.structs.replace(controller.plan, threads=1))
    until(qtbot, begun.is_set)
    monkeypatch.setattr(curve_maker, "compute", real)
    controller.set_plan(msgspec.structs.replace(controller.plan, threads=threads))
    until(qtbot, lambda: page.curve == before and page.curve is not before)
    go_on.set()
    until(qtbot, lambda: not controller.background.busy)
    assert page.curve == before


def test_the_curve_of_another_model_is_not_shown_until_it_is_computed(qtbot, make_page):
    page = make_page()
    controller = page._controller
    controller._set_facts(make_facts(layers=6, fingerprint="another"))
    controller.set_plan(pooled(controller, 8 * MIB))
    assert page.curve is None
    assert "Computing the curve" in page.text
    until(qtbot, lambda: page.curve is not None)
    assert page.curve.points[-1].pool_bytes == 48 * MIB


def test_without_a_gpu_the_curve_of_a_card_that_is_not_here_is_shown_and_called_so(qtbot, make_page):
    page = make_page("--no-gpu", load=False)
    assert not page.card.isHidden()
    assert page.card.accessibleName()
    page.card.setCurrentIndex(page.card.findData(8))
    until(qtbot, lambda: page.curve is not None)
    assert "none was found" in page.text
    assert "predicted for a card that is not here; nothing of it was measured" in page.text
    assert "typical rates of a card of that size" in page.text
    plan = page._controller.plan
    page.plot.setFocus()
    QTest.keyClick(page.plot, Qt.Key.Key_Home)
    QTest.keyClick(page.plot, Qt.Key.Key_Return)
    assert "No pool:" in page.text
    assert page._controller.plan is plan
    page.card.setCurrentIndex(0)
    assert page.curve is None
    assert page.plot.isHidden()


# ---- the hand --------------------------------------------------------------------------------


def test_the_handle_is_dragged_along_the_curve_and_the_pool_follows_when_it_is_let_go(qtbot, make_page):
    page = make_page()
    sent = page._controller.cache
    drag(page, 8 * MIB, 20 * MIB, release=False)
    assert page.plot.dragging
    assert near(page.plot.pool_bytes, 20 * MIB, page)
    assert "Pool of 20." in page.text or "Pool of 19." in page.text
    assert pool_of(page) == 8 * MIB
    QTest.mouseRelease(page.plot.viewport(), Qt.MouseButton.LeftButton, pos=page.plot.place_of(20 * MIB).toPoint())
    assert near(pool_of(page), 20 * MIB, page)
    until(
        qtbot, lambda: not sent.resizing and sent.facts is not None and sent.facts.pool.requested_bytes == pool_of(page)
    )
    assert page._orders.stack.count() == 1
    page._orders.stack.undo()
    assert pool_of(page) == page.plot.pool_bytes == 8 * MIB


def test_a_press_far_from_the_handle_does_not_resize_the_pool(make_page):
    page = make_page()
    drag(page, 24 * MIB, 30 * MIB)
    assert pool_of(page) == 8 * MIB


def test_escape_lets_go_of_the_handle_without_an_order(make_page):
    page = make_page()
    drag(page, 8 * MIB, 20 * MIB, release=False)
    QTest.keyClick(page.plot, Qt.Key.Key_Escape)
    QTest.mouseRelease(page.plot.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(10, 10))
    assert (pool_of(page), page.plot.pool_bytes, page.plot.dragging) == (8 * MIB, 8 * MIB, False)


def test_the_handle_stays_within_what_there_is(make_page):
    page = make_page()
    port = page.plot.viewport()
    QTest.mousePress(port, Qt.MouseButton.LeftButton, pos=page.plot.place_of(8 * MIB).toPoint())
    QTest.mouseMove(port, QPoint(port.width() + 500, 50))
    QTest.mouseRelease(port, Qt.MouseButton.LeftButton, pos=QPoint(port.width() - 1, 50))
    assert pool_of(page) == page._controller.facts.bytes.experts
    QTest.mousePress(port, Qt.MouseButton.LeftButton, pos=page.plot.place_of(pool_of(page)).toPoint())
    QTest.mouseMove(port, QPoint(-500, 50))
    QTest.mouseRelease(port, Qt.MouseButton.LeftButton, pos=QPoint(0, 50))
    assert pool_of(page) == 0


def test_keys_move_the_handle_and_the_size_is_sent_when_it_is_still(qtbot, make_page):
    page = make_page()
    page.plot.setFocus()
    one_slot_everywhere = 4 * MIB
    QTest.keyClick(page.plot, Qt.Key.Key_Right)
    QTest.keyClick(page.plot, Qt.Key.Key_Up)
    QTest.keyClick(page.plot, Qt.Key.Key_Left)
    assert page.plot.pool_bytes == 8 * MIB + one_slot_everywhere
    assert page.box.box.value() == 12
    assert pool_of(page) == 8 * MIB
    until(qtbot, lambda: pool_of(page) == 12 * MIB)
    QTest.keyClick(page.plot, Qt.Key.Key_PageUp)
    assert page.plot.pool_bytes == 32 * MIB  # ten steps are more than there is
    QTest.keyClick(page.plot, Qt.Key.Key_Home)
    assert page.plot.pool_bytes == 0
    assert "No pool" in page.text
    QTest.keyClick(page.plot, Qt.Key.Key_End)
    QTest.keyClick(page.plot, Qt.Key.Key_Return)
    assert pool_of(page) == 32 * MIB
    assert page._orders.stack.count() == 2


def test_a_size_that_is_being_chosen_is_not_given_to_another_model(qtbot, make_page):
    page = make_page()
    controller = page._controller
    page.plot.setFocus()
    QTest.keyClick(page.plot, Qt.Key.Key_Right)
    controller._set_facts(make_facts(layers=6, fingerprint="another"))
    controller.set_plan(pooled(controller, 8 * MIB))
    qtbot.wait(2 * STILL_MILLISECONDS)
    assert pool_of(page) == 8 * MIB


def test_a_handle_that_is_held_when_the_other_kind_of_memory_is_chosen_orders_nothing(make_page):
    page = make_page()
    drag(page, 8 * MIB, 20 * MIB, release=False)
    page.tiers.chosen.emit()
    assert not page.plot.dragging
    QTest.mouseRelease(page.plot.viewport(), Qt.MouseButton.LeftButton, pos=page.plot.place_of(20 * MIB).toPoint())
    assert pool_of(page) == page.plot.pool_bytes == 8 * MIB


def test_the_box_sends_the_size_that_was_typed(qtbot, make_page):
    page = make_page()
    page.box.box.setFocus()
    page.box.box.selectAll()
    QTest.keyClicks(page.box.box, "16")
    QTest.keyClick(page.box.box, Qt.Key.Key_Return)
    assert pool_of(page) == page.plot.pool_bytes == 16 * MIB
    QTest.keyClick(page.box.box, Qt.Key.Key_Up)
    assert page.plot.pool_bytes == 20 * MIB
    until(qtbot, lambda: pool_of(page) == 20 * MIB)


def test_scrolling_past_the_box_and_the_cards_neither_chooses_nor_changes_them(make_page):
    page = make_page("--no-gpu", load=False)
    before = page.card.currentIndex()
    for control in (page.box.box, page.card):
        assert control.focusPolicy() is Qt.FocusPolicy.StrongFocus
        control.clearFocus()
        wheel = QWheelEvent(
            QPointF(5, 5), QPointF(5, 5), QPoint(), QPoint(0, -120), Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        QApplication.sendEvent(control, wheel)
    assert (page.box.box.value(), page.card.currentIndex()) == (0, before)


def test_while_the_model_is_not_loaded_the_size_goes_into_the_plan(make_page):
    page = make_page(load=False)
    drag(page, 8 * MIB, 20 * MIB)
    assert near(pool_of(page), 20 * MIB, page)


def test_a_size_that_the_engine_does_not_take_is_taken_back(qtbot, make_page):
    page = make_page("--fail-pool", "out_of_memory")
    with qtbot.waitSignal(page._controller.cache.refused, timeout=10000):
        drag(page, 8 * MIB, 20 * MIB)
    until(qtbot, lambda: pool_of(page) == 8 * MIB)
    assert page.plot.pool_bytes == 8 * MIB


def test_a_refusal_is_said_with_its_offers_and_gone_with_the_next_order(make_page, monkeypatch):
    page = make_page()
    orders, taken = page._orders, []
    refusal = Refusal("There is no room.", (Offer("Take what there is", lambda: taken.append(True)),))
    real = orders.set_pool
    monkeypatch.setattr(orders, "set_pool", lambda _size: orders.refused.emit(refusal) or False)
    drag(page, 8 * MIB, 20 * MIB)
    assert "There is no room." in page.text
    assert page.plot.pool_bytes == 8 * MIB
    button = next(its for its in page.findChildren(QPushButton) if its.text() == "Take what there is")
    button.click()
    assert taken == [True]
    assert "There is no room." not in page.text
    orders.refused.emit(refusal)  # of somebody else's order
    assert "There is no room." not in page.text
    drag(page, 8 * MIB, 20 * MIB)
    assert "There is no room." in page.text
    page._controller._set_facts(make_facts(fingerprint="another"))
    assert "There is no room." not in page.text, "what was offered is for the model before"
    monkeypatch.setattr(orders, "set_pool", real)


def test_every_control_has_a_name_and_can_be_reached_with_the_keyboard(make_page):
    page = make_page()
    for control in (page.plot, page.box.box):
        assert control.accessibleName()
        assert control.focusPolicy() & Qt.FocusPolicy.TabFocus
    assert all(label.textFormat() is Qt.TextFormat.PlainText for label in page.findChildren(QLabel) if label.wordWrap())


def test_the_picture_follows_the_look(make_page, theme):
    page = make_page()
    light = page.plot.backgroundBrush().color().name()
    theme.force("dark")
    assert page.plot.backgroundBrush().color().name() != light
