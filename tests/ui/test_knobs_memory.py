"""The knob "Memory for experts": worked by mouse and keys, live, with its words and its refusals."""

from dataclasses import replace

import pytest
from controller_driver import PATIENCE
from knobs_driver import FACTS, box_of, by_keyboard, by_mouse, choose, load, page_over, press, settled, typed, value
from PySide6.QtGui import QValidator
from PySide6.QtWidgets import QWidget

from app.ui.tuning.memory_editor import MemoryEditor
from app.ui.words import in_bytes

MIB = 1024**2
KEY = "resident_bytes"
EVERYTHING = FACTS.bytes.experts
"""128 MiB."""


@pytest.fixture
def make_page(make_controller, theme, qtbot):
    """A page over the model loaded as it lies in its file, or only planned so."""

    def make(*arguments, loaded=True, **wishes):
        controller = make_controller("--experts", 16, *arguments, facts=FACTS)
        (load if loaded else choose)(controller, qtbot, residency="mapped", **wishes)
        page = page_over(controller, theme, qtbot)
        controller.cache.watch(page, experts=False)
        if loaded:
            qtbot.waitUntil(lambda: controller.cache.facts is not None, timeout=PATIENCE)
        return page

    return make


def budget(page):
    memory = page._controller.cache.facts.memory
    return None if memory is None else memory.budget_bytes


def text(page):
    return page.rows[KEY].text


def test_it_says_in_words_what_is_chosen(make_page, qtbot):
    page = make_page()
    box = box_of(page, KEY)
    assert box.accessibleName() == "Memory for experts"
    assert (box.text(), value(page, KEY)) == ("what fits", None)
    assert f"At the load the engine chose {in_bytes(EVERYTHING)}: so much of" in text(page)
    assert "Takes effect at once, without a reload." in text(page)


def test_what_fits_names_the_size_that_the_engine_chose_once_it_is_known_and_a_forecast_does_not_change(
    make_page, qtbot
):
    planned = make_page(loaded=False)
    assert f"As much of the {in_bytes(EVERYTHING)} of experts as fits when the model is loaded" in text(planned)
    page = make_page("--memory-mib", 64)
    qtbot.waitUntil(lambda: "At the load the engine chose 64.0 MiB: so much of the 128.0 MiB" in text(page))
    seen = page.situation()
    assert (seen.chosen, replace(seen, chosen=0)) == (64 * MIB, seen)
    typed(page, KEY, "32", qtbot)
    assert "engine chose" not in text(page)


def test_a_typed_size_is_set_live_and_undone_by_back(make_page, qtbot):
    page = make_page()
    typed(page, KEY, "64", qtbot)
    qtbot.waitUntil(lambda: budget(page) == 64 * MIB, timeout=PATIENCE)
    assert box_of(page, KEY).text() == "64 MiB"
    assert "Up to 64.0 MiB of the 128.0 MiB of experts stay in memory" in text(page)
    assert "Memory for experts (changed since the load)" in text(page)
    assert "At the load: what fits" in text(page)
    assert not page.footer.apply_button.isVisibleTo(page)
    press(page, page.rows[KEY].revert_button, qtbot)
    qtbot.waitUntil(lambda: budget(page) == EVERYTHING, timeout=PATIENCE)
    assert value(page, KEY) is None


@pytest.mark.parametrize("hand", [by_keyboard, by_mouse])
def test_one_step_up_leaves_it_to_the_system(make_page, qtbot, hand):
    page = make_page()
    hand(page, KEY, qtbot)
    assert value(page, KEY) == 0
    assert box_of(page, KEY).text() == "the system decides"
    assert "reads missing ones page by page" in text(page)
    qtbot.waitUntil(lambda: budget(page) is None, timeout=PATIENCE)


def test_steps_go_over_the_words_into_sizes_and_back(qapp, qtbot):
    parent = QWidget()
    qtbot.addWidget(parent)
    editor = MemoryEditor(parent)
    editor.show_budget(None, 1000 * MIB)
    seen = []
    for step in (1, 1, 1, -1, -1, -1, 3, 9, -1):
        editor.widget.stepBy(step)
        seen.append(editor.value if editor.value is None else editor.value // MIB)
    assert seen == [0, 256, 512, 256, 0, None, 512, 1000, 744]
    editor.show_budget(100 * MIB, 1000 * MIB)
    editor.widget.stepBy(-1)
    assert editor.value == 0


def test_the_automatic_button_gives_the_choice_back_to_the_engine(make_page, qtbot):
    page = make_page(loaded=False)
    typed(page, KEY, "64 MiB", qtbot)
    assert value(page, KEY) == 64 * MIB
    press(page, page.rows[KEY].automatic_button, qtbot)
    assert value(page, KEY) is None


def test_a_part_of_a_mib_is_no_size_and_is_not_read_as_ten_times_as_much(make_page, qtbot):
    box = box_of(make_page(), KEY)
    for wrong in ("1.5", "64.0 MiB"):
        assert box.validate(wrong, len(wrong))[0] == QValidator.State.Invalid
    for right in ("64", "4,096 MiB"):
        assert box.validate(right, len(right))[0] == QValidator.State.Acceptable
    assert box.valueFromText("1,024 MiB") == min(1024, box.maximum())


def test_words_can_be_typed_too(make_page, qtbot):
    page = make_page(loaded=False)
    typed(page, KEY, "the system decides", qtbot)
    assert value(page, KEY) == 0
    typed(page, KEY, "what fits", qtbot)
    assert value(page, KEY) is None


def test_what_the_engine_refuses_is_not_kept(make_page, qtbot):
    page = make_page("--memory-mib", 64)
    typed(page, KEY, "100", qtbot)
    qtbot.waitUntil(lambda: value(page, KEY) is None and box_of(page, KEY).text() == "what fits", timeout=PATIENCE)
    assert budget(page) == 64 * MIB


def test_experts_that_are_copied_have_no_budget_and_turning_to_copies_forgets_it(make_page, qtbot):
    page = make_page(loaded=False)
    typed(page, KEY, "64", qtbot)
    page.turner.turn_now("residency", "repacked")
    settled(page, qtbot)
    assert value(page, KEY) is None
    assert not box_of(page, KEY).isEnabled()
    assert "Only for experts as they lie in the file" in text(page)
    assert "all in memory: they are copied into its faster layout" in text(page)
